"""A ledger that releases commit themselves to before they draw: once, and to a round that nobody knows yet.

The order is commit the draw, wait for the round, reserve, sample, commit. Another draw of a release that is committed
is refused, whatever is other about it: key, records, spec, round, or that it names none. The attempt is an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.errors import BudgetRefusedError, InputError
from pipeline.privacy.ledger.chain import Event
from pipeline.privacy.ledger.charges import Charge, Reservation
from pipeline.privacy.ledger.draw import Draw
from pipeline.privacy.ledger.events import DatasetState
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.notes import Head
from pipeline.privacy.ledger.store import Writing

__all__ = ["DrawLedger", "RedrawnError"]


class RedrawnError(BudgetRefusedError):
    """A release would be drawn a second time. Nothing was charged or drawn; the attempt is in the ledger."""


class DrawLedger(Ledger):
    """A `Ledger` that also keeps what releases have committed themselves to."""

    def commit_draw(
        self, charges: Sequence[Charge], beacon: str, *, first: bool, noted: Iterable[Head] = ()
    ) -> tuple[Event, ...]:
        """Commit a release to its draw, or find that it is committed to it; the events, one a dataset.

        Args:
            charges: of the release, one a universe.
            beacon: chain and round.
            first: whether it may be committed now; where the round is known already, that is too late.
            noted: as in `reserve`.

        Raises:
            RedrawnError: the release is committed to another draw, which is recorded, or was charged before.
            InputError: it is not committed, and it is too late.
        """
        self._refuse_redraws(charges, beacon)
        with self._writing() as writing:
            datasets = self._checked(writing, charges)
            self._check_noted(writing, noted)
            events = []
            for name, draw in _draws(charges, beacon).items():
                state = self._dataset(datasets, name)
                event = state.draws.get(charges[0].release)
                if event is None and writing.is_charged(name, charges[0].release):
                    raise RedrawnError(
                        f"ledger: the release {charges[0].release!r} was charged to {name!r} before it was committed "
                        "to a draw: name another release; nothing was charged or drawn"
                    )
                if event is None and not first:
                    raise InputError(
                        f"ledger: the release {charges[0].release!r} is not committed to a draw, and the beacon's "
                        "round is known: run it first without the round, before that is published; nothing was charged "
                        "or drawn"
                    )
                events.append(event or writing.add("draw", name, release=charges[0].release, details=draw.details()))
            return tuple(events)

    def reserve(self, *charges: Charge, noted: Iterable[Head] = ()) -> Reservation:
        """As `Ledger.reserve`; RedrawnError where the release is committed to another draw, which is recorded."""
        self._refuse_redraws(charges, None)
        return super().reserve(*charges, noted=noted)

    def _charge(self, writing: Writing, state: DatasetState, charge: Charge) -> None:
        """As of a `Ledger`; refuses, within the transaction, what another process has committed otherwise meanwhile."""
        event = state.draws.get(charge.release)
        if event is not None and charge.run.text not in Draw.parse(event.details).runs:
            raise RedrawnError(f"ledger: the release {charge.release!r} was committed to another draw meanwhile")
        super()._charge(writing, state, charge)

    def _refuse_redraws(self, charges: Sequence[Charge], beacon: str | None) -> None:
        """Record an attempt at another draw, on disk before it is refused."""
        refused = []
        with self._writing() as writing:
            datasets = self._checked(writing, charges)
            for name, draw in _draws(charges, beacon or "").items():
                state = self._dataset(datasets, name)
                if _is_another(state, charges[0].release, draw, beacon):
                    refused.append(writing.add("redraw", name, release=charges[0].release, details=draw.details()))
        if refused:
            first = refused[0]
            raise RedrawnError(
                f"ledger: the release {first.release!r} of the dataset {first.dataset!r} is committed to one draw, and "
                f"this would be another (key, records, spec or round differ); refused, and event {first.number} "
                "records the attempt: nothing was charged or drawn"
            )


def _is_another(state: DatasetState, release: str, draw: Draw, beacon: str | None) -> bool:
    event = state.draws.get(release)
    if event is None:
        return False
    committed = Draw.parse(event.details)
    return draw.runs != committed.runs or beacon not in (None, committed.beacon)


def _draws(charges: Sequence[Charge], beacon: str) -> dict[str, Draw]:
    """The draw of each dataset of a release."""
    names = dict.fromkeys(charge.dataset for charge in charges)
    return {
        name: Draw(tuple(sorted(charge.run.text for charge in charges if charge.dataset == name)), beacon)
        for name in names
    }
