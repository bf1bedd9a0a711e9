"""What the ledger holds: frozen events, each sealed with the hash of the one before, and the budgets they add up to.

The events are all there is; what a dataset has spent is found by going through them (`replay`), which checks every one
on the way. So nothing is charged in a ledger that was tampered with, and an exported ledger can be checked by anyone.

A chain of hashes shows any change to an event, and any event left out, put in or moved. It does not show that the
last events are missing, nor that all of it was written anew: the note that each run's directory keeps (`ledger_notes`)
does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Final, Literal

from pipeline.errors import InputError, SpinewiseError
from pipeline.privacy.accounting.mechanisms import MechanismName, mechanism
from pipeline.privacy.budget import FRAMEWORKS, MOVED, NEIGHBOURS, Framework

__all__ = [
    "BYPASSED",
    "DatasetState",
    "Event",
    "Group",
    "LedgerError",
    "cost_of",
    "exact_text",
    "is_for_several",
    "per_person",
    "replay",
    "sealed",
]

EventKind = Literal["open", "charge", "commit", "close"]

#: Ends the query of a charge whose scale is not that of every geounit, though every path costs the same.
BYPASSED: Final = " (bypass)"

#: Ends the query of a charge for records of which one person alters several.
_PER_PERSON: Final = " ({} records a person)"
_SEVERAL: Final = re.compile(r" \(([2-9]|[1-9][0-9]+) records a person\)$", re.ASCII)

_KINDS: Final = ("open", "charge", "commit", "close")
_SEAL: Final = "spinewise ledger event 1"


class LedgerError(SpinewiseError):
    """The ledger cannot be used, or is damaged."""


@dataclass(frozen=True, order=True)
class Group:
    """One mechanism on all geounits of a level: what is charged.

    Attributes:
        level, query: what is measured; for a choice the query is `Select.stream_name`. A query ends with `BYPASSED`
            where geounits without siblings are bypassed: their share is spent above, with more budget at once.
        mechanism, scale: `discrete_gaussian` with sigma^2, `discrete_laplace` with b, `exponential` with epsilon.
        count: how many numbers are drawn, geounits times answers; for the record, the cost does not depend on it.
    """

    level: str
    query: str
    mechanism: MechanismName
    scale: Fraction
    count: int


@dataclass(frozen=True)
class Event:
    """One line of the ledger. What does not apply to its kind is empty.

    Attributes:
        number: 1, 2, 3 ...
        kind: `open` or `close` a dataset; `charge` it for one mechanism group of a run, before anything is drawn;
            `commit`: the run has drawn all that it was charged for.
        time: of the event, UTC, ISO 8601.
        population: a description of the people in the dataset.
        framework: the budget is rho ("zcdp") or epsilon ("pure").
        budget: of an `open`; `cost`: of a `charge`; `scale`: see `Group`. Exact fractions as text.
        run: fingerprint of what determines the noise; see `ledger.RunFingerprint`.
        release: the name of the release charged for.
        previous: hash of the event before; the ledger's own id for the first.
        hash: SHA-256 over all of the other fields.
    """

    number: int
    kind: EventKind
    time: str
    dataset: str
    population: str = ""
    framework: str = ""
    neighbours: str = ""
    budget: str = ""
    run: str = ""
    release: str = ""
    level: str = ""
    query: str = ""
    mechanism: str = ""
    scale: str = ""
    count: int = 0
    cost: str = ""
    previous: str = ""
    hash: str = ""

    def computed_hash(self) -> str:
        """The SHA-256 in hexadecimal that the event should have, over all its other fields."""
        content = [_SEAL, *(getattr(self, f.name) for f in fields(self) if f.name != "hash")]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()

    def group(self) -> Group:
        """What a `charge` is for; LedgerError if its fields do not state that properly."""
        drawn = mechanism(self.mechanism, _exact(self.scale, "scale"))
        return Group(self.level, self.query, drawn.name, drawn.scale, self.count)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return asdict(self)


def sealed(event: Event, number: int, previous: str) -> Event:
    """The event as the next of a chain."""
    placed = replace(event, number=number, previous=previous)
    return replace(placed, hash=placed.computed_hash())


@dataclass
class DatasetState:
    """A dataset as the events so far leave it.

    Attributes:
        budget, spent: rho or epsilon, exact.
        runs: fingerprint -> what the run was charged for.
        committed: the runs that have drawn all of it.
    """

    name: str
    population: str
    framework: Framework
    neighbours: str
    budget: Fraction
    spent: Fraction = Fraction(0)
    closed: bool = False
    runs: dict[str, list[Event]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)

    @property
    def left(self) -> Fraction:
        """The budget that is not spent, rho or epsilon, exact."""
        return self.budget - self.spent

    @property
    def unit(self) -> str:
        """What the budget is measured in: "rho" or "epsilon"."""
        return "rho" if self.framework == "zcdp" else "epsilon"


def per_person(records: int) -> str:
    """What the query of a charge ends with, where one person's change alters so many of the records; "" for one."""
    return "" if records == 1 else _PER_PERSON.format(records)


def is_for_several(query: str) -> bool:
    """Whether a charge is for a change of several records of one person."""
    return _SEVERAL.search(query) is not None


def cost_of(group: Group, framework: str, neighbours: str) -> Fraction:
    """What a dataset with this framework and these neighbours is charged for the group, rho or epsilon, exact.

    Where one person's change alters k records (`per_person`), what it costs them all: k^2 times the rho of one, or k
    times the epsilon.

    Raises:
        InputError: the mechanism has no cost in the framework.
    """
    used = mechanism(group.mechanism, group.scale)
    moved = MOVED[neighbours]
    cost = used.rho(moved) if framework == "zcdp" else used.epsilon(moved)
    if cost is None:
        raise InputError(
            f"{group.mechanism} noise ({group.query} at {group.level}) cannot be charged to a budget of epsilon: it "
            'has no pure guarantee; open the dataset with a budget of rho, or measure with framework "pure"'
        )
    several = _SEVERAL.search(group.query)
    records = 1 if several is None else int(several[1])
    return cost * records ** (2 if framework == "zcdp" else 1)


def replay(ledger: str, events: Iterable[Event]) -> tuple[dict[str, DatasetState], list[str]]:
    """The datasets as the events leave them, by name; and the problems of the events, a sentence each.

    Args:
        ledger: the ledger's id, with which the chain begins.
        events: all events of the ledger, in order.
    """
    datasets: dict[str, DatasetState] = {}
    problems: list[str] = []
    number, previous = 0, ledger
    for event in events:
        number += 1
        if event.number != number:
            problems.append(f"event {event.number}: found where event {number} should be; one is missing or was moved")
            number = event.number
        if event.previous != previous:
            problems.append(f"event {event.number}: does not follow the event before it, by the hash of that event")
        if event.hash != event.computed_hash():
            problems.append(f"event {event.number}: was changed: its hash does not fit its content")
        previous = event.hash
        try:
            _APPLY[event.kind](datasets, event)
        except (KeyError, ValueError, TypeError, SpinewiseError) as error:
            problem = f"{event.kind!r} is not a kind of event" if event.kind not in _KINDS else str(error)
            problems.append(f"event {event.number}: {problem}")
    return datasets, problems


def _open(datasets: dict[str, DatasetState], event: Event) -> None:
    if event.dataset in datasets:
        raise LedgerError(f"opens the dataset {event.dataset!r} again")
    if event.framework not in FRAMEWORKS or event.neighbours not in NEIGHBOURS:
        raise LedgerError(f"has the framework {event.framework!r} and the neighbours {event.neighbours!r}")
    budget = _exact(event.budget, "budget")
    if budget <= 0:
        raise LedgerError(f"has the budget {budget}")
    datasets[event.dataset] = DatasetState(event.dataset, event.population, event.framework, event.neighbours, budget)


def _charge(datasets: dict[str, DatasetState], event: Event) -> None:
    state = _known(datasets, event)
    group, cost = event.group(), _exact(event.cost, "cost")
    if event.neighbours != state.neighbours:
        raise LedgerError(f"charges for neighbours {event.neighbours!r}, the dataset has {state.neighbours!r}")
    charges = state.runs.setdefault(event.run, [])
    charges.append(event)
    state.spent += cost
    if cost != cost_of(group, state.framework, state.neighbours):
        raise LedgerError(f"charges {cost} for what costs {cost_of(group, state.framework, state.neighbours)}")
    if not event.run or any((e.level, e.query) == (event.level, event.query) for e in charges[:-1]):
        raise LedgerError(f"charges the run {event.run[:12]!r} for {event.query!r} at {event.level!r} twice, or no run")
    if state.spent > state.budget:
        raise LedgerError(f"overspends the budget of {event.dataset!r}")
    if state.closed:
        raise LedgerError(f"charges {event.dataset!r}, which is closed")


def _commit(datasets: dict[str, DatasetState], event: Event) -> None:
    state = _known(datasets, event)
    if event.run not in state.runs or event.run in state.committed:
        raise LedgerError(f"commits the run {event.run[:12]!r}, which was not charged, or is committed already")
    state.committed.add(event.run)


def _close(datasets: dict[str, DatasetState], event: Event) -> None:
    state = _known(datasets, event)
    if state.closed:
        raise LedgerError(f"closes {event.dataset!r} again")
    state.closed = True


_APPLY = {"open": _open, "charge": _charge, "commit": _commit, "close": _close}


def _known(datasets: dict[str, DatasetState], event: Event) -> DatasetState:
    if event.dataset not in datasets:
        raise LedgerError(f"is about the dataset {event.dataset!r}, which was not opened")
    return datasets[event.dataset]


def exact_text(value: Fraction) -> str:
    """The one text of a fraction: lowest terms, "3/2" or "2"."""
    return str(value)


def _exact(text: str, label: str) -> Fraction:
    """The fraction of a text as `exact_text` writes it; LedgerError for any other."""
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = None
    if value is None or exact_text(value) != text:
        raise LedgerError(f"has the {label} {text!r}, which is not an exact fraction in lowest terms")
    return value


def same_groups(charges: Sequence[Event], groups: Iterable[Group]) -> bool:
    """Whether a run was charged for just these groups."""
    return sorted(event.group() for event in charges) == sorted(groups)
