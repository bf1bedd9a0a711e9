"""The errors to expect of sums of amounts, and of means by how many records they are of, as a feature's link says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, runtime_checkable

from pipeline.model.links.link import Link

#: Records that a mean is of, in the plan.
RECORDS: Final = (100, 1_000, 10_000)


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

    def foretold(self, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterable[Mapping[str, Any]]:
        """The fields of an `AmountRow` of each published table at each level.

        Args:
            errors: what the plan expects of each universe.
            records: that means are of.
        """


def amount_rows(links: Iterable[Link], errors: Mapping[str, Errors]) -> tuple[AmountRow, ...]:
    """Of every published table of every companion of an amount.

    Args:
        links: between the universes of the spec.
        errors: what the plan expects of each.
    """
    sums = [link for link in links if isinstance(link, ForetellingSums)]
    return tuple(AmountRow(**row) for link in sums for row in link.foretold(errors, RECORDS))
