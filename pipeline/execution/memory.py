"""Memory: what a run uses, with the processes that it has started, and what there is."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from pipeline.execution.settings import Settings

#: Unit of the operating system's figure for memory, in bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def peak_of_children() -> int:
    """The most memory that any one process has had that this one started and that has ended, in bytes; 0 for none."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT


def memory_now() -> int:
    """The memory of this process and all that it has started, in bytes; pages that they share are counted in each."""
    total, own = 0, psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            total += process.memory_info().rss
    return total


def shown_memory() -> str:
    """ "512 MB"."""
    return f"{memory_now() / 1e6:,.0f} MB"


def memory_for_a_run(settings: Settings) -> int:
    """Memory that a run may take, in bytes: the setting, else all that is free."""
    return available_memory() if settings.memory is None else int(settings.memory * 1e9)


def available_memory() -> int:
    """Memory that this process can have, in bytes: of the machine, and within the limit of its control group."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no such limit
            continue
    return free
