"""The verified prefix of a ledger: what its first events add up to, so that a charge reads only what came since.

It is kept beside the high-water mark, outside of what a writer of the ledger can change, in one file for each ledger.
What is decided of a charge is decided by it and by the events after it, which are verified as they are read. It stands
for the ledger's first events only while these are untouched since (`witness`); otherwise, and where it is missing, of
another version or damaged, all events are verified again and it is written anew. `ledger verify` reads all events, and
compares the prefix with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from pipeline.privacy.ledger.chain import Event, LedgerError
from pipeline.privacy.ledger.disclosures import Exact, Subject
from pipeline.privacy.ledger.events import DatasetState, continued, replay
from pipeline.privacy.ledger.key_uses import KeyUse
from pipeline.privacy.ledger.notes import Head

__all__ = ["Prefix", "PrefixError", "Row", "read_prefix", "verified"]

_FORMAT: Final = 1
_WAIT_SECONDS: Final = 60  # for another process that reads or writes it
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS kept (place INTEGER PRIMARY KEY, dataset TEXT NOT NULL, field TEXT NOT NULL, "
    "name TEXT NOT NULL, value TEXT NOT NULL, seal TEXT NOT NULL, UNIQUE (dataset, field, name))"
)
_PUT: Final = (
    "INSERT INTO kept (dataset, field, name, value, seal) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (dataset, field, name) DO UPDATE SET value = excluded.value, seal = excluded.seal"
)
_ABOUT: Final = ("", "about", "")
_NAMES: Final = tuple(field.name for field in fields(Event))
#: Dataset, field and name of a value that is kept.
Row = tuple[str, str, str]
V = TypeVar("V")


class PrefixError(LedgerError):
    """The file of the prefix is damaged."""


@dataclass(frozen=True)
class _Form(Generic[V]):
    """How the values of a field are kept as text."""

    write: Callable[[V], object]
    read: Callable[[Any], V]


_EVENT: Final = _Form[Event](
    lambda event: [getattr(event, name) for name in _NAMES],
    lambda kept: Event(**dict(zip(_NAMES, kept, strict=True))),
)
_EVENTS: Final = _Form[tuple[Event, ...]](
    lambda events: [_EVENT.write(event) for event in events], lambda kept: tuple(map(_EVENT.read, kept))
)
_USE: Final = _Form[KeyUse](KeyUse.details, KeyUse.parse)
_USES: Final = _Form[tuple[KeyUse, ...]](
    lambda uses: [use.details() for use in uses], lambda kept: tuple(map(KeyUse.parse, kept))
)
#: The fields of a dataset that grow with the ledger; the others are kept together.
_FORMS: Final[Mapping[str, _Form[Any]]] = {
    "runs": _EVENTS,
    "exact": _EVENTS,
    "keys": _USE,
    "uses": _USES,
    "series": _EVENT,
    "periods": _EVENTS,
}
_SETS: Final = ("releases", "committed")


class Prefix:
    """The prefix of one ledger, while the mark of the ledger is held.

    Attributes:
        head: the last event of it; None where nothing is kept.
        witness: of the ledger's database, as it was then.
    """

    def __init__(self, path: Path, ledger: str, connection: sqlite3.Connection | None) -> None:
        self.path, self._ledger, self._connection = path, ledger, connection
        self.head: Head | None = None
        self.witness = ""
        self._datasets: dict[str, Any] = {}
        self._read_about()

    @classmethod
    @contextmanager
    def held(cls, path: Path, ledger: str) -> Iterator[Self]:
        """The prefix kept at `path`, of the ledger with that id; made if there is none."""
        connection = _connected(path)
        prefix = cls(path, ledger, connection)
        try:
            yield prefix
        except PrefixError:
            prefix.forget()
            raise
        finally:
            if prefix._connection is not None:
                prefix._connection.close()

    def datasets(self) -> dict[str, DatasetState]:
        """The datasets as the events of the prefix leave them; what grows with the ledger is read when asked for."""
        return {name: self._dataset(name, about) for name, about in self._datasets.items()}

    def keep(self, datasets: Mapping[str, DatasetState], head: Head, witness: str) -> None:
        """Keep what the events up to `head` add up to; only what has changed where it continues what is kept.

        Args:
            datasets: of `datasets`, continued; or of a replay of all events.
            head: the last event.
            witness: of the ledger's database, in which no other events precede it; "" if there is none.
        """
        if self._connection is None or not witness or (head, witness) == (self.head, self.witness):
            return
        try:
            with self._connection as connection:  # one transaction
                if not any(isinstance(state.runs, _KeptMapping) for state in datasets.values()):
                    connection.execute("DELETE FROM kept")
                rows = [row for state in datasets.values() for row in _rows(state)]
                rows.append((_ABOUT, _text(_about(datasets, head, witness))))
                sealed = ((*row, value, _seal(self._ledger, row, value)) for row, value in rows)
                connection.executemany(_PUT, sealed)
        except sqlite3.Error as error:
            logging.getLogger(__name__).warning("%s: the verified prefix is not kept (%s)", self.path, error)
            self.forget()

    def forget(self) -> None:
        """Remove what is kept, so that all events are verified again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.head = None
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def value(self, row: Row) -> str | None:
        """What is kept at a row; None if nothing is. PrefixError where it is not what was kept there."""
        if self._connection is None:
            return None
        query = "SELECT value, seal FROM kept WHERE dataset = ? AND field = ? AND name = ?"
        try:
            found = self._connection.execute(query, row).fetchone()
        except (sqlite3.Error, UnicodeError) as error:
            raise PrefixError(self._damaged()) from error
        return None if found is None else self._checked(row, *found)

    def values(self, dataset: str, field: str) -> dict[str, str]:
        """All that is kept of a field of a dataset, by name."""
        query = "SELECT dataset, field, name, value, seal FROM kept WHERE dataset = ? AND field = ? ORDER BY place"
        found = self._all(query, (dataset, field))
        return {row[2]: value for row, value in found.items()}

    def everything(self) -> dict[Row, str]:
        """All that is kept. PrefixError where a part is not what was kept there."""
        return self._all("SELECT dataset, field, name, value, seal FROM kept", ())

    def _all(self, query: str, values: tuple[str, ...]) -> dict[Row, str]:
        if self._connection is None:
            return {}
        try:
            found = self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise PrefixError(self._damaged()) from error
        return {(row[0], row[1], row[2]): self._checked((row[0], row[1], row[2]), *row[3:]) for row in found}

    def _checked(self, row: Row, value: object, seal: object) -> str:
        if not isinstance(value, str) or seal != _seal(self._ledger, row, value):
            raise PrefixError(self._damaged())
        return value

    def _read_about(self) -> None:
        try:
            text = self.value(_ABOUT)
            about = {} if text is None else json.loads(text)
            if about and about["made_by"] == _made_by():
                self.head = Head(self._ledger, about["number"], about["hash"])
                self.witness, self._datasets = about["witness"], about["datasets"]
        except (PrefixError, ValueError, KeyError, TypeError):
            self.forget()
            self._connection = _connected(self.path)

    def _dataset(self, name: str, about: Mapping[str, Any]) -> DatasetState:
        state = DatasetState(
            name,
            about["population"],
            about["framework"],
            about["neighbours"],
            _read_fraction(about["budget"]),
            spent=_read_fraction(about["spent"]),
            closed=about["closed"],
            allowed=[Subject(*one) for one in about["allowed"]],
            disclosed={Exact(Subject(*subject), *rest): None for subject, *rest in about["disclosed"]},
            purposes={purpose: _read_fraction(text) for purpose, text in about["purposes"]},
            spent_for={purpose: _read_fraction(text) for purpose, text in about["spent_for"]},
            units=about["units"],
        )
        for field, form in _FORMS.items():
            setattr(state, field, _KeptMapping(self, name, field, form))
        for field in _SETS:
            setattr(state, field, _KeptSet(_KeptMapping(self, name, field, _NOTHING)))
        return state

    def _damaged(self) -> str:
        return (
            f"{self.path}: what is kept there of the ledger {self._ledger[:12]} is damaged, and was removed; nothing "
            "was charged: start this again, which then verifies all events of the ledger"
        )


def verified(
    path: Path, ledger: str, events: Sequence[Event], kept: tuple[Head, Mapping[Row, str]] | None
) -> list[str]:
    """The problems of the events, and where what was kept is not what they add up to, a sentence each.

    Args:
        path: of the prefix.
        ledger: the ledger's id.
        events: all of the ledger.
        kept: of `read_prefix`.
    """
    if kept is None:
        return replay(ledger, events)[1]
    head, rows = kept
    if head.number > len(events) or (head.number and events[head.number - 1].hash != head.hash):
        return replay(ledger, events)[1]  # of another state of the ledger: the marks tell, the next charge verifies all
    datasets, problems = replay(ledger, events[: head.number])
    if not problems:
        problems += _differences(path, head, datasets, rows)
    return problems + continued(datasets, head.number, head.hash if head.number else ledger, events[head.number :])


def _differences(path: Path, head: Head, datasets: Mapping[str, DatasetState], rows: Mapping[Row, str]) -> list[str]:
    due = {row: value for state in datasets.values() for row, value in _rows(state)}
    due[_ABOUT] = _text(_about(datasets, head, json.loads(rows[_ABOUT])["witness"]))
    differing = sorted(row for row in due.keys() | rows.keys() if due.get(row) != rows.get(row))
    if not differing:
        return []
    dataset, field, name = differing[0]
    what = f"{field} {name[:12]!r} of the dataset {dataset!r}" if dataset else "the datasets' sums"
    more = f" and {len(differing) - 1} more" if differing[1:] else ""
    return [
        f"{path}: what is kept there is not what the first {head.number} events add up to, in {what}{more}: it was "
        "changed; remove it, the next charge then verifies all events; charges since may not have been refused"
    ]


def read_prefix(path: Path, ledger: str) -> tuple[Head, dict[Row, str]] | None:
    """The last event of what is kept at `path`, and all of it; None where nothing is. PrefixError if it is damaged."""
    if not path.is_file():
        return None
    try:
        # Not only to read: what a killed process has left half-written is undone first.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_WAIT_SECONDS)
    except sqlite3.Error:
        return None
    with contextlib.closing(connection):
        prefix = _Reading(path, ledger, connection)
        try:
            rows = prefix.everything()
            about = json.loads(rows[_ABOUT])
            if about["made_by"] != _made_by():
                return None
            return Head(ledger, about["number"], about["hash"]), rows
        except (ValueError, KeyError, TypeError):
            return None


class _Reading(Prefix):
    """The prefix, only to be read."""

    def _read_about(self) -> None: ...

    def _damaged(self) -> str:
        return (
            f"{self.path}: what is kept there of the ledger {self._ledger[:12]} is damaged: remove it, the next charge "
            "then verifies all events"
        )


class _KeptMapping(MutableMapping[str, V]):
    """A mapping of which the prefix keeps a part; values are immutable."""

    def __init__(self, prefix: Prefix, dataset: str, field: str, form: _Form[V]) -> None:
        self._prefix, self._dataset, self._field, self._form = prefix, dataset, field, form
        self._known: dict[str, V] = {}
        self.changed: dict[str, V] = {}

    def __getitem__(self, name: str) -> V:
        if name in self.changed:
            return self.changed[name]
        if name not in self._known:
            text = self._prefix.value((self._dataset, self._field, name))
            if text is None:
                raise KeyError(name)
            self._known[name] = self._form.read(json.loads(text))
        return self._known[name]

    def __setitem__(self, name: str, value: V) -> None:
        self.changed[name] = value

    def __delitem__(self, name: str) -> None:
        raise TypeError("nothing is taken out of a ledger")

    def __iter__(self) -> Iterator[str]:
        kept = self._prefix.values(self._dataset, self._field)
        return iter([*kept, *(name for name in self.changed if name not in kept)])

    def __len__(self) -> int:
        return len(list(iter(self)))


class _KeptSet(MutableSet[str]):
    """The names of a mapping."""

    def __init__(self, names: _KeptMapping[None]) -> None:
        self.names = names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, value: str) -> None:
        """Put it in."""
        self.names[value] = None

    def discard(self, value: str) -> None:
        """Refused."""
        del self.names[value]


_NOTHING: Final = _Form[None](lambda _: None, lambda _: None)


def _rows(state: DatasetState) -> Iterator[tuple[Row, str]]:
    """What is kept of a dataset; of what is kept already only what has changed."""
    for field, form in _FORMS.items():
        mapping = getattr(state, field)
        values = mapping.changed if isinstance(mapping, _KeptMapping) else mapping
        for name, value in values.items():
            yield (state.name, field, name), _text(form.write(value))
    for field in _SETS:
        names = getattr(state, field)
        new: Iterable[str] = names.names.changed if isinstance(names, _KeptSet) else names
        for name in new:
            yield (state.name, field, name), _text(None)


def _about(datasets: Mapping[str, DatasetState], head: Head, witness: str) -> dict[str, Any]:
    return {
        "made_by": _made_by(),
        "number": head.number,
        "hash": head.hash,
        "witness": witness,
        "datasets": {name: _about_dataset(state) for name, state in datasets.items()},
    }


def _about_dataset(state: DatasetState) -> dict[str, Any]:
    return {
        "population": state.population,
        "framework": state.framework,
        "neighbours": state.neighbours,
        "budget": _fraction(state.budget),
        "spent": _fraction(state.spent),
        "closed": state.closed,
        "allowed": [_subject(one) for one in state.allowed],
        "disclosed": [[_subject(one.subject), one.universe, one.content, one.count] for one in state.disclosed],
        "purposes": [[purpose, _fraction(amount)] for purpose, amount in state.purposes.items()],
        "spent_for": [[purpose, _fraction(amount)] for purpose, amount in state.spent_for.items()],
        "units": state.units,
    }


def _subject(subject: Subject) -> list[str]:
    return [subject.way, subject.level, subject.query]


def _fraction(value: Fraction) -> str:
    """In hexadecimal, which has no limit of digits: many different scales make long denominators."""
    return f"{value.numerator:x}/{value.denominator:x}"


def _read_fraction(text: str) -> Fraction:
    above, below = text.split("/")
    return Fraction(int(above, 16), int(below, 16))


_text: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def _seal(ledger: str, row: Row, value: str) -> str:
    """Shows damage, and a row of another ledger or place; whoever may write here can write a seal too."""
    return hashlib.sha256(_text([ledger, *row, value]).encode()).hexdigest()


@cache
def _made_by() -> str:
    return f"{_FORMAT} {version('spinewise')}"


def _connected(path: Path) -> sqlite3.Connection | None:
    """The file, made for its owner only; None where there can be none."""
    connection = None
    for _ in range(2):  # what is no such file is replaced by one
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
            connection = sqlite3.connect(path, timeout=_WAIT_SECONDS)
            # What a crash of the machine may take is written anew; nothing may be half-written.
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                connection.execute(_TABLE)
            return connection
        except (OSError, sqlite3.Error):
            if connection is not None:
                connection.close()
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return None
