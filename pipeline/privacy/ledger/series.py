"""Series in a ledger: opened once, with all that they cost; then each of their periods once, in order.

The first period is charged for the whole series, by the suffix `events.over_series` of its charges, and an event
`series` says what all of its periods have in common. Each period is an event `period`, the first one too, with the hash
of the release before; it costs nothing. The same run again is the period that it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import InputError
from pipeline.model.series import FIRST
from pipeline.privacy.ledger.chain import Event, LedgerError, details_text, read_details
from pipeline.privacy.ledger.dataset import DatasetState
from pipeline.privacy.ledger.disclosures import HEX


@dataclass(frozen=True)
class SeriesUse:
    """The place of a run in a series.

    Attributes:
        name: of the series.
        strategy: hash of what all of its releases have in common, the horizon among it.
        periods: how many there are; `number` of them from 0, and its name `period`.
        predecessor: hash of the release before; `FIRST` of the first.
    """

    name: str
    strategy: str
    periods: int
    number: int
    period: str
    predecessor: str

    def __post_init__(self) -> None:
        if not self.name or not self.period or not HEX.fullmatch(self.strategy):
            raise ValueError("a series is stated by its name, a period and a hash of 64 hex digits")
        if not 0 <= self.number < self.periods:
            raise ValueError(f"a series of {self.periods} periods has no period {self.number + 1}")
        if self.predecessor != FIRST if self.number == 0 else not HEX.fullmatch(self.predecessor):
            raise ValueError(f"period {self.number + 1} of a series cannot follow {self.predecessor!r}")

    def opening(self) -> dict[str, Any]:
        """The fields of the event `series`."""
        return {"count": self.periods, "details": details_text({"name": self.name, "strategy": self.strategy})}

    def stated(self) -> dict[str, Any]:
        """The fields of the event `period`."""
        content = {"series": self.name, "period": self.period, "predecessor": self.predecessor}
        return {"count": self.number, "cost": "0", "details": details_text(content)}


def is_known(state: DatasetState, use: SeriesUse, run: str) -> bool:
    """Whether the run was let through before, as this period; nothing is recorded then.

    Raises:
        InputError: the series was opened for something else, or the period was drawn before or is not the next one.
    """
    where = f"ledger: period {use.period} of the series {use.name!r} of the dataset {state.name!r}"
    opened, drawn = state.series.get(use.name), state.drawn.get(use.name, 0)
    if opened is None:
        if use.number:
            raise InputError(f"{where}: the series is not open; its first period comes first; nothing was drawn")
        return False
    if read_details(opened.details, "name", "strategy")["strategy"] != use.strategy:
        raise InputError(
            f"{where}: the series was opened by event {opened.number} with another budget, strategy, horizon or "
            "design; what is different is another series, under another name and with a budget of its own; nothing was "
            "charged or drawn"
        )
    if use.number < drawn:
        before = state.periods[use.name][use.number]
        if before.run == run and stated(before)["predecessor"] == use.predecessor:
            return True
        raise InputError(
            f"{where}: drawn before, as the release {before.release!r} (event {before.number}), with another key, "
            "other records or after another release; a period is drawn once; nothing was charged or drawn"
        )
    if use.number > drawn:
        raise InputError(
            f"{where}: {drawn} periods are drawn, and this is number {use.number + 1}; none is left out; "
            "nothing was charged or drawn"
        )
    if run in state.runs:
        raise LedgerError(f"{where}: the run was charged for something else before")
    return False


def series_of(event: Event) -> str:
    """The name of the series that a `series` opens, or that a `period` is of."""
    if event.kind == "series":
        return str(read_details(event.details, "name", "strategy")["name"])
    return str(stated(event)["series"])


def stated(event: Event) -> Mapping[str, Any]:
    """What a `period` states: its `series`, its own name, and its `predecessor`."""
    return read_details(event.details, "series", "period", "predecessor")
