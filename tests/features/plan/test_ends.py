"""What upper ends of amounts cost: noise in proportion, and what a public distribution says is cut off."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path

import pytest
from releases.asked import write_workers
from releases.jobs import write_jobs
from rich.console import Console

import spinewise as sw
from features.plan.amounts import AmountsHeld, EndRow
from features.plan.release_plan import Plan, plan_release
from features.plan.show import show_plan
from pipeline.errors import InputError

HELD = "wages: 100 = 60, 400 = 30, 900 = 8, 2000+ = 2; hours: 10 = 3/4, 60 = 1/4"


def planned(folder: Path, *changes: tuple[str, str], held: str = HELD) -> Plan:
    return plan_release(write_jobs(folder, *changes), None, 1, held=AmountsHeld.of(held))


def rows_of(plan: Plan, companion: str) -> dict[float, EndRow]:
    return {row.high: row for row in plan.ends if row.companion == companion}


@pytest.mark.parametrize(("companion", "text", "end"), [("wages", '["0", "500"]', 1000), ("hours", '["0", "40"]', 20)])
def test_errors_are_those_of_a_plan_with_the_end(tmp_path: Path, companion: str, text: str, end: int) -> None:
    """Of ends of a unit's total, and of each record."""
    here = rows_of(planned(tmp_path), companion)[end]
    there = planned(tmp_path, (text, f'["0", "{end}"]'))
    assert here.errors == pytest.approx(rows_of(there, companion)[end].errors)
    stated = {
        row.level: row.sum_error for row in there.amounts if row.companion == companion and row.query != "detailed"
    }
    if companion == "wages":
        assert here.errors == pytest.approx(stated)


def test_what_is_cut_off_is_that_by_hand(tmp_path: Path) -> None:
    """29,200 in all; above 125 are 275 of 30, 775 of 8 and 1,875 of 2; a quarter of 500 is 120 in units of 10."""
    plan = planned(tmp_path)
    wages = rows_of(plan, "wages")
    assert list(wages) == [120, 250, 500, 1000, 2000]
    lost = {120: 280 * 30 + 780 * 8 + 1880 * 2, 250: 150 * 30 + 650 * 8 + 1750 * 2, 500: 400 * 8 + 1500 * 2, 1000: 2000}
    for end, amount in (*lost.items(), (2000, 0)):
        assert wages[end].cut_off == pytest.approx(amount / 29_200)
        assert wages[end].missing == pytest.approx({"county": amount, "tract": amount / 2, "block": amount / 6})
    hours = rows_of(plan, "hours")
    assert hours[40].cut_off == pytest.approx(20 / 4 / (30 / 4 + 60 / 4))
    assert hours[40].missing == {}, "shares say nothing of how many there are"
    assert json.loads(json.dumps(plan.data()))["ends"][0]["high"] == 120


def test_amounts_below_0_are_cut_off_at_the_lower_end_too(tmp_path: Path) -> None:
    counted = ('total = "1/4", sex = "1/4"', 'total = "1/4", sort = "1/4"')
    both = ('between = ["0", "500"]', 'between = ["-100", "500"]')
    row = rows_of(planned(tmp_path, both, counted, held="wages: -300 = 1, 700 = 2"), "wages")[500]
    assert row.cut_off == pytest.approx((200 + 2 * 200) / 1700)


def test_it_is_shown_beside_the_errors_and_in_python(tmp_path: Path) -> None:
    text = io.StringIO()
    show_plan(planned(tmp_path), Console(file=text, width=160))
    shown = " ".join(text.getvalue().split())
    assert "wages 500 (the spec) 21.2 %" in shown
    assert "What is cut off is missing from every sum, and no interval knows of it." in shown
    without = io.StringIO()
    show_plan(plan_release(write_jobs(tmp_path), None, 1), Console(file=without, width=160))
    assert "How much the ends cut off, --amounts can tell." in " ".join(without.getvalue().split())
    frame = sw.plan(tmp_path / "jobs.toml", amounts=HELD).ends.set_index(["companion", "high", "level"])
    assert frame.loc[("wages", 500, "tract"), "missing"] == pytest.approx(3100)
    assert frame["missing"].isna().any()


@pytest.mark.parametrize(
    "text",
    ["", "wages", "wages:", "wages: 1", "wages: x = 2", "wages: 1+ = 3, 2 = 4", "wages: 1 = 2, 1.0 = 3",
     "wages: 1 = -2", "wages: 1 = 1e9999", "wages: 1e400 = 2", "wages: 2 = 1e16", "wages: 0 = 5",
     "wages: 1 = 2; wages: 1 = 2"],
)  # fmt: skip
def test_what_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--amounts: found"):
        AmountsHeld.of(text)


def test_shares_that_are_rounded_are_no_numbers_of_records(tmp_path: Path) -> None:
    plan = planned(tmp_path, held="wages: 500 = 0.334, 1000 = 0.334, 90000 = 0.334")
    assert [row.missing for row in plan.ends if row.companion == "wages"] == [{}] * 5


def test_a_companion_without_an_amount_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="--amounts: found 'tips'; the companions of the spec with an amount: wages, hours"
    ):
        planned(tmp_path, held="tips: 1 = 2")
    with pytest.raises(InputError, match="with an amount: none"):
        plan_release(
            write_workers(tmp_path / "plain"), None, 1, held=AmountsHeld({"wages": {Fraction(1): Fraction(1)}})
        )
