"""Parts of a budget set aside by name: neither questions nor releases can spend what the other has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest

from auditor.ledger import chain_problems, read_ledger
from pipeline.errors import InputError
from pipeline.privacy.ledger.chain import details_text
from pipeline.privacy.ledger.charges import Charge, RunFingerprint
from pipeline.privacy.ledger.events import ANSWER, Event, Group, replay
from pipeline.privacy.ledger.ledger import Ledger, OverspentError
from pipeline.privacy.ledger.report import dataset_report

PURPOSES = {"questions": Fraction(1, 2), "census-2031": Fraction(1, 4)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(place: Path) -> Iterator[Ledger]:
    with Ledger.open(str(place), create=True, state=place.parent / "state") as opened:
        opened_with(opened, PURPOSES)
        yield opened


def opened_with(ledger: Ledger, purposes: dict[str, Fraction], name: str = "people") -> None:
    ledger.open_dataset(
        name, population="x", framework="zcdp", budget=Fraction(4), neighbours="change-one", purposes=purposes
    )


def charge(number: int, rho: str, release: str, dataset: str = "people") -> Charge:
    group = Group("county", "total", "discrete_gaussian", 1 / Fraction(rho), 3)
    return Charge(dataset, RunFingerprint(f"{number:064x}"), release, "change-one", (group,))


def test_each_spends_its_own_part_only(ledger: Ledger, place: Path) -> None:
    ledger.reserve(charge(1, "3/2", ANSWER + "one"))
    with pytest.raises(OverspentError, match=r"'people, set aside for questions': asked for rho = 1, left is 0\.5"):
        ledger.reserve(charge(2, "1", ANSWER + "two"))
    ledger.reserve(charge(2, "1/2", ANSWER + "two"))
    with pytest.raises(OverspentError, match="set aside for nothing by name"):
        ledger.reserve(charge(3, "5/4", "census-2030"))
    ledger.reserve(charge(3, "1", "census-2030"))
    with pytest.raises(OverspentError):
        ledger.reserve(charge(4, "9/8", "census-2031"))
    ledger.reserve(charge(4, "1", "census-2031"))
    ledger.reserve(charge(1, "3/2", ANSWER + "one"))  # the same again, for nothing
    state = ledger.dataset("people")
    assert (state.spent, state.left) == (Fraction(4), Fraction(0))
    told = dataset_report(state, Fraction(1, 10**10))["purposes"]
    assert told == [
        {"for": "questions", "budget": "2", "left": "0"},
        {"for": "census-2031", "budget": "1", "left": "0"},
        {"for": "", "budget": "1", "left": "0"},
    ]
    assert ledger.verify() == ()
    assert chain_problems(*read_ledger(str(place))) == []


@pytest.mark.parametrize(
    "purposes",
    [{"a": "3/4", "b": "1/2"}, {"a": "0"}, {"": "1/2"}, {"a b": "1/2"}, {"a.b": "1/2"}, {"_a": "1/2"}, {"a": "-1"}],
)
def test_what_cannot_be_set_aside_is_refused(ledger: Ledger, purposes: dict[str, str]) -> None:
    with pytest.raises(InputError):
        opened_with(ledger, {name: Fraction(share) for name, share in purposes.items()}, "other")
    assert "other" not in ledger.datasets()


def resealed(ledger: Ledger, change: Callable[[list[Event]], list[Event]]) -> tuple[list[str], list[str]]:
    """What the program and the auditor find of events that were changed and sealed anew."""
    from pipeline.privacy.ledger.chain import sealed

    events: list[Event] = []
    for number, event in enumerate(change(list(ledger.events())), 1):
        events.append(sealed(event, number, events[-1].hash if events else ledger.id))
    return replay(ledger.id, events)[1], chain_problems(ledger.id, [asdict(event) for event in events])


def _other(kind: str, **fields: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [replace(event, **fields) if event.kind == kind else event for event in events]  # type: ignore[arg-type]


CHANGES: dict[str, Callable[[list[Event]], list[Event]]] = {
    "charged to another purpose": _other("charge", details=details_text({"purpose": "census-2031"})),
    "charged to none": _other("charge", details=""),
    "more set aside than there is": _other("purpose", budget="4", details=details_text({"share": "1"})),
    "a part that is not its share": _other("purpose", budget="3"),
    "a smaller part than was spent": _other("purpose", budget="1/2", details=details_text({"share": "1/8"})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_ledger_and_the_auditor_find_what_is_not_so(ledger: Ledger, name: str) -> None:
    ledger.reserve(charge(1, "3/2", ANSWER + "one"))
    assert resealed(ledger, lambda events: events) == ([], [])
    own, auditors = resealed(ledger, CHANGES[name])
    assert own, name
    assert auditors, name


def test_nothing_is_set_aside_after_a_charge(ledger: Ledger) -> None:
    ledger.reserve(charge(1, "3/2", ANSWER + "one"))

    def moved(events: list[Event]) -> list[Event]:
        late = [event for event in events if event.kind == "purpose" and event.query != "questions"]
        return [*(event for event in events if event not in late), *late]

    own, auditors = resealed(ledger, moved)
    assert "after a charge" in own[0]
    assert any("after charges" in problem for problem in auditors)
