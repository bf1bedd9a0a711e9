"""Whatever is done to the events, it shows; and the guards of the table keep it from being done by mistake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pipeline.errors import InputError
from pipeline.model.exact import epsilon_text
from pipeline.privacy.ledger.events import DatasetState, Event, Group, LedgerError, replay, sealed
from pipeline.privacy.ledger.ledger import Charge, Ledger, RunFingerprint
from pipeline.privacy.ledger.report import check_export, dataset_report, export_text, spent_epsilon
from pipeline.privacy.ledger.store import GUARDS, ledger_url

LEDGER = "f" * 64


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of eight events: two datasets, two runs, a commit and a close."""
    path = tmp_path_factory.mktemp("made") / "ledger.sqlite"
    with Ledger.open(str(path), create=True) as ledger:
        for name in ("persons", "units"):
            ledger.open_dataset(name, population="all", framework="zcdp", budget=Fraction(3), neighbours="change-one")
        for number in (1, 2):
            groups = tuple(Group(level, "total", "discrete_gaussian", Fraction(2), 5) for level in ("county", "tract"))
            charge = Charge("persons", RunFingerprint(f"{number:064x}"), "release", "change-one", groups)
            reservation = ledger.reserve(charge)
        ledger.commit(reservation)
        ledger.close_dataset("persons")
    return path


@pytest.fixture
def file(made: Path, tmp_path: Path) -> str:
    """A copy of it, to be spoilt."""
    return str(shutil.copy(made, tmp_path / "ledger.sqlite"))


@pytest.fixture(scope="module")
def chain(made: Path) -> tuple[str, list[Event]]:
    with Ledger.open(str(made)) as ledger:
        return ledger.id, list(ledger.events())


def problems(chain: tuple[str, list[Event]], events: list[Event] | None = None) -> list[str]:
    return replay(chain[0], chain[1] if events is None else events)[1]


def resealed(events: list[Event], ledger: str) -> list[Event]:
    """The chain as somebody would make it who rewrites everything after a change."""
    out: list[Event] = []
    for event in events:
        out.append(sealed(event, len(out) + 1, out[-1].hash if out else ledger))
    return out


def test_the_chain_is_sound(chain: tuple[str, list[Event]]) -> None:
    kinds = ["open", "open", "charge", "charge", "charge", "charge", "commit", "close"]
    assert [event.kind for event in chain[1]] == kinds
    assert problems(chain) == []
    assert resealed(chain[1], chain[0]) == chain[1]


@pytest.mark.parametrize("name", [field.name for field in fields(Event)])
def test_a_change_to_any_field_of_any_event_shows(chain: tuple[str, list[Event]], name: str) -> None:
    for i, event in enumerate(chain[1]):
        value = getattr(event, name)
        other: dict[str, Any] = {name: value + 1 if isinstance(value, int) else value + "0"}
        changed = replace(event, **other)
        found = problems(chain, [*chain[1][:i], changed, *chain[1][i + 1 :]])
        assert any(f"event {event.number}:" in line or f"event {changed.number}:" in line for line in found), (i, found)


def test_an_event_left_out_put_in_twice_or_moved_shows(chain: tuple[str, list[Event]]) -> None:
    events = chain[1]
    for i in range(len(events) - 1):
        assert problems(chain, events[:i] + events[i + 1 :])
        assert problems(chain, [*events[: i + 1], *events[i:]])
        assert problems(chain, [*events[:i], events[i + 1], events[i], *events[i + 2 :]])
    assert problems(("0" * 64, events)), "another ledger's chain"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda e: [*e[:2], replace(e[2], cost="1/100"), *e[3:]], "charges 1/100 for what costs 1/2"),
        (lambda e: [*e[:2], replace(e[2], cost="0.5"), *e[3:]], "not an exact fraction in lowest terms"),
        (lambda e: [*e[:2], replace(e[2], cost="2/4"), *e[3:]], "not an exact fraction in lowest terms"),
        (lambda e: [*e[:2], replace(e[2], scale="0"), *e[3:]], "must be above 0"),
        (lambda e: [*e[:2], replace(e[2], mechanism="none"), *e[3:]], "allowed are discrete_gaussian"),
        (lambda e: [*e[:2], replace(e[2], neighbours="add-remove"), *e[3:]], "charges for neighbours"),
        (lambda e: [replace(e[0], budget="1"), *e[1:]], "overspends the budget of 'persons'"),
        (lambda e: [replace(e[0], budget="0"), *e[1:]], "has the budget 0"),
        (lambda e: [replace(e[0], framework="none"), *e[1:]], "has the framework 'none'"),
        (lambda e: [e[0], e[0], *e[2:]], "opens the dataset 'persons' again"),
        (lambda e: [e[0], *e[2:], replace(e[2], dataset="units")], "'units', which was not opened"),
        (lambda e: [*e, e[2]], "twice, or no run"),
        (lambda e: [*e, replace(e[2], run="e" * 64)], "which is closed"),
        (lambda e: [*e, e[6]], "is committed already"),
        (lambda e: [*e, e[7]], "closes 'persons' again"),
        (lambda e: [*e, replace(e[7], kind="forgive")], "'forgive' is not a kind of event"),
    ],
)
def test_a_chain_made_anew_must_still_add_up(
    chain: tuple[str, list[Event]], change: Callable[[list[Event]], list[Event]], match: str
) -> None:
    """The rules are checked apart from the hashes."""
    found = problems(chain, resealed(change(chain[1]), chain[0]))
    assert len(found) >= 1
    assert any(match in line for line in found), found


def test_a_tampered_ledger_is_charged_no_more(file: str) -> None:
    engine = sa.create_engine(ledger_url(file))
    with engine.begin() as connection:
        connection.execute(sa.text(f"DROP TRIGGER {GUARDS[0]}"))
        connection.execute(sa.text("UPDATE ledger_events SET cost = '1/1000' WHERE number = 3"))
    with Ledger.open(file) as ledger:
        found = ledger.verify()
        assert [line.split(":")[0] for line in found] == ["event 3", "event 3", "the table has lost its guard 'ledger"
            "_events_no_update', which keeps events from being changed or removed"]  # fmt: skip
        group = Group("county", "total", "discrete_gaussian", Fraction(2), 5)
        charge = Charge("units", RunFingerprint("9" * 64), "release", "change-one", (group,))
        with pytest.raises(LedgerError, match="is damaged: event 3: was changed"):
            ledger.reserve(charge)
        with pytest.raises(LedgerError, match="is damaged"):
            ledger.dataset("units")


def test_an_exported_ledger_can_be_checked_by_itself(file: str, tmp_path: Path) -> None:
    with Ledger.open(file) as ledger:
        text = export_text(ledger.id, ledger.events())
    path = tmp_path / "export.json"
    path.write_text(text)
    assert check_export(path) == (8, [])
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


def test_what_is_told_of_a_dataset(file: str) -> None:
    with Ledger.open(file) as ledger:
        state = ledger.dataset("persons")
    report = dataset_report(state, Fraction(1, 10**10))
    assert (report["budget"], report["spent"], report["left"], report["closed"]) == ("3", "2", "1", True)
    assert [(run["cost"], run["committed"], run["measurements"]) for run in report["runs"]] == [
        ("1", False, 2),
        ("1", True, 2),
    ]
    epsilon = spent_epsilon(state, Fraction(1, 10**10))
    assert epsilon > 14.0
    assert report["epsilon"] == epsilon_text(epsilon)
    assert dataset_report(ledger_state_of_nothing(), Fraction(1, 10**10))["epsilon"] == "0"


def ledger_state_of_nothing() -> DatasetState:
    opened = Event(0, "open", "now", "d", "all", "zcdp", "change-one", "1")
    return replay(LEDGER, [sealed(opened, 1, LEDGER)])[0]["d"]
