"""What a process of a run sees to for itself: interruptions, garbage, memory, pandas, and who is spoken to."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from releases.small import QUICK, write_town

from pipeline.errors import InputError
from pipeline.execution.cluster import check_encrypted
from pipeline.execution.interrupts import interruption_of
from pipeline.execution.retries import may_be_retried


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


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_is_its_own(interruption: BaseException) -> None:
    assert interruption_of(interruption) is interruption


CYCLE = """
import gc
from pipeline.execution.threads import spare_garbage_collection
class Seen:
    def __del__(self):
        print("collected")
{begin}
one = Seen()
one.itself = one
del one
print(gc.get_threshold()[0])
"""


@pytest.mark.parametrize("begin", ["", "spare_garbage_collection()", "spare_garbage_collection()\n" * 2])
def test_only_a_process_that_was_not_told_looks_for_garbage_as_it_ends(begin: str) -> None:
    program = [sys.executable, "-c", CYCLE.format(begin=begin)]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    assert ("collected" in printed) == (not begin)
    assert (int(printed[0]) > 10_000) == bool(begin)


FREED = """
import time
from pipeline.execution.threads import give_memory_back
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
arrays, pins = [], []
for _ in range(4000):
    arrays.append(bytearray(100_000))
    pins.append(bytearray(1_000))
del arrays
before = held()
while time.process_time() < 1:
    pass
give_memory_back()
print(before - held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere freed memory is left to the system's library")
def test_freed_memory_is_given_back() -> None:
    """Of 400 MB that are freed in pieces, between which others are kept, three quarters are free to other processes."""
    printed = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    assert int(printed) > 300_000


#: The directory of a package that tells who imports it.
TELLING = """
import os, sys
with open(os.environ["TOLD"], "a") as file:
    file.write(" ".join(sys.argv) + chr(10))
raise ModuleNotFoundError("pandas is not looked for", name="pandas")
"""

LATER = """
from pipeline.execution.light_arrow import spare_pandas
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


def environment(*folders: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *sys.path])}


@pytest.mark.slow
def test_no_process_of_a_run_looks_for_pandas(tmp_path: Path) -> None:
    (tmp_path / "first" / "pandas").mkdir(parents=True)
    (tmp_path / "first" / "pandas" / "__init__.py").write_text(TELLING)
    spec = write_town(tmp_path / "in", *QUICK)
    command = [sys.executable, "-m", "flows.entry", "run", str(spec), "--out", str(tmp_path / "out"), "--no-prefect"]
    told = {"TOLD": str(tmp_path / "told"), "HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environment(tmp_path / "first") | told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "told").exists(), (tmp_path / "told").read_text()
    asked = subprocess.run(
        [sys.executable, "-c", "import pyarrow as pa; pa.array([0])"],
        env=environment(tmp_path / "first") | told,
        check=False,
    )
    assert asked.returncode == 0
    assert (tmp_path / "told").exists(), "pyarrow no longer looks for pandas: `spare_pandas` can go"


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
