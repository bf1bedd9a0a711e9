"""What the report needs that other processes work out ahead of it: of alike areas, and the numbers of its tables.

Without other processes each is worked out when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.cost.reported import MOST_AHEAD, MOST_HELD, held_bytes
from pipeline.execution.job import Job
from pipeline.model.universe import Table, Universe
from pipeline.publishing.alike_areas import AlikeAreas, AlikeNumbers, alike_numbers, tables_by_level
from pipeline.report.moments import PackedMoments
from pipeline.report.table_numbers import PackedTable, packed_table

#: Numbers of a table and level up to which another process packs it; larger ones are read part by part.
_MOST_NUMBERS = 4_000_000

#: Which numbers of a table are certain by class of areas, and the class of each area.
Certain = tuple[NDArray[np.bool_], NDArray[np.int64]]


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
            if len(areas) * table.query.size <= _MOST_NUMBERS:
                path, exact = job.folder(universe).table(table.name, areas.name), _exact(begun, level, table)
                job.begun[name] = [job.workers.begin(packed_table, path, len(areas), exact)]


class Ahead:
    """What was worked out ahead; what was not is begun now.

    Of very many areas neither what is certain nor covariances are worked out: each area may be unlike all others, and
    have matrices of its own.
    """

    def __init__(self, job: Job) -> None:
        for universe in job.universes:
            _begin_alike(job, universe)
        self._universes = {universe.name: universe for universe in job.universes}
        self._begun = job.begun

    def exact(self, universe: str, level: int, table: Table) -> Certain | None:
        """Which numbers are certain, as `ReportSources` has it."""
        return _exact(self._of(universe), level, table)

    def moments(self, universe: str, level: int, table: Table) -> PackedMoments | None:
        """The covariances of a table at a level, as `ReportSources` has them."""
        begun = self._of(universe)
        return begun[0]().moments.get((level, table.name)) if begun else None

    def whole(self, universe: str) -> float | None:
        """Half the width of the interval of the whole, as `ReportSources` has it."""
        begun = self._of(universe)
        return begun[0]().whole if begun else None

    def packed(self, universe: str, level: int, table: Table) -> PackedTable | None:
        """The numbers of a table, as `ReportSources` has them."""
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
