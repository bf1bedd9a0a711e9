"""A dataset of a ledger as its events so far leave it: what was spent, for what, and what may still be.

The events are all there is; what a dataset has spent is found by going through them (`replay`), which checks every one
on the way. So nothing is charged in a ledger that was tampered with, and an exported ledger can be checked by anyone.

A chain of hashes shows any change to an event, and any event left out, put in or moved. It does not show that the last
events are missing, nor that all of it was written anew: the note that each run's directory keeps (`notes`) does.

A series is opened once, with all that it costs; then each of its periods is drawn once, in order. The first period is
charged for the whole series, by `Moved.series` of its charges, and an event `series` says what all of its
periods have in common. Each period is an event `period`, the first one too, with the hash of the release before; it
costs nothing. The same run again is the period that it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pipeline.errors import InputError, SpinewiseError
from pipeline.model.series import FIRST
from pipeline.privacy.budget import BUDGET_NAMES, FRAMEWORKS, MOVED, NEIGHBOURS, Framework
from pipeline.privacy.ledger.events import (
    HEX,
    Event,
    Exact,
    Group,
    KeyUse,
    LedgerError,
    Subject,
    conflicting,
    details_text,
    exact_of_text,
    read_details,
    undeclared,
)
from pipeline.privacy.noise.mechanisms import mechanism

#: What a budget can be set aside for by this name: answers to questions, which are charged under names that begin so.
QUESTIONS: Final = "questions"
ANSWER: Final = "answer "


@dataclass
class DatasetState:
    """A dataset as the events so far leave it.

    Attributes:
        budget, spent: rho or epsilon, exact.
        runs: fingerprint -> what the run was charged for.
        releases: the names under which these runs were charged.
        committed: the runs that have drawn all of it.
        allowed: what was declared exact, in order; each stands for one meaning.
        exact: fingerprint of a run -> what it discloses exactly, as events.
        disclosed: each disclosure of these once; the declarations bound how many there are.
        keys: fingerprint of a run -> the key that it uses; none for a run that was charged before keys were recorded.
        uses: commitment and universe of a key -> each way in which it is used, once.
        purposes: name -> the part of the budget that is set aside for it; the rest is for all that has no purpose.
        spent_for: purpose -> what was spent of it; "" for all that has none.
        units: column of the units that every charge must be for, such as patients; "" where that was not declared.
        series: name -> the `series` that opened it.
        drawn: series -> how many periods of it were drawn; `periods`: series -> each `period` by its number from 0.
        standing: numbers of the events that count for every charge: all but those of single runs, and of each meaning
            in `disclosed` the first.

    Of a ledger with a checkpoint a write reads what belongs to single runs, keys and periods only where a charge asks
    for it (`Writing.resume`).
    """

    name: str
    population: str
    framework: Framework
    neighbours: str
    budget: Fraction
    closed: bool = False
    runs: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    releases: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    allowed: list[Subject] = field(default_factory=list)
    exact: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    disclosed: dict[Exact, None] = field(default_factory=dict)
    keys: dict[str, KeyUse] = field(default_factory=dict)
    uses: dict[str, tuple[KeyUse, ...]] = field(default_factory=dict)
    purposes: dict[str, Fraction] = field(default_factory=dict)
    spent_for: dict[str, Fraction] = field(default_factory=dict)
    units: str = ""
    series: dict[str, Event] = field(default_factory=dict)
    drawn: dict[str, int] = field(default_factory=dict)
    periods: dict[str, dict[int, Event]] = field(default_factory=dict)
    standing: list[int] = field(default_factory=list)

    def add_charge(self, event: Event) -> None:
        """Note what a run was charged for."""
        before = self.runs.get(event.run, ())
        if not before:
            self.releases.add(event.release)
        self.runs[event.run] = (*before, event)

    def add_exact(self, event: Event) -> None:
        """Note what a run discloses exactly."""
        self.exact[event.run] = (*self.exact.get(event.run, ()), event)
        if event.exact() not in self.disclosed:
            self.disclosed[event.exact()] = None
            self.standing.append(event.number)

    def add_key(self, run: str, use: KeyUse) -> None:
        """Note the key that a run uses, and how."""
        self.keys[run] = use
        before = self.uses.get(use.stream, ())
        if use not in before:
            self.uses[use.stream] = (*before, use)

    def add_period(self, series: str, event: Event) -> None:
        """Note a period of a series; its first one was charged for all of them."""
        self.periods.setdefault(series, {})[event.count] = event
        if event.count:
            self.add_charge(event)

    @property
    def spent(self) -> Fraction:
        """The budget that is spent, for whatever purpose, rho or epsilon, exact."""
        return sum(self.spent_for.values(), Fraction(0))

    @property
    def left(self) -> Fraction:
        """The budget that is not spent, rho or epsilon, exact."""
        return self.budget - self.spent

    def purpose_of(self, release: str) -> str:
        """What a charge under this name is for: `QUESTIONS`, or a release by its name; "" where that has no part."""
        name = QUESTIONS if release.startswith(ANSWER) else release if release != QUESTIONS else ""
        return name if name in self.purposes else ""

    def total_for(self, purpose: str) -> Fraction:
        """What is set aside for a purpose; for "", what is set aside for none."""
        if not purpose and not self.purposes:
            return self.budget
        return self.purposes[purpose] if purpose else self.budget - sum(self.purposes.values(), Fraction(0))

    def left_for(self, purpose: str) -> Fraction:
        """What is left of that."""
        return self.total_for(purpose) - self.spent_for.get(purpose, Fraction(0))

    def named(self, purpose: str) -> str:
        """The dataset, or its part for a purpose, for messages: what its budget is of."""
        if not self.purposes:
            return self.name
        return f"{self.name}, set aside for {purpose}" if purpose else f"{self.name}, set aside for nothing by name"

    @property
    def unit(self) -> str:
        """What the budget is measured in: "rho" or "epsilon"."""
        return BUDGET_NAMES[self.framework]


_PURPOSE: Final = re.compile(r"[^\W_][\w-]{0,99}")


def cost_of(group: Group, framework: str, neighbours: str) -> Fraction:
    """What a dataset with this framework and these neighbours is charged for the group, rho or epsilon, exact.

    Where one person's change alters k `records`, what it costs them all: k^2 times the rho of one, or k times the
    epsilon. Where a record moves the numbers by up to R each (`reach`), R^2 or R times that. Where a unit is in n
    `numbers` by one each, n times what one number costs, in both. Over a `series`, the squared distance of two
    histories times the rho of one record. Of one choice whose `losses` a change moves by L, L^2 or L times what moving
    one loss by one costs, whatever the neighbours.

    Raises:
        InputError: the mechanism has no cost in the framework.
    """
    zcdp, used, times = framework == "zcdp", mechanism(group.mechanism, group.scale), group.moved
    moved = MOVED[neighbours] if times.losses == 1 else 1
    if (cost := used.cost(framework, moved)) is None:
        raise InputError(
            f"{group.mechanism} noise ({group.query} at {group.level}) cannot be charged to a budget of epsilon: it "
            'has no pure guarantee; open the dataset with a budget of rho, or measure with framework "pure"'
        )
    if times.series != 1 and not zcdp:
        raise InputError(f"a series ({group.query} at {group.level}) cannot be charged to a budget of epsilon")
    apart = times.records * times.reach * times.losses
    return cost * apart ** (2 if zcdp else 1) * times.numbers * times.series


def replay(ledger: str, events: Iterable[Event]) -> tuple[dict[str, DatasetState], list[str]]:
    """The datasets as the events leave them, by name; and the problems of the events, a sentence each.

    Args:
        ledger: the ledger's id, with which the chain begins.
        events: all events of the ledger, in order.
    """
    datasets: dict[str, DatasetState] = {}
    return datasets, continued(datasets, 0, ledger, events)


def continued(datasets: dict[str, DatasetState], number: int, previous: str, events: Iterable[Event]) -> list[str]:
    """Apply events that follow others to the datasets; the problems of the events, a sentence each.

    Args:
        datasets: as the events before leave them; changed.
        number: of the last event before, 0 if there is none.
        previous: its hash; the ledger's id if there is none.
        events: all that follow, in order.
    """
    problems: list[str] = []
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
            problem = f"{event.kind!r} is not a kind of event" if event.kind not in _APPLY else str(error)
            problems.append(f"event {event.number}: {problem}")
        if event.kind in _STANDING and event.dataset in datasets:
            datasets[event.dataset].standing.append(event.number)
    return problems


def note(datasets: dict[str, DatasetState], event: Event) -> None:
    """Let the datasets have an event that was verified before, but for what it adds to their sums (`Checkpoint`)."""
    if event.kind in _DECLARED:
        _APPLY[event.kind](datasets, event)
        return
    state = datasets[event.dataset]
    if event.kind == "charge":
        state.add_charge(event)
    elif event.kind == "exact":
        state.add_exact(event)
    elif event.kind == "key":
        state.add_key(event.run, KeyUse.parse(event.details))
    elif event.kind == "commit":
        state.committed.add(event.run)
    elif event.kind == "series":
        state.series[series_of(event)] = event
    else:
        state.add_period(series_of(event), event)


def _open(datasets: dict[str, DatasetState], event: Event) -> None:
    if event.dataset in datasets:
        raise LedgerError(f"opens the dataset {event.dataset!r} again")
    if event.framework not in FRAMEWORKS or event.neighbours not in NEIGHBOURS:
        raise LedgerError(f"has the framework {event.framework!r} and the neighbours {event.neighbours!r}")
    budget = exact_of_text(event.budget, "budget")
    if budget <= 0:
        raise LedgerError(f"has the budget {budget}")
    units = read_details(event.details, "units")["units"] if event.details else ""
    if not isinstance(units, str) or (event.details and not units.strip()):
        raise LedgerError(f"has the units {units!r}")
    datasets[event.dataset] = DatasetState(
        event.dataset, event.population, event.framework, event.neighbours, budget, units=units
    )


def _charge(datasets: dict[str, DatasetState], event: Event) -> None:
    state = _known(datasets, event)
    group, cost = event.group(), exact_of_text(event.cost, "cost")
    if event.neighbours != state.neighbours:
        raise LedgerError(f"charges for neighbours {event.neighbours!r}, the dataset has {state.neighbours!r}")
    before = state.runs.get(event.run, ())
    state.add_charge(event)
    purpose = state.purpose_of(event.release)
    state.spent_for[purpose] = state.spent_for.get(purpose, Fraction(0)) + cost
    if event.details != group.details(purpose):
        raise LedgerError(f"charges {event.release!r} with the details {event.details!r}, and it is for {purpose!r}")
    if cost != (due := cost_of(group, state.framework, state.neighbours)):
        raise LedgerError(f"charges {cost} for what costs {due}")
    if not event.run or any((e.level, e.query) == (event.level, event.query) for e in before):
        raise LedgerError(f"charges the run {event.run[:12]!r} for {event.query!r} at {event.level!r} twice, or no run")
    if state.spent > state.budget:
        raise LedgerError(f"overspends the budget of {event.dataset!r}")
    if state.left_for(purpose) < 0:
        raise LedgerError(f"overspends the budget of {state.named(purpose)!r}")
    if state.closed:
        raise LedgerError(f"charges {event.dataset!r}, which is closed")


def _purpose(datasets: dict[str, DatasetState], event: Event) -> None:
    state, share = _known(datasets, event), exact_of_text(read_details(event.details, "share")["share"], "share")
    amount = exact_of_text(event.budget, "budget")
    if event.query in state.purposes or state.runs:
        raise LedgerError(f"sets aside for {event.query!r} again, or after a charge")
    state.purposes[event.query] = amount
    if not _PURPOSE.fullmatch(event.query) or not 0 < share <= 1 or amount != share * state.budget:
        raise LedgerError(f"sets {amount} aside for {event.query!r}, which is not {share} of {state.budget}")
    if state.total_for("") < 0:
        raise LedgerError(f"sets more aside than {event.dataset!r} has")


def purpose_events(shares: Mapping[str, Fraction], budget: Fraction) -> list[dict[str, str]]:
    """The fields of each `purpose` that sets a share of a budget aside.

    Raises:
        InputError: a name or a share is not allowed, or they are more than all of it.
    """
    for name, share in shares.items():
        if not _PURPOSE.fullmatch(name) or share <= 0:
            raise InputError(
                f"ledger: found {share} for {name!r}; a share above 0 is set aside for {QUESTIONS!r}, or for a release "
                "by its name"
            )
    if (total := sum(shares.values(), Fraction(0))) > 1:
        raise InputError(f"ledger: found shares that add up to {total}; at most 1 can be set aside")
    return [
        {"query": name, "budget": str(share * budget), "details": details_text({"share": str(share)})}
        for name, share in shares.items()
    ]


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


def _allow(datasets: dict[str, DatasetState], event: Event) -> None:
    state = _known(datasets, event)
    state.allowed.append(event.subject())
    if state.closed:
        raise LedgerError(f"allows {event.dataset!r}, which is closed, an exact disclosure")


def _exact_disclosure(datasets: dict[str, DatasetState], event: Event) -> None:
    state, exact = _known(datasets, event), event.exact()
    refused = undeclared(state.allowed, state.disclosed, [exact])
    before = state.exact.get(event.run, ())
    state.add_exact(event)
    if refused:
        raise LedgerError(f"discloses {exact.subject} of {event.dataset!r} exactly, which was not declared")
    if event.run not in state.runs:
        raise LedgerError(f"records an exact disclosure of the run {event.run[:12]!r}, which was not charged")
    if exact in [other.exact() for other in before]:
        raise LedgerError(f"records {exact.subject} of the run {event.run[:12]!r} twice")
    if state.closed:
        raise LedgerError(f"discloses {exact.subject} of {event.dataset!r}, which is closed")


def _key(datasets: dict[str, DatasetState], event: Event) -> None:
    state, use = _known(datasets, event), KeyUse.parse(event.details)
    if event.run not in state.runs or event.run in state.keys:
        raise LedgerError(f"records the key of the run {event.run[:12]!r}, which was not charged, or has one")
    other = conflicting(event.dataset, use, uses_like(datasets, use))
    state.add_key(event.run, use)
    if other:
        raise LedgerError(f"uses a key that was used over other records, of {other!r}")


def _series(datasets: dict[str, DatasetState], event: Event) -> None:
    state, name = _known(datasets, event), series_of(event)
    if name in state.series:
        raise LedgerError(f"opens the series {name!r} again")
    state.series[name] = event
    if not name or event.count < 1 or event.run not in state.runs:
        raise LedgerError(f"opens the series {name!r} of {event.count} periods, for which nothing was charged")


def _period(datasets: dict[str, DatasetState], event: Event) -> None:
    state, period = _known(datasets, event), stated(event)
    name = str(period["series"])
    opened, before, is_charged = state.series.get(name), state.drawn.get(name, 0), event.run in state.runs
    state.drawn[name] = before + 1
    state.add_period(name, event)
    if before and is_charged:
        raise LedgerError(f"draws period {period['period']!r} of the series {name!r} by a run that was charged")
    if opened is None or not event.run or event.count != before or event.count >= opened.count:
        raise LedgerError(f"draws period {period['period']!r} of the series {name!r}, which is not the next one")
    if event.cost != "0" or (not before and event.run != opened.run):
        raise LedgerError(f"draws period {period['period']!r} of the series {name!r} by a run that was not charged")
    if (period["predecessor"] == FIRST) != (not before):
        raise LedgerError(f"period {period['period']!r} of the series {name!r} follows {period['predecessor']!r}")
    if state.closed:
        raise LedgerError(f"draws of {event.dataset!r}, which is closed")


def uses_like(datasets: Mapping[str, DatasetState], use: KeyUse) -> list[tuple[str, KeyUse]]:
    """Dataset and use, of all recorded uses of the same key for the same universe."""
    return [(name, other) for name, state in datasets.items() for other in state.uses.get(use.stream, ())]


def exact_event(exact: Exact) -> dict[str, Any]:
    """The fields of an `exact` that state the disclosure."""
    stated = {"way": exact.subject.way, "universe": exact.universe, "content": exact.content}
    subject = exact.subject
    return {
        "level": subject.level,
        "query": subject.query,
        "count": exact.count,
        "details": details_text(stated),
    }


def allow_event(subject: Subject) -> dict[str, Any]:
    """The fields of an `allow` that state what may be exact."""
    return {"level": subject.level, "query": subject.query, "details": details_text({"way": subject.way})}


#: What each kind of event does to the datasets; a new kind needs a line here and in `EventKind`.
_APPLY = {
    "open": _open,
    "purpose": _purpose,
    "allow": _allow,
    "charge": _charge,
    "exact": _exact_disclosure,
    "key": _key,
    "commit": _commit,
    "close": _close,
    "series": _series,
    "period": _period,
}


#: What declares a dataset; this and the other kinds that count for every charge, not for one run: `draw`s are few.
_DECLARED: Final = ("open", "purpose", "allow", "close")
_STANDING: Final = (*_DECLARED, "series")


def _known(datasets: dict[str, DatasetState], event: Event) -> DatasetState:
    if event.dataset not in datasets:
        raise LedgerError(f"is about the dataset {event.dataset!r}, which was not opened")
    return datasets[event.dataset]


def same_groups(charges: Sequence[Event], groups: Iterable[Group]) -> bool:
    """Whether a run was charged for just these groups."""
    return sorted(event.group() for event in charges if event.kind == "charge") == sorted(groups)


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
