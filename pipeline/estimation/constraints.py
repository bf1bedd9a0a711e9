"""Public facts as inequalities on groups of cells, and whether the records and the facts themselves allow them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.codes import counted, first_few
from geography.spine import Level, Spine
from pipeline.errors import RecordsError
from pipeline.estimation.knowledge import Knowledge
from pipeline.execution.job import Job
from pipeline.model.universe import Bound, Universe
from pipeline.release.facilities import read_public_facilities
from pipeline.release.published_files import UniverseFiles
from postprocess.bounds.declare import NO_COLUMN, FacilityBounds, Invariant, declare, propagate, propagation
from postprocess.bounds.feasibility import check_feasible
from postprocess.problem import Constraints, Problem

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


def published_facilities(folder: UniverseFiles, universe: Universe, spine: Spine) -> Iterator[NDArray[np.int64]]:
    """The published facilities of each bound of a universe, `(n_geounits, n_columns)`, each read when it is asked for.

    Raises:
        ReleaseError: a file is missing or damaged.
    """
    for number, bound in enumerate(universe.bounds):
        yield read_public_facilities(
            folder.readable(folder.constraint(number)), bound, spine.level(bound.level).geocodes
        )


def facility_bounds(universe: Universe, facilities: Iterable[NDArray[np.int64]]) -> Iterator[FacilityBounds]:
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
    invariants: Mapping[tuple[str, str], NDArray[np.int64]],
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
    return replace(declared, bounds=propagate(spine, declared.bounds, declared.structural_zeros))


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
    universe: Universe, level: Level, facilities: Sequence[NDArray[np.int64]], counts: sp.csr_array
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


def broken_bound(
    bound: Bound, facilities: NDArray[np.int64], answers: NDArray[np.int64], geocodes: NDArray[np.str_]
) -> str:
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
