"""The high-water mark of each ledger: the last event that this user has seen of it, kept outside ledger and runs.

A ledger that was put back to an older state has a sound chain, and the notes of runs show the gap only while those
runs are there. The mark is in the user's state folder, one small file for each ledger by its id, and only ever rises.
Whoever restores ledger and state folder together restores the mark with them: receipts in published manifests, which
nobody can take back, then show it (`ledger verify`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pipeline.privacy.ledger.chain import Event, LedgerError
from pipeline.privacy.ledger.notes import Head, read_head, write_head

__all__ = ["STATE_VARIABLE", "Marks", "state_folder"]

STATE_VARIABLE: Final = "SPINEWISE_STATE"
_WAIT_SECONDS: Final = 120  # for another process's transaction


def state_folder() -> Path:
    """The user's state folder of Spinewise: `SPINEWISE_STATE`, else by the XDG base directory specification."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "spinewise"


class Marks:
    """The high-water marks in a state folder.

    Attributes:
        folder: one file for each ledger.
    """

    def __init__(self, state: Path | None = None) -> None:
        self.folder = (state_folder() if state is None else state) / "ledger-marks"

    def file(self, ledger: str) -> Path:
        """The mark of the ledger with that id."""
        return self.folder / f"{ledger}.json"

    def check(self, ledger: str, events: Sequence[Event]) -> None:
        """Check that the events reach the mark, and pass through it.

        Raises:
            LedgerError: they do not: the ledger was put back, or was continued from an older copy.
        """
        mark = read_head(self.file(ledger))
        if mark is None or not mark.number:
            return
        found = "another ledger" if mark.ledger != ledger else ""
        if not found and mark.number > len(events):
            found = f"the ledger ends with event {len(events)}"
        if not found and events[mark.number - 1].hash != mark.hash:
            found = f"event {mark.number} is another one"
        if found:
            raise LedgerError(
                f"{self.file(ledger)}: this ledger was seen with {mark.number} events, and {found}: it was put back to "
                "an older state; restore the newest copy. If that is lost, what was spent since is not in the ledger: "
                "find it from the releases (spinewise ledger verify RELEASE...) before the mark is removed"
            )

    @contextmanager
    def held(self, ledger: str) -> Iterator[None]:
        """No other process raises the mark until the block ends; LedgerError where the folder cannot be written."""
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

    def raise_to(self, head: Head) -> None:
        """Keep the event as the last one seen, on disk when this returns; a later one stays. The mark is `held`."""
        path = self.file(head.ledger)
        mark = read_head(path)
        if mark is not None and mark.number >= head.number:
            return
        write_head(path, head)
