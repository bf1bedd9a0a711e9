"""The ledger: which budgets there are, and what was spent of them. It refuses what a budget does not allow.

The order is reserve, sample, commit. `Ledger.reserve` charges everything that a run is going to measure, in one
transaction that is on disk before it returns; only then may anything be drawn. A run that dies in between has spent
what it reserved. The same run again (`RunFingerprint`) draws the same noise, bit for bit, and so is not charged again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, Self

from pipeline.errors import BudgetRefusedError, InputError
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.keys import DERIVATION, MasterKey
from pipeline.privacy.ledger.events import (
    DatasetState,
    Event,
    Group,
    LedgerError,
    cost_of,
    exact_text,
    replay,
    same_groups,
)
from pipeline.privacy.ledger.notes import Head, check_noted
from pipeline.privacy.ledger.store import Store, Writing

__all__ = ["Charge", "Ledger", "OverspentError", "Reservation", "RunFingerprint", "amount_text"]

_NAME: Final = re.compile(r"\w[\w.-]{0,99}")
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class OverspentError(BudgetRefusedError):
    """A dataset has less left than was asked for. Nothing was charged.

    Attributes:
        dataset: its name; `unit` is rho or epsilon.
        total, spent, asked: exact.
    """

    def __init__(self, dataset: str, unit: str, total: Fraction, spent: Fraction, asked: Fraction) -> None:
        super().__init__(
            f"budget of the dataset {dataset!r}: asked for {unit} = {amount_text(asked, up=True)}, left is "
            f"{amount_text(total - spent)}: {amount_text(spent, up=True)} of {amount_text(total)} is spent; refused, "
            "and nothing was charged or drawn"
        )
        self.dataset, self.unit, self.total, self.spent, self.asked = dataset, unit, total, spent, asked

    @property
    def left(self) -> Fraction:
        """The budget that is not spent, rho or epsilon, exact."""
        return self.total - self.spent

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.dataset, self.unit, self.total, self.spent, self.asked)


@dataclass(frozen=True)
class RunFingerprint:
    """SHA-256 over all that the noise of a run is determined by; it holds nothing confidential.

    Attributes:
        text: 64 hex digits.
    """

    text: str

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.text):
            raise ValueError("a run's fingerprint is 64 hex digits")

    @classmethod
    def of(cls, key: MasterKey, *, input_fingerprint: str, spine_fingerprint: str, privacy_fingerprint: str) -> Self:
        """The fingerprint of one universe of a run.

        Args:
            key: the run's master key; its commitment goes in.
            input_fingerprint: of the confidential histogram, keyed with the master key.
            spine_fingerprint: of the public spine.
            privacy_fingerprint: of the privacy-relevant part of the spec. The three fingerprints are the context that
                the stream keys are derived from.

        Raises:
            InputError: the key is a test key, whose noise anyone can compute.
        """
        if key.insecure:
            raise InputError(
                "ledger: a run with an insecure-test key cannot draw on a ledger: its noise is public, and so no "
                "budget covers what it shows; leave the key out of the spec, or the dataset"
            )
        context = [input_fingerprint, spine_fingerprint, privacy_fingerprint]
        if not all(context):
            raise ValueError("a run's fingerprint needs the fingerprints of input, spine and privacy spec")
        content = ["spinewise run 1", DERIVATION, key.commitment(), *context]
        return cls(hashlib.sha256(json.dumps(content).encode()).hexdigest())


@dataclass(frozen=True)
class Charge:
    """What one universe of a run is going to measure, and of which dataset.

    Attributes:
        release: name of the release, for the record.
        neighbours: that the noise was made for; they must be the dataset's.
        groups: every query at every level, each once.
    """

    dataset: str
    run: RunFingerprint
    release: str
    neighbours: str
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("a charge needs what it is for")
        if len({(group.level, group.query) for group in self.groups}) < len(self.groups):
            raise ValueError("a charge names a query at a level twice; both would draw the same noise")


@dataclass(frozen=True)
class Reservation:
    """A run may draw what its charges are for.

    Attributes:
        new: whether any of it was charged now; False if all of it was charged to the same run before.
        head: the ledger's last event, to be noted in the run's directory before anything is drawn.
    """

    charges: tuple[Charge, ...]
    new: bool
    head: Head


class Ledger:
    """The budgets of datasets and what was spent of them.

    >>> with Ledger.open(url) as ledger:                                     # doctest: +SKIP
    ...     reservation = ledger.reserve(charge, noted=read_notes(out, ledger.id).values())
    ...     note_event(run.restricted, reservation.head)
    ...     measure()
    ...     note_event(run.restricted, ledger.commit(reservation))
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = False) -> Self:
        """The ledger at `url`, by default the user's own; see `Store.open` for what it raises."""
        return cls(Store.open(url, create=create))

    def close(self) -> None:
        """Close the connection to the ledger's store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """64 hex digits that no other ledger has."""
        return self._store.ledger

    @property
    def place(self) -> str:
        """The file or database, without a password."""
        return self._store.shown

    def __repr__(self) -> str:
        """The place, and what each dataset has left."""
        lines = [f"Ledger {self.place}"]
        try:
            states = self.datasets().values()
        except LedgerError:
            return f"{lines[0]}\n  is damaged, see .verify()"
        for state in states:
            budget, left, runs = amount_text(state.budget), amount_text(state.left), len(state.runs)
            closed = ", closed" if state.closed else ""
            times = f"{runs} run{'' if runs == 1 else 's'}"
            lines.append(f"  {state.name}: {state.unit} = {left} left of {budget}, {times}{closed}")
        return "\n".join(lines if len(lines) > 1 else [*lines, "  no dataset yet"])

    def open_dataset(self, name: str, *, population: str, framework: str, budget: Fraction, neighbours: str) -> Head:
        """Give a dataset its budget, which never changes.

        Args:
            name: what specs call the dataset.
            population: a description of the people in it, and the date.
            framework: "zcdp" (the budget is rho) or "pure" (epsilon).
            budget: above 0, exact.
            neighbours: "change-one" or "add-remove".

        Raises:
            InputError: a value is not allowed, or there is a dataset of that name.
        """
        if not _NAME.fullmatch(name):
            raise InputError(f"ledger: {name!r} cannot name a dataset; allowed are letters, digits, _ - and . (to 100)")
        if not population.strip():
            raise InputError(f"ledger: the dataset {name!r} needs a description of its population")
        if framework not in FRAMEWORKS or neighbours not in NEIGHBOURS:
            raise InputError(
                f"ledger: found the framework {framework!r} and the neighbours {neighbours!r}; allowed are "
                f"{', '.join(FRAMEWORKS)}, and {', '.join(NEIGHBOURS)}"
            )
        if budget <= 0:
            raise InputError(f"ledger: found the budget {budget}; it must be above 0")
        with self._store.writing() as writing:
            if name in self._checked(writing):
                raise InputError(f"ledger: there is a dataset {name!r} already; its budget cannot be changed")
            opened = _event(
                "open",
                name,
                population=population.strip(),
                framework=framework,
                neighbours=neighbours,
                budget=exact_text(Fraction(budget)),
            )
            return self._head([writing.add(opened)])

    def reserve(self, *charges: Charge, noted: Iterable[Head] = ()) -> Reservation:
        """Charge a run for everything that it will draw, all or nothing; nothing may be drawn before this returns.

        A charge to a run that was charged for the same before costs nothing, in a closed dataset too.

        Args:
            charges: one for each universe of the run.
            noted: what run directories remember of the ledger (`read_notes`); it must be in it.

        Raises:
            OverspentError: a dataset does not have enough left.
            BudgetRefusedError: a dataset is closed.
            InputError: there is no such dataset, its neighbours are others, or a mechanism has no cost in its unit.
            LedgerError: the ledger is damaged or was put back, or the run was charged for something else before.
        """
        with self._store.writing() as writing:
            datasets = self._checked(writing)
            check_noted(self.id, writing.events, noted)
            before = len(writing.events)
            for charge in charges:
                self._charge(writing, self._dataset(datasets, charge.dataset), charge)
            return Reservation(charges, new=len(writing.events) > before, head=self._head(writing.events))

    def commit(self, reservation: Reservation) -> Head:
        """Record that everything reserved was drawn; it costs nothing, and nothing the second time.

        Raises:
            LedgerError: the ledger is damaged, or the reservation is not in it.
        """
        with self._store.writing() as writing:
            datasets = self._checked(writing)
            for charge in reservation.charges:
                state = self._dataset(datasets, charge.dataset)
                if charge.run.text not in state.runs:
                    raise LedgerError(
                        f"ledger {self.place}: the run was not charged to {charge.dataset!r}; the ledger was put back"
                    )
                if charge.run.text not in state.committed:
                    writing.add(_event("commit", charge.dataset, run=charge.run.text, release=charge.release))
                    state.committed.add(charge.run.text)
            return self._head(writing.events)

    def close_dataset(self, name: str) -> Head:
        """Refuse every further charge to the dataset; what is left of its budget is given up.

        Raises:
            InputError: there is none of that name, or it is closed.
        """
        with self._store.writing() as writing:
            if self._dataset(self._checked(writing), name).closed:
                raise InputError(f"ledger: the dataset {name!r} is closed already")
            return self._head([writing.add(_event("close", name))])

    def datasets(self) -> dict[str, DatasetState]:
        """All datasets by name. LedgerError if the ledger is damaged."""
        return self._replayed(self._store.read())

    def dataset(self, name: str) -> DatasetState:
        """The dataset of that name. InputError if there is none, LedgerError if the ledger is damaged."""
        return self._dataset(self.datasets(), name)

    def events(self) -> tuple[Event, ...]:
        """All events, unchecked."""
        return tuple(self._store.read())

    def head(self) -> Head:
        """The last event."""
        return self._head(self._store.read())

    def verify(self, noted: Iterable[Head] = ()) -> tuple[str, ...]:
        """What is wrong with the ledger, a sentence each; empty if nothing is.

        Args:
            noted: what run directories remember of it (`read_notes`).
        """
        events = self._store.read()
        problems = replay(self.id, events)[1] + self._store.guards_missing()
        for head in noted:
            try:
                check_noted(self.id, events, [head])
            except LedgerError as error:
                problems.append(str(error))
        return tuple(problems)

    def _charge(self, writing: Writing, state: DatasetState, charge: Charge) -> None:
        if charge.neighbours != state.neighbours:
            raise InputError(
                f"ledger: the dataset {state.name!r} is for neighbours {state.neighbours!r}, the run for "
                f"{charge.neighbours!r}; they must be the same"
            )
        if recorded := state.runs.get(charge.run.text):
            if not same_groups(recorded, charge.groups):
                raise LedgerError(
                    f"ledger {self.place}: this run was charged to {state.name!r} before, for other measurements than "
                    "these; the same fingerprint cannot stand for both"
                )
            return
        costs = [(group, cost_of(group, state.framework, state.neighbours)) for group in charge.groups]
        cost_of_run = sum((cost for _, cost in costs), Fraction(0))
        if state.closed:
            raise BudgetRefusedError(
                f"ledger: the dataset {state.name!r} is closed: asked for {state.unit} = "
                f"{amount_text(cost_of_run, up=True)}, refused; nothing was charged or drawn"
            )
        if state.spent + cost_of_run > state.budget:
            raise OverspentError(state.name, state.unit, state.budget, state.spent, cost_of_run)
        for group, cost in costs:
            event = writing.add(
                _event(
                    "charge",
                    state.name,
                    neighbours=charge.neighbours,
                    run=charge.run.text,
                    release=charge.release,
                    level=group.level,
                    query=group.query,
                    mechanism=group.mechanism,
                    scale=exact_text(group.scale),
                    count=group.count,
                    cost=exact_text(cost),
                )
            )
            state.runs.setdefault(charge.run.text, []).append(event)
        state.spent += cost_of_run

    def _checked(self, writing: Writing) -> dict[str, DatasetState]:
        return self._replayed(writing.events)

    def _replayed(self, events: list[Event]) -> dict[str, DatasetState]:
        datasets, problems = replay(self.id, events)
        if problems:
            more = f" ({len(problems) - 1} more problems)" if problems[1:] else ""
            raise LedgerError(f"ledger {self.place} is damaged: {problems[0]}{more}; nothing is charged to it")
        return datasets

    def _dataset(self, datasets: dict[str, DatasetState], name: str) -> DatasetState:
        if name not in datasets:
            names = ", ".join(sorted(datasets)) or "none"
            raise InputError(
                f"ledger {self.place}: there is no dataset {name!r}; it has {names}: `spinewise ledger open` makes one"
            )
        return datasets[name]

    def _head(self, events: list[Event]) -> Head:
        return Head(self.id, events[-1].number, events[-1].hash) if events else Head(self.id, 0, self.id)


def amount_text(value: Fraction, *, up: bool = False) -> str:
    """A decimal of six digits and, where it is not the same and not too long, the exact fraction.

    >>> amount_text(Fraction(293764, 114921), up=True), amount_text(Fraction(5, 2))
    ('2.55623 (293764/114921)', '2.5')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    decimal = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    text = format(decimal, "f") if decimal == 0 or abs(decimal) >= Decimal("1e-6") else str(decimal).lower()
    if Fraction(decimal) == value or value.denominator.bit_length() > 100:
        return text
    return f"{text} ({value})"


def _event(kind: str, dataset: str, **rest: object) -> Event:
    return Event(0, kind, datetime.now(UTC).isoformat(timespec="seconds"), dataset, **rest)  # type: ignore[arg-type]
