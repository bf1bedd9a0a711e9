"""Temporary folders are closed, go with the block, and with the next start where their process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.storage.temporary import remove_leftovers, temporary_folder

HOLDS = """
import sys, time
from pathlib import Path
from pipeline.storage.temporary import temporary_folder
with temporary_folder("test", Path(sys.argv[1])) as folder:
    (folder / "counts").write_text("confidential")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
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
