"""A directory holds one run and nothing else, for one process at a time, and what is not ours is never touched."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pipeline.errors import InputError, ReleaseError
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


def test_another_run_is_refused_and_nothing_is_changed(root: Path) -> None:
    with open_run(root, IDENTITY) as run:
        record_input(run, {"": "11"})
        write_bytes(run.key, b"key", run.staging, private=True)
        (run.staging / "left").write_text("half")
    before = _tree(root)
    with (
        pytest.raises(InputError, match="holds another run: it differs in spec; name another directory"),
        open_run(root, OTHER),
    ):
        pass
    assert _tree(root) == before


def test_other_records_are_refused_in_the_same_directory(root: Path) -> None:
    with open_run(root, IDENTITY) as run:
        record_input(run, {"": "11"})
        record_input(run, {"": "11"})
        with pytest.raises(InputError, match="begun on other records, or with another key"):
            record_input(run, {"": "22"})
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


@pytest.mark.parametrize("left", ["published", "foreign"])
def test_a_run_that_left_more_makes_no_room(root: Path, left: str) -> None:
    with open_run(root, IDENTITY) as run:
        (run.report if left == "published" else run.restricted / "notes.txt").write_text("x")
    before = _tree(root)
    with pytest.raises(InputError, match="holds another run"), open_run(root, OTHER):
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


def test_a_file_is_no_directory(root: Path) -> None:
    root.parent.mkdir()
    root.write_text("mine")
    with pytest.raises(InputError, match="release is a file; a run needs a directory"), open_run(root, IDENTITY):
        pass
    with pytest.raises(InputError, match=r"cannot write .*below: Not a directory"), open_run(root / "below", IDENTITY):
        pass
    assert root.read_text() == "mine"


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
