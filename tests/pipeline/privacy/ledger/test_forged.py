"""Whatever is done to the events shows: by the hashes, and where the chain was made anew, by the rules and the prices.

One ledger with every kind of event is changed in each way; the program judges it, and the auditor where it can.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest

from auditor.ledger import chain_problems, read_ledger
from pipeline.errors import InputError
from pipeline.model.exact import epsilon_text
from pipeline.model.series import FIRST
from pipeline.privacy.ledger.chain import EventKind, details_text, sealed
from pipeline.privacy.ledger.charges import Charge, RunFingerprint
from pipeline.privacy.ledger.disclosures import Exact, Subject
from pipeline.privacy.ledger.events import ANSWER, Event, Group, over_series, replay
from pipeline.privacy.ledger.key_uses import KeyUse
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.report import check_export, dataset_report, export_text, spent_epsilon
from pipeline.privacy.ledger.series import SeriesUse

Chain = tuple[str, list[Event]]
Change = Callable[[list[Event]], list[Event]]

DISTANCE = Fraction(7, 2)  # of a history, in records
DELTA = Fraction(1, 10**10)


def charge(run: int, release: str, scale: str, **rest: Any) -> Charge:
    group = Group("county", "total", "discrete_gaussian", Fraction(scale), 3)
    return Charge("people", RunFingerprint(f"{run:064x}"), release, "change-one", (group,), **rest)


def period(number: int) -> Charge:
    """Of a series of three; its first one is charged for all: sigma^2 = 7/2 costs 1."""
    use = SeriesUse("padron", "a" * 64, 3, number, f"203{number}", f"{number:064x}" if number else FIRST)
    group = Group("county", "total" + over_series(DISTANCE), "discrete_gaussian", DISTANCE, 3)
    return Charge("people", RunFingerprint(f"{10 + number:064x}"), "padron", "change-one", (group,), series=use)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every kind of event."""
    path = tmp_path_factory.mktemp("made") / "ledger.sqlite"
    purposes = {"questions": Fraction(1, 2), "census-2031": Fraction(1, 4)}
    exact = (Exact(Subject("invariant", "county", "total"), "", "d" * 64, 3),)
    with Ledger.open(str(path), create=True) as ledger:
        ledger.open_dataset(
            "people",
            population="all",
            framework="zcdp",
            budget=Fraction(8),
            neighbours="change-one",
            exact=["county:total"],
            purposes=purposes,
        )
        ledger.open_dataset("homes", population="all", framework="zcdp", budget=Fraction(3), neighbours="change-one")
        key = KeyUse("1" * 64, "", "2" * 64, "3" * 64)
        ledger.reserve(charge(1, "census-2030", "2", exact=exact, key=key))
        ledger.commit(ledger.reserve(charge(2, ANSWER + "one", "2/3")))
        for number in (0, 1):
            ledger.reserve(period(number))
        ledger.close_dataset("homes")
        assert ledger.verify() == ()
    assert chain_problems(*read_ledger(str(path))) == []
    return path


@pytest.fixture(scope="module")
def chain(place: Path) -> Chain:
    with Ledger.open(str(place)) as ledger:
        return ledger.id, list(ledger.events())


def made_anew(chain: Chain, change: Change) -> list[Event]:
    """The chain as somebody would make it who rewrites everything after a change."""
    out: list[Event] = []
    for event in change(list(chain[1])):
        out.append(sealed(event, len(out) + 1, out[-1].hash if out else chain[0]))
    return out


def test_every_kind_of_event_is_there_and_sound(chain: Chain) -> None:
    assert {event.kind for event in chain[1]} == set(get_args(EventKind))
    assert replay(*chain)[1] == []
    assert made_anew(chain, list) == chain[1]


@pytest.mark.parametrize("name", [field.name for field in fields(Event)])
def test_a_change_to_any_field_of_any_event_shows(chain: Chain, name: str) -> None:
    ledger, events = chain
    for i, event in enumerate(events):
        value = getattr(event, name)
        other: dict[str, Any] = {name: value + 1 if isinstance(value, int) else value + "0"}
        changed = replace(event, **other)
        found = replay(ledger, [*events[:i], changed, *events[i + 1 :]])[1]
        assert any(f"event {event.number}:" in line or f"event {changed.number}:" in line for line in found), (i, found)


def test_an_event_left_out_put_in_twice_or_moved_shows(chain: Chain) -> None:
    """But not where the last ones are left out: for these there are marks, and notes of runs."""
    ledger, events = chain
    for i in range(len(events) - 1):
        assert replay(ledger, events[:i] + events[i + 1 :])[1]
        assert replay(ledger, [*events[: i + 1], *events[i:]])[1]
        assert replay(ledger, [*events[:i], events[i + 1], events[i], *events[i + 2 :]])[1]
    assert replay("0" * 64, events)[1], "another ledger's chain"
    assert replay(ledger, events[:5])[1] == []


def altered(kind: str, **changed: str) -> Change:
    """The first event of a kind, altered."""

    def change(events: list[Event]) -> list[Event]:
        at = next(i for i, event in enumerate(events) if event.kind == kind)
        return [*events[:at], replace(events[at], **changed), *events[at + 1 :]]  # type: ignore[arg-type]

    return change


def added(of: str, **changed: str) -> Change:
    """The last event of a kind once more at the end, altered."""
    return lambda events: [*events, replace([one for one in events if one.kind == of][-1], **changed)]  # type: ignore[arg-type]


def without(kind: str) -> Change:
    return lambda events: [event for event in events if event.kind != kind]


def late(events: list[Event]) -> list[Event]:
    """A part is set aside at the end, after charges."""
    aside = [event for event in events if event.kind == "purpose" and event.query != "questions"]
    return [*(event for event in events if event not in aside), *aside]


#: What is done, what the program says of it, and whether the auditor, too, has something to say.
CHANGES: list[tuple[Change, str, bool]] = [
    (altered("charge", cost="1/100"), "charges 1/100 for what costs 1/2", True),
    (altered("charge", cost="0.5"), "not an exact fraction in lowest terms", False),
    (altered("charge", cost="2/4"), "not an exact fraction in lowest terms", False),
    (altered("charge", scale="0"), "must be above 0", False),
    (altered("charge", mechanism="none"), "allowed are discrete_gaussian", False),
    (altered("charge", neighbours="add-remove"), "charges for neighbours", False),
    (altered("charge", details=details_text({"purpose": "census-2031"})), "", True),
    (altered("open", budget="1"), "", True),
    (altered("open", budget="0"), "has the budget 0", False),
    (altered("open", framework="none"), "has the framework 'none'", False),
    (added("open", dataset="people"), "opens the dataset 'people' again", False),
    (without("open"), "which was not opened", False),
    (added("charge"), "twice, or no run", False),
    (added("charge", run="e" * 64, dataset="homes"), "which is closed", False),
    (added("commit"), "is committed already", False),
    (added("close"), "closes 'homes' again", False),
    (added("close", kind="forgive"), "'forgive' is not a kind of event", False),
    (without("allow"), "discloses county:total of 'people' exactly, which was not declared", False),
    (altered("purpose", budget="8", details=details_text({"share": "1"})), "", True),
    (altered("purpose", budget="3"), "", True),
    (altered("purpose", budget="1/2", details=details_text({"share": "1/16"})), "", True),
    (late, "after a charge", True),
    (added("period", run="e" * 64), "draws period '2031' of the series 'padron', which is not the next one", True),
    (added("key", run=f"{2:064x}", details=KeyUse("1" * 64, "", "2" * 64, "4" * 64).details()), "other records", False),
]


@pytest.mark.parametrize(("change", "told", "audited"), CHANGES)
def test_a_chain_made_anew_must_still_add_up(chain: Chain, change: Change, told: str, audited: bool) -> None:
    """The rules are checked apart from the hashes."""
    forged = made_anew(chain, change)
    found = replay(chain[0], forged)[1]
    assert any(told in line for line in found), found
    if audited:
        assert chain_problems(chain[0], [asdict(event) for event in forged])


def test_an_exported_ledger_can_be_checked_by_itself(chain: Chain, tmp_path: Path) -> None:
    text, path = export_text(*chain), tmp_path / "export.json"
    path.write_text(text)
    assert check_export(path) == (len(chain[1]), [])
    path.write_text(text.replace('"cost": "1/2"', '"cost": "1/3"', 1))
    assert check_export(path)[1]
    for bad in ("", "{}", "[]", '{"format": 2}', text.replace('"count"', '"counts"', 1)):
        path.write_text(bad)
        with pytest.raises(InputError):
            check_export(path)
    whole = json.loads(text)
    others: tuple[object, ...] = (None, True, 0, 1.0, 2.0, "", [], {})
    for key in whole:  # an empty object in place of the events would have none that is wrong
        for other in others:
            if type(other) is not type(whole[key]):
                path.write_text(json.dumps(whole | {key: other}))
                with pytest.raises(InputError, match=r"is not an exported ledger|found the format"):
                    check_export(path)


def test_what_is_told_of_a_dataset(place: Path) -> None:
    with Ledger.open(str(place)) as ledger:
        state, empty = ledger.dataset("people"), ledger.dataset("homes")
    report = dataset_report(state, DELTA)
    assert (report["budget"], report["spent"], report["left"], report["closed"]) == ("8", "3", "5", False)
    assert [(run["cost"], run["committed"], run["measurements"]) for run in report["runs"]] == [
        ("1/2", False, 1),
        ("3/2", True, 1),
        ("1", False, 1),
        ("0", False, 0),
    ]
    assert {part["for"]: (part["budget"], part["left"]) for part in report["purposes"]} == {
        "questions": ("4", "5/2"),
        "census-2031": ("2", "2"),
        "": ("2", "1/2"),
    }
    assert report["series"] == [{"name": "padron", "periods": 3, "drawn": ["2030", "2031"]}]
    epsilon = spent_epsilon(state, DELTA)
    assert report["epsilon"] == epsilon_text(epsilon)
    assert epsilon > 16, "of rho = 3, a whole series included"
    assert dataset_report(empty, DELTA)["epsilon"] == "0"
