"""What the report needs that other processes work out ahead of it: of alike areas, and the numbers of its tables.

Without other processes each is worked out when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from features.report.moments import (
    CERTAIN,
    MOST_AHEAD,
    MOST_HELD,
    UNKNOWN,
    USUAL,
    MomentPacking,
    PackedMoments,
    TableMoments,
    held_bytes,
)
from features.report.table_numbers import Certain, TableNumbers, packed_table
from geography.spine import Spine
from pipeline.estimation.expectation import Expectation
from pipeline.execution.job import Job
from pipeline.model.universe import Table, Universe
from pipeline.reading.margins import answer_weights, together
from pipeline.release.long_tables import is_long
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import Weights
from postprocess.linear.covariances import LevelCovariances, moments, of_leaves, of_level, pair_factors
from postprocess.marginal import Marginal
from postprocess.statistics import half_widths, median_weights, reach_at_once

#: Numbers of a table and level up to which another process packs it; larger ones are read part by part.
_MOST_NUMBERS = 4_000_000


def begin_alike(job: Job) -> None:
    """Begin what follows from the areas alone, once the public inputs are written.

    Where it takes much memory it is not begun before the report is.
    """
    for universe in job.universes:
        if held_bytes(universe, job.n_geounits) <= MOST_AHEAD:
            _begin_alike(job, universe)


def begin_tables(job: Job) -> None:
    """Begin to read and pack the published tables, which are all written; not those whose areas come first."""
    for universe in job.universes:
        begun = job.begun.get(_alike(universe), ())
        if universe.measure.signed or (job.spec.publish.margins and not begun):
            continue
        for level, table in tables_by_level(universe, job.spine):
            areas, name = job.spine.levels[level], _table(universe, level, table)
            if len(areas) * table.query.size <= _MOST_NUMBERS and not is_long(table.query.size):
                path = job.readable(job.folder(universe).table(table.name, areas.name))
                exact = _exact(begun, level, table)
                job.begun[name] = [job.workers.begin(packed_table, path, len(areas), exact)]


class ReportNumbers:
    """What the report needs of areas and tables; what was not begun ahead is begun now.

    Of very many areas neither what is certain nor covariances are worked out: each area may be unlike all others, and
    have matrices of its own.
    """

    def __init__(self, job: Job) -> None:
        for universe in job.universes:
            _begin_alike(job, universe)
        self._universes = {universe.name: universe for universe in job.universes}
        self._begun = job.begun

    def exact(self, universe: str, level: int, table: Table) -> Certain | None:
        """Which answers are certain; the rule is that of `pipeline.reading.sum_margins.SumMargins.exact`.

        None where there are too many classes of areas to work it out.
        """
        return _exact(self._of(universe), level, table)

    def moments(self, universe: str, level: int, table: Table) -> PackedMoments | None:
        """How the errors of a table's numbers go together in and between the areas of a level; None as for `exact`."""
        begun = self._of(universe)
        return begun[0]().moments.get((level, table.name)) if begun else None

    def whole(self, universe: str) -> float | None:
        """Half the width of the 90 % interval of all areas and cells together, by the linear estimate; None as well."""
        begun = self._of(universe)
        return begun[0]().whole if begun else None

    def packed(self, universe: str, level: int, table: Table) -> TableNumbers | None:
        """The numbers of a table; None for those that are read part by part."""
        begun = self._begun.get(_table(self._universes[universe], level, table))
        return begun[0]() if begun else None

    def _of(self, universe: str) -> Sequence[Callable[[], AlikeNumbers]]:
        return self._begun.get(_alike(self._universes[universe]), ())


def _exact(begun: Sequence[Callable[[], AlikeNumbers]], level: int, table: Table) -> Certain | None:
    return begun[0]().certain[level, table.name] if begun else None


def _begin_alike(job: Job, universe: Universe) -> None:
    """One task: two would hold as much each, and slow down what this process does beside them."""
    few = held_bytes(universe, job.n_geounits) <= MOST_HELD
    if job.spec.publish.margins and few and _alike(universe) not in job.begun:
        task = AlikeAreas(universe, job.folder(universe), job.spine, job.spec.postprocess.estimator)
        job.begun[_alike(universe)] = [job.workers.begin(alike_numbers, task)]


def _alike(universe: Universe) -> str:
    return f"alike {universe.name}"


def _table(universe: Universe, level: int, table: Table) -> str:
    return f"table {universe.name} {table.name} {level}"


# -- certain numbers, and covariances of tables -----------------------------------------------------------------------
# They follow from the expectation of the universe, and not from any count.


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
    files: UniverseFiles
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

    certain: dict[Place, Certain]
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
    all_leaves = of_leaves(task.spine, expectation.classes, planned, np.ones(task.spine.n_leaves))
    whole = half_widths(np.sqrt(all_leaves.of_answers(expectation.basis, everybody)))
    found = AlikeNumbers({}, {}, float(whole[0, 0]))
    for level, table in tables_by_level(task.universe, task.spine):
        found.certain[level, table.name] = expectation.exact(level, table.query)
    if not task.universe.measure.signed:
        packing = MomentPacking()
        for level, table in tables_by_level(task.universe, task.spine):
            if not is_long(table.query.size):  # which no page shows
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
    halves: Weights | None = None
    if table.median:  # of each answer half of those up to it, less half of those above
        terms = zip(answers, query.sizes, strict=True)
        halves = tuple(median_weights(query.size) @ one if size > 1 else one for one, size in terms)
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
