"""Public facts as inequalities on groups of cells: bounds from counts of facilities, and invariants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.codes import first_few
from geography.spine import Spine
from pipeline.errors import RecordsError
from pipeline.query import Query
from pipeline.universe import Bound, Universe
from postprocess.problem import Constraints, GroupBounds, Marginal

#: An upper bound that is none.
UNBOUNDED = 1 << 52


def marginal_of(query: Query) -> Marginal:
    """The query as plain arrays."""
    return Marginal(query.name, query.groups)


def group_bounds(bound: Bound, facilities: NDArray[np.int64]) -> GroupBounds:
    """The bound as inequalities: `lower` to `upper` persons for each of the facilities `(n, n_columns)`.

    Answers without a column of facilities are not bounded.
    """
    shape = (len(facilities), bound.query.size)
    lower, upper = np.zeros(shape, dtype=np.int64), np.full(shape, UNBOUNDED, dtype=np.int64)
    answers = sorted(bound.columns)
    lower[:, answers] = facilities * bound.lower
    upper[:, answers] = facilities * bound.upper
    return GroupBounds(bound.name, marginal_of(bound.query), lower, upper)


def constraints_of(
    universe: Universe,
    spine: Spine,
    facilities: Sequence[NDArray[np.int64]],
    invariants: Mapping[tuple[str, str], NDArray[np.int64]],
) -> Constraints:
    """All that estimates and release have to keep.

    Args:
        facilities: of each of the universe's bounds, `(n_geounits, n_columns)`.
        invariants: (level, query) -> exact answers `(n_geounits, size)`.
    """
    levels: list[tuple[GroupBounds, ...]] = []
    for name in spine.level_names:
        exact = []
        for level, query in universe.invariants:
            if level == name:
                answers = invariants[level, query.name]
                exact.append(GroupBounds(f"invariant {query.name}", marginal_of(query), answers, answers))
        bounded = [
            group_bounds(bound, counts)
            for bound, counts in zip(universe.bounds, facilities, strict=True)
            if bound.level == name
        ]
        levels.append((*exact, *bounded))
    return Constraints(universe.structural_zeros, tuple(levels))


def check_constraints(universe: Universe, spine: Spine, constraints: Constraints) -> None:
    """Refuse constraints that no release could keep.

    Raises:
        InfeasibleError: they contradict each other.
    """


def check_records_fit(
    universe: Universe, spine: Spine, facilities: Sequence[NDArray[np.int64]], levels: Sequence[sp.csr_array]
) -> None:
    """Refuse records that break what the spec says of them.

    Args:
        facilities: as in `constraints_of`.
        levels: the confidential histograms `(n_geounits, n_cells)` of each level, top first.

    Raises:
        RecordsError: persons are in impossible cells, or a bound does not hold for the records. The message shows
            confidential counts.
    """
    problems = []
    leaves = levels[-1]
    impossible = universe.structural_zeros[leaves.indices]
    if impossible.any():
        labels = np.array(universe.schema.cell_labels())[np.unique(leaves.indices[impossible])]
        problems.append(
            f"structural_zeros: {int(leaves.data[impossible].sum()):,} records are in combinations that are said to be "
            f"impossible: {first_few(labels)}"
        )
    for bound, counts in zip(universe.bounds, facilities, strict=True):
        level = spine.index_of(bound.level)
        limits = group_bounds(bound, counts)
        answers = bound.query.answer_csr(levels[level])
        outside = (answers < limits.lower) | (answers > limits.upper)
        if outside.any():
            geounit, answer = (int(place[0]) for place in np.nonzero(outside))
            problems.append(
                f"bounds: {bound.name!r} does not hold in {int(outside.any(axis=1).sum()):,} geounits of level "
                f"{bound.level!r}, first in {spine.levels[level].geocodes[geounit]}: {answers[geounit, answer]:,} "
                f"records in {bound.query.answer_labels()[answer]!r}, where the facilities allow "
                f"{limits.lower[geounit, answer]:,} to {limits.upper[geounit, answer]:,}"
            )
    if problems:
        where = f"companions.{universe.name}: " if universe.name else ""
        raise RecordsError("\n".join(f"{where}the records contradict the spec: {problem}" for problem in problems))
