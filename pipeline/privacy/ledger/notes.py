"""What a run's directory remembers of the ledger, so that a ledger put back to an older state is noticed.

After a run is charged it notes the number and the hash of the ledger's last event. A ledger in which that number is
missing, or has another hash, is not the one that the run was charged in, or was copied back from before.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.privacy.ledger.chain import LedgerError
from pipeline.storage.durable import sync_folder

#: Of the file in a run's restricted/ folder.
NOTE_NAME = "ledger.json"


@dataclass(frozen=True)
class Head:
    """The last event of a ledger at some time.

    Attributes:
        ledger: the ledger's id.
        number, hash: of the event; 0 and the id where there is none yet.
    """

    ledger: str
    number: int
    hash: str


def note_event(folder: Path, head: Head) -> None:
    """Write the note into a run's restricted folder, whole or not at all, and on disk when this returns.

    An earlier note of the same ledger is replaced by a later one only.

    Raises:
        LedgerError: the note cannot be written, or one of another ledger is there.
    """
    note = read_note(folder)
    if note is not None and note.ledger != head.ledger:
        raise LedgerError(_other_ledger(folder, note, head.ledger))
    if note is not None and note.number >= head.number:
        return
    path = folder / NOTE_NAME
    try:
        write_json(path, asdict(head))
    except OSError as error:
        raise LedgerError(f"{path}: the ledger's last event cannot be noted ({error.strerror})") from error


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a file with mode 0600, whole or not at all, and on disk when this returns; OSError if not."""
    descriptor, temporary = tempfile.mkstemp(prefix=".ledger-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # a folder cannot be synced on every file system
        sync_folder(path.parent)


def read_note(folder: Path) -> Head | None:
    """The note of a run's restricted folder; None where there is none. LedgerError if it cannot be read."""
    return read_head(folder / NOTE_NAME)


def read_head(path: Path) -> Head | None:
    """The event that a file notes; None where there is none. LedgerError if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        head = Head(**content)
        if isinstance(head.ledger, str) and isinstance(head.number, int) and isinstance(head.hash, str):
            return head
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError):
        pass
    raise LedgerError(f"{path} is damaged: it does not state which event of the ledger was the last")


def read_notes(root: Path, ledger: str = "") -> dict[Path, Head]:
    """The notes of all runs below `root`: of itself and of the folders in it, by the run's folder.

    Folders of other people's runs, which cannot be read, are skipped.

    Args:
        root: a folder of runs, or a run's own folder.
        ledger: only notes of this one; of every ledger if empty.
    """
    folders = [root, *sorted(child for child in root.iterdir() if child.is_dir())] if root.is_dir() else []
    readable = [folder for folder in folders if os.access(folder / "restricted", os.R_OK | os.X_OK)]
    notes = {folder: read_note(folder / "restricted") for folder in readable}
    return {folder: head for folder, head in notes.items() if head is not None and ledger in ("", head.ledger)}


def notes_of_run(root: Path, ledger: str) -> list[Head]:
    """The note of a run, whichever ledger it is of, and those of this ledger of the runs beside it."""
    own = read_note(root / "restricted")
    return [*([] if own is None else [own]), *read_notes(root.parent, ledger).values()]


def check_noted(last: Head, hashes: Mapping[int, str], noted: Iterable[Head]) -> None:
    """Check that the ledger's events are those that were noted, or continue them.

    Args:
        last: the ledger's last event.
        hashes: of its events by number, those noted among them.
        noted: what runs remember of it.

    Raises:
        LedgerError: they do not: the ledger was put back, or is another one.
    """
    for head in noted:
        if head.ledger != last.ledger:
            raise LedgerError(_other_ledger(None, head, last.ledger))
        if head.number > last.number:
            raise LedgerError(
                f"the ledger ends with event {last.number}, but a run was charged when it had {head.number}: it was "
                "put back to an older state, and what was spent since is not in it; restore the newest copy"
            )
        if head.number and hashes.get(head.number) != head.hash:
            raise LedgerError(
                f"event {head.number} of the ledger is not the one that a run was charged with: the ledger was put "
                "back to an older state and used since; restore the newest copy"
            )


def _other_ledger(folder: Path | None, head: Head, ledger: str) -> str:
    where = f"{folder}: the run" if folder else "a run"
    return (
        f"{where} was charged in the ledger {head.ledger[:12]}, this is the ledger {ledger[:12]}: name the ledger that "
        "it was charged in, with --ledger"
    )
