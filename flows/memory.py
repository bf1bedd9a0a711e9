"""The memory of a run: of this process, and of the workers that it has started."""

from __future__ import annotations

import multiprocessing
import resource
import sys

import psutil

#: Unit of the operating system's figure for memory, in bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def memory_now() -> int:
    """The memory of this process and its workers, in bytes; pages that they share are counted in each."""
    total = 0
    for pid in (None, *(worker.pid for worker in multiprocessing.active_children())):
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.Error:  # it has just ended
            continue
    return total


def shown_memory() -> str:
    """ "512 MB"."""
    return f"{memory_now() / 1e6:,.0f} MB"
