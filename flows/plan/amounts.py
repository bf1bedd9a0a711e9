"""The errors to expect of sums of amounts, in what the amount is in, and of means by how many records they are of.

A mean is S / n. With independent errors of the sum (standard error s) and of the number of records (c), its standard
error is about sqrt(s^2 + m^2 c^2) / n for a mean m. Neither n nor m is known before a run: the plan takes some round
numbers of records, and the middle of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.model.beside import counted_in
from pipeline.model.universe import Universe
from postprocess.linear.half_widths import NORMAL_QUANTILE

#: Records that a mean is of, in the plan.
RECORDS = (100, 1_000, 10_000)


@dataclass(frozen=True)
class AmountRow:
    """What to expect of a table of sums at one level.

    Attributes:
        sum_error: expected absolute error of a sum, in what the amount is in; None where nothing determines it.
        sum_margin: margin of error (90 %) of a sum.
        mean_margins: records -> margin of error (90 %) of a mean of so many; empty where no number of records is
            published.
    """

    companion: str
    level: str
    query: str
    sum_error: float | None
    sum_margin: float | None
    mean_margins: Mapping[int, float]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


#: (level, terms) -> expected absolute error of a number, and margin; of each universe by its name.
Errors = Mapping[tuple[str, tuple[str, ...]], tuple[float | None, float | None]]


def amount_rows(universes: Sequence[Universe], errors: Mapping[str, Errors]) -> tuple[AmountRow, ...]:
    """Of every published table of every companion of an amount.

    Args:
        universes: of the spec, its own first.
        errors: what the plan expects of each.
    """
    own = universes[0]
    return tuple(row for universe in universes if universe.amount is not None for row in _rows(universe, own, errors))


def _rows(universe: Universe, own: Universe, errors: Mapping[str, Errors]) -> Iterator[AmountRow]:
    amount = universe.amount
    assert amount is not None
    unit, middle = float(amount.unit), float(amount.low + amount.high) / 2
    for level in universe.level_names:
        for table in (table for table in universe.tables if level in table.levels):
            error, margin = errors[universe.name].get((level, table.query.terms), (None, None))
            beside = counted_in(table, universe, own, level)
            _, counted = (None, None) if beside is None else errors[""].get((level, beside.query.terms), (None, None))
            means = {}
            if margin is not None and counted is not None:
                s, c = margin * unit / NORMAL_QUANTILE, counted / NORMAL_QUANTILE
                means = {n: NORMAL_QUANTILE * math.hypot(s, middle * c) / n for n in RECORDS}
            yield AmountRow(
                universe.name,
                level,
                table.query.name,
                None if error is None else error * unit,
                None if margin is None else margin * unit,
                means,
            )
