"""What the shell and the file system do to a command ends in one line and a status, never in a traceback or a wait."""

from __future__ import annotations

import builtins
import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from releases.small import write_town

from flows.cli import _status
from pipeline.errors import MemoryShortError
from pipeline.execution.machine_faults import fault_of
from pipeline.records.record_files import open_records


def command(*words: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "flows.entry", *words]
    text = " ".join(f"'{word}'" for word in line)
    return subprocess.run(
        ["sh", "-c", f"{text} {shell}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(("shell", "reason"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left")])
def test_output_that_cannot_be_written(shell: str, reason: str) -> None:
    done = command("validate", "--schema", shell=shell)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: cannot write the output: {reason}{done.stderr.split(reason)[1]}",
    )
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which nobody can look, the superuser neither: the system's calls refuse all that is in it."""
    folder = tmp_path / "closed"
    write_town(folder / "in")

    def guard(function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(path: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(path, str | os.PathLike) and Path(path).is_relative_to(folder) and Path(path) != folder:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return function(path, *rest, **more)

        return guarded

    for module, name in ((os, "stat"), (os, "lstat"), (os, "open"), (os, "scandir"), (os, "listdir"), (os, "mkdir")):
        monkeypatch.setattr(module, name, guard(getattr(module, name)))
    for module in (io, builtins):
        monkeypatch.setattr(module, "open", guard(io.open))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "{closed}/in/persons.csv", "{spec}"],
        ["validate", "{data}", "{closed}/in/release.toml"],
        ["verify", "{closed}/town"],
        ["query", "{closed}/town"],
        ["verify", "--constraints", "{closed}/town"],
        ["run", "{spec}", "--no-prefect", "--data", "{closed}/in"],
        ["run", "{spec}", "--no-prefect", "--out", "{closed}/out"],
        ["run", "{closed}/in/release.toml", "--no-prefect"],
    ],
)
def test_a_folder_above_that_is_closed(
    words: list[str], closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A path in it is named, with the reason; the status is that of something given that is wrong."""
    spec = write_town(tmp_path / "open")
    names = {"closed": closed, "spec": spec, "data": spec.parent / "persons.csv"}
    monkeypatch.setattr(sys, "argv", ["spinewise", *(word.format(**names) for word in words)])
    monkeypatch.chdir(tmp_path)
    status = _status()
    told = capfd.readouterr()
    assert status == 2, told
    text = told.out + told.err
    assert str(closed) in text.replace("\n", "")
    assert "permission" in text.casefold()
    assert "Traceback" not in text


def test_short_memory_is_not_a_corrupt_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is 1, which is tried again, and not 2, which is final."""
    path = tmp_path / "persons.csv"
    path.write_text("a,b\n1,2\n")

    def short(*_: object, **__: object) -> object:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    records = open_records(path, ["a"], 1000)
    monkeypatch.setattr(pa_csv, "open_csv", short)
    with pytest.raises(MemoryShortError) as caught:
        list(records.chunks())
    assert caught.value.exit_status == 1
    assert "corrupt" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["run", "{spec}", "--no-prefect", "--key", "fd:1000000000000"], "--key"),
        (["example", "{new}", "--people", "1000000000000000000000"], "--people"),
    ],
)
def test_a_number_that_nothing_can_hold(words: list[str], option: str, tmp_path: Path) -> None:
    names = {"spec": write_town(tmp_path / "in"), "new": tmp_path / "new"}
    done = command(*(word.format(**names) for word in words))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert option in done.stderr
    assert not names["new"].exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "too many open files: at most"),
        (OSError(errno.ENFILE, "Too many open files in system"), "too many open files: at most"),
        (ImportError("x.so: failed to map segment from shared object"), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "x"), "not enough memory"),
        (RuntimeError("can't start new thread"), "no further process or thread can be started"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no further process or thread"),
        (OSError(errno.EFBIG, "File too large"), "cannot write the output: File too large"),
    ],
)
def test_a_limit_of_the_machine_is_told_also_where_it_is_behind_another_error(error: Exception, told: str) -> None:
    direct = fault_of(error)
    assert direct is not None
    assert direct[0].startswith(told)
    assert direct[1] == 1
    if not told.startswith("cannot write"):
        behind = ImportError("no module")
        behind.__cause__ = error
        assert fault_of(behind) == direct
    assert fault_of(ImportError("no module")) is None
