"""What a process sees to for itself: it looks for no garbage as it ends, and gives back memory that it has freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
