"""The high-water mark of each ledger: the last event that was seen of it, kept outside ledger and runs.

A ledger that was put back to an older state has a sound chain, and the notes of runs show the gap only while those
runs are there. The mark is in the user's state folder, one small file for each ledger by its id, and, where the
settings name one, in a database for all users and machines (`marks_database`); it only ever rises. Whoever restores
ledger and marks together restores the marks with it: receipts in published manifests, which nobody can take back, then
show it (`ledger verify`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final, Protocol

from filelock import FileLock, Timeout

from pipeline.privacy.ledger.chain import Event, LedgerError
from pipeline.privacy.ledger.notes import Head, read_head, write_head

__all__ = ["STATE_VARIABLE", "Marks", "Seen", "passed_by", "state_folder"]

#: The place of a mark, for messages -> the last event seen there.
Seen = Mapping[str, Head]

STATE_VARIABLE: Final = "SPINEWISE_STATE"
_WAIT_SECONDS: Final = 120  # for another process's transaction


def state_folder() -> Path:
    """The user's state folder of Spinewise: `SPINEWISE_STATE`, else by the XDG base directory specification."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "spinewise"


class SharedMarks(Protocol):
    """What is needed of a `MarksDatabase`."""

    shown: str

    def last(self, ledger: str) -> Head | None:
        """The mark of the ledger with that id; None if there is none."""

    def held(self) -> AbstractContextManager[None]:
        """No other process adds a mark until the block ends."""

    def add(self, head: Head) -> None:
        """Keep the event as the last one seen; a later one stays."""


class Marks:
    """The high-water marks in a state folder, and in a database if there is one.

    Attributes:
        folder: one file for each ledger, and beside it the ledger's verified prefix (`prefix`).
    """

    def __init__(self, state: Path | None = None, database: SharedMarks | None = None) -> None:
        self.folder = (state_folder() if state is None else state) / "ledger-marks"
        self._database = database

    def file(self, ledger: str) -> Path:
        """The mark of the ledger with that id."""
        return self.folder / f"{ledger}.json"

    def prefix(self, ledger: str) -> Path:
        """Where the verified prefix of the ledger with that id is kept."""
        return self.folder / f"{ledger}.prefix.sqlite"

    def seen(self, ledger: str) -> Seen:
        """Where it is marked, and which event; to be read before the events are, since both may rise meanwhile."""
        marks = {str(self.file(ledger)): read_head(self.file(ledger))}
        if self._database is not None:
            marks[self._database.shown] = self._database.last(ledger)
        return {place: mark for place, mark in marks.items() if mark is not None and mark.number}

    @contextmanager
    def held(self, ledger: str) -> Iterator[None]:
        """No other process raises the mark until the block ends; LedgerError where it cannot be written."""
        with self._held_file(ledger), nullcontext() if self._database is None else self._database.held():
            yield

    def raise_to(self, head: Head) -> None:
        """Keep the event as the last one seen, on disk when this returns; a later one stays. The mark is `held`."""
        path = self.file(head.ledger)
        mark = read_head(path)
        if mark is None or mark.number < head.number:
            write_head(path, head)
        if self._database is not None:
            self._database.add(head)

    @contextmanager
    def _held_file(self, ledger: str) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(self.folder / f"{ledger}.lock", timeout=_WAIT_SECONDS, mode=0o600)
            lock.acquire()
        except Timeout:
            raise LedgerError(f"{self.file(ledger)}: another process has held it for {_WAIT_SECONDS} seconds") from None
        except OSError as error:
            raise LedgerError(
                f"{self.folder}: the ledger's high-water mark cannot be kept there ({error.strerror}); name a folder "
                f"for it with {STATE_VARIABLE}"
            ) from error
        try:
            yield
        finally:
            lock.release()


def passed_by(ledger: str, events: Sequence[Event], seen: Seen) -> list[str]:
    """Marks that the events do not reach or do not pass through, a sentence each.

    The ledger was put back, or was continued from an older copy.
    """
    problems = []
    for place, mark in seen.items():
        found = "another ledger" if mark.ledger != ledger else ""
        if not found and mark.number > len(events):
            found = f"the ledger ends with event {len(events)}"
        if not found and events[mark.number - 1].hash != mark.hash:
            found = f"event {mark.number} is another one"
        if found:
            problems.append(
                f"{place}: this ledger was seen with {mark.number} events, and {found}: it was put back to an older "
                "state; restore the newest copy. If that is lost, what was spent since is not in the ledger: find it "
                "from the releases (spinewise ledger verify RELEASE...) before the mark is removed"
            )
    return problems
