"""Universes that agree: what one tells of the other while they are estimated.

The households of a geounit are released first, with what the measurements of persons say about their members; then they
are bounds on the persons there. Sums of an amount are released last: the released persons bound them. Only public files
are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from geography.spine import Level
from pipeline.estimation.join_queries import composition_of
from pipeline.estimation.part import PartTask
from pipeline.execution.batch_store import Arrays
from pipeline.execution.workers import foreign_arrays
from pipeline.model.beside import counted_cells
from pipeline.model.join import Join, joined_companions
from pipeline.release.histograms import read_histogram
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.errors import InfeasibleError
from postprocess.joins.bounds import joined_bounds
from postprocess.joins.composition import Composition
from postprocess.joins.implied import counted_of, implied_by
from postprocess.joins.top import TopLevel, fitted, fitting_households
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal, detail_of
from postprocess.members import Counted, Implied
from postprocess.problem import Constraints, GroupBounds, Problem

if TYPE_CHECKING:
    from pipeline.estimation.computed import Computed
    from pipeline.execution.job import Job
    from pipeline.model.universe import Universe


#: Numbers of a bound that a message shows.
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class ImpliedTask(PartTask):
    """One part of which the persons that households are to have are estimated.

    Attributes:
        counted: which persons.
    """

    counted: Counted

    def arrays_of(self, result: list[Implied]) -> Arrays:
        """See `PartTask.arrays_of`."""
        return {
            f"{number}.{name}": getattr(level, name)
            for number, level in enumerate(result)
            for name in ("values", "variances")
        }

    def result_of(self, arrays: Arrays) -> list[Implied]:
        """See `PartTask.result_of`."""
        shapes = [(len(level), len(self.counted.of_sum)) for level in self.part.spine.levels[1:]]
        names = [(f"{number}.values", f"{number}.variances") for number in range(len(shapes))]
        if arrays.keys() != {name for pair in names for name in pair}:
            raise foreign_arrays("estimated members")
        for pair, shape in zip(names, shapes, strict=True):
            if any(arrays[name].shape != shape or arrays[name].dtype != np.float64 for name in pair):
                raise foreign_arrays("estimated members")
        return [
            Implied(self.counted, arrays[values], arrays[variances], np.ones_like(arrays[values]))
            for values, variances in names
        ]


def estimate_implied(task: ImpliedTask) -> list[Implied]:
    """The persons that households are to have, at each level below the cut."""
    problem = task.problem()
    estimates = upward_pass(problem, task.basis)
    return [
        implied_by(task.counted, problem, task.basis, level, estimates[level])
        for level in range(1, problem.spine.n_levels)
    ]


class Joined:
    """What one universe learns from the others that it is joined with; nothing where it is joined with none.

    Args:
        job: the run.
        universe: that is estimated.
        persons: gives the intermediate results of the release's own universe.
    """

    def __init__(self, job: Job, universe: Universe, persons: Callable[[], Computed]) -> None:
        self._job = job
        self._universe = universe
        self._persons = persons
        self._joins = job.spec.joins()

    def at_level(self, problem: Problem, level: int) -> Problem:
        """The whole spine's problem with what is known of one of its levels from joined universes.

        Raises:
            ReleaseError: a released histogram that it needs is not there.
        """
        if self._universe.measure.amounts:
            numbers = range(problem.spine.n_levels)
            return replace(
                problem, joined=tuple(self._of_amounts(k, slice(None)) if k == level else () for k in numbers)
            )
        if not self._joins:
            return problem
        if self._universe.name:
            return problem if self.implied is None else replace(problem, implied=self.implied)
        levels = range(problem.spine.n_levels)
        return replace(problem, joined=tuple(self._bounds(k, slice(None)) if k == level else () for k in levels))

    def simulated(self, problem: Problem) -> Problem:
        """The whole spine's problem with what a simulated run knows from joined universes, at all of its levels.

        What the households are for the persons, bounds that hardly move them, differs from run to run and is left out:
        the margins of persons are those of persons that are released alone. Sums of an amount are bounded by the
        released counts, as in the release.
        """
        if self._universe.measure.amounts:
            levels = range(problem.spine.n_levels)
            return replace(problem, joined=tuple(self._of_amounts(level, slice(None)) for level in levels))
        return self.at_level(problem, 0) if self._universe.name else problem

    def of_part(self, part: Problem, first: int, rows: Sequence[slice]) -> Problem:
        """A part's problem with what is known of its levels from joined universes.

        Args:
            part: of the universe, from level `first` of the spine on.
            first: its first level.
            rows: per level of it, its geounits.

        Raises:
            ReleaseError: a released histogram that it needs is not there.
        """
        levels = list(enumerate(rows, start=first))
        if self._universe.measure.amounts:
            return replace(part, joined=tuple(self._of_amounts(level, own) for level, own in levels))
        if not self._joins:
            return part
        if self._universe.name:
            if self.implied is None:
                return part
            return replace(part, implied=tuple(self.implied[level].of_rows(own) for level, own in levels))
        return replace(part, joined=tuple(self._bounds(level, own) for level, own in levels))

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:
        """The top level of joined households, with room for what is known exactly of the persons; others as they are.

        Raises:
            InfeasibleError: no households leave room; the message names a geounit.
        """
        composition = composition_of(self._joins, self._universe.name) if self._universe.name else None
        if composition is None:
            return released
        known = [TopLevel.of(each.constraints) for each in (problem, self._persons().stated)]
        counts, missing = fitted(composition, released, *known)
        if missing:
            level = self._job.spine.levels[0]
            raise InfeasibleError(
                f"{level.name} {level.geocodes[missing[0]]}: no whole numbers of {self._universe.name} leave room for "
                "what is published exactly of the persons, and keep what is published exactly of themselves"
            )
        return counts

    @cached_property
    def implied(self) -> tuple[Implied, ...] | None:
        """Per level of the spine, the persons that households are to have; None where nothing is measured of them."""
        composition = composition_of(self._joins, self._universe.name)
        counted = None if composition is None else counted_of(composition)
        if counted is None:
            return None
        persons = self._persons()
        problem, estimates = persons.combined()
        levels = [
            implied_by(counted, problem, persons.basis, level, estimates[level])
            for level in range(problem.spine.n_levels)
        ]
        return (*levels, *self._below_cut(persons, counted, len(levels)))

    def _below_cut(self, persons: Computed, counted: Counted, first: int) -> Iterator[Implied]:
        """The same of the levels from `first` on, where the persons' spine is cut above them."""
        tasks = [ImpliedTask(*part, counted) for part in persons.parts()]
        parts = list(self._job.workers.run(estimate_implied, tasks))
        for level in range(self._job.spine.n_levels - first):
            yield Implied.joined([part[level] for part in parts])

    def _bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        """The bounds that the released households of a level are on its persons."""
        bounds: list[GroupBounds] = []
        for companion, composition in self._compositions.items():
            bounds += joined_bounds(composition, self._released(companion, level)[rows])
        return tuple(bounds)

    def origin(self, level: int) -> sp.csr_array | None:
        """The least that each cell `(n, n_cells)` of a level can be: of sums that may be below 0; None for 0."""
        if not self._universe.measure.signed:
            return None
        if level not in self._origins:
            (amount,), own = self._universe.measure.amounts, self._job.universes[0]
            counts = sparse_answers(counted_cells(self._universe, own), self._released(own.name, level))
            self._origins = {level: amount.first * counts}  # levels are worked on one after the other
        return self._origins[level]

    def _of_amounts(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        """Of every cell of sums of an amount: low x n to high x n units, n the released number of records there."""
        (amount,), own = self._universe.measure.amounts, self._job.universes[0]
        counts = counted_cells(self._universe, own).answer_csr(self._released(own.name, level)[rows])
        marginal = detail_of(self._universe.schema.shape)
        return (GroupBounds(amount.name, marginal, amount.first * counts, amount.last * counts),)

    def _released(self, companion: str, level: int) -> sp.csr_array:
        if (companion, level) not in self._histograms:
            universe = next(each for each in self._job.universes if each.name == companion)
            geounits = self._job.spine.levels[level]
            path = self._job.folder(universe).histogram(geounits.name)
            self._histograms[companion, level] = read_histogram(path, geounits.geocodes, universe.schema)
        return self._histograms[companion, level]

    @cached_property
    def _compositions(self) -> dict[str, Composition]:
        """Of each joined companion."""
        composed = {companion: composition_of(self._joins, companion) for companion in joined_companions(self._joins)}
        return {companion: composition for companion, composition in composed.items() if composition is not None}

    @cached_property
    def _histograms(self) -> dict[tuple[str, int], Any]:
        return {}

    @cached_property
    def _origins(self) -> dict[int, sp.csr_array]:
        return {}


def check_top(level: Level, joins: Sequence[Join], constraints: Mapping[str, Constraints]) -> None:
    """Refuse what is exact where no persons can be the members of the households.

    Args:
        level: the top of the spine.
        joins: of the release.
        constraints: universe -> what it keeps, carried up the spine; "" is the release's own.

    Raises:
        InfeasibleError: the message names a geounit, and shows invariants, which are confidential until they are
            published.
    """
    persons = TopLevel.of(constraints[""])
    for companion in joined_companions(joins):
        composition = composition_of(joins, companion)
        households = TopLevel.of(constraints[companion])
        if composition is None or not persons.binding:
            continue
        for row, code in enumerate(level.geocodes):
            nobody = np.zeros(composition.households.cell_answer.size, dtype=np.int64)
            if fitting_households(composition, nobody, row, households, persons) is None:
                raise InfeasibleError(
                    f"{level.name} {code}: the joins with {companion!r} cannot be kept: of persons, "
                    f"{_stated(persons.bounds, row)}; of {companion}, {_stated(households.bounds, row)}"
                )


def _stated(bounds: Sequence[GroupBounds], row: int) -> str:
    """What is known of a geounit, in words."""
    parts = []
    for bound in bounds:
        ends = zip(bound.lower[row].tolist(), bound.upper[row].tolist(), strict=True)
        numbers = [
            f"{low:,}" if low == high else f"{low:,} to {high:,}" if high < UNBOUNDED else f"{low:,} or more"
            for low, high in ends
        ]
        more = ", ..." if len(numbers) > _SHOWN else ""
        parts.append(f'"{bound.name}" is {", ".join(numbers[:_SHOWN])}{more}')
    return " and ".join(parts) or "nothing is exact"


def sparse_answers(query: Marginal, counts: sp.csr_array) -> sp.csr_array:
    """Answers `(n_rows, size)` for sparse histograms, sparse: for queries of which most answers are 0 in every row."""
    n_rows = counts.shape[0]
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(counts.indptr))
    places = (rows, query.cell_answer[counts.indices])
    return sp.csr_array(sp.coo_array((counts.data, places), shape=(n_rows, query.size)))
