"""Measuring a period of a series: z drawn by the key, and truths mixed; and how many spells units have.

It alone of this feature sees the key, the truths and the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.years.design import Design
from features.years.noise import PeriodNoise, mixed
from geography.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.arrays import IntArray

__all__ = ["Place", "draw", "measured", "spell_counts", "stream_key"]


@dataclass(frozen=True)
class Place:
    """Where in a series a period stands; noise is never shared by two of them.

    Attributes:
        series: its name.
        period: from 0.
        predecessor: hash of the release of the period before; "first" of the first one.
        design: of the whole series.
    """

    series: str
    period: int
    predecessor: str
    design: Design

    def __post_init__(self) -> None:
        if not self.series or not self.predecessor or not 0 <= self.period < self.design.periods:
            raise ValueError(f"a place in a series has a name, a period within it and a predecessor, got {self}")

    @property
    def context(self) -> tuple[str, ...]:
        """What stream keys depend on besides records, spine and spec; each member preceded by its length there."""
        rows = ";".join(",".join(map(str, row)) for row in self.design.rows)
        made = f"{rows} {self.design.spells} {self.design.neighbours}"
        return "series", self.series, str(self.period), self.predecessor, made


def stream_key(key: MasterKey, place: Place, context: Sequence[str | bytes], level: str, query: str) -> bytes:
    """The key of z of one query at one level in one period.

    Args:
        key: of the agency.
        place: in the series.
        context: fingerprints of the period's records, of the spine and of the spec, see `MasterKey.stream_key`.
        level, query: their names.
    """
    if not all(context):
        raise ValueError("stream key of a series: the context has an empty fingerprint")
    return key.stream_key((*context, *place.context), level, query)


def draw(stream: bytes, noise: PeriodNoise, start: int, shape: tuple[int, int]) -> IntArray:
    """z `(n, size)` of the geounits from `start` on: answer a of geounit g is at position g * size + a."""
    n, size = shape
    return sampler_for(noise.drawn).draw(stream, start * size, n * size).reshape(shape)


def measured(place: Place, stream: bytes, noise: PeriodNoise, truths: Sequence[IntArray], start: int = 0) -> IntArray:
    """What is published of a query `(n, size)` of the geounits from `start` on; whole-number arithmetic only.

    Args:
        place: in the series; the truths are those of its period and of all before it.
        stream: from `stream_key`.
        noise: of the query in the period.
        truths: of each period `(n, size)`.
        start: number of the first geounit.
    """
    if len(truths) != place.period + 1:
        raise ValueError(f"period {place.period + 1} of a series has as many truths, got {len(truths)}")
    n, size = truths[-1].shape
    return mixed(place.design, truths, draw(stream, noise, start, (n, size)))


def spell_counts(units: Sequence[NDArray[np.generic]], cells: Sequence[IntArray]) -> IntArray:
    """How many units have 0, 1, 2 ... spells in the records of some periods; confidential.

    Args:
        units: of each period the unit of each record `(n,)`, such as a person's number.
        cells: of each period where each record is counted `(n,)`, as leaf number x number of cells + cell.

    Raises:
        InputError: a unit has two records in one period; the message shows its number.
    """
    _, unit = np.unique(np.concatenate(units), return_inverse=True)
    period = np.repeat(np.arange(len(units)), [len(numbers) for numbers in units])
    order = np.lexsort((period, unit))
    unit, period, cell = unit[order], period[order], np.concatenate(cells)[order]
    same = unit[1:] == unit[:-1]
    if twice := np.flatnonzero(same & (period[1:] == period[:-1])).tolist():
        name = np.concatenate(units)[order[twice[0]]]
        raise InputError(
            f"records of period {int(period[twice[0]]) + 1} of a series: found unit {str(name)!r} twice; "
            "a unit has one record in a period"
        )
    goes_on = same & (period[1:] == period[:-1] + 1) & (cell[1:] == cell[:-1])
    starts = np.concatenate([np.ones(min(1, len(unit)), dtype=bool), ~goes_on])
    return np.bincount(np.bincount(unit[starts])).astype(np.int64)
