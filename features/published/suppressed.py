"""What suppressed tables say together, as knowledge of the estimation: whole numbers, and proven ranges."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pipeline.disclosure.suppression import ProvenTables as Proven
from pipeline.disclosure.suppression import PublishedTable, Suppression, proven
from pipeline.estimation.constraints import IntervalRule, Knowledge, StandardErrors
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.metadata.products import drawn_file
from pipeline.model.draw import ReceivedNoise
from pipeline.model.universe import Table, Universe
from pipeline.release.measurements import read_measurement
from postprocess.arrays import Ends, IntArray
from postprocess.bounds.declare import FacilityBounds


class ProvenNumbers(Knowledge):
    """The estimate of suppressed tables is proven to be possible, so that nothing else is left to the estimation.

    Args:
        job: the run.
        universe: whose numbers were received.
    """

    def __init__(self, job: Job, universe: Universe) -> None:
        self._job = job
        self._universe = universe

    @cached_property
    def _proven(self) -> Proven:
        """By the numbers as they were published; InputError where they contradict each other."""
        spine, folder = self._job.spine, self._job.folder(self._universe)
        tables = []
        for draw in self._universe.draws(spine):
            (noise,) = draw.noises
            assert isinstance(noise, ReceivedNoise)
            assert isinstance(noise.method, Suppression)
            values = read_measurement(self._job.readable(drawn_file(folder, draw))).values
            tables.append(PublishedTable(spine.index_of(draw.level), draw.query, *noise.method.allowed(values)))
        for level, query in self._universe.invariants:
            values = read_measurement(self._job.readable(folder.invariant(level, query.name))).values
            tables.append(PublishedTable(spine.index_of(level), query, values, values))
        return proven(spine, tables)

    def declared(self) -> Iterator[FacilityBounds]:
        """See `Knowledge.declared`: the leaves."""
        found = self._proven
        level = self._job.spine.leaf_level.name
        yield FacilityBounds("the suppressed tables", level, found.query, found.leaves, 1, 1)

    def notes(self, level: int) -> Notes:
        """See `Knowledge.notes`: how much is open, and what is undecided of it, at the top for all levels."""
        return {} if level else {"open": self._proven.n_open, "undecided": self._proven.n_undecided}

    def intervals(self, rule: IntervalRule, standard: StandardErrors, table: Table, level: int) -> IntervalRule:
        """See `Knowledge.intervals`: the proven range."""
        del standard
        found = self._proven
        if not found.knows(table.query):
            return rule
        least, most = (end.astype(np.float64) for end in found.range_of(level, table.query))

        def ends(numbers: IntArray, rows: slice) -> Ends:
            del numbers
            return least[rows], most[rows]

        return ends
