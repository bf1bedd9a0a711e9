"""All that the estimation of a universe knows besides its measurements, put into the problems that it solves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self, runtime_checkable

import scipy.sparse as sp

from pipeline.estimation.constraints import BoundedByFacilities
from pipeline.estimation.knowledge import IntervalRule, Knowing, Knowledge, Results
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.universe import Table, Universe
from postprocess.bounds.declare import FacilityBounds
from postprocess.marginal import Marginal
from postprocess.members import Implied
from postprocess.problem import Problem


@runtime_checkable
class KnownAfter(Protocol):
    """A link of a feature that says something of the universe which is released after."""

    def knowledge_after(self, job: Job) -> Knowledge:
        """What it says."""


@runtime_checkable
class KnownFirst(Protocol):
    """A link of a feature that says something of the universe which is released first."""

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> Knowledge:
        """What it says.

        Args:
            job: the run.
            results: gives the intermediate results of the universe that is released after.
        """


def told_apart_by_inputs(universe: Universe) -> tuple[Marginal, ...]:
    """See `Knowledge.told_apart`: of all that public inputs say of a universe."""
    own = BoundedByFacilities.told_apart(universe)
    return (*own, *(query for fact in universe.facts for query in fact.told_apart()))


def _linked(job: Job, universe: Universe, results: Callable[[str], Results]) -> Iterator[Knowledge]:
    """What the links of a universe say of it."""
    for link in job.links:
        if link.of == universe.name and isinstance(link, KnownAfter):
            yield link.knowledge_after(job)
        if link.by == universe.name and isinstance(link, KnownFirst):
            yield link.knowledge_first(job, partial(results, link.of))


@dataclass(frozen=True, eq=False)
class Known:
    """All that is known of a universe."""

    knowledge: tuple[Knowledge, ...]

    @classmethod
    def of(cls, job: Job, universe: Universe, own: Results, results: Callable[[str], Results]) -> Self:
        """Of a universe: by facilities, by its public facts, and by its links with other universes.

        Args:
            job: the run.
            universe: that is estimated.
            own: its intermediate results.
            results: gives those of another universe, by its name.
        """
        facts = (one.knowledge(job, universe, own) for one in universe.facts if isinstance(one, Knowing))
        return cls((BoundedByFacilities(job, universe), *facts, *_linked(job, universe, results)))

    def declared(self) -> Iterator[FacilityBounds]:
        """See `Knowledge.declared`."""
        for one in self.knowledge:
            yield from one.declared()

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`."""
        for one in self.knowledge:
            problem = one.stated(problem)
        return problem

    def at_level(self, problem: Problem, level: int) -> Problem:
        """The problem of the whole spine, or of its upper levels, with what is known of one of its levels.

        Raises:
            ReleaseError: a released histogram that it needs is not there.
        """
        return _with_known(problem, self.knowledge, _whole(problem), {level})

    def simulated(self, problem: Problem) -> Problem:
        """The problem of the whole spine with what a simulated run knows of all its levels."""
        knowledge = tuple(one for one in self.knowledge if one.simulated)
        return _with_known(problem, knowledge, _whole(problem), range(problem.spine.n_levels))

    def of_part(self, part: Problem, first: int, rows: Sequence[slice]) -> Problem:
        """A part's problem with what is known of its levels.

        Args:
            part: of the universe, from level `first` of the spine on.
            first: its first level.
            rows: per level of it, its geounits.

        Raises:
            ReleaseError: a released histogram that it needs is not there.
        """
        places = list(enumerate(rows, start=first))
        return _with_known(part, self.knowledge, places, [level for level, _ in places])

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:
        """See `Knowledge.at_top`."""
        for one in self.knowledge:
            released = one.at_top(problem, released)
        return released

    def origin(self, level: int) -> sp.csr_array | None:
        """See `Knowledge.origin`."""
        return next((origin for one in self.knowledge if (origin := one.origin(level)) is not None), None)

    def implied(self, level: int) -> Implied | None:
        """See `Knowledge.implied`, of all geounits of a level."""
        found = (one.implied(level, slice(None)) for one in self.knowledge)
        return next((implied for implied in found if implied is not None), None)

    def notes(self, level: int) -> Notes:
        """See `Knowledge.notes`."""
        return {name: note for one in self.knowledge for name, note in one.notes(level).items()}

    def intervals(self, rule: IntervalRule, table: Table, level: int) -> IntervalRule:
        """See `Knowledge.intervals`."""
        for one in self.knowledge:
            rule = one.intervals(rule, table, level)
        return rule


def _whole(problem: Problem) -> list[tuple[int, slice]]:
    return [(level, slice(None)) for level in range(problem.spine.n_levels)]


def _with_known(
    problem: Problem, knowledge: Sequence[Knowledge], places: Sequence[tuple[int, slice]], bounded: Collection[int]
) -> Problem:
    """A problem with what is expected of each of its levels, and the bounds of some of them.

    Args:
        places: per level of the problem, which level of the spine it is, and which of its geounits.
        bounded: levels of the spine.
    """
    bounds = tuple(
        tuple(bound for one in knowledge for bound in one.bounds(level, rows)) if level in bounded else ()
        for level, rows in places
    )
    implied = tuple(
        of_level for level, rows in places for one in knowledge if (of_level := one.implied(level, rows)) is not None
    )
    shares = tuple(tuple(shared for one in knowledge for shared in one.shares(level, rows)) for level, rows in places)
    return replace(
        problem,
        joined=bounds if any(bounds) else problem.joined,
        implied=implied or problem.implied,
        shares=shares if any(shares) else problem.shares,
    )
