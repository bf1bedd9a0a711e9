"""What a run asks of the ledger and is answered: budgets, exact numbers, keys, and the periods of a series.

And whatever is done to the events shows: by the hashes, and where the chain was made anew, by the rules and the prices.
One ledger with every kind of event is changed in each way; the program judges it, and the auditor where it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest

from auditor.ledger import chain_problems, priced, read_ledger
from auditor.reading.findings import FormError
from pipeline.confidential.charge import check_charged
from pipeline.errors import InputError
from pipeline.model.series import FIRST
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.dataset import ANSWER, SeriesUse, cost_of, replay
from pipeline.privacy.ledger.events import (
    Event,
    EventKind,
    Exact,
    Group,
    KeyUse,
    LedgerError,
    Moved,
    Subject,
    details_text,
    sealed,
)
from pipeline.privacy.ledger.ledger import Ledger, OverspentError, UndeclaredError
from pipeline.release.layout import RunDirectory

TOTAL = Subject("invariant", "county", "total")
DISTANCE = Fraction(7, 2)  # of a history, in records
USE = KeyUse("1" * 64, "", "2" * 64, "3" * 64)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.sqlite"), create=True) as opened:
        opened_with(opened, "people", exact=[TOTAL, "zeros"])
        yield opened


def opened_with(ledger: Ledger, name: str, budget: str = "3/2", **more: Any) -> None:
    ledger.open_dataset(
        name, population="all", framework="zcdp", budget=Fraction(budget), neighbours="change-one", **more
    )


def charge(run: int, *, dataset: str = "people", release: str = "r", scale: str = "5", **more: Any) -> Charge:
    """Of a rho of 1 / scale."""
    group = Group("county", "total", "discrete_gaussian", Fraction(scale), 20)
    return Charge(dataset, f"{run:064x}", release, "change-one", (group,), **more)


def exact(content: str = "1", universe: str = "") -> tuple[Exact, ...]:
    return (Exact(TOTAL, universe, content * 64, 1),)


@pytest.mark.parametrize("purposes", [{"a": "3/4", "b": "1/2"}, {"a": "0"}, {"": "1/2"}, {"a.b": "1/2"}])
def test_what_cannot_be_set_aside_is_refused(ledger: Ledger, purposes: dict[str, str]) -> None:
    with pytest.raises(InputError):
        opened_with(ledger, "other", purposes={name: Fraction(share) for name, share in purposes.items()})
    assert "other" not in ledger.datasets()


def test_the_receipt_is_of_the_runs_own_events_not_of_the_ledgers_head(ledger: Ledger) -> None:
    before = ledger.reserve(charge(1, exact=exact())).charged
    ledger.reserve(charge(2))
    after = ledger.reserve(charge(1, exact=exact()))
    assert after.charged == before
    (receipt,) = before
    assert ledger.events()[receipt.head.number - 1].hash == receipt.head.hash
    assert receipt.head.number == 5 < after.head.number
    assert (receipt.unit, receipt.cost, receipt.exact) == ("rho", Fraction(1, 5), (("", TOTAL),))


def test_two_universes_of_a_dataset_need_two_declarations(ledger: Ledger) -> None:
    both = charge(1, exact=exact()), charge(2, exact=exact(universe="units"))
    with pytest.raises(UndeclaredError, match=r"county:total of units .*exactly, which no budget") as refused:
        ledger.reserve(*both)
    assert refused.value.exit_status == 3
    ledger.allow_exact("people", "county:total")
    assert ledger.reserve(*both).new


def test_a_key_is_refused_over_other_records(ledger: Ledger) -> None:
    """Other counts, the same ones read otherwise, or another dataset's, in one sentence; other layouts tell nothing."""
    opened_with(ledger, "later")
    read_so = KeyUse.read_so(USE.commitment, "", USE.layout, USE.records, ["rows"])
    assert read_so.records != USE.records
    ledger.reserve(charge(1, key=USE))
    ledger.reserve(charge(2, key=USE))  # another spec over the same records
    ledger.reserve(charge(3, key=replace(USE, layout="4" * 64, records="5" * 64)))
    before, messages = ledger.events(), set()
    for run, dataset, use in (
        (1, "people", read_so),
        (4, "people", read_so),
        (4, "people", replace(USE, records="6" * 64)),
        (4, "later", USE),
    ):
        with pytest.raises(InputError, match="the key of this run was used over other records before") as refused:
            ledger.reserve(charge(run, dataset=dataset, key=use))
        messages.add(str(refused.value))
    assert len(messages) == 1
    assert ledger.events() == before
    ledger.reserve(charge(5, dataset="later", key=replace(USE, commitment="7" * 64)))
    assert ledger.verify() == ()


@pytest.mark.parametrize("number", [2, 9, 10, 999, 1000, 50_000, 10**12])
def test_what_a_change_moves_is_read_back_whatever_its_size(number: int) -> None:
    """A charge costs by the numbers that it states, however many digits they have."""
    for moved, times in (
        (Moved.by(reach=number, records=number), number**4),
        (Moved.by(losses=number), number**2),
        (Moved.by(numbers=number), number),
        (Moved.by(series=Fraction(number * 9, 7)), Fraction(number * 9, 7)),
    ):
        group = Group("county", "income", "discrete_gaussian", Fraction(4), 1, moved)
        one = replace(group, moved=Moved())
        event = Event(1, "charge", "", "people", level="county", query="income", mechanism="discrete_gaussian",
                      scale="4", count=1, details=group.details(""))  # fmt: skip
        assert event.group() == group
        assert replace(event, details=group.details("town")).group() == group
        assert cost_of(group, "zcdp", "add-remove") == times * cost_of(one, "zcdp", "add-remove")


@pytest.mark.parametrize(
    "details",
    [
        '{"moved":{"reach":"1/2"}}', '{"moved":{"reach":"0"}}', '{"moved":{"reach":"-3"}}', '{"moved":{"reach":"1"}}',
        '{"moved":{"reach":3}}', '{"moved":{"depth":"3"}}', '{"moved":["reach"]}', '{"moved":"3"}', "[]", "{",
        '{"moved":{"reach":"6/2"}}', '{"moved":{"reach":"1e3"}}',
    ],
)  # fmt: skip
def test_what_no_change_moves_is_no_charge(details: str) -> None:
    """A number below 1 would make it cheaper; in neither program."""
    event = Event(1, "charge", "", "people", neighbours="change-one", level="county", query="income",
                  mechanism="discrete_gaussian", scale="4", count=1, details=details)  # fmt: skip
    with pytest.raises(LedgerError):
        event.group()
    if any(part in details for part in ("1/2", '"0"', "-3", "depth")):
        with pytest.raises(FormError, match="which no charge has"):
            priced(event.as_dict(), "zcdp")


# Series


def period(run: int, number: int, predecessor: str = "", *, strategy: str = "a", name: str = "padron") -> Charge:
    """Of three: sigma^2 = 7/2, two numbers moved, 7/2 times over: the first one costs 1, for all of them."""
    use = SeriesUse(
        name, strategy * 64, 3, number, f"203{number}", predecessor or (f"{number:064x}" if number else FIRST)
    )
    group = Group("county", "total", "discrete_gaussian", DISTANCE, 3, Moved.by(series=DISTANCE))
    return replace(charge(run), release=f"padron-203{number}", groups=(group,), series=use)


def test_the_whole_series_is_charged_when_it_is_opened(ledger: Ledger) -> None:
    """And the same run again costs nothing, and is no event."""
    asked = [period(1 + number, number) for number in range(3)]
    for one in asked:
        assert ledger.reserve(one).new
        before = ledger.events()
        assert not ledger.reserve(one).new
        assert ledger.events() == before
    assert [ledger.reserve(one).charged[0].cost for one in asked] == [1, 0, 0]
    assert ledger.dataset("people").spent == 1
    kinds = [event.kind for event in ledger.events()]
    assert kinds == ["open", "allow", "allow", "charge", "series", "period", "period", "period"]
    assert ledger.verify() == ()
    with pytest.raises(InputError, match="cannot be charged to a budget of epsilon"):
        cost_of(replace(asked[0].groups[0], mechanism="discrete_laplace"), "pure", "change-one")


@pytest.mark.parametrize(
    ("second", "kind", "told"),
    [
        (period(9, 0), InputError, "dataset 'people': drawn before, as the release 'padron-2030'"),
        (period(9, 2), InputError, "1 periods are drawn, and this is number 3; none is left out"),
        (period(9, 1, strategy="b"), InputError, "was opened by event 5 with another budget, strategy, horizon"),
        (period(9, 1, name="other"), InputError, "the series is not open; its first period comes first"),
        (period(9, 0, name="other"), OverspentError, "asked for rho = 1"),
        (period(7, 1), LedgerError, "charged for something else before"),
    ],
)
def test_what_is_no_next_period_is_refused_before_anything_is_drawn(
    ledger: Ledger, second: Charge, kind: type[Exception], told: str
) -> None:
    ledger.reserve(period(1, 0))
    ledger.reserve(charge(7))
    before = ledger.events()
    with pytest.raises(kind, match=told):
        ledger.reserve(second)
    assert ledger.events() == before


def test_a_period_after_another_release_is_another(ledger: Ledger) -> None:
    ledger.reserve(period(1, 0))
    ledger.reserve(period(2, 1))
    with pytest.raises(InputError, match="a period is drawn once"):
        ledger.reserve(period(2, 1, "f" * 64))


def test_what_is_drawn_again_was_charged_just_so(ledger: Ledger, tmp_path: Path) -> None:
    """Each period of a series by its own run; nothing that was never charged, or with other noise than was charged."""
    asked = [*(period(1 + number, number) for number in range(3)), charge(7)]
    for one in asked:
        ledger.reserve(one)
    run = RunDirectory(tmp_path)
    check_charged(ledger, run, asked, "this run")
    for other in (period(9, 2), charge(8), charge(7, scale="4"), charge(7, dataset="others")):
        with pytest.raises(InputError, match=r"has no charge of this run to (people|others); nothing was drawn"):
            check_charged(ledger, run, [asked[0], other], "this run")


# What is done to the events shows

Chain = tuple[str, list[Event]]
Change = Callable[[list[Event]], list[Event]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every kind of event."""
    path = tmp_path_factory.mktemp("made") / "ledger.sqlite"
    purposes = {"questions": Fraction(1, 2), "census-2031": Fraction(1, 4)}
    with Ledger.open(str(path), create=True) as ledger:
        opened_with(ledger, "people", "8", exact=[TOTAL], purposes=purposes)
        opened_with(ledger, "homes", "3")
        ledger.reserve(charge(11, release="census-2030", scale="2", exact=exact(), key=USE))
        ledger.commit(ledger.reserve(charge(12, release=ANSWER + "one", scale="2/3")))
        for number in (0, 1):
            ledger.reserve(period(1 + number, number))
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
    (added("key", run=f"{12:064x}", details=replace(USE, records="4" * 64).details()), "other records", False),
]


@pytest.mark.parametrize(("change", "told", "audited"), CHANGES)
def test_a_chain_made_anew_must_still_add_up(chain: Chain, change: Change, told: str, audited: bool) -> None:
    """The rules are checked apart from the hashes."""
    forged = made_anew(chain, change)
    found = replay(chain[0], forged)[1]
    assert any(told in line for line in found), found
    if audited:
        assert chain_problems(chain[0], [asdict(event) for event in forged])
