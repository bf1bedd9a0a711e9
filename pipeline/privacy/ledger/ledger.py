"""The ledger: which budgets there are, and what was spent of them. It refuses what a budget does not allow.

The order is reserve, sample, commit. `Ledger.reserve` charges everything that a run is going to measure, in one
transaction that is on disk before it returns; only then may anything be drawn. A run that dies in between has spent
what it reserved. The same run again (`run_fingerprint`) draws the same noise, bit for bit, and so is not charged again.

What a charge adds to the ledger are its costs, what it discloses exactly, and its key; each is refused first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Final, Self

from pipeline.errors import BudgetRefusedError, InputError
from pipeline.model.exact import decimal_text
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.ledger.charges import Charge, Charged, Reservation
from pipeline.privacy.ledger.dataset import (
    DatasetState,
    allow_event,
    continued,
    cost_of,
    exact_event,
    is_known,
    purpose_events,
    replay,
    same_groups,
    uses_like,
)
from pipeline.privacy.ledger.events import (
    Event,
    Exact,
    KeyUse,
    LedgerError,
    Subject,
    conflicting,
    details_text,
    undeclared,
)
from pipeline.privacy.ledger.notes import Checkpoint, Head, Marks, check_noted
from pipeline.privacy.ledger.store import Store, Writing, head_of, random_id, utc_now


def charge_run(writing: Writing, state: DatasetState, charge: Charge, place: str) -> None:
    """Record what the run costs, unless it was charged for the same before; `place` is the ledger's, for messages.

    Raises:
        OverspentError: the dataset, or what is set aside in it for the run's purpose, has not enough left.
        BudgetRefusedError: it is closed.
        InputError: its neighbours or its units are others, or a mechanism has no cost in its unit; or of a series,
            it is not the next period.
        LedgerError: the run was charged for something else before.
    """
    if charge.neighbours != state.neighbours:
        raise InputError(
            f"ledger: the dataset {state.name!r} is for neighbours {state.neighbours!r}, the run for "
            f"{charge.neighbours!r}; they must be the same"
        )
    if state.units and charge.units != state.units:
        found = f"the units {charge.units!r}" if charge.units else "no units: each of its records would be one person"
        raise InputError(
            f"ledger: the dataset {state.name!r} has units, by the column {state.units!r}, and the run {found}; state "
            "unit and at_most in [privacy] of all that is charged to it; nothing was charged or drawn"
        )
    if charge.series is not None and is_known(state, charge.series, charge.run):
        return
    if recorded := state.runs.get(charge.run):
        if not same_groups(recorded, charge.groups):
            raise LedgerError(
                f"ledger {place}: this run was charged to {state.name!r} before, for other measurements than "
                "these; the same fingerprint cannot stand for both"
            )
        return
    costs = [(group, cost_of(group, state.framework, state.neighbours)) for group in charge.due]
    cost_of_run = sum((cost for _, cost in costs), Fraction(0))
    if state.closed:
        raise BudgetRefusedError(
            f"ledger: the dataset {state.name!r} is closed: asked for {state.unit} = "
            f"{amount_text(cost_of_run, up=True)}, refused; nothing was charged or drawn"
        )
    purpose = state.purpose_of(charge.release)
    if cost_of_run + charge.later > state.left_for(purpose):
        total = state.total_for(purpose)
        spent = total - state.left_for(purpose)
        raise OverspentError(state.named(purpose), state.unit, total, spent, cost_of_run + charge.later)
    for group, cost in costs:
        writing.add(
            "charge",
            state.name,
            neighbours=charge.neighbours,
            run=charge.run,
            release=charge.release,
            level=group.level,
            query=group.query,
            mechanism=group.mechanism,
            scale=str(group.scale),
            count=group.count,
            cost=str(cost),
            details=group.details(purpose),
        )
    if (series := charge.series) is not None:
        of_run = {"run": charge.run, "release": charge.release}
        if series.number == 0:
            writing.add("series", state.name, **of_run, **series.opening())
        writing.add("period", state.name, **of_run, **series.stated())


def disclose(writing: Writing, state: DatasetState, charge: Charge) -> None:
    """Record what the run discloses exactly. BudgetRefusedError where that is not allowed."""
    recorded = [event.exact() for event in state.exact.get(charge.run, ())]
    asked = [exact for exact in sorted(charge.exact) if exact not in recorded]
    if refused := undeclared(state.allowed, state.disclosed, asked):
        raise UndeclaredError(state, refused)
    if asked and state.closed:
        raise UndeclaredError(state, asked)
    for exact in asked:
        writing.add("exact", state.name, run=charge.run, release=charge.release, **exact_event(exact))


def key_of(datasets: dict[str, DatasetState], state: DatasetState, charge: Charge) -> KeyUse | None:
    """How the run uses its key. InputError where it was used over other records, or the same ones read otherwise."""
    if charge.key is None:
        return None
    use, before = charge.key, uses_like(datasets, charge.key)
    recorded = state.keys.get(charge.run, use)
    if other := conflicting(state.name, use, before) or (state.name if recorded != use else ""):
        raise InputError(
            f"ledger: the key of this run was used over other records before, or over the same ones read otherwise, of "
            f"the dataset {other!r}; two releases with one key show where their records are the same: let the run draw "
            "its own key, or give another one; nothing was charged or drawn"
        )
    return use


def record_key(writing: Writing, state: DatasetState, charge: Charge, use: KeyUse | None) -> None:
    """Record how the run uses its key, from `key_of`, unless it is."""
    run = charge.run
    if use is None or run in state.keys:
        return
    writing.add("key", state.name, run=run, release=charge.release, details=use.details())


_NAME: Final = re.compile(r"\w[\w.-]{0,99}")


def check_dataset(name: str, population: str, framework: str, budget: Fraction, neighbours: str) -> None:
    """InputError where a dataset cannot be opened so, see `Ledger.open_dataset`; no ledger is needed to say it."""
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


class Ledger:
    """The budgets of datasets and what was spent of them.

    >>> with Ledger.open(url) as ledger:                                     # doctest: +SKIP
    ...     reservation = ledger.reserve(charge, noted=read_notes(out, ledger.id).values())
    ...     note_event(run.restricted, reservation.head)
    ...     measure()
    ...     note_event(run.restricted, ledger.commit(reservation))
    """

    def __init__(self, store: Store, marks: Marks | None = None) -> None:
        self._store = store
        self._marks = Marks() if marks is None else marks

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        create: bool = False,
        state: Path | None = None,
        clock: Callable[[], datetime] = utc_now,
        new_id: Callable[[], str] = random_id,
    ) -> Self:
        """The ledger at `url`, by default the user's own; see `Store.open` for what it raises.

        Args:
            url: of the database, or the path of a SQLite file.
            create: make it if there is none.
            state: folder in which its high-water mark is kept; by default the user's state folder.
            clock: by which events are dated, in UTC.
            new_id: gives the id if the ledger is made now.
        """
        return cls(Store.open(url, create=create, clock=clock, new_id=new_id), Marks(state))

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

    def open_dataset(
        self,
        name: str,
        *,
        population: str,
        framework: str,
        budget: Fraction,
        neighbours: str,
        exact: Iterable[Subject | str] = (),
        purposes: Mapping[str, Fraction] | None = None,
        units: str = "",
    ) -> Head:
        """Give a dataset its budget, which never changes.

        Args:
            name: what specs call the dataset.
            population: a description of the people in it, and the date.
            framework: "zcdp" (the budget is rho) or "pure" (epsilon).
            budget: above 0, exact.
            neighbours: "change-one" or "add-remove".
            exact: what may be published exactly, each as a subject or as `Subject.parse` reads it; by default nothing.
            purposes: shares of the budget that are set aside: for `QUESTIONS`, or for releases by their names.
            units: the records' column of units with several records, such as patients: nothing can then be charged
                that protects single records alone.

        Raises:
            InputError: a value is not allowed, or there is a dataset of that name.
        """
        check_dataset(name, population, framework, budget, neighbours)
        subjects, aside = _subjects(exact), purpose_events(purposes or {}, Fraction(budget))
        with self._writing() as writing:
            if name in self._checked(writing):
                raise InputError(f"ledger: there is a dataset {name!r} already; its budget cannot be changed")
            writing.add(
                "open",
                name,
                population=population.strip(),
                framework=framework,
                neighbours=neighbours,
                budget=str(Fraction(budget)),
                details=details_text({"units": units.strip()}) if units.strip() else "",
            )
            for purpose in aside:
                writing.add("purpose", name, **purpose)
            for subject in subjects:
                writing.add("allow", name, **allow_event(subject))
            return writing.head

    def allow_exact(self, name: str, *exact: Subject | str) -> Head:
        """Declare that more may be published exactly of a dataset; each stands for one meaning, see `events`.

        Raises:
            InputError: nothing is declared, there is no such dataset, or it is closed.
        """
        subjects = _subjects(exact)
        if not subjects:
            raise InputError("ledger: nothing to allow; give at least one --exact")
        with self._writing() as writing:
            if self._dataset(self._checked(writing), name).closed:
                raise InputError(f"ledger: the dataset {name!r} is closed; nothing more of it becomes exact")
            for one in subjects:
                writing.add("allow", name, **allow_event(one))
            return writing.head

    def reserve(self, *charges: Charge, noted: Iterable[Head] = ()) -> Reservation:
        """Charge a run for everything that it will draw, all or nothing; nothing may be drawn before this returns.

        A charge to a run that was charged for the same before costs nothing, in a closed dataset too.

        Args:
            charges: one for each universe of the run.
            noted: what run directories remember of the ledger (`read_notes`); it must be in it.

        Raises:
            OverspentError: a dataset does not have enough left.
            UndeclaredError: an exact disclosure was not declared.
            BudgetRefusedError: a dataset is closed.
            InputError: there is no such dataset, its neighbours are others, a mechanism has no cost in its unit, or the
                key was used over other records.
            LedgerError: the ledger is damaged or was put back, or the run was charged for something else before.
        """
        with self._writing() as writing:
            datasets = self._checked(writing, charges)
            heads = tuple(noted)
            check_noted(writing.head, writing.hashes(head.number for head in heads), heads)
            before = writing.head
            states = [self._dataset(datasets, charge.dataset) for charge in charges]
            # Before budgets: which of two refusals came would say whether the records are those of before.
            uses = [key_of(datasets, state, charge) for state, charge in zip(states, charges, strict=True)]
            for state, charge, use in zip(states, charges, uses, strict=True):
                charge_run(writing, state, charge, self.place)
                disclose(writing, state, charge)
                record_key(writing, state, charge, use)
            charged = self._charged(datasets, charges)
            return Reservation(charges, new=writing.head != before, head=writing.head, charged=charged)

    def commit(self, reservation: Reservation) -> Head:
        """Record that everything reserved was drawn; it costs nothing, and nothing the second time.

        Raises:
            LedgerError: the ledger is damaged, or the reservation is not in it.
        """
        with self._writing() as writing:
            datasets = self._checked(writing, reservation.charges)
            for charge in reservation.charges:
                state = self._dataset(datasets, charge.dataset)
                if charge.run not in state.runs:
                    raise LedgerError(
                        f"ledger {self.place}: the run was not charged to {charge.dataset!r}; the ledger was put back"
                    )
                if charge.run not in state.committed:
                    writing.add("commit", charge.dataset, run=charge.run, release=charge.release)
            return writing.head

    def close_dataset(self, name: str) -> Head:
        """Permanently close the dataset's budget; what is left of it is given up.

        Raises:
            InputError: there is none of that name, or it is closed.
        """
        with self._writing() as writing:
            if self._dataset(self._checked(writing), name).closed:
                raise InputError(f"ledger: the dataset {name!r} is closed already")
            writing.add("close", name)
            return writing.head

    def datasets(self) -> dict[str, DatasetState]:
        """All datasets by name. LedgerError if the ledger is damaged."""
        seen = self._marks.seen(self.id)
        events = self._store.read()
        datasets, problems = replay(self.id, events)
        hashes = {event.number: event.hash for event in events}
        self._refuse(problems, self._marks.passed_by(head_of(self.id, events), hashes, seen))
        return datasets

    def dataset(self, name: str) -> DatasetState:
        """The dataset of that name. InputError if there is none, LedgerError if the ledger is damaged."""
        return self._dataset(self.datasets(), name)

    def events(self) -> tuple[Event, ...]:
        """All events, unchecked."""
        return tuple(self._store.read())

    def head(self) -> Head:
        """The last event."""
        last = self._store.last()
        return head_of(self.id, [] if last is None else [last])

    def verify(self, noted: Iterable[Head] = ()) -> tuple[str, ...]:
        """What is wrong with the ledger, a sentence each; empty if nothing is.

        Args:
            noted: what run directories remember of it (`read_notes`).
        """
        seen, path = self._marks.seen(self.id), self._marks.checkpoint(self.id)
        kept = Checkpoint.read(path, self.id)
        events = self._store.read()
        last, hashes = head_of(self.id, events), {event.number: event.hash for event in events}
        if kept is not None and hashes.get(kept.head.number) != kept.head.hash:
            kept = None  # of another state of the ledger: the mark tells, the next charge verifies all
        summed = last if kept is None else kept.head
        datasets, problems = replay(self.id, events[: summed.number])
        if kept is not None and not problems and Checkpoint.of(datasets, kept.head, kept.witness) != kept:
            problems.append(
                f"{path}: what is kept there is not what the first {summed.number} events add up to: it was changed; "
                "remove it, the next charge then verifies all events; charges since may not have been refused"
            )
        problems += continued(datasets, summed.number, summed.hash, events[summed.number :])
        problems += [*self._store.problems(), *self._marks.passed_by(last, hashes, seen)]
        for one in noted:
            try:
                check_noted(last, hashes, [one])
            except LedgerError as error:
                problems.append(str(error))
        return tuple(problems)

    def charged(self, *charges: Charge) -> tuple[Charged, ...]:
        """Where the charges of a run stand that were made before, by dataset; KeyError where one was not."""
        return self._charged(self.datasets(), charges)

    def _charged(self, datasets: dict[str, DatasetState], charges: Sequence[Charge]) -> tuple[Charged, ...]:
        """Where the charges of a run stand, by dataset."""
        found = []
        for name in dict.fromkeys(charge.dataset for charge in charges):
            state, own = datasets[name], [charge for charge in charges if charge.dataset == name]
            costs = [event for charge in own for event in state.runs[charge.run]]
            exact = [
                event for charge in own for event in state.exact.get(charge.run, ()) if event.exact() in charge.exact
            ]
            last = max([*costs, *exact], key=lambda event: event.number)
            found.append(
                Charged(
                    name,
                    Head(self.id, last.number, last.hash),
                    state.unit,
                    sum((Fraction(event.cost) for event in costs), Fraction(0)),
                    tuple((one.universe, one.subject) for one in sorted(event.exact() for event in exact)),
                )
            )
        return tuple(found)

    @contextmanager
    def _writing(self) -> Iterator[Writing]:
        """A transaction; what it leaves as the last event is the high-water mark once it is on disk."""
        with self._marks.held(self.id):
            path = self._marks.checkpoint(self.id)
            kept = Checkpoint.read(path, self.id)
            with self._store.writing(kept) as writing:
                yield writing
            self._marks.raise_to(writing.head)
            left = Checkpoint.of(writing.datasets, writing.head, writing.witness)
            if left.witness and writing.is_sound and left != kept:
                try:
                    left.write(path)
                except OSError as error:  # the next write verifies all events, or those since the older one
                    logging.getLogger(__name__).warning("%s: the checkpoint is not kept (%s)", path, error)

    def _checked(self, writing: Writing, charges: Sequence[Charge] = ()) -> dict[str, DatasetState]:
        """The datasets, as far as the charges concern them; by the checkpoint if its events are untouched, else all."""
        seen = self._marks.seen(self.id)
        problems = [] if writing.resume(charges) else writing.replay()
        hashes = writing.hashes([] if seen is None else [seen.number])
        self._refuse(problems, self._marks.passed_by(writing.head, hashes, seen))
        return writing.datasets

    def _refuse(self, problems: Sequence[str], passed: Sequence[str]) -> None:
        """LedgerError where the events have problems, or do not pass the mark."""
        if problems:
            more = f" ({len(problems) - 1} more problems)" if problems[1:] else ""
            raise LedgerError(f"ledger {self.place} is damaged: {problems[0]}{more}; nothing is charged to it")
        if passed:
            raise LedgerError(passed[0])

    def _dataset(self, datasets: dict[str, DatasetState], name: str) -> DatasetState:
        if name not in datasets:
            names = ", ".join(sorted(datasets)) or "none"
            raise InputError(
                f"ledger {self.place}: there is no dataset {name!r}; it has {names}: `spinewise ledger open` makes one"
            )
        return datasets[name]


def _subjects(exact: Iterable[Subject | str]) -> list[Subject]:
    return [Subject.parse(one) if isinstance(one, str) else one for one in exact]


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


class UndeclaredError(BudgetRefusedError):
    """A run would publish exact numbers of a dataset that were not declared. Nothing was charged."""

    def __init__(self, state: DatasetState, refused: Sequence[Exact]) -> None:
        used_up = [] if state.closed else state.allowed
        subjects = [
            f"{exact}{' (declared, but used up for other numbers)' if exact.subject in used_up else ''}"
            for exact in refused
        ]
        options = " ".join(dict.fromkeys(f'--exact "{exact.subject}"' for exact in refused))
        way = (
            "the dataset is closed, so nothing more of it becomes exact"
            if state.closed
            else f"leave it out of the spec, or declare it openly: spinewise ledger allow {state.name} {options}"
        )
        super().__init__(
            f"exact disclosures of the dataset {state.name!r}: the spec publishes {', '.join(subjects)} exactly, which "
            f"no budget covers and the ledger does not allow; {way}; refused, and nothing was charged or drawn"
        )


def amount_text(value: Fraction, *, up: bool = False) -> str:
    """A decimal of six digits and, where it is not the same and not too long, the exact fraction.

    >>> amount_text(Fraction(293764, 114921), up=True), amount_text(Fraction(5, 2))
    ('2.55623 (293764/114921)', '2.5')
    """
    text = decimal_text(value, 6, up=up)
    if Fraction(text) == value or value.denominator.bit_length() > 100:
        return text
    return f"{text} ({value})"
