"""What the report's page needs of the errors of a universe: certain numbers, and covariances of its tables.

They follow from the expectation of the universe, and not from any count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.estimation.expectation import Expectation
from pipeline.model.query import Query
from pipeline.model.universe import Table, Universe
from pipeline.reading.sums import answer_weights, together
from pipeline.release.layout import UniverseDirectory
from pipeline.report.moments import CERTAIN, UNKNOWN, USUAL, MomentPacking, PackedMoments, TableMoments
from postprocess.arrays import Weights
from postprocess.linear.expected import LevelCovariances
from postprocess.linear.pairs import pair_factors
from postprocess.linear.weighted import moments, of_level
from postprocess.marginal import Marginal
from postprocess.statistics import half_widths, median_weights, reach_at_once

#: Number of a level, name of a table.
Place: TypeAlias = tuple[int, str]


@dataclass(frozen=True, eq=False)
class AlikeAreas:
    """The task to find what alike areas have in common.

    Attributes:
        universe: whose tables are shown.
        files: its public inputs.
        spine: the geography.
        estimator: "full" or "topdown".
    """

    universe: Universe
    files: UniverseDirectory
    spine: Spine
    estimator: str


@dataclass(frozen=True, eq=False)
class AlikeNumbers:
    """What was found.

    Attributes:
        certain: `(n_classes, size)` which numbers are, and the class of each geounit of the level.
        moments: how errors go together; not of sums that may be below 0.
        whole: half the width of the 90 % interval of the whole, of all areas and cells together; 0 where it is exact,
            NaN where it is not determined.
    """

    certain: dict[Place, tuple[NDArray[np.bool_], NDArray[np.int64]]]
    moments: dict[Place, PackedMoments]
    whole: float


def alike_numbers(task: AlikeAreas) -> AlikeNumbers:
    """What alike areas have in common, by level and table.

    Raises:
        ReleaseError: a public input is missing or damaged, or is not what the spec says.
    """
    expectation = Expectation.of_published(task.universe, task.files, task.spine, task.estimator)
    planned = expectation.planned()
    everybody = Marginal("whole", tuple(np.zeros(n, dtype=np.int64) for n in task.universe.schema.shape))
    all_leaves = np.ones(task.spine.n_leaves, dtype=bool)
    whole = half_widths(np.sqrt(expectation.area_variances(planned, all_leaves, everybody)))
    found = AlikeNumbers({}, {}, float(whole[0]))
    for level, table in tables_by_level(task.universe, task.spine):
        found.certain[level, table.name] = expectation.exact(level, table.query)
    if not task.universe.measure.signed:
        packing = MomentPacking()
        for level, table in tables_by_level(task.universe, task.spine):
            moments = table_moments(expectation, planned, level, table)
            found.moments[level, table.name] = packing.packed(moments)
    return found


def tables_by_level(universe: Universe, spine: Spine) -> list[tuple[int, Table]]:
    """Each table at each of its levels, from the top level down."""
    names = enumerate(spine.level_names)
    return [(level, table) for level, name in names for table in universe.tables if name in table.levels]


def table_moments(
    expectation: Expectation, planned: tuple[LevelCovariances, ...], level: int, table: Table
) -> TableMoments:
    """The factors of a published table at a level, by the covariances of every level."""
    basis, classes, query = expectation.basis, expectation.classes, table.query
    factors = pair_factors(basis, classes, planned, level, query)
    parts = basis.answer_factors(query)[1]
    whole = math.prod(basis.symmetric_shape)
    answers = answer_weights(query.groups, np.arange(query.size))
    everybody = together([np.ones(len(group), dtype=bool) for group in query.groups], query.size)
    covariances = of_level(classes[level], planned[level])
    of_answers, of_all, _ = moments(basis, covariances, answers, everybody)
    halves = _halves(query, answers) if table.median else None
    variances = np.column_stack([of_answers, of_all[:, :1]])
    return TableMoments(
        classes=classes[level].downward,
        known=np.where(variances == 0, CERTAIN, np.where(np.isnan(variances), UNKNOWN, USUAL)),
        nested=factors.nested,
        crossed=factors.crossed,
        shared=factors.shared,
        factors=parts,
        # In the block of sums over all symmetric attributes, an answer over g of n cells has the part g^2 / n.
        sizes=np.rint(np.sqrt(parts[0] * whole)),
        whole=float(whole),
        places=basis.answer_order(query),
        at_once=reach_at_once(len(classes[level].downward)),
        halves=None if halves is None else moments(basis, covariances, halves, halves)[0],
    )


def _halves(query: Query, answers: Weights) -> Weights:
    """Of each answer of a query of one attribute, half of those up to it, less half of those above."""
    (position,) = (number for number, size in enumerate(query.sizes) if size > 1)
    of_values = median_weights(query.size) @ answers[position]
    return tuple(of_values if number == position else one for number, one in enumerate(answers))
