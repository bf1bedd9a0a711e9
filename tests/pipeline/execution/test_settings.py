"""Settings come from flag, environment, project and user, in that order, and a slip is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.confidential.custody import KeySource, configured_source
from pipeline.errors import InputError
from pipeline.execution.settings import Settings, load_settings, unknown_variables, where_set
from pipeline.privacy.keys import MasterKey


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, an empty user's folder, no variables."""
    for name in [*Settings.model_fields, "config", "slip"]:
        monkeypatch.delenv(f"SPINEWISE_{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    (tmp_path / "config" / "spinewise").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")


def user_says(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config" / "spinewise" / "settings.toml"
    path.write_text(text)
    return path


def test_the_stronger_place_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[int | None, str]:
        return load_settings().workers, where_set("workers")

    assert found() == (None, "the default")
    user = user_says(tmp_path, 'workers = 2\nout = "/srv/user"\nretries = 1')
    assert found() == (2, f"{user}: workers")
    Path("spinewise.toml").write_text('workers = 3\nout = "/srv/project"')
    assert found() == (3, "spinewise.toml: workers")
    monkeypatch.setenv("SPINEWISE_WORKERS", "4")
    assert found() == (4, "SPINEWISE_WORKERS")
    monkeypatch.setenv("SPINEWISE_OUT", "")
    settings = load_settings(workers=5, out=None)
    assert (settings.workers, settings.out, settings.retries) == (5, Path("/srv/project"), 1)


def test_the_projects_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("spinewise.toml").write_text("workers = 3")
    (tmp_path / "other.toml").write_text("workers = 7")
    monkeypatch.setenv("SPINEWISE_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().workers == 7
    monkeypatch.setenv("SPINEWISE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"SPINEWISE_CONFIG: found .*none\.toml; there is no such file"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker = 3", r"spinewise\.toml: worker: there is no such setting; known are out, workers"),
        ('workers = "many"', r"spinewise\.toml: workers: found 'many'; input should be a valid integer"),
        ("workers = 0", r"spinewise\.toml: workers: found 0; input should be greater than or equal to 1"),
        ("workers = ", r"spinewise\.toml is not a TOML file"),
    ],
)
def test_a_slip_in_a_file_is_told_with_its_place(text: str, message: str) -> None:
    Path("spinewise.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_settings()


def test_a_slip_elsewhere_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--retry-delay: found -1; input should be"):
        load_settings(retry_delay=-1)
    monkeypatch.setenv("SPINEWISE_TIMEOUT", "0")
    with pytest.raises(InputError, match="SPINEWISE_TIMEOUT: found '0'; input should be greater than 0"):
        load_settings()


def test_what_looks_like_a_setting_and_is_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINEWISE_SLIP", "1")
    monkeypatch.setenv("SPINEWISE_WORKERS", "1")
    assert "SPINEWISE_SLIP" in unknown_variables()
    assert "SPINEWISE_WORKERS" not in unknown_variables()


def test_a_key_of_the_settings_is_for_specs_without_a_test_key(tmp_path: Path) -> None:
    from releases.small import write_town

    key = MasterKey.generate()
    key.write(tmp_path / "key")
    settings = load_settings(key_file=tmp_path / "key")
    without = write_town(tmp_path / "without", ('key = "insecure-test:1"', ""))
    assert configured_source(without, settings).read() == key
    assert configured_source(write_town(tmp_path / "with"), settings) == KeySource()
    assert configured_source(without, load_settings()) == KeySource()
    assert configured_source(without, load_settings(key_command=f"cat '{tmp_path / 'key'}'")).read() == key


def test_the_page_lists_every_setting_with_its_text_and_default() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text("utf-8")
    for name, field in Settings.model_fields.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` | `SPINEWISE_{name.upper()}`"))
        told = row.split("|")[4].split(" ([")[0].strip().replace("`", "")
        assert field.description is not None
        assert field.description.startswith(told) or told.startswith(field.description.split(";")[0]), name
        if isinstance(field.default, str | int | float | Path):
            number = isinstance(field.default, int | float) and not isinstance(field.default, bool)
            stated = f"{field.default:g}" if number else str(field.default).lower()
            assert row.split("|")[3].strip().strip("`").lower() == stated, name


@pytest.mark.parametrize(
    "line", ['key_command = "touch ran"', 'ledger = "mine.db"', 'on_failure_command = "touch ran"']
)
def test_a_folder_that_somebody_else_made_names_no_commands(line: str, tmp_path: Path) -> None:
    """The attack: an archive with a spec and a spinewise.toml, unpacked and run."""
    Path("spinewise.toml").write_text(f"workers = 2\n{line}\n")
    user = tmp_path / "config" / "spinewise" / "settings.toml"
    with pytest.raises(
        InputError, match=rf"{line.split()[0]}: a file of the current folder may not name commands"
    ) as no:
        load_settings()
    advice = str(no.value).rpartition("settings.toml: ")[2]
    assert advice == f'trust = ["{Path.cwd()}"]'
    Path("spinewise.toml").write_text(f"{line}\n{advice}\n")
    with pytest.raises(InputError, match="a folder cannot trust itself"):
        load_settings()
    Path("spinewise.toml").write_text(f"{line}\n")
    user_says(tmp_path, 'trust = ["/elsewhere"]')
    with pytest.raises(InputError, match="unless you trust the folder"):
        load_settings()
    user_says(tmp_path, advice)
    assert line.split('"')[1] in load_settings().model_dump().values()
    assert user.is_file()


def test_a_file_that_the_user_names_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('ledger = "mine.db"')
    monkeypatch.setenv("SPINEWISE_CONFIG", str(tmp_path / "mine.toml"))
    assert load_settings().ledger == "mine.db"
