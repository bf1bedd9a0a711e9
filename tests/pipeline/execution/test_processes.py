"""What a process of a run sees to for itself, and what the shell and the file system may do to it."""

from __future__ import annotations

import asyncio
import errno
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from releases.command import environment

from pipeline.errors import InputError, MemoryShortError
from pipeline.execution.cluster import check_encrypted
from pipeline.execution.faults import fault_of, interruption_of, may_be_retried
from pipeline.execution.job import RunLog
from pipeline.execution.settings import memory_now
from pipeline.execution.steps import Step
from pipeline.records.record_files import open_records


def _write_half(interruption: BaseException) -> None:
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        entry = archive.open("an entry", "w")
        entry.write(b"half")
        raise interruption


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(143), asyncio.CancelledError()])
def test_a_file_that_cannot_be_closed_was_interrupted(interruption: BaseException) -> None:
    """As `numpy.savez` does it: the archive refuses to be closed while one of its entries is open."""
    with pytest.raises(ValueError, match="open writing handle") as raised:
        _write_half(interruption)
    assert interruption_of(raised.value) is interruption
    assert not may_be_retried(raised.value)


def _fail_after_another(error: Exception) -> None:
    try:
        raise KeyError("another")
    except KeyError:
        raise error  # noqa: B904 - what is in hand is what is tested


@pytest.mark.parametrize("error", [OSError("busy"), MemoryError()])
def test_an_error_of_its_own_was_not(error: Exception) -> None:
    """Also one that was raised while another error was answered."""
    with pytest.raises(type(error)) as raised:
        _fail_after_another(error)
    assert interruption_of(raised.value) is None
    assert may_be_retried(raised.value)


LATER = """
from pipeline.execution.threads import spare_pandas
spare_pandas()
import sys
import numpy as np
import pyarrow as pa
assert pa.array(np.arange(3)).to_numpy().sum() == 3
assert pa.table({"a": ["x", None]}).column("a").to_pylist() == ["x", None]
assert "pandas" not in sys.modules
import pandas as pd
frame = pa.table({"a": [1, None]}).to_pandas()
assert frame["a"].isna().sum() == 1
assert pa.Table.from_pandas(frame).column("a").null_count == 1
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
"""


def test_who_imports_pandas_later_has_all_of_it() -> None:
    subprocess.run([sys.executable, "-c", LATER], env=environment(), check=True)


@pytest.mark.parametrize(
    "address",
    ["tcp://10.0.0.5:8786", "10.0.0.5:8786", "tcp://dask.office:8786", "ws://h:1", "tcp://127.0.0.1.evil.org:1"],
)
def test_others_are_refused_without_tls(address: str) -> None:
    with pytest.raises(InputError, match=f"--scheduler {address}: is on another machine and not encrypted"):
        check_encrypted(address)


@pytest.mark.parametrize(
    "address", ["tls://10.0.0.5:8786", "tcp://127.0.0.1:8786", "127.0.0.1:8786", "localhost:8786", "tcp://[::1]:8786"]
)
def test_this_machine_and_tls_are_taken(address: str) -> None:
    check_encrypted(address)


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


MEGABYTES = 400
HELD = f"held = bytearray({MEGABYTES} * 10**6); print(flush=True); input()"


def test_memory_is_that_of_all_processes_while_they_are_there_and_after(tmp_path: Path) -> None:
    before = memory_now()
    child = subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    assert memory_now() - before > MEGABYTES * 0.9e6
    child.communicate(b"\n")
    assert memory_now() - before < MEGABYTES * 0.5e6
    path = tmp_path / "run.log"
    step = Step("measure", lambda: None)
    with path.open("wb") as file:
        logged = RunLog(file.fileno())
        logged.finish(step, 1.0)
    line = r"measure: [0-9.]+ s, peak memory \d+ MB, of the largest other process that has ended (\d+) MB"
    found = re.search(line, path.read_text())
    assert found is not None
    assert int(found[1]) > MEGABYTES * 0.9
