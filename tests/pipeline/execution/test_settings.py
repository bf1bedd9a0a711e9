"""Settings come from flag, environment, project and user, in that order, and what a folder may set."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.confidential.custody import KeySource, configured_source
from pipeline.errors import InputError
from pipeline.execution.settings import (
    HARMLESS,
    NEEDS_TRUST,
    REQUIREMENTS,
    Settings,
    load_settings,
    trusts_current_folder,
    where_set,
)
from pipeline.privacy.keys import MasterKey
from pipeline.storage.paths import read_toml_text


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
    Path("spinewise.toml").write_text("workers = 3\ntimeout = 60")
    assert found() == (3, "spinewise.toml: workers")
    monkeypatch.setenv("SPINEWISE_WORKERS", "4")
    assert found() == (4, "SPINEWISE_WORKERS")
    monkeypatch.setenv("SPINEWISE_OUT", "")
    settings = load_settings(workers=5, out=None)
    assert (settings.workers, settings.out, settings.retries, settings.timeout) == (5, Path("/srv/user"), 1, 60)


def test_a_key_of_the_settings_is_for_specs_without_a_test_key(tmp_path: Path) -> None:
    from releases.small import write_town

    key = MasterKey.generate()
    key.write(tmp_path / "key")
    settings = load_settings(key=f"file:{tmp_path / 'key'}")
    without = write_town(tmp_path / "without", ('key = "insecure-test:1"', ""))
    assert configured_source(without, settings).read() == key
    assert configured_source(write_town(tmp_path / "with"), settings) == KeySource()
    assert configured_source(without, load_settings()) == KeySource()
    assert configured_source(without, load_settings(key=f"command:cat '{tmp_path / 'key'}'")).read() == key


#: A value of each setting as TOML, which is not the default, and the value that it is then.
VALUES: dict[str, tuple[str, object]] = {
    "out": ('"/elsewhere"', Path("/elsewhere")),
    "workers": ("3", 3),
    "memory": ("1.5", 1.5),
    "ledger": ('"/elsewhere/ledger"', "/elsewhere/ledger"),
    "require_ledger": ("true", True),
    "state": ('"/elsewhere"', Path("/elsewhere")),
    "key": ('"command:touch ran"', "command:touch ran"),
    "sign_key": ('"file:/elsewhere/key"', "file:/elsewhere/key"),
    "work_pool": ('"other"', "other"),
    "retries": ("2", 2),
    "retry_delay": ("5", 5.0),
    "timeout": ("60", 60.0),
    "on_failure_command": ('"touch ran"', "touch ran"),
    "on_failure_webhook": ('"http://elsewhere"', "http://elsewhere"),
    "allowed_specs": ('["/elsewhere"]', (Path("/elsewhere"),)),
    "allowed_outputs": ('["/elsewhere"]', (Path("/elsewhere"),)),
    "trust": ('["/elsewhere"]', (Path("/elsewhere"),)),
}


def test_every_setting_is_in_one_list() -> None:
    listed = [*HARMLESS, *REQUIREMENTS, *NEEDS_TRUST]
    assert sorted(listed) == sorted(Settings.model_fields) == sorted(VALUES)


def test_what_names_a_file_a_command_or_a_server_is_never_harmless() -> None:
    """By the kind of its value, whatever the lists say: numbers alone are harmless, yes and no alone is required."""
    for name, field in Settings.model_fields.items():
        kind = str(field.annotation)
        if name in HARMLESS:
            assert not any(other in kind for other in ("str", "Path", "bool")), name
        assert (name in REQUIREMENTS) == (field.annotation is bool), name


@pytest.mark.parametrize("name", Settings.model_fields)
@pytest.mark.parametrize("linked", [False, True], ids=["file", "link"])
def test_each_setting_of_a_folder_untrusted_and_trusted(name: str, linked: bool, tmp_path: Path) -> None:
    value, expected = VALUES[name]
    project = Path("spinewise.toml")
    folders = [Path.cwd()]
    if linked:  # the user trusts where the link leads, and not where it is: its paths are looked up here
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "spinewise.toml").write_text(f"{name} = {value}")
        project.symlink_to(tmp_path / "own" / "spinewise.toml")
        user_says(tmp_path, f'trust = ["{tmp_path / "own"}"]')
        folders.append(tmp_path / "own")
    else:
        project.write_text(f"{name} = {value}")
    if name in (*HARMLESS, *REQUIREMENTS):
        assert getattr(load_settings(), name) == expected
        return
    with pytest.raises(InputError, match=rf"^spinewise\.toml: {name}: a f"):
        load_settings()
    for only in ("/", str(tmp_path), str(Path.cwd() / "below")):  # above it, below it, and a list of one letter
        user_says(tmp_path, f'trust = ["{only}"]')
        with pytest.raises(InputError, match=rf"^spinewise\.toml: {name}: a f"):
            load_settings()
    user_says(tmp_path, f"trust = [{', '.join(f'{str(folder)!r}' for folder in folders)}]")
    if name == "trust":
        with pytest.raises(InputError, match="a folder cannot trust itself"):
            load_settings()
    else:
        assert getattr(load_settings(), name) == expected


def test_a_link_from_a_trusted_folder_to_another_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spinewise.toml").write_text('key = "command:harm"')
    Path("spinewise.toml").symlink_to(tmp_path / "other" / "spinewise.toml")
    user_says(tmp_path, f'trust = ["{Path.cwd()}"]')
    with pytest.raises(InputError, match=r"^spinewise\.toml: key: .* trust = \[\".*/other\"\]$"):
        load_settings()


PLACES = ("flag", "variable", "project", "user")


@pytest.mark.parametrize("name", REQUIREMENTS)
@pytest.mark.parametrize("yes", PLACES)
def test_a_requirement_holds_whoever_makes_it(
    name: str, yes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {place: place == yes for place in PLACES}
    monkeypatch.setenv(f"SPINEWISE_{name.upper()}", str(said["variable"]).lower())
    Path("spinewise.toml").write_text(f"{name} = {str(said['project']).lower()}")
    user = user_says(tmp_path, f"{name} = {str(said['user']).lower()}")
    assert getattr(load_settings(**{name: said["flag"]}), name) is True
    if yes == "user":
        assert where_set(name) == f"{user}: {name}"
    user.unlink()
    Path("spinewise.toml").unlink()
    monkeypatch.delenv(f"SPINEWISE_{name.upper()}")
    assert getattr(load_settings(**{name: False}), name) is False


@pytest.mark.parametrize("trust", [".", "", "..", "here", "./"])
def test_trust_is_of_a_folder_and_not_of_wherever_one_is(
    trust: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("spinewise.toml").write_text('key = "command:touch ran"')
    user_says(tmp_path, f'trust = ["{trust}"]')
    with pytest.raises(InputError, match=r"trust: found .* give the whole path"):
        load_settings()
    user_says(tmp_path, "")
    monkeypatch.setenv("SPINEWISE_TRUST", f'["{trust}"]')
    with pytest.raises(InputError, match=r"SPINEWISE_TRUST: found .* give the whole path"):
        load_settings()
    monkeypatch.setenv("SPINEWISE_TRUST", str(tmp_path / "work"))
    with pytest.raises(InputError, match=r"SPINEWISE_TRUST: found .*; a list is written in JSON"):
        load_settings()
    monkeypatch.setenv("SPINEWISE_TRUST", f'["{tmp_path / "work"}"]')
    assert load_settings().key == "command:touch ran"
    assert trusts_current_folder()


def test_a_file_that_is_named_by_a_path_from_here_is_this_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPINEWISE_CONFIG=spinewise.toml, exported once, would name a file of every folder that one enters."""
    Path("mine.toml").write_text('key = "command:touch ran"')
    monkeypatch.setenv("SPINEWISE_CONFIG", "mine.toml")
    with pytest.raises(InputError, match=r"mine\.toml: key: a file of the current folder"):
        load_settings()
    monkeypatch.setenv("SPINEWISE_CONFIG", str(tmp_path / "work" / "mine.toml"))
    assert load_settings().key == "command:touch ran"


@pytest.mark.parametrize("name", [name for name, (value, _) in VALUES.items() if "/" in value])
def test_the_users_own_file_names_keys_and_budgets_by_whole_paths(name: str, tmp_path: Path) -> None:
    """A relative path of the user's file would be a file of the folder that somebody else made."""
    value, expected = VALUES[name]
    user_says(tmp_path, f"{name} = {value}")
    assert getattr(load_settings(), name) == expected
    if name in ("out", "on_failure_webhook"):
        return
    user_says(tmp_path, f"{name} = {value.replace('/elsewhere', 'elsewhere')}")
    with pytest.raises(InputError, match=f"{name}: found '(file:)?elsewhere.*', which is another file in each folder"):
        load_settings()


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is what holds: a file that changes between two readings would pass the check with the first."""
    Path("spinewise.toml").write_text("workers = 3")
    user = user_says(tmp_path, "retries = 2")
    read = []

    def read_text(path: Path) -> str:
        text = read_toml_text(path)
        read.append(path)
        if path.name == "spinewise.toml":
            path.write_text('key = "command:touch ran"')
        return text

    monkeypatch.setattr("pipeline.execution.settings.read_toml_text", read_text)
    settings = load_settings()
    assert (settings.workers, settings.retries, settings.key) == (3, 2, None)
    assert read == [Path("spinewise.toml"), user]
