"""The link of the sums of an amount with the counts of the records that they are of, and their expected errors.

A higher end of the clip has more noise, in proportion, and cuts off less. What it cuts off is in the records alone:
it is told from a distribution that is public, or a guess.

A mean is S / n. With independent errors of the sum (standard error s) and of the number of records (c), its standard
error is about sqrt(s^2 + m^2 c^2) / n for a mean m. Neither n nor m is known before a run: the plan takes some round
numbers of records, and the middle of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import SpecError
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.schema import AmountAttribute
from pipeline.privacy.budget import Neighbours, reach_between, reach_of_total
from postprocess.statistics import NORMAL_QUANTILE

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe


@dataclass(frozen=True, eq=False)
class SumsOfCounts(Link):
    """Sums of an amount, in a companion, and the numbers of records which they are of, in the release's own universe.

    Attributes:
        sums: the companion; its attributes are some of the release's own, in the same order with the same values.
        counts: the release's own universe.
    """

    sums: Universe
    counts: Universe

    @property
    def amount(self) -> AmountAttribute:
        """What each record adds."""
        (amount,) = self.sums.measure.amounts
        return amount

    @property
    def of(self) -> str:
        """See `Link.of`."""
        return self.sums.name

    @property
    def by(self) -> str:
        """See `Link.by`."""
        return self.counts.name

    @property
    def same_records(self) -> bool:
        """See `Link.same_records`."""
        return True

    @property
    def signed(self) -> bool:
        """Whether sums may be below 0, whose intervals need the published number of records."""
        return self.sums.measure.signed

    @cached_property
    def cells(self) -> Query:
        """The query on the release's own records whose answers are the cells of the sums, in their order."""
        return Query.parse(" * ".join(self.sums.schema.names) or "total", self.counts.schema)

    def records(self, table: Table, level: str) -> Table | None:
        """The first of the release's own tables with the numbers of records whose amounts a table sums."""
        wanted = _answers(table.query, self.sums)
        published = (other for other in self.counts.tables if level in other.levels)
        return next((other for other in published if _answers(other.query, self.counts) == wanted), None)

    def left_out(self, table: Table, level: str) -> str:
        """See `Link.left_out`: sums that may be below 0 need the number of records."""
        if not self._uncounted(table, level):
            return ""
        return (
            "sums that may be below 0 have intervals only where the release itself has a table of the same answers, "
            f"and its own of {table.query.name!r} is left out at level {level!r}, as nothing that is measured "
            "determines it; the sums are left out there, too"
        )

    def _uncounted(self, table: Table, level: str) -> bool:
        return self.signed and self.records(table, level) is None

    def unfit(self, *, margins: bool) -> Iterator[tuple[Table, str]]:
        """See `Link.unfit`: tables that may be below 0 without the number of records, where intervals need it."""
        for table in self.sums.tables if margins else ():
            if missing := [level for level in table.levels if self._uncounted(table, level)]:
                yield (
                    table,
                    "sums that may be below 0 have intervals only where the release itself has a table of the same "
                    f"answers; it has none at level {', '.join(missing)}",
                )


def _answers(query: Query, universe: Universe) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What the answers of a query are, attribute by attribute; equal where those of two schemas are."""
    return [
        (name, labels, tuple(group.tolist()))
        for name, labels, group in zip(universe.schema.names, query.labels, query.groups, strict=True)
        if labels
    ]


def reach_of(amount: AmountAttribute, neighbours: Neighbours) -> int:
    """The farthest that the ends allow one record to move sums, in units; of a total, all records of a unit."""
    ends = amount.first, amount.last
    return reach_of_total(*ends) if amount.total else reach_between(*ends, neighbours)


#: (level, terms) -> expected absolute error of a number, and margin; of each universe by its name.
Errors = Mapping[tuple[str, tuple[str, ...]], tuple[float | None, float | None]]
#: Upper ends that are compared, in parts of the spec's.
_ENDS: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def amount_rows(link: SumsOfCounts, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Of every published table at every level: the fields of `features.plan.amounts.AmountRow`.

    Args:
        link: of the sums.
        errors: what the plan expects of each universe.
        records: that means are of.
    """
    universe, amount = link.sums, link.amount
    unit, middle = float(amount.unit), float(amount.low + amount.high) / 2
    for level in universe.level_names:
        for table in (table for table in universe.tables if level in table.levels):
            error, margin = errors[universe.name].get((level, table.query.terms), (None, None))
            beside = link.records(table, level)
            _, counted = (None, None) if beside is None else errors[""].get((level, beside.query.terms), (None, None))
            means = {}
            if margin is not None and counted is not None:
                s, c = margin * unit / NORMAL_QUANTILE, counted / NORMAL_QUANTILE
                means = {n: NORMAL_QUANTILE * math.hypot(s, middle * c) / n for n in records}
            yield {
                "companion": universe.name,
                "level": level,
                "query": table.query.name,
                "sum_error": None if error is None else error * unit,
                "sum_margin": None if margin is None else margin * unit,
                "mean_margins": means,
            }


def end_rows(
    link: SumsOfCounts, errors: Mapping[str, float], areas: Mapping[str, int], held: Mapping[Fraction, Fraction]
) -> Iterator[dict[str, Any]]:
    """Of every upper end that is compared: the fields of `features.plan.amounts.EndRow`.

    Args:
        link: of the sums.
        errors: level -> expected absolute error of a sum of the coarsest query.
        areas: number of areas of each level.
        held: amount -> records that have it, or units that have it together: shares of them or numbers.
    """
    everything = sum((abs(amount) * holders for amount, holders in held.items()), Fraction(0))
    numbers = sum(held.values()) > 1 and all(holders.denominator == 1 for holders in held.values())
    own = reach_of(link.amount, link.sums.neighbours)
    for amount in _with_other_ends(link.amount):
        lost = sum(
            (abs(one - min(max(one, amount.low), amount.high)) * holders for one, holders in held.items()), Fraction(0)
        )
        reach = reach_of(amount, link.sums.neighbours)
        yield {
            "companion": link.of,
            "high": float(amount.high),
            "errors": {level: error * reach / own for level, error in errors.items()},
            "cut_off": float(lost / everything),
            "missing": {level: float(lost / areas[level]) for level in errors} if numbers else {},
        }


def _with_other_ends(amount: AmountAttribute) -> Iterator[AmountAttribute]:
    """The amount with each of the upper ends that are compared, where it can have them."""
    for high in sorted({(amount.high * part) // amount.unit * amount.unit for part in _ENDS}):
        try:
            yield AmountAttribute.of(amount.name, amount.low, high, amount.unit, amount.missing, total=amount.total)
        except SpecError:
            continue
