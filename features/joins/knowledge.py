"""What persons and the households that they live in say of one another, so that they agree in every geounit.

The households of a geounit are released first, with what the measurements of persons say about their members; then they
are bounds on the persons there. Only public files are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
import scipy.sparse as sp

from features.joins.link import Households
from features.joins.mathematics.composition import (
    Composition,
    TopLevel,
    counted_of,
    fitted,
    fitting_households,
    implied_by,
    joined_bounds,
    joined_queries,
)
from geography.spine import Level
from pipeline.estimation.constraints import Knowledge, Results, released_histogram
from pipeline.estimation.measurement_files import PartTask, checked
from pipeline.execution.job import Job
from postprocess.arrays import Arrays
from postprocess.bounds.declare import UNBOUNDED
from postprocess.errors import InfeasibleError
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal, refines
from postprocess.members import Implied, MemberSums
from postprocess.problem import Constraints, GroupBounds, Problem

#: Numbers of a bound that a message shows.
_SHOWN = 6


def distinguished(link: Households) -> tuple[Marginal, ...]:
    """The queries of persons that estimates must tell apart; InputError where joins limit what no query can state."""
    return joined_queries(Composition.of(link.joins))


class BoundedByHouseholds(Knowledge):
    """Of persons: the released households of a geounit are bounds on those who live in them.

    Simulated runs do without: the bounds hardly move the persons, and the households differ from run to run, so that
    margins of persons are those of persons that are released alone.

    Args:
        job: the run.
        link: of the persons with their households, which are released before.
    """

    simulated = False

    def __init__(self, job: Job, link: Households) -> None:
        self._composition = Composition.of(link.joins)
        self._households = cache(partial(released_histogram, job, link.households))

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`."""
        return replace(problem, further=(*problem.further, *joined_queries(self._composition)))

    def bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        """See `Knowledge.bounds`."""
        return joined_bounds(self._composition, self._households(level)[rows])


class ExpectedMembers(Knowledge):
    """Of households: how many members they are expected to have, from the measurements of the persons.

    Args:
        job: the run.
        link: of the persons, who are released after, with the households.
        persons: gives the intermediate results of the persons.
    """

    def __init__(self, job: Job, link: Households, persons: Callable[[], Results]) -> None:
        self._job = job
        self._link = link
        self._persons = persons
        self._composition = Composition.of(link.joins)
        self._counted = counted_of(self._composition)

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`.

        The kinds of household are fixed first, with their members; the passes that would come before are kept by
        rounding, within one of the solution.
        """
        problem = replace(problem, further=(*problem.further, self._composition.households))
        if self._counted is None:
            return problem
        kinds = self._counted.households
        finer = [own for own in problem.passes if own.size > kinds.size and refines(own, kinds)]
        coarser = [own for own in problem.passes if own.size < kinds.size and refines(kinds, own)]
        return replace(problem, passes=(kinds, *finer), rounding=(*coarser, *problem.rounding))

    def implied(self, level: int, rows: slice) -> Implied | None:
        """See `Knowledge.implied`; None where nothing is measured of the members."""
        return None if self._implied is None else self._implied[level].of_rows(rows)

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:
        """See `Knowledge.at_top`: with room for what is known exactly of the persons."""
        known = [TopLevel.of(each.constraints) for each in (problem, self._persons().stated)]
        counts, missing = fitted(self._composition, released, *known)
        if missing:
            level = self._job.spine.levels[0]
            raise InfeasibleError(
                f"{level.name} {level.geocodes[missing[0]]}: no whole numbers of {self._link.by} leave room for "
                "what is published exactly of the persons, and keep what is published exactly of themselves"
            )
        return counts

    @cached_property
    def _implied(self) -> tuple[Implied, ...] | None:
        """Per level of the spine, the persons that households are to have; None where nothing is measured of them."""
        if self._counted is None:
            return None
        persons = self._persons()
        problem, estimates = persons.combined()
        levels = [
            implied_by(self._counted, problem, persons.basis, level, estimates[level])
            for level in range(problem.spine.n_levels)
        ]
        # Of the other levels, where the persons' spine is cut above them.
        tasks = [ImpliedTask(*part, self._counted) for part in persons.parts()]
        parts = zip(*self._job.workers.run(estimate_implied, tasks), strict=True)
        for level in parts:
            values, variances = (np.concatenate([one[name] for one in level]) for name in _FOUND)
            levels.append(Implied(self._counted, values, variances, np.ones_like(values)))
        return tuple(levels)


#: What is found of a part: the persons that its households are to have.
_FOUND = ("values", "variances")


@dataclass(frozen=True, eq=False)
class ImpliedTask(PartTask):
    """One part of which the persons that households are to have are estimated.

    Attributes:
        counted: which persons.
    """

    counted: MemberSums

    def check(self, number: int, arrays: Arrays) -> None:
        """See `PartTask.check`."""
        shape = len(self.part.spine.levels[number + 1]), len(self.counted.of_sum)
        checked(arrays, dict.fromkeys(_FOUND, (np.float64, shape)))


def estimate_implied(task: ImpliedTask) -> list[Arrays]:
    """The persons that households are to have, at each level below the cut."""
    problem = task.problem()
    estimates = upward_pass(problem, task.basis)
    found = (
        implied_by(task.counted, problem, task.basis, level, estimates[level])
        for level in range(1, problem.spine.n_levels)
    )
    return [{name: getattr(level, name) for name in _FOUND} for level in found]


def check_top(level: Level, link: Households, persons: Constraints, households: Constraints) -> None:
    """Refuse what is exact where no persons can be the members of the households.

    Args:
        level: the top of the spine.
        link: of the persons with their households.
        persons, households: what either universe keeps, carried up the spine.

    Raises:
        InfeasibleError: the message names a geounit, and shows invariants, which are confidential until they are
            published.
    """
    of_persons, of_households = TopLevel.of(persons), TopLevel.of(households)
    if not of_persons.binding:
        return
    composition = Composition.of(link.joins)
    for row, code in enumerate(level.geocodes):
        nobody = np.zeros(composition.households.cell_answer.size, dtype=np.int64)
        if fitting_households(composition, nobody, row, of_households, of_persons) is None:
            raise InfeasibleError(
                f"{level.name} {code}: the joins with {link.by!r} cannot be kept: of persons, "
                f"{_stated(of_persons.bounds, row)}; of {link.by}, {_stated(of_households.bounds, row)}"
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
