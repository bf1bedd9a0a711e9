"""Memory that there is, and memory that a run is expected to need."""

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


def expected_memory(sizes: list[int], cells: int, answers: list[int], workers: int) -> int:
    """A rough upper estimate of a run's memory in bytes, for one universe.

    The programs take 0.35 GB in the first process and 0.25 GB in each worker. On top comes what is held of all levels:
    the measurements, in up to 4 bytes; above the leaves the linear terms and the estimates, 8 bytes a cell three times;
    and for each worker a batch.

    Args:
        sizes: geounits of each level.
        cells: of a histogram.
        answers: measured in a geounit of each level.
    """
    measured = sum(n * m * 4 for n, m in zip(sizes, answers, strict=True))
    above = sum(n * cells * 24 for n in sizes[:-1])
    batch = 500_000_000 if sizes[-1] * cells > 5_000_000 else 50_000_000
    return int(350e6 + measured + above + (workers - 1) * 250e6 + workers * batch)
