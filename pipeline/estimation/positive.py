"""Noisy answers that are drawn only where the released parent is positive, as the estimation of a level reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.estimation.measurement_files import differing
from pipeline.model.draw import by_level
from pipeline.model.universe import Universe
from pipeline.release.measurements import MeasurementHeader, header_of
from pipeline.release.positive import PositiveRows, joined_rows, open_positive
from pipeline.release.published_files import UniverseFiles
from pipeline.storage.paths import Readable
from postprocess.marginal import Marginal
from postprocess.positive import PositiveAnswers, PositivePlaces


@dataclass(frozen=True, eq=False)
class PositiveSource:
    """The file of one query's noisy answers at one level.

    Attributes:
        path: under public/.
        header: what it should be according to the spec.
        marginal: the query.
        level: number of the level.
    """

    path: Readable
    header: MeasurementHeader
    marginal: Marginal
    level: int

    def without_values(self) -> PositiveAnswers:
        """The query with its variance, for use where the values are not needed."""
        return PositiveAnswers(self.marginal, sp.csr_array((0, self.marginal.size)), self.header.variance)

    def read(self, spine: Spine, released: sp.csr_array) -> PositiveAnswers:
        """The answers, which must be just those that are positive in the released level above.

        Args:
            spine: the geography.
            released: histograms `(n_parents, n_cells)` of the level above.

        Raises:
            ReleaseError: the file is missing, damaged, or has others.
        """
        level = spine.levels[self.level]
        due = PositivePlaces.of(released, self.marginal).below(level.parents)
        with open_positive(self.path, len(level), int(np.diff(due.starts).max(initial=0))) as file:
            if (wrong := differing(file.header, self.header)) is not None:
                raise ReleaseError(f"{self.path} does not match the spec: {wrong}")
            found = joined_rows(list(file.parts()))
        if not np.array_equal(found.geocodes, level.geocodes):
            raise ReleaseError(
                f"{self.path} does not have the geounits of level {self.header.level!r}, in the spine's order"
            )
        self.check_places(spine, found, due)
        shape = (len(level), self.marginal.size)
        values = sp.csr_array((found.values, found.answers.astype(np.int32), found.starts), shape=shape)
        return PositiveAnswers(self.marginal, values, self.header.variance)

    def check_places(self, spine: Spine, found: PositiveRows, due: PositivePlaces) -> None:
        """Raises ReleaseError where other answers were drawn than are due."""
        if np.array_equal(found.starts, due.starts) and np.array_equal(found.answers, due.answers):
            return
        level = spine.levels[self.level]
        other = next(
            row
            for row in range(len(level))
            if not np.array_equal(
                found.answers[found.starts[row] : found.starts[row + 1]],
                due.answers[due.starts[row] : due.starts[row + 1]],
            )
        )
        raise ReleaseError(
            f"{self.path} does not have just the answers that are positive in the released level "
            f"{spine.level_names[self.level - 1]!r}: first in {level.geocodes[other]}"
        )


def positive_sources(folder: UniverseFiles, universe: Universe, spine: Spine) -> tuple[tuple[PositiveSource, ...], ...]:
    """The files of a universe, per level; empty where it has none."""
    if not universe.strategy.where_positive:
        return ()
    levels = by_level((draw for draw in universe.draws(spine) if draw.where_positive), spine.level_names)
    return tuple(
        tuple(
            PositiveSource(
                folder.readable(folder.positive(draw.level, draw.query.name)),
                header_of(draw),
                universe.source.measured(draw.query),
                number,
            )
            for draw in level
        )
        for number, level in enumerate(levels)
    )
