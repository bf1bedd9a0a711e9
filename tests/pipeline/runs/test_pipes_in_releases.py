"""A named pipe in the place of any file of a release: no command waits for somebody who never writes to it.

Whoever opens a pipe to read it waits in the system, where no alarm of Python's reaches; so a second thread looks
whether somebody is waiting, and lets them go.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from oracles.damage import restored
from oracles.watched import ends_well, spinewise
from project.documents import PROJECT
from releases.small import QUICK, run, write_town

_LOOKS_A_SECOND = 50
#: Every command meets every third file.
_TURNS = 3


def _place() -> str:
    """Where this process's first thread is, as the last lines of the program's own that led there."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    own = [
        one
        for one in traceback.extract_stack(frame)
        if Path(one.filename).is_relative_to(PROJECT) and ".venv" not in one.filename
    ]
    return " < ".join(f"{Path(one.filename).relative_to(PROJECT)}:{one.lineno}" for one in reversed(own[-2:]))


@contextmanager
def waited_for(pipe: Path) -> Iterator[list[str]]:
    """Makes the pipe; the list has an entry as soon as somebody waits for it."""
    os.mkfifo(pipe)
    waiting: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(1 / _LOOKS_A_SECOND):
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno not in (errno.ENXIO, errno.ENOENT):
                    raise
            else:
                waiting.append(_place())

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield waiting
    finally:
        over.set()
        watch.join()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipes")
    changes = [(old, new.replace("replicates = 2", "margins = true\nreplicates = 2")) for old, new in QUICK]
    return run(write_town(folder / "in", *changes, ("unbiased = true", "unbiased = true\nmicrodata = true")), folder)


def lines(root: Path, out: Path) -> list[tuple[object, ...]]:
    """Command lines that read a release."""
    return [
        ("verify", "--constraints", root),
        ("audit", root, "--out", out / "audit"),
        ("query", root),
        ("query", root, "age * sex", "--at", "tract"),
        ("query", root, "total", "--area", "mine=A0101,A0102"),
        ("query", root, "--table", "detail", "--at", "block", "--format", "csv"),
        ("query", root, "status", "--at", "tract", "--companion", "units", "--format", "json"),
        ("compare", root, root),
        ("key", "show-commitment", root),
        *(("export", root, "--format", kind, "--out", out / kind) for kind in ("csv", "nmf", "parquet", "xlsx")),
        ("verify", root, "--workers", 1),
        ("verify", "--records", root, "--workers", 1),
    ]


def test_who_waits_for_a_pipe_is_seen_and_let_go(tmp_path: Path) -> None:
    with waited_for(tmp_path / "pipe") as waiting:
        assert (tmp_path / "pipe").read_bytes() == b""
    assert "test_pipes_in_releases.py" in waiting[0]


@pytest.mark.slow
def test_no_command_waits_for_a_pipe_in_a_release(root: Path, tmp_path: Path) -> None:
    """Every file of the release, public and restricted, under a third of the commands that read releases, in turn."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    waited, read = set(), 0
    for number, path in enumerate(files):
        with restored([path]):
            path.unlink()
            with waited_for(path) as waiting:
                for line in lines(root, tmp_path / str(number))[number % _TURNS :: _TURNS]:
                    status, printed = spinewise(*line)
                    ends_well(status, printed)
                    read += 1
                    if waiting:
                        waited.add((waiting[0], str(line[0])))
                        waiting.clear()
    assert read > 200
    assert sorted(waited) == []
