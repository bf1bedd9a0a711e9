"""What is remembered of a ledger outside of it, so that a ledger put back to an older state is noticed.

After a run is charged its directory notes the number and the hash of the ledger's last event. A ledger in which that
number is missing, or has another hash, is not the one that the run was charged in, or was copied back from before.

The high-water mark is the last event that was seen of a ledger, kept outside ledger and runs. A ledger that was put
back to an older state has a sound chain, and the notes of runs show the gap only while those runs are there. The mark
is in the user's state folder, one small file for each ledger by its id; it only ever rises. Whoever restores ledger and
mark together restores the mark with it: receipts in published manifests, which nobody can take back, then show it
(`ledger verify`).

The checkpoint is what a ledger's events up to one add up to, so that a charge verifies only those that came since. It
is kept beside the high-water mark, outside of what a writer of the ledger can change, in one file for each ledger. It
holds sums alone; what else a charge asks of the events before (its own run, its key, its series) is read from the
ledger, by an index (`Writing.resume`). Both are believed only while these events are untouched since they were verified
(`witness`); otherwise, and where the checkpoint is missing, of another version or damaged, all events are verified
again and it is written anew. `ledger verify` reads all events, and compares the checkpoint with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pipeline.privacy.ledger.events import LedgerError
from pipeline.storage.durable import make_folder, sync_folder

if TYPE_CHECKING:
    from pipeline.privacy.ledger.dataset import DatasetState

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


_FORMAT: Final = 1
STATE_VARIABLE: Final = "SPINEWISE_STATE"
_WAIT_SECONDS: Final = 120  # for another process's transaction


def state_home() -> Path:
    """The user's state folder of Spinewise (XDG base directory specification)."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    return (Path(folder) if Path(folder).is_absolute() else Path.home() / ".local" / "state") / "spinewise"


class Marks:
    """The high-water marks in a state folder: by default `SPINEWISE_STATE`, else the user's (`state_home`).

    Attributes:
        folder: one file for each ledger, and beside it the ledger's checkpoint (`checkpoint`).
    """

    def __init__(self, state: Path | None = None) -> None:
        named = os.environ.get(STATE_VARIABLE)
        self.folder = (state or (Path(named) if named else state_home())) / "ledger-marks"

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

    @contextlib.contextmanager
    def held(self, ledger: str) -> Iterator[None]:
        """No other process raises the mark until the block ends; LedgerError where it cannot be written."""
        from filelock import FileLock, Timeout  # brings asyncio, which measuring without a charge does not need

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


@dataclass(frozen=True)
class Checkpoint:
    """The sums of a ledger's events.

    Attributes:
        head: the last event of them.
        witness: of the ledger's database, as it was then.
        datasets: for each dataset by name `spent`, by purpose in hexadecimal; `drawn`, the periods of each series; and
            `standing`, the numbers of the events that always count, such as its opening.
    """

    head: Head
    witness: str
    datasets: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, datasets: Mapping[str, DatasetState], head: Head, witness: str) -> Self:
        """What the events up to `head` add up to."""
        sums = {
            name: {
                "spent": {purpose: _text(amount) for purpose, amount in state.spent_for.items()},
                "drawn": dict(state.drawn),
                "standing": list(state.standing),
            }
            for name, state in datasets.items()
        }
        return cls(head, witness, sums)

    @classmethod
    def read(cls, path: Path, ledger: str) -> Self | None:
        """The checkpoint kept at `path`; None where there is none that counts."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            seal = content.pop("seal")
            if content["made_by"] != _made_by() or seal != _seal(ledger, content):
                return None
            return cls(Head(ledger, content["number"], content["hash"]), content["witness"], content["datasets"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Keep it at `path`; OSError if that cannot be."""
        number, last = self.head.number, self.head.hash
        content = {"made_by": _made_by(), "number": number, "hash": last, "witness": self.witness}
        content |= {"datasets": self.datasets}
        write_json(path, content | {"seal": _seal(self.head.ledger, content)})

    def standing(self) -> set[int]:
        """The numbers of the events that always count."""
        return {number for sums in self.datasets.values() for number in sums["standing"]}

    def restore(self, datasets: Mapping[str, DatasetState]) -> None:
        """Give the datasets, whose standing events were noted, their sums."""
        for name, sums in self.datasets.items():
            state = datasets[name]
            state.spent_for = {purpose: _amount(text) for purpose, text in sums["spent"].items()}
            state.drawn, state.standing = dict(sums["drawn"]), list(sums["standing"])


def _text(value: Fraction) -> str:
    """In hexadecimal, which has no limit of digits: many different scales make long denominators."""
    return f"{value.numerator:x}/{value.denominator:x}"


def _amount(text: str) -> Fraction:
    above, below = text.split("/")
    return Fraction(int(above, 16), int(below, 16))


def _seal(ledger: str, content: Mapping[str, Any]) -> str:
    """Shows damage, and the checkpoint of another ledger; whoever may write here can write a seal too."""
    text = json.dumps([ledger, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _made_by() -> str:
    return f"{_FORMAT} {version('spinewise')}"
