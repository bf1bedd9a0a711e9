"""Files are whole or not there, and their bytes depend on their content alone."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.storage.files import (
    check_page_file,
    make_restricted,
    open_parquet,
    read_header,
    remove_leftovers,
    rows_per_group,
    temporary_folder,
    write_bytes,
    write_page_file,
    write_parquet,
)
from pipeline.storage.paths import unchecked

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "restricted" / "staging"
    make_restricted(folder)
    return folder


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("where", "error", "kind", "told"),
    [
        ("os.fsync", KeyboardInterrupt(), KeyboardInterrupt, ""),
        ("os.fsync", OSError(errno.ENOSPC, "No space left"), ReleaseError, r"there is no space left for it \("),
        ("os.fsync", OSError(errno.EROFS, "Read-only"), ReleaseError, "the file system is read-only"),
        ("pathlib.Path.replace", OSError(errno.EXDEV, "Invalid link"), ReleaseError, "they must be on one"),
    ],
)
def test_an_error_on_the_way_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path,
    staging: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    error: BaseException,
    kind: type[BaseException],
    told: str,
) -> None:
    target = tmp_path / "file"
    write_bytes(target, b"old", staging)

    def failing(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(where, failing)
        with pytest.raises(kind, match=told):
            write_bytes(target, b"new", staging)
    assert target.read_bytes() == b"old"
    assert list(staging.iterdir()) == []


KILLED = """
import sys, time
from pathlib import Path
from pipeline.storage.files import staged
run = Path(sys.argv[1])
with staged(run / "public/file", run / "restricted/staging") as path, path.open("wb") as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_kill_9_while_writing_leaves_nothing_under_public(tmp_path: Path, staging: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(signal.SIGKILL)
    # The test has bite: something had been written, in the staging folder.
    assert [path.stat().st_size > 0 for path in staging.iterdir()] == [True]
    assert [path for path in (tmp_path / "public").rglob("*") if not path.is_dir()] == []


def test_what_is_private_is_closed_with_the_folders_above_it_whatever_the_umask(tmp_path: Path, staging: Path) -> None:
    write_bytes(tmp_path / "other", b"", staging)
    before = os.umask(0)
    try:
        make_restricted(tmp_path / "restricted")
        write_bytes(tmp_path / "a" / "b" / "private", b"", staging, private=True)
        with Ledger.open(str(tmp_path / "c" / "d" / "ledger.db"), create=True, state=tmp_path / "e" / "f") as ledger:
            ledger.open_dataset("people", population="x", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path not in (staging, tmp_path / "other")]
    assert _mode(tmp_path / "other") == 0o666 & ~before
    assert len([path for path in made if path.is_dir()]) >= 4
    assert {path.name: oct(_mode(path)) for path in made if _mode(path) != (0o700 if path.is_dir() else 0o600)} == {}


def test_an_open_folder_is_closed_and_that_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "restricted"
    folder.mkdir(mode=0o755)
    make_restricted(folder)
    assert _mode(folder) == 0o700
    assert "had mode 0755" in caplog.text
    caplog.clear()
    make_restricted(folder)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("file", "not a folder"),
        ("link", "not a folder"),
        ("another user's", "belongs to user"),
        ("open", "has mode 0755"),
    ],
)
def test_what_is_no_folder_of_ones_own_is_not_made_restricted(
    tmp_path: Path, kind: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "restricted"
    if kind == "file":
        path.write_text("")
    elif kind == "open":
        path.mkdir(mode=0o755)
        monkeypatch.setattr(Path, "chmod", lambda *_: None)
    elif kind != "link":
        path.mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o755)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseError, match=told):
        make_restricted(path)
    if kind == "link":
        assert _mode(tmp_path / "elsewhere") == 0o755


def test_a_parquet_file_does_not_depend_on_the_chunks_of_its_table(tmp_path: Path, staging: Path) -> None:
    n = rows_per_group(2) + 1000
    whole = pa.table({"a": np.arange(n), "b": [f"g{i // 7}" for i in range(n)]})
    chunked = pa.concat_tables([whole.slice(0, 10), whole.slice(10, 70_000), whole.slice(70_010)])
    write_parquet(tmp_path / "whole", whole, staging, {"kind": "test"})
    write_parquet(tmp_path / "chunked", chunked, staging, {"kind": "test"})
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "chunked").read_bytes()
    with open_parquet(unchecked(tmp_path / "whole")) as file:
        assert file.read().equals(whole)
        assert file.num_row_groups == 2
        assert read_header(file, tmp_path / "whole") == {"kind": "test"}


HOLDS = """
import sys, time
from pathlib import Path
from pipeline.storage.files import temporary_folder
with temporary_folder("test", Path(sys.argv[1])) as folder:
    (folder / "counts").write_text("confidential")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_it_is_closed_and_goes_with_the_block(tmp_path: Path) -> None:
    with temporary_folder("test", tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "a").mkdir()
    assert not list(tmp_path.iterdir())


def test_one_of_a_killed_process_goes_at_the_next_start(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    (left,) = tmp_path.iterdir()
    remove_leftovers(tmp_path)
    assert (left / "counts").exists(), "its process is alive"
    holder.kill()
    holder.wait()
    with temporary_folder("other", tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_what_it_did_not_make_is_left(tmp_path: Path) -> None:
    """Folders of the same prefix without a lock that hold something, open ones, and files."""
    kept = tmp_path / "spinewise-refused-x"
    kept.mkdir(mode=0o700)
    (kept / "refusal").write_text("why")
    open_to_all = tmp_path / "spinewise-verify-x"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    (open_to_all / ".lock").touch()
    (tmp_path / "spinewise-file-x").touch()
    link = tmp_path / "spinewise-link-x"
    link.symlink_to(kept)
    old = tmp_path / "spinewise-empty-x"
    old.mkdir(mode=0o700)
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "spinewise-file-x",
        "spinewise-link-x",
        "spinewise-refused-x",
        "spinewise-verify-x",
    ]


def test_a_page_is_not_written_over_a_file_of_another_kind(tmp_path: Path) -> None:
    records, taken = tmp_path / "persons.csv", tmp_path / "taken.html"
    records.write_text("the records")
    taken.mkdir()
    for path, said in ((records, "ending '.csv'"), (tmp_path / "x" / "page.html", "there is no folder")):
        with pytest.raises(InputError, match=f"--html .*{path.name}: .*{said}"):
            check_page_file("--html", path)
    check_page_file("--html", taken)
    with pytest.raises(InputError, match=r"--html .*taken\.html: cannot be written"):
        write_page_file("--html", taken, "a page")
    assert records.read_text() == "the records"
