"""The high-water mark of each ledger: the last event that was seen of it, kept outside ledger and runs.

A ledger that was put back to an older state has a sound chain, and the notes of runs show the gap only while those
runs are there. The mark is in the user's state folder, one small file for each ledger by its id; it only ever rises.
Whoever restores ledger and mark together restores the mark with it: receipts in published manifests, which nobody can
take back, then show it (`ledger verify`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pipeline.privacy.ledger.chain import LedgerError
from pipeline.privacy.ledger.notes import Head, read_head, write_json
from pipeline.storage.durable import make_folder

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
        folder: one file for each ledger, and beside it the ledger's checkpoint (`checkpoint`).
    """

    def __init__(self, state: Path | None = None) -> None:
        self.folder = (state_folder() if state is None else state) / "ledger-marks"

    def file(self, ledger: str) -> Path:
        """The mark of the ledger with that id."""
        return self.folder / f"{ledger}.json"

    def checkpoint(self, ledger: str) -> Path:
        """Where the checkpoint of the ledger with that id is kept."""
        return self.folder / f"{ledger}.checkpoint.json"

    def seen(self, ledger: str) -> Head | None:
        """The last event seen; to be read before the events are, since both may rise meanwhile."""
        mark = read_head(self.file(ledger))
        return mark if mark is not None and mark.number else None

    @contextmanager
    def held(self, ledger: str) -> Iterator[None]:
        """No other process raises the mark until the block ends; LedgerError where it cannot be written."""
        try:
            make_folder(self.folder, private=True)
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
        if mark is None or mark.number < head.number:
            write_json(path, asdict(head))

    def passed_by(self, head: Head, hashes: Mapping[int, str], seen: Head | None) -> list[str]:
        """A sentence if the ledger does not reach its mark or does not pass through it, else nothing.

        The ledger was put back, or was continued from an older copy.

        Args:
            head: the ledger's last event.
            hashes: of its events by number, that of the mark among them if there is one.
            seen: the mark.
        """
        if seen is None:
            return []
        found = "another ledger" if seen.ledger != head.ledger else ""
        if not found and seen.number > head.number:
            found = f"the ledger ends with event {head.number}"
        if not found and hashes.get(seen.number) != seen.hash:
            found = f"event {seen.number} is another one"
        if not found:
            return []
        return [
            f"{self.file(head.ledger)}: this ledger was seen with {seen.number} events, and {found}: it was put back "
            "to an older state; restore the newest copy. If that is lost, what was spent since is not in the ledger: "
            "find it from the releases (spinewise ledger verify RELEASE...) before the mark is removed"
        ]
