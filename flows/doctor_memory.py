"""Memory that there is."""

from __future__ import annotations

from pathlib import Path

import psutil


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
