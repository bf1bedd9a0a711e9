"""The released histograms of another universe, each read once, and answers of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from pipeline.release.histograms import read_histogram
from postprocess.marginal import Marginal


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
            path = self._job.readable(self._job.folder(self._universe).histogram(geounits.name))
            self._histograms[level] = read_histogram(path, geounits.geocodes, self._universe.schema)
        return self._histograms[level]


def sparse_answers(query: Marginal, counts: sp.csr_array) -> sp.csr_array:
    """Answers `(n_rows, size)` for sparse histograms, sparse: for queries of which most answers are 0 in every row."""
    n_rows = counts.shape[0]
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(counts.indptr))
    places = (rows, query.cell_answer[counts.indices])
    return sp.csr_array(sp.coo_array((counts.data, places), shape=(n_rows, query.size)))
