"""What the estimation of a universe knows besides its measurements: one interface for all that can be known.

A kind of knowledge is a class in a module of its own. It comes from public inputs, the core's or a feature's, or from
universes that are released before; `constraints` brings it together.

The released histograms of another universe, each read once, and answers of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pipeline.estimation.measurement_files import SourceFiles
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.universe import Table, Universe
from pipeline.release.histograms import read_histogram
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.declare import FacilityBounds
from postprocess.linear.upward import LevelEstimate
from postprocess.marginal import Marginal
from postprocess.members import Implied
from postprocess.problem import GroupBounds, Problem
from postprocess.shares.shared import Shared


class Results(Protocol):
    """The intermediate results of a universe's estimation, so far as knowledge is made of them; see `Computed`."""

    @property
    def stated(self) -> Problem:
        """The problem without the values of its measurements."""

    @property
    def basis(self) -> Basis:
        """The basis of the stated problem."""

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels that are solved one by one, and their estimates from the upward pass."""

    def parts(self) -> list[tuple[int, Problem, SourceFiles, Basis]]:
        """Of each part below a cut what `PartTask` takes."""


class IntervalRule(ABC):
    """The 90 % intervals of the numbers of a table at one level."""

    @abstractmethod
    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """The ends `(n, size)` for the released numbers `(n, size)` of some rows; NaN where none is determined."""

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """Which numbers `(n, size)` are so large that they are not bound by the least that they can be.

        It is asked of those that simulated runs tell of sums.
        """
        raise NotImplementedError


class Knowledge:
    """What is known of a universe; nothing, but for what a kind of knowledge says otherwise.

    Attributes:
        simulated: whether simulated runs know it, too.
    """

    simulated: bool = True

    @staticmethod
    def distinguished(universe: Universe) -> tuple[Marginal, ...]:  # noqa: ARG004
        """The queries, beside the measured ones, that estimates must tell apart; known before a run from the spec."""
        return ()

    def declared(self) -> Iterable[FacilityBounds]:
        """Hard bounds at a level, which are carried to all others with what is exact; one is made after the other."""
        return ()

    def stated(self, problem: Problem) -> Problem:
        """The problem of the whole spine with the queries that estimates must tell apart, and the order of passes."""
        return problem

    def bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        """Hard bounds of some geounits of a level; ReleaseError where a released file that they need is not there."""
        return ()

    def implied(self, level: int, rows: slice) -> Implied | None:
        """The members that households of some geounits of a level are expected to have."""
        return None

    def shares(self, level: int, rows: slice) -> tuple[Shared, ...]:
        """How the numbers of parents are expected to be shared among some geounits of a level."""
        return ()

    def origin(self, level: int) -> sp.csr_array | None:
        """The least that each cell `(n, n_cells)` of a level can be; None for 0."""
        return None

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:
        """The top level `(n, n_cells)`, moved to where it can hold with what is exact of universes released after.

        Args:
            problem: of the whole spine, or of its upper levels.
            released: whole numbers that keep what is exact of the universe itself.

        Raises:
            InfeasibleError: there are no such numbers; the message names a geounit.
        """
        return released

    def notes(self, level: int) -> Notes:
        """What the manifest says of it at a level."""
        return {}

    def intervals(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """The rule of the intervals of a table at a level, for those who know it.

        Args:
            rule: for those who do not.
            table: of the universe.
            level: of the spine.
        """
        return rule


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
