"""A dataset of a ledger as its events so far leave it: what was spent, for what, and what may still be."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from pipeline.privacy.budget import Framework
from pipeline.privacy.ledger.chain import Event
from pipeline.privacy.ledger.disclosures import Exact, Subject
from pipeline.privacy.ledger.key_uses import KeyUse

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
        return "rho" if self.framework == "zcdp" else "epsilon"
