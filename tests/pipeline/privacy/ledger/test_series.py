"""Series in a ledger: opened once for all they cost; their periods are drawn once, in order, by one strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from auditor.ledger import chain_problems, read_ledger
from pipeline.errors import InputError
from pipeline.model.series import FIRST
from pipeline.privacy.ledger.charges import Charge, RunFingerprint
from pipeline.privacy.ledger.events import Group, LedgerError, cost_of, over_series, replay, sealed
from pipeline.privacy.ledger.ledger import Ledger, OverspentError
from pipeline.privacy.ledger.report import dataset_report, spent_epsilon
from pipeline.privacy.ledger.series import SeriesUse

STRATEGY = "a" * 64


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(place: Path) -> Iterator[Ledger]:
    with Ledger.open(str(place), create=True, state=place.parent / "state") as opened:
        opened.open_dataset("people", population="x", framework="zcdp", budget=Fraction(3, 2), neighbours="change-one")
        yield opened


def charge(run: int, number: int, predecessor: str = "", *, strategy: str = STRATEGY, name: str = "padron") -> Charge:
    """Of a period of three, in which a history is 7/2 times as far as a record, with a budget of 1."""
    distance = Fraction(7, 2)
    use = SeriesUse(name, strategy, 3, number, f"203{number}", predecessor or (f"{number:064x}" if number else FIRST))
    group = Group("county", "total" + over_series(distance), "discrete_gaussian", distance, 3)
    run_of = RunFingerprint(f"{run:064x}")
    return Charge("people", run_of, f"padron-203{number}", "change-one", (group,), series=use)


def test_the_whole_series_is_charged_when_it_is_opened(ledger: Ledger, place: Path) -> None:
    first = ledger.reserve(charge(1, 0))
    later = [ledger.reserve(charge(2, 1)), ledger.reserve(charge(3, 2))]
    assert [one.charged[0].cost for one in (first, *later)] == [1, 0, 0]
    for one in (first, *later):
        ledger.commit(one)
    state = ledger.dataset("people")
    assert state.spent == 1  # sigma^2 = 7/2, two numbers moved: 2 / 7, times 7/2
    kinds = [event.kind for event in ledger.events()]
    assert kinds == ["open", "charge", "series", "period", "period", "period", "commit", "commit", "commit"]
    assert ledger.verify() == ()
    assert chain_problems(*read_ledger(str(place))) == []
    report = dataset_report(state, Fraction(1, 10**10))
    assert report["series"] == [{"name": "padron", "periods": 3, "drawn": ["2030", "2031", "2032"]}]
    assert [(run["cost"], run["measurements"]) for run in report["runs"]] == [("1", 1), ("0", 0), ("0", 0)]
    assert spent_epsilon(state, Fraction(1, 10**10)) > 9  # of rho = 1 and not of rho = 2/7


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            charge(9, 0),
            "dataset 'people': drawn before, as the release 'padron-2030'",
        ),
        (charge(9, 2), "1 periods are drawn, and this is number 3; none is left out"),
        (charge(9, 1, strategy="b" * 64), "was opened by event 3 with another budget, strategy, horizon or design"),
        (charge(9, 1, name="other"), "the series is not open; its first period comes first"),
    ],
)
def test_what_is_refused_before_anything_is_drawn(ledger: Ledger, second: Charge, message: str) -> None:
    ledger.reserve(charge(1, 0))
    before = ledger.events()
    with pytest.raises(InputError, match=message):
        ledger.reserve(second)
    assert ledger.events() == before


def test_a_period_after_another_release_is_another(ledger: Ledger) -> None:
    ledger.reserve(charge(1, 0))
    ledger.reserve(charge(2, 1))
    with pytest.raises(InputError, match="a period is drawn once"):
        ledger.reserve(charge(2, 1, "f" * 64))


def test_a_series_that_costs_too_much_is_not_opened(ledger: Ledger) -> None:
    ledger.reserve(charge(1, 0))
    with pytest.raises(OverspentError):
        ledger.reserve(charge(2, 0, name="another"))
    assert list(ledger.dataset("people").series) == ["padron"]


def test_a_ledger_with_a_period_drawn_twice_is_damaged(ledger: Ledger) -> None:
    ledger.reserve(charge(1, 0))
    ledger.reserve(charge(2, 1))
    name, events = ledger.id, list(ledger.events())
    again = sealed(replace(events[-1], run="e" * 64), len(events) + 1, events[-1].hash)
    assert replay(name, [*events, again])[1] == [
        f"event {again.number}: draws period '2031' of the series 'padron', which is not the next one"
    ]
    rows = [event.as_dict() for event in (*events, again)]
    assert chain_problems(name, rows) == [f"event {again.number}: is not the next period of the series 'padron'"]
    free = replace(events[1], cost="2/7")  # as if it were for one release alone
    cheap = [sealed(free, 2, events[0].hash)]
    assert any("charges 2/7 for what costs 1" in one for one in replay(name, [events[0], *cheap])[1])


def test_a_series_has_no_price_in_epsilon() -> None:
    group = Group("county", "total" + over_series(Fraction(3)), "discrete_laplace", Fraction(2), 1)
    with pytest.raises(InputError, match="cannot be charged to a budget of epsilon"):
        cost_of(group, "pure", "change-one")


@pytest.mark.parametrize(("number", "predecessor"), [(0, "f" * 64), (1, FIRST), (3, "f" * 64)])
def test_a_place_that_cannot_be_is_refused(number: int, predecessor: str) -> None:
    with pytest.raises(ValueError, match="period"):
        SeriesUse("padron", STRATEGY, 3, number, "2031", predecessor)


def test_a_run_of_something_else_is_no_period(ledger: Ledger) -> None:
    ledger.reserve(charge(1, 0))
    plain = Group("county", "total", "discrete_gaussian", Fraction(4), 3)
    ledger.reserve(Charge("people", RunFingerprint(f"{7:064x}"), "x", "change-one", (plain,)))
    with pytest.raises(LedgerError, match="charged for something else before"):
        ledger.reserve(charge(7, 1))
