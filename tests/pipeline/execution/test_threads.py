"""What a process sets for itself: as it ends, it does not look for garbage among all that it has imported."""

from __future__ import annotations

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
