"""The ledger as one state machine, with a model in exact fractions beside it.

Runs are charged, refused, repeated and committed, datasets opened and closed; processes are killed at each point of a
charge and race for what is left; older copies of the file and spoilt checkpoints are put in its place. After each step
what is spent is what the model says, and nothing is wrong with the ledger.
"""

from __future__ import annotations

import copy
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from auditor.ledger import chain_problems, read_ledger
from pipeline.errors import InputError
from pipeline.privacy.ledger import ledger as ledger_module
from pipeline.privacy.ledger.charges import Charge, Reservation
from pipeline.privacy.ledger.dataset import DatasetState
from pipeline.privacy.ledger.events import Exact, Group, KeyUse, LedgerError, Subject
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.notes import Checkpoint, Marks
from pipeline.privacy.ledger.store import Writing

SUBJECTS = ("county:total", "zeros")
#: What a transaction can end with; a process says by its exit status which it was.
ENDS = ("new", "same", "InputError", "LedgerError", "BudgetRefusedError", "OverspentError", "UndeclaredError")
#: Where a process is killed: what it is about to call, and how often it has called it before.
POINTS: dict[str, tuple[type, str, int]] = {
    "before its first event": (Writing, "add", 0),
    "between two events": (Writing, "add", 1),
    "before the mark": (Marks, "raise_to", 0),
    "before the checkpoint": (Checkpoint, "write", 0),
}


@dataclass(frozen=True)
class Asked:
    """A charge: amounts of the dataset's unit, meanings of exact numbers, and a key over some records."""

    dataset: str
    run: int
    amounts: tuple[Fraction, ...]
    release: str
    exact: tuple[tuple[str, int], ...]
    key: tuple[int, int] | None
    universe: str = ""

    @property
    def use(self) -> tuple[str, int, int] | None:
        """The universe, the key and the records: one universe's streams are no other's."""
        return None if self.key is None else (self.universe, *self.key)


@dataclass
class Known:
    """A dataset, as the model has it; `parts` and `spent` by purpose, "" for none."""

    pure: bool
    one: bool  # add-remove: one number moves, and not two
    parts: dict[str, Fraction]
    allowed: Counter[str]
    closed: bool = False
    spent: Counter[str] = field(default_factory=Counter)
    runs: dict[int, tuple[Fraction, ...]] = field(default_factory=dict)
    meanings: dict[str, set[int]] = field(default_factory=dict)
    exact: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    keys: dict[int, tuple[str, int, int]] = field(default_factory=dict)

    def charge(self, asked: Asked) -> str:
        """What becomes of a charge; changed where it is allowed."""
        end = "same"
        if asked.run in self.runs:
            if self.runs[asked.run] != asked.amounts:
                return "LedgerError"
        else:
            purpose = "questions" if asked.release.startswith("answer ") and "questions" in self.parts else ""
            if self.closed:
                return "BudgetRefusedError"
            if self.spent[purpose] + sum(asked.amounts) > self.parts[purpose]:
                return "OverspentError"
            self.spent[purpose] += sum(asked.amounts)  # type: ignore[assignment]
            self.runs[asked.run], end = asked.amounts, "new"
        further = set(asked.exact) - self.exact.setdefault(asked.run, set())
        for subject, meaning in further:
            self.meanings.setdefault(subject, set()).add(meaning)
            if len(self.meanings[subject]) > self.allowed[subject] or self.closed:
                return "UndeclaredError"
        self.exact[asked.run] |= further
        if asked.use is not None and asked.run not in self.keys:
            self.keys[asked.run], end = asked.use, "new"
        return "new" if further else end


Model = dict[str, Known]


def after(model: Model, charges: Sequence[Asked]) -> tuple[str, Model]:
    """What becomes of the charges of one run, all or nothing, and the model after it."""
    if not all(asked.dataset in model for asked in charges):
        return "InputError", model
    for asked in charges:
        if (use := asked.use) is None:
            continue
        own = model[asked.dataset].keys
        used = [(name, one) for name, known in model.items() for one in known.keys.values() if one[:2] == use[:2]]
        if any(one != (asked.dataset, use) for one in used) or own.get(asked.run, use) != use:
            return "InputError", model
    changed = copy.deepcopy(model)
    ends = []
    for asked in charges:
        ends.append(changed[asked.dataset].charge(asked))
        if ends[-1] not in ("new", "same"):
            return ends[-1], model
    return "new" if "new" in ends else "same", changed


def charge_of(asked: Asked, model: Model) -> Charge:
    """As the program states it: the scale of noise that costs each amount."""
    known = model.get(asked.dataset)
    pure, one = (known.pure, known.one) if known else (False, False)
    numbers = 1 if one else 2
    groups = tuple(
        Group(
            f"level{number}",
            "total",
            "discrete_laplace" if pure else "discrete_gaussian",
            numbers / amount if pure else numbers / (2 * amount),
            1,
        )
        for number, amount in enumerate(asked.amounts)
    )
    exact = tuple(Exact(Subject.parse(subject), "", f"{meaning:064x}", 1) for subject, meaning in asked.exact)
    key = (
        None if asked.key is None else KeyUse(f"{asked.key[0]:064x}", asked.universe, "a" * 64, f"{asked.key[1]:064x}")
    )
    neighbours = "add-remove" if one else "change-one"
    run = f"{asked.run:064x}"
    return Charge(asked.dataset, run, asked.release, neighbours, groups, exact, key)


NAMES = st.sampled_from(["people", "homes"])
CHARGES = st.lists(
    st.builds(
        Asked,
        NAMES,
        st.integers(0, 5),
        st.lists(st.sampled_from([Fraction(n) for n in ("1/3", "1/4", "1/7", "1/10")]), min_size=1, max_size=3).map(
            tuple
        ),
        st.sampled_from(["census", "answer one"]),
        st.lists(st.tuples(st.sampled_from(SUBJECTS), st.integers(1, 2)), max_size=1).map(tuple),
        st.sampled_from([None, None, (1, 1), (1, 1), (1, 2), (2, 1)]),
    ),
    min_size=1,
    max_size=2,
).map(lambda made: [replace(one, universe=name) for one, name in zip(made, ("", "units"), strict=False)])


class Machine(RuleBasedStateMachine):
    """A ledger in a file of SQLite."""

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-machine-", dir=memory))
        self.url = self.new_url()
        self.state = self.folder / "state"
        self.ledger = Ledger.open(self.url, create=True, state=self.state)
        self.model: Model = {}
        self.reserved: list[Reservation] = []
        self.copies: list[tuple[bytes, int]] = []
        self.checkpoints: list[bytes] = [b"", b"{}"]

    def new_url(self) -> str:
        return str(self.folder / "ledger.sqlite")

    @property
    def file(self) -> Path | None:
        return None if "://" in self.url else Path(self.url)

    def end_of(self, use: Callable[[], object]) -> str:
        """The name of what it raises; else whether it was new."""
        try:
            made = use()
        except Exception as error:  # every other kind is none that the model knows
            return type(error).__name__
        return "new" if not isinstance(made, Reservation) or made.new else "same"

    def forked(self, charges: Sequence[Asked], point: str = "") -> int:
        """A process that charges, and is killed at a point; its number."""
        asked = [charge_of(one, self.model) for one in charges]
        child = os.fork()
        if child:
            return child
        try:
            if point:
                owner, name, before = POINTS[point]
                sound, calls = getattr(owner, name), Counter[str]()

                def killed(*given: Any, **named: Any) -> Any:
                    calls[name] += 1
                    if calls[name] > before:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return sound(*given, **named)

                setattr(owner, name, killed)
            with Ledger.open(self.url, state=self.state) as ledger:
                end = self.end_of(lambda: ledger.reserve(*asked))
            os._exit(ENDS.index(end))
        finally:
            os._exit(100)

    @initialize(pure=st.booleans(), one=st.booleans(), aside=st.booleans())
    def first(self, pure: bool, one: bool, aside: bool) -> None:
        self.open("people", Fraction(2), pure, one, aside)
        self.copied()

    @rule(
        name=NAMES,
        budget=st.sampled_from([Fraction(1), Fraction(5, 7)]),
        pure=st.booleans(),
        one=st.booleans(),
        aside=st.booleans(),
    )
    def open(self, name: str, budget: Fraction, pure: bool, one: bool, aside: bool) -> None:
        framework, neighbours = "pure" if pure else "zcdp", "add-remove" if one else "change-one"
        purposes = {"questions": Fraction(1, 3)} if aside else {}
        end = self.end_of(
            lambda: self.ledger.open_dataset(
                name,
                population="all",
                framework=framework,
                budget=budget,
                neighbours=neighbours,
                exact=SUBJECTS[:1],
                purposes=purposes,
            )
        )
        assert end == ("InputError" if name in self.model else "new")
        if name not in self.model:
            parts = {"": budget * Fraction(2, 3), "questions": budget / 3} if aside else {"": budget}
            self.model[name] = Known(pure, one, parts, Counter(SUBJECTS[:1]))

    @rule(charges=CHARGES)
    def reserve(self, charges: list[Asked]) -> None:
        end, self.model = after(self.model, charges)
        asked = [charge_of(one, self.model) for one in charges]
        before = self.ledger.head()
        assert self.end_of(lambda: self.reserved.append(self.ledger.reserve(*asked)) or self.reserved[-1]) == end  # type: ignore[func-returns-value]
        assert (self.ledger.head() != before) == (end == "new")

    @rule(charges=CHARGES)
    def the_same_again(self, charges: list[Asked]) -> None:
        """A run that was charged costs nothing, whatever came since, in a closed dataset too."""
        self.reserve(charges)
        end, _ = after(self.model, charges)
        self.reserve(charges)
        assert end != "new"

    @rule()
    def commit(self) -> None:
        if self.reserved:
            head = self.ledger.commit(self.reserved[-1])
            assert self.ledger.commit(self.reserved[-1]) == head

    @rule(name=NAMES, subject=st.sampled_from(SUBJECTS))
    def allow(self, name: str, subject: str) -> None:
        sound = name in self.model and not self.model[name].closed
        assert self.end_of(lambda: self.ledger.allow_exact(name, subject)) == ("new" if sound else "InputError")
        if sound:
            self.model[name].allowed[subject] += 1

    @rule(name=st.sampled_from(["people", "homes", "homes"]), often=st.integers(0, 3))
    def close(self, name: str, often: int) -> None:
        if often:  # seldom: little can happen to a closed dataset
            return
        sound = name in self.model and not self.model[name].closed
        assert self.end_of(lambda: self.ledger.close_dataset(name)) == ("new" if sound else "InputError")
        if sound:
            self.model[name].closed = True

    @rule(charges=CHARGES, point=st.sampled_from(sorted(POINTS)))
    def kill(self, charges: list[Asked], point: str) -> None:
        """What was not on disk is not charged; what was is charged as if nothing had happened."""
        end, changed = after(self.model, charges)
        status = os.waitstatus_to_exitcode(os.waitpid(self.forked(charges, point), 0)[1])
        if status != -signal.SIGKILL:
            assert ENDS[status] == end
            self.model = changed
        elif POINTS[point][0] is not Writing:
            assert end in ("new", "same")
            self.model = changed

    @rule(one=CHARGES, other=CHARGES)
    def race(self, one: list[Asked], other: list[Asked]) -> None:
        """Two at once end as one after the other, in either order."""
        children = [self.forked(charges) for charges in (one, other)]
        found = [ENDS[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] for child in children]
        allowed = []
        for charges in ((one, other), (other, one)):
            first, between = after(self.model, charges[0])
            second, model = after(between, charges[1])
            allowed.append(([first, second] if charges[0] is one else [second, first], model))
        spent = {name: state.spent_for for name, state in self.ledger.datasets().items()}
        fitting = [
            model
            for ends, model in allowed
            if ends == found and all(+known.spent == spent[name] for name, known in model.items())
        ]
        assert fitting, (found, allowed)
        self.model = fitting[0]

    @rule()
    def copied(self) -> None:
        """A backup of the file, and of what is kept of it."""
        if self.file is not None:
            self.copies.append((self.file.read_bytes(), len(self.ledger.events())))
        kept = Marks(self.state).checkpoint(self.ledger.id)
        if kept.exists():
            self.checkpoints.append(kept.read_bytes())

    @rule(charges=CHARGES)
    def put_back(self, charges: list[Asked]) -> None:
        """An older file is refused by the mark; by who has none, by the notes of runs. The newest is continued."""
        if self.file is None or not self.copies or self.copies[0][1] == len(self.ledger.events()):
            return
        newest, head = self.file.read_bytes(), self.ledger.head()
        self.file.write_bytes(self.copies[0][0])
        asked = [charge_of(one, self.model) for one in charges]
        with pytest.raises(LedgerError, match="put back to an older state"):
            self.ledger.reserve(*asked)
        with pytest.raises(LedgerError, match="put back to an older state"):
            self.ledger.datasets()
        assert self.ledger.verify() != ()
        with Ledger.open(self.url, state=self.folder / "elsewhere") as other:
            with pytest.raises(LedgerError, match="put back to an older state"):
                other.reserve(*asked, noted=[head])
            assert other.verify([head]) != ()
        assert self.file.read_bytes() == self.copies[0][0]
        self.file.write_bytes(newest)

    @rule(which=st.integers(0, 3), gone=st.booleans())
    def checkpoint(self, which: int, gone: bool) -> None:
        """What is kept of the events is missing, damaged or older."""
        kept = Marks(self.state).checkpoint(self.ledger.id)
        if gone:
            kept.unlink(missing_ok=True)
        elif which < len(self.checkpoints):
            kept.write_bytes(self.checkpoints[which])

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.url, state=self.state)

    @invariant()
    def what_is_spent_is_what_the_model_says(self) -> None:
        states = self.ledger.datasets()
        assert states.keys() == self.model.keys()
        for name, known in self.model.items():
            state = states[name]
            assert state.spent == sum(known.spent.values())
            assert (state.closed, set(state.runs)) == (known.closed, {f"{run:064x}" for run in known.runs})
            for purpose, part in known.parts.items():
                assert state.left_for(purpose) == part - known.spent[purpose] >= 0
        assert self.ledger.verify() == ()

    def teardown(self) -> None:
        self.ledger.close()
        try:
            if self.file is not None:
                assert chain_problems(*read_ledger(self.url)) == []
        finally:
            shutil.rmtree(self.folder)


def test_whatever_happens_to_a_ledger_it_is_what_the_model_says() -> None:
    how = settings(max_examples=10, stateful_step_count=20, phases=[Phase.generate])
    run_state_machine_as_test(Machine, settings=how)


@pytest.mark.slow
def test_whatever_happens_for_longer(new_database: Callable[[], str]) -> None:
    """Also to one in a database of PostgreSQL, which has no file to be put back."""

    class Served(Machine):
        def new_url(self) -> str:
            return new_database()

    run_state_machine_as_test(Served, settings=settings(max_examples=15, stateful_step_count=25))
    run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=40))


def not_in_one(self: Writing, *given: Any, **named: Any) -> Any:
    """Each event is on disk by itself."""
    event = _ADD(self, *given, **named)
    self._connection.exec_driver_sql("COMMIT")
    self._connection.exec_driver_sql("BEGIN IMMEDIATE")
    return event


_ADD = Writing.add
#: Faults: what is put in whose place.
FAULTS: dict[str, tuple[object, str, object]] = {
    "events are not written together": (Writing, "add", not_in_one),
    "parts that are set aside are not kept": (DatasetState, "left_for", lambda self, _: self.left),
    "marks are not looked at": (Marks, "passed_by", lambda *_: []),
    "declarations are not used up": (ledger_module, "undeclared", lambda *_: []),
    "keys are not compared": (ledger_module, "conflicting", lambda *_: ""),
    "a run again is never known": (ledger_module, "same_groups", lambda *_: True),
    "the budget is not looked at": (DatasetState, "left_for", lambda *_: 10**6),
}


#: It takes some time until two runs with one key, or the same run for something else, come about.
LATE = ("keys are not compared", "a run again is never known")


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=[pytest.mark.slow] if one in LATE else []) for one in FAULTS]
)
def test_a_fault_of_the_ledger_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power arm: the same machine, without looking for the smallest example."""
    monkeypatch.setattr(*FAULTS[fault])
    how = settings(max_examples=150, stateful_step_count=20, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((AssertionError, pytest.fail.Exception, InputError, LedgerError)):
        run_state_machine_as_test(Machine, settings=how)
