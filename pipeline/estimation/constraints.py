"""What the estimation of a universe knows besides its measurements: public facts as inequalities, and all else.

There is one interface for all that can be known. A kind of knowledge is a class in a module of its own. It comes from
public inputs, the core's or a feature's, or from universes that are released before. Here it is brought together and
put into the problems that the estimation solves; public facts become inequalities on groups of cells, and whether the
records and the facts themselves allow them is examined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Level, Spine, counted, first_few
from pipeline.errors import RecordsError
from pipeline.estimation.measurement_files import SourceFiles
from pipeline.model.universe import Bound, Table, Universe
from pipeline.release.facilities import read_public_facilities
from pipeline.release.histograms import read_histogram
from pipeline.release.published_files import UniverseFiles
from postprocess.algebra import Basis
from postprocess.arrays import Ends, FloatArray, IntArray
from postprocess.bounds.declare import NO_COLUMN, FacilityBounds, Invariant, declare, propagation
from postprocess.bounds.feasibility import check_feasible
from postprocess.linear.upward import LevelEstimate
from postprocess.marginal import Marginal
from postprocess.members import Implied
from postprocess.problem import Constraints, GroupBounds, Problem
from postprocess.shares.shared import Shared

if TYPE_CHECKING:
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Notes


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

    def parts(self) -> list[tuple[int, Problem, SourceFiles | None, Basis]]:
        """Of each part below a cut what `PartTask` takes."""


#: The 90 % intervals of the numbers of a table at one level: released numbers `(n, size)`, and which rows of the level
#: these are -> ends `(n, size)`; NaN where none is determined.
IntervalRule = Callable[[IntArray, slice], Ends]
#: Standard errors of such numbers: some rows of a level -> `(n, size)`.
StandardErrors = Callable[[slice], FloatArray]


class Knowledge:
    """What is known of a universe; nothing, but for what a kind of knowledge says otherwise.

    Attributes:
        simulated: whether simulated runs know it, too.
    """

    simulated: bool = True

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

    def intervals(self, rule: IntervalRule, standard: StandardErrors, table: Table, level: int) -> IntervalRule:
        """The rule of the intervals of a table at a level, for those who know it.

        Args:
            rule: for those who do not.
            standard: standard errors of the table's numbers, likewise.
            table: of the universe.
            level: of the spine.
        """
        return rule


def released_histogram(job: Job, universe: Universe, level: int) -> sp.csr_array:
    """The released histogram of a level, `(n, n_cells)` int64; ReleaseError where its file is not there."""
    geounits = job.spine.levels[level]
    path = job.readable(job.folder(universe).histogram(geounits.name))
    return read_histogram(path, geounits.geocodes, universe.schema, signed=universe.measure.signed)


def sparse_answers(query: Marginal, counts: sp.csr_array) -> sp.csr_array:
    """Answers `(n_rows, size)` for sparse histograms, sparse: for queries of which most answers are 0 in every row."""
    n_rows = counts.shape[0]
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(counts.indptr))
    places = (rows, query.cell_answer[counts.indices])
    return sp.csr_array(sp.coo_array((counts.data, places), shape=(n_rows, query.size)))


#: Records, or units of an amount, in all. Sums of doubles are exact to 0.00001, to which constraints are kept, up to
#: 2^53 / 10^5 = 9 * 10^10 at most, and each of many terms is rounded.
LARGEST_TOTAL = 10**10


class BoundedByFacilities(Knowledge):
    """Each facility of an area has so many persons, and where there is none, there are none.

    Args:
        job: the run.
        universe: with the bounds.
    """

    def __init__(self, job: Job, universe: Universe) -> None:
        self._job = job
        self._universe = universe

    def declared(self) -> Iterator[FacilityBounds]:
        """See `Knowledge.declared`; ReleaseError where a published file is damaged."""
        folder = self._job.folder(self._universe)
        return facility_bounds(self._universe, published_facilities(folder, self._universe, self._job.spine))

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`: bounded answers are rounded first."""
        bounded = {bound.query.terms: bound.query for bound in self._universe.bounds}
        return replace(problem, rounding=(*problem.rounding, *bounded.values()))


def published_facilities(folder: UniverseFiles, universe: Universe, spine: Spine) -> Iterator[IntArray]:
    """The published facilities of each bound of a universe, `(n_geounits, n_columns)`, each read when it is asked for.

    Raises:
        ReleaseError: a file is missing or damaged.
    """
    for number, bound in enumerate(universe.bounds):
        yield read_public_facilities(
            folder.readable(folder.constraint(number)), bound, spine.level(bound.level).geocodes
        )


def facility_bounds(universe: Universe, facilities: Iterable[IntArray]) -> Iterator[FacilityBounds]:
    """The bounds of a universe, one after the other: those of a country's blocks are half a gigabyte each.

    Args:
        universe: whose bounds they are; answers without a column are not bounded.
        facilities: of each bound, `(n, n_columns)`.
    """
    for bound, of_bound in zip(universe.bounds, facilities, strict=True):
        counts = np.full((len(of_bound), bound.query.size), NO_COLUMN, dtype=np.int64)
        counts[:, sorted(bound.columns)] = of_bound
        del of_bound
        yield FacilityBounds(bound.name, bound.level, bound.query, counts, bound.lower, bound.upper)
        del counts


def declared_constraints(
    universe: Universe,
    spine: Spine,
    bounds: Iterable[FacilityBounds],
    invariants: Mapping[tuple[str, str], IntArray],
) -> Constraints:
    """Everything that the spec requires estimates and release to keep, each constraint at its own level.

    Args:
        universe: the release's own, or a companion.
        spine: the geography.
        bounds: by facilities.
        invariants: (level, query) -> exact answers `(n_geounits, size)`.
    """
    exact = [Invariant(level, query, invariants[level, query.name]) for level, query in universe.invariants]
    return declare(spine, universe.structural_zeros, exact, bounds)


def carried_constraints(spine: Spine, declared: Constraints) -> Constraints:
    """The constraints with bounds at every level, so that the solution of a level does not block the levels below."""
    return replace(declared, bounds=propagation(spine, declared.bounds, declared.structural_zeros).bounds)


def check_constraints(universe: Universe, spine: Spine, declared: Constraints) -> list[str]:
    """Refuse constraints that no release could keep.

    Returns:
        A sentence for each reason why the run may meet a dead end nevertheless; public.

    Raises:
        InfeasibleError: they contradict each other; the message shows invariants, which are confidential until they are
            published.
    """
    queries = [*(query for _, query in universe.invariants), *(bound.query for bound in universe.bounds)]
    labels = {query.name: query.answer_labels() for query in queries}
    check_feasible(spine, universe.schema.shape, declared, labels)
    return list(propagation(spine, declared.bounds, declared.structural_zeros, universe.passes).gaps)


def check_records_possible(universe: Universe, leaves: sp.csr_array) -> None:
    """Refuse records in cells that the spec declares impossible.

    Args:
        universe: the release's own, or a companion.
        leaves: the confidential histograms `(n_leaves, n_cells)`.

    Raises:
        RecordsError: there are such records; the message shows how many.
    """
    impossible = universe.structural_zeros[leaves.indices]
    if not impossible.any():
        return
    labels = np.array(universe.schema.cell_labels())[np.unique(leaves.indices[impossible])]
    raise RecordsError(
        f"{universe.key('structural_zeros')}: {counted(int(leaves.data[impossible].sum()), 'record')} in combinations "
        f"that are declared impossible: {first_few(labels)}; correct the records or the spec"
    )


def check_total(universe: Universe, total: int) -> None:
    """Refuse more records, or units of an amount, than least squares can be solved for.

    Args:
        universe: the release's own, or a companion.
        total: the confidential counts of all leaves and cells, added up without their signs.

    Raises:
        RecordsError: there are more; the message shows how many.
    """
    if total <= LARGEST_TOTAL:
        return
    what, key, advice = universe.measure.too_many()
    raise RecordsError(
        f"{universe.key(key)}: found {total:,} {what}; up to {LARGEST_TOTAL:,} are allowed, beyond which the numbers "
        f"cannot be solved for exactly enough: {advice}"
    )


def broken_bounds(
    universe: Universe, level: Level, facilities: Sequence[IntArray], counts: sp.csr_array
) -> dict[int, str]:
    """A sentence for each bound at a level that the records break, by its number; with confidential counts.

    The release keeps such a bound all the same, and is less accurate there.

    Args:
        universe: the release's own, or a companion.
        level: of the spine.
        facilities: of each of the universe's bounds, `(n_geounits, n_columns)`.
        counts: the confidential histograms `(n_geounits, n_cells)` of the level.
    """
    sentences = {
        number: broken_bound(bound, of_bound, bound.query.answer_csr(counts), level.geocodes)
        for number, (bound, of_bound) in enumerate(zip(universe.bounds, facilities, strict=True))
        if bound.level == level.name
    }
    return {number: sentence for number, sentence in sentences.items() if sentence}


def broken_bound(bound: Bound, facilities: IntArray, answers: IntArray, geocodes: NDArray[np.str_]) -> str:
    """A sentence with confidential counts if the records break the bound, else "".

    Args:
        bound: of the universe.
        facilities: of the bound, `(n_geounits, n_columns)`.
        answers: `(n_geounits, size)` of the bound's query, from the records.
        geocodes: `(n_geounits,)` of the bound's level.
    """
    bounded = answers[:, sorted(bound.columns)]
    low, high = facilities * bound.lower, facilities * bound.upper
    outside = (bounded < low) | (bounded > high)
    if not outside.any():
        return ""
    geounit, column = (int(place[0]) for place in np.nonzero(outside))
    label = bound.query.answer_labels()[sorted(bound.columns)[column]]
    return (
        f"bounds {bound.name!r}: the records break it in {counted(int(outside.any(axis=1).sum()), 'geounit')} of level "
        f"{bound.level!r}, first in {geocodes[geounit]}: {bounded[geounit, column]:,} records in {label!r}, where "
        f"{low[geounit, column]:,} to {high[geounit, column]:,} are allowed"
    )


def _linked(job: Job, universe: Universe, results: Callable[[str], Results]) -> Iterator[Knowledge]:
    """What the links of a universe say of it."""
    for link in job.links:
        if link.of == universe.name and (after := link.knowledge_after(job)) is not None:
            yield after
        if link.by == universe.name and (first := link.knowledge_first(job, partial(results, link.of))) is not None:
            yield first


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
        facts = (one.knowledge(job, universe, own) for one in universe.facts)
        stated = (knowledge for knowledge in facts if knowledge is not None)
        return cls((BoundedByFacilities(job, universe), *stated, *_linked(job, universe, results)))

    def declared(self) -> Iterator[FacilityBounds]:
        """See `Knowledge.declared`."""
        for one in self.knowledge:
            yield from one.declared()

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`."""
        for one in self.knowledge:
            problem = one.stated(problem)
        return problem

    def put(
        self, problem: Problem, bounded: Collection[int], rows: Sequence[slice] = (), *, simulated: bool = False
    ) -> Problem:
        """A problem with what is expected of each of its levels, and the bounds of some of them.

        Args:
            problem: of the whole spine, of its upper levels, or of a part of it.
            bounded: levels of the spine.
            rows: of a part, per level, its geounits.
            simulated: with what simulated runs know, alone.

        Raises:
            ReleaseError: a released histogram that it needs is not there.
        """
        knowledge = [one for one in self.knowledge if one.simulated or not simulated]
        own = rows or (slice(None),) * problem.spine.n_levels
        places = list(enumerate(own, start=problem.first_level))
        bounds = tuple(
            tuple(bound for one in knowledge for bound in one.bounds(*place)) if place[0] in bounded else ()
            for place in places
        )
        implied = tuple(
            of_level for place in places for one in knowledge if (of_level := one.implied(*place)) is not None
        )
        shares = tuple(tuple(shared for one in knowledge for shared in one.shares(*place)) for place in places)
        return replace(
            problem,
            joined=bounds if any(bounds) else problem.joined,
            implied=implied or problem.implied,
            shares=shares if any(shares) else problem.shares,
        )

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

    def intervals(self, rule: IntervalRule, standard: StandardErrors, table: Table, level: int) -> IntervalRule:
        """See `Knowledge.intervals`."""
        for one in self.knowledge:
            rule = one.intervals(rule, standard, table, level)
        return rule
