"""Committing a run to its draw: in the ledger first, then the round of a public beacon, then the noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.privacy.keys import MasterKey
from pipeline.release.beacon import BeaconAwaitedError, due

if TYPE_CHECKING:
    from pipeline.privacy.ledger.chain import Event
    from pipeline.privacy.ledger.charges import Charge
    from pipeline.privacy.ledger.notes import Head


class Committing(Protocol):
    """What is needed of a `DrawLedger`."""

    def now(self) -> datetime:
        """The time by the clock that dates its events."""

    def commit_draw(
        self, charges: Sequence[Charge], beacon: str, *, first: bool, noted: Iterable[Head] = ()
    ) -> tuple[Event, ...]:
        """Commit a release to its draw, or find that it is committed to it."""


def commit_draw(job: Job, key: MasterKey, ledger: Committing, charges: Sequence[Charge], noted: Iterable[Head]) -> None:
    """Commit the run to the round that its spec names, and go on only once that round is there.

    Raises:
        BeaconAwaitedError: the run is committed, and the round is not given.
        RedrawnError: the release is committed to another draw; the attempt is recorded.
        InputError: the round was published before the commitment.
    """
    named = job.spec.privacy.beacon
    if named is None:
        return
    when = due(named.chain, named.round)
    unknown = job.beacon is None and (when is None or when > ledger.now())
    events = ledger.commit_draw(charges, named.text, first=unknown, noted=noted)
    if job.beacon is None:
        last = events[-1]
        text = (
            f"{when:%Y-%m-%d %H:%M:%S} UTC"
            if when is not None
            else "when the chain's clock says (it is none that is known here: whoever runs a chain knows its rounds)"
        )
        raise BeaconAwaitedError(
            f"{job.spec.name}: committed to round {named.round} of the beacon {named.chain[:12]} by event "
            f"{last.number} of the ledger ({last.hash}); nothing is drawn yet. The round is published {text}: run the "
            "same again then, with --beacon-file or --beacon-command"
        )
    if not key.bound:
        raise ValueError("a run with a beacon draws from a key that does not depend on it")
    _check_order(events, job.beacon.published)


def _check_order(events: Sequence[Event], published: datetime) -> None:
    """InputError where the round was known when the release was committed to it."""
    for event in events:
        if datetime.fromisoformat(event.time) >= published:
            raise InputError(
                f"beacon: the round was published at {published:%Y-%m-%d %H:%M:%S} UTC, and the release was committed "
                f"to it at {event.time} (event {event.number} of the ledger): too late, since it was known; name "
                "another release and a later round; nothing was charged or drawn"
            )
