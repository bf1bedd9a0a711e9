"""The errors to expect of sums of amounts, of means by how many records they are of, and of other ends of the clip.

What is foretold is said by the link of the sums with the release's own counts, which a feature states; here is what is
asked, and what `--amounts` says of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final, Protocol, runtime_checkable

from pipeline.errors import InputError
from pipeline.model.exact import parse_exact
from pipeline.model.link import Link

#: Records that a mean is of, in the plan.
RECORDS: Final = (100, 1_000, 10_000)
#: Amounts and holders that can be stated, at most.
_MOST: Final = 10**15
_HELD = re.compile(r"\s*(-?[0-9][^=+\s]*)(\+?)\s*=\s*(\S+)\s*", re.ASCII)


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


@runtime_checkable
class ForetellingSums(Protocol):
    """A link of a companion of an amount with the release's own counts, which a feature states."""

    @property
    def of(self) -> str:
        """The companion."""

    @property
    def high(self) -> Fraction:
        """The upper end of the amount."""

    def foretold(self, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterable[Mapping[str, Any]]:
        """The fields of an `AmountRow` of each published table at each level.

        Args:
            errors: what the plan expects of each universe.
            records: that means are of.
        """

    def ends(
        self, errors: Mapping[str, float], areas: Mapping[str, int], held: Mapping[Fraction, Fraction]
    ) -> Iterable[Mapping[str, Any]]:
        """The fields of an `EndRow` of each upper end that is compared, that of the spec among them.

        Args:
            errors: level -> expected absolute error of a sum of the coarsest query.
            areas: number of areas of each level.
            held: amount -> records or units that have it, see `AmountsHeld`.
        """


def sums_among(links: Iterable[Link]) -> dict[str, ForetellingSums]:
    """The companions of an amount, by their names."""
    return {link.of: link for link in links if isinstance(link, ForetellingSums)}


def amount_rows(links: Iterable[Link], errors: Mapping[str, Errors]) -> tuple[AmountRow, ...]:
    """Of every published table of every companion of an amount.

    Args:
        links: between the universes of the spec.
        errors: what the plan expects of each.
    """
    return tuple(AmountRow(**row) for link in sums_among(links).values() for row in link.foretold(errors, RECORDS))


@dataclass(frozen=True)
class AmountsHeld:
    """How many records have which amount; where the ends are of a unit's total, how many units have it together.

    Attributes:
        by_companion: companion -> amount -> records or units, shares of them or numbers; the last may stand for so much
            and more.
    """

    by_companion: Mapping[str, Mapping[Fraction, Fraction]]

    @classmethod
    def of(cls, stated: str) -> AmountsHeld:
        """From "wages: 10000 = 600, 30000 = 350, 90000+ = 50; tips: ..."; InputError where it is none."""
        found: dict[str, Mapping[Fraction, Fraction]] = {}
        for part in stated.split(";"):
            name, _, text = part.partition(":")
            if not text.strip() or name.strip() in found:
                raise _unreadable(part)
            found[name.strip()] = _held(text)
        return cls(found)


def _held(text: str) -> dict[Fraction, Fraction]:
    held: dict[Fraction, Fraction] = {}
    parts = text.split(",")
    for number, part in enumerate(parts):
        if (found := _HELD.fullmatch(part)) is None or (found[2] and number + 1 < len(parts)):
            raise _unreadable(part)
        try:
            amount, holders = parse_exact(found[1]), parse_exact(found[3])
        except ValueError:
            raise _unreadable(part) from None
        if holders < 0 or amount in held or max(abs(amount), holders) > _MOST:
            raise _unreadable(part)
        held[amount] = holders
    if not sum(abs(amount) * holders for amount, holders in held.items()):
        raise InputError("--amounts: found nobody with an amount that is not 0; some are needed")
    return held


def _unreadable(part: str) -> InputError:
    return InputError(
        f"--amounts: found {part.strip()!r}; allowed is of a companion, once, how many have which amount, each once: "
        '"wages: 10000 = 600, 30000 = 350, 90000+ = 50", with + at the last alone'
    )


@dataclass(frozen=True)
class EndRow:
    """What an upper end of an amount costs.

    Attributes:
        high: the end, in what the amount is in.
        errors: level -> expected absolute error of a sum of the coarsest query, from noise.
        cut_off: share of all amounts, taken without their signs, that both ends cut off.
        missing: level -> what is cut off in an area, on average; empty where shares of records alone are known.
    """

    companion: str
    high: float
    errors: Mapping[str, float]
    cut_off: float
    missing: Mapping[str, float]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def end_rows(
    links: Iterable[Link], rows: Sequence[AmountRow], areas: Mapping[str, int], held: AmountsHeld | None
) -> tuple[EndRow, ...]:
    """What upper ends cost, that of the spec among them, of each companion of which something is known.

    Args:
        links: between the universes of the spec.
        rows: what the plan expects of each.
        areas: number of areas of each level.
        held: how many have which amount.

    Raises:
        InputError: a companion is named that has no amount.
    """
    if held is None:
        return ()
    with_amounts = sums_among(links)
    if unknown := sorted(held.by_companion.keys() - with_amounts.keys()):
        known = ", ".join(with_amounts) or "none"
        raise InputError(f"--amounts: found {unknown[0]!r}; the companions of the spec with an amount: {known}")
    found: list[EndRow] = []
    for name, of_each in held.by_companion.items():
        errors: dict[str, float] = {}
        for row in rows:
            if row.companion == name and row.sum_error is not None:
                errors.setdefault(row.level, row.sum_error)
        found += [EndRow(**row) for row in with_amounts[name].ends(errors, areas, of_each)]
    return tuple(found)
