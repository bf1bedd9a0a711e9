"""One joint draw of a universe's tables: its random numbers, and its answers on the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from geography.spine import Spine
from pipeline.execution.batch_store import Arrays
from pipeline.model.public_key import public_key
from pipeline.model.universe import Table
from pipeline.privacy.noise.streams import Stream
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.downward import AnswerVariances
from postprocess.linear.draw_grid import UNKNOWN, at_top, within_families
from postprocess.linear.draws import Drawn, DrawnLevel, draw
from postprocess.marginal import Marginal


@dataclass(frozen=True)
class PublicNormals:
    """Standard normal numbers of one draw, by their place alone: level, number of the geounit, number within it.

    Attributes:
        seed: public.
        universe: its name; universes and draws do not share noise.
        number: of the draw, from 0.
        first_level, first_rows: the level, and per level the number in the whole release of the first geounit, where
            only a part of the spine is drawn; 0 and empty for all of it.
    """

    seed: int
    universe: str
    number: int
    first_level: int = 0
    first_rows: tuple[int, ...] = ()

    def of(self, level: int, first: int, shape: tuple[int, int]) -> FloatArray:
        """The numbers of `shape[0]` geounits of a level from `first` on, `shape[1]` of each."""
        key = public_key("spinewise draws 1", self.seed, self.universe, self.number, self.first_level + level)
        stream = Stream(key)
        first += self.first_rows[level] if self.first_rows else 0
        words = stream.words(first * shape[1], shape[0] * shape[1])
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(ndtri(uniform), dtype=np.float64).reshape(shape)


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """A table of which draws are published.

    Attributes:
        table: of the universe.
        marginal: its query.
        levels: numbers of the levels that it is published at.
    """

    table: Table
    marginal: Marginal
    levels: tuple[int, ...]


def asked_at(tables: Sequence[DrawnTable], level: int) -> tuple[Marginal, ...]:
    """The queries whose answers are published at a level."""
    return tuple(table.marginal for table in tables if level in table.levels)


def followed_at(tables: Sequence[DrawnTable], level: int) -> tuple[Marginal, ...]:
    """The queries whose answers are published at a level or below it."""
    return tuple(table.marginal for table in tables if level <= table.levels[-1])


def known_answers(variances: AnswerVariances, marginal: Marginal) -> tuple[BoolArray, BoolArray]:
    """Which answers `(n, size)` of a query are fixed, their variance being 0, and which are not determined."""
    of_class = variances.by_query[marginal.key]
    return (of_class == 0)[variances.classes], np.isnan(of_class)[variances.classes]


#: Of some tables, by their numbers: answers `(n, size)` of a level in steps of the grid, and which are not determined.
Steps = dict[int, tuple[IntArray, BoolArray]]


@dataclass(frozen=True, eq=False)
class DrawnSpine:
    """A spine, or an upper or lower part of one, that is drawn from.

    Attributes:
        spine, basis: of the problem; `basis` is that of the whole release.
        levels: from the top to the lowest with a table.
        variances: of the levels that are drawn; which answers are known (0) and not determined (NaN).
        tables: that are published, with the levels of the whole release.
        first_level: number in the whole release of the top level.
    """

    spine: Spine
    basis: Basis
    levels: tuple[DrawnLevel, ...]
    variances: tuple[AnswerVariances, ...]
    tables: tuple[DrawnTable, ...]
    first_level: int = 0

    def steps(
        self, normals: PublicNormals, top: FloatArray | None = None, above: Steps | None = None
    ) -> Iterator[tuple[int, Steps, FloatArray | None]]:
        """One draw: each level's number in the whole release, its answers, and its histograms if they are whole.

        Args:
            normals: of the draw.
            top: what was drawn of the top level, if that was done before; the levels begin below it then.
            above: the answers there.
        """
        first = 0 if top is None else 1
        for level, parts in enumerate(draw(self.spine, self.levels, normals.of, top), first):
            followed = {
                number: table
                for number, table in enumerate(self.tables)
                if self.first_level + level <= table.levels[-1]
            }
            linear, histograms = self._answers(parts, followed)
            offsets = self.spine.child_offsets(level - 1) if level else None
            found: Steps = {}
            for number, table in followed.items():
                known, unknown = known_answers(self.variances[level - first], table.marginal)
                if offsets is None or above is None:
                    found[number] = at_top(linear[number], known), unknown
                else:
                    found[number] = within_families(linear[number], known, unknown, *above[number], offsets), unknown
            yield self.first_level + level, found, histograms
            above = found

    def _answers(
        self, parts: Iterator[Drawn], followed: dict[int, DrawnTable]
    ) -> tuple[dict[int, FloatArray], FloatArray | None]:
        found: dict[int, list[FloatArray]] = {number: [] for number in followed}
        histograms = None
        for part in parts:
            histograms = part.histograms if part.without_best is None else None
            for number, table in followed.items():
                found[number].append(part.answers(self.basis, table.marginal))
        return {number: np.concatenate(some) for number, some in found.items()}, histograms

    def published(self, level: int, found: Steps) -> Arrays:
        """Of the answers at a level, those that are published there: "TABLE-LEVEL", both by their numbers.

        Those that are not determined are `UNKNOWN`.
        """
        return {
            f"{number}-{level}": np.where(unknown, UNKNOWN, steps)
            for number, (steps, unknown) in found.items()
            if level in self.tables[number].levels
        }
