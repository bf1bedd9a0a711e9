"""The released histograms of another universe, each read once."""

from __future__ import annotations

import scipy.sparse as sp

from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from pipeline.release.histograms import read_histogram


class Released:
    """The released histograms of a universe.

    Args:
        job: the run.
        universe: that is released already.
    """

    def __init__(self, job: Job, universe: Universe) -> None:
        self._job = job
        self._universe = universe
        self._histograms: dict[int, sp.csr_array] = {}

    def histogram(self, level: int) -> sp.csr_array:
        """Of a level, `(n, n_cells)` int64; ReleaseError where its file is not there."""
        if level not in self._histograms:
            geounits = self._job.spine.levels[level]
            path = self._job.folder(self._universe).histogram(geounits.name)
            self._histograms[level] = read_histogram(path, geounits.geocodes, self._universe.schema)
        return self._histograms[level]
