"""A directory holds one run and nothing else; what is not ours is never touched, nor what is confidential let out."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from releases.small import QUICK, run, write_town

from features.imports.tables.importer import import_table
from features.imports.tables.statement import TableStatement
from pipeline.errors import InputError, ReleaseError
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.run_directory import open_run, record_input, recorded_identity, recorded_input
from pipeline.storage.files import write_bytes

PROJECT = Path(__file__).resolve().parents[3]
IDENTITY = {"name": "test", "spec": "ab12", "spine": "cd34"}
OTHER = {**IDENTITY, "spec": "ef56"}


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "out" / "release"


def test_the_same_run_is_gone_on_with_and_leftovers_in_staging_are_removed(root: Path) -> None:
    with open_run(root, IDENTITY) as run:
        record_input(run, {"": "11"})
        write_bytes(run.key, b"key", run.staging, private=True)
        write_bytes(run.report, b"report", run.staging)
        (run.staging / "left").write_text("half")
        (run.staging / "folder").mkdir()
        (run.restricted / ".key-abc").write_text("half")
    with open_run(root, dict(reversed(IDENTITY.items()))) as run:
        assert list(run.staging.iterdir()) == []
        assert not (run.restricted / ".key-abc").exists()
        assert (run.key.read_bytes(), run.report.read_bytes()) == (b"key", b"report")
        assert recorded_input(run) == {"": "11"}


def test_a_run_that_was_refused_before_measuring_makes_room(root: Path) -> None:
    with open_run(root, IDENTITY) as run:
        write_bytes(run.key, b"key", run.staging, private=True)
        write_bytes(run.main.true_histogram("block"), b"true", run.staging, private=True)
        run.log.write_text("refused\n")
    with open_run(root, OTHER) as run:
        assert recorded_identity(run) == OTHER
        assert run.log.read_text() == "refused\n"
        assert sorted(path.name for path in run.restricted.iterdir()) == [
            ".gitignore", "lock", "run.json", "run.log", "staging",
        ]  # fmt: skip


@pytest.mark.parametrize("left", ["measured", "published", "foreign"])
def test_a_run_that_left_more_makes_no_room_and_nothing_is_changed(root: Path, left: str) -> None:
    with open_run(root, IDENTITY) as run:
        (run.staging / "left").write_text("half")
        if left == "measured":
            record_input(run, {"": "11"})
        else:
            (run.report if left == "published" else run.restricted / "notes.txt").write_text("x")
    before = _tree(root)
    other = "holds another run: it differs in spec; name another directory"
    with pytest.raises(InputError, match=other), open_run(root, OTHER):
        pass
    assert _tree(root) == before


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("thesis.tex", "'thesis.tex'"),
        ("folder/x", "'folder'"),
        ("public/page.html", "'public/page.html'"),
        ("restricted/key", "'restricted/key'"),
    ],
)
def test_a_directory_with_other_things_is_refused_untouched(root: Path, name: str, shown: str) -> None:
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("mine")
    with (
        pytest.raises(InputError, match=f"is not empty and holds no run that could be resumed: found {shown}"),
        open_run(root, IDENTITY),
    ):
        pass
    assert _tree(root) == {name: b"mine"}


def test_a_stop_before_the_record_was_written_is_gone_on_from(root: Path) -> None:
    with open_run(root, IDENTITY) as run:
        run.log.write_text("begun\n")
    run.record.unlink()
    (run.staging / "run.json.123").write_text("half")
    with open_run(root, OTHER) as run:
        assert recorded_identity(run) == OTHER
        assert list(run.staging.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": {}}', '{"identity": 1, "input_fingerprints": null}'])
def test_a_damaged_record_is_an_error_and_never_a_new_run(root: Path, content: str) -> None:
    with open_run(root, IDENTITY) as run:
        pass
    run.record.write_text(content)
    with pytest.raises(ReleaseError, match=r"run\.json is damaged"), open_run(root, IDENTITY):
        pass


HOLD = """
    import sys
    from pathlib import Path
    from pipeline.release.run_directory import open_run
    with open_run(Path(sys.argv[1]), {"name": "test", "spec": "ab12", "spine": "cd34"}) as run:
        (run.staging / "left").write_text("half")
        print("held", flush=True)
        sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_has_ended_however_it_ended(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(root)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another process is running in"), open_run(root, IDENTITY):
            pass
        assert (root / "restricted" / "staging" / "left").exists()
        process.send_signal(signal.SIGKILL)
    with open_run(root, IDENTITY) as run:
        assert list(run.staging.iterdir()) == []
        with pytest.raises(InputError, match="another process"), open_run(root, IDENTITY):
            pass


@pytest.mark.parametrize("name", ["public", "restricted"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_its_folders_are_folders_of_its_own(root: Path, tmp_path: Path, name: str, kind: str) -> None:
    root.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    if kind == "file":
        (root / name).write_text("")
    else:
        (root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{name} is not a folder of its own"), open_run(root, IDENTITY):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_takes_nothing_confidential(tmp_path: Path) -> None:
    """`git add -A` in a folder with a release, an import and what a run that was stopped has left."""
    run(write_town(tmp_path / "town", *QUICK), tmp_path / "planned")
    with open_run(tmp_path / "stopped" / "town", {"spec": "x"}) as stopped:
        (stopped.restricted / "histograms").mkdir()
        (stopped.restricted / "histograms" / "block.parquet").write_bytes(b"counts")
    frame = pd.DataFrame({"county": ["a", "b"] * 30, "sex": ["f", "f", "m"] * 19 + ["rare"] * 3})
    frame.assign(town=frame["county"] + "1").to_excel(tmp_path / "p.xlsx", index=False)
    stated = {"geography": "county,town", "attributes": "sex", "expect_records": 60, "expect_areas": 2}
    import_table(TableStatement(str(tmp_path / "p.xlsx"), records=True, **stated), tmp_path / "in")  # type: ignore[arg-type]
    assert "rare" in (tmp_path / "in" / "values.txt").read_text()
    (tmp_path / "p.xlsx").unlink()
    shutil.rmtree(tmp_path / "town")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    taken = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in taken if "restricted" in name] == []
    assert {name for name in taken if name.startswith("in/")} == {
        "in/.gitignore",
        "in/areas.parquet",
        "in/import.toml",
        "in/release.toml",
    }
    assert "planned/town/public/manifest.json" in taken


ROOT = Path("/out/release")
RUN = RunDirectory(ROOT)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-x", "a b", "x.", "a\0", "a\n", "x" * 201]
)
def test_a_name_that_cannot_be_a_file_is_refused_by_its_kind(name: str) -> None:
    with pytest.raises(InputError, match=r"level .* is to name a file"):
        file_name("level", name)
    for use in (RUN.main.histogram, lambda text: RUN.main.table(text, "x"), lambda text: RUN.main.table("x", text)):
        with pytest.raises(InputError):
            use(name)
    if name:
        with pytest.raises(InputError):
            RUN.universe(name)
