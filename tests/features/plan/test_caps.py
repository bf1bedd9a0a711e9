"""What caps on the records of a unit cost: noise in proportion, and what a public distribution says is left out."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from releases.asked import ask, ledger_of, write_workers
from releases.jobs import write_jobs

from features.plan.caps import RecordsPerUnit
from features.plan.release_plan import plan_release
from pipeline.errors import InputError


def test_errors_are_those_of_a_plan_with_the_cap_and_losses_those_by_hand(tmp_path: Path) -> None:
    spec = write_jobs(tmp_path)
    rows = {
        row.at_most: row for row in plan_release(spec, None, 1, records=RecordsPerUnit.of("1=60, 2=30, 5+=10")).caps
    }
    with_three = plan_release(write_jobs(tmp_path, ("at_most = 2", "at_most = 3")), None, 1)
    again = {row.at_most: row for row in with_three.caps}
    for cap in (1, 2, 3, 8):
        assert rows[cap].errors == pytest.approx(again[cap].errors)
    total = next(row for row in with_three.universes[0].rows if (row.level, row.query) == ("block", "total"))
    assert rows[3].errors["block"] == pytest.approx(total.per_number)
    # 170 records: beyond one 30 of the pairs and 40 of the fives, beyond two 30 of the fives.
    assert [rows[cap].left_out for cap in (1, 2, 3, 6)] == pytest.approx([70 / 170, 30 / 170, 20 / 170, 0])
    assert rows[2].missing == pytest.approx({"county": 30, "tract": 15, "block": 5})
    assert json.loads(json.dumps(with_three.data()))["caps"][0]["left_out"] is None


def test_shares_tell_what_is_left_out_but_not_of_how_many(tmp_path: Path) -> None:
    known = RecordsPerUnit.of("1 = 1/2, 2 = 0.25, 4+ = 1/4")
    assert (known.numbers, known.records, known.left_out(2)) == (False, Fraction(2), Fraction(1, 2))
    row = plan_release(write_jobs(tmp_path), None, 1, records=known).caps[1]
    assert (row.at_most, row.left_out, row.missing) == (2, 0.25, {})


def test_an_answer_tells_it_which_was_charged_when_it_was_asked(tmp_path: Path) -> None:
    units = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
    spec = write_workers(tmp_path / "units", units)
    with ledger_of(spec.parent, budget="10"):
        root = ask(spec, "count units by records_per_unit", "5")
        other = ask(spec, "count units by sex", "1/20")
    known = RecordsPerUnit.of(str(root))
    assert known.numbers
    assert 250 < known.records < 550  # about 400, with a standard deviation of 18
    assert plan_release(spec, None, 1, records=known).caps[1].left_out == pytest.approx(
        float(known.left_out(2) / known.records)
    )
    with pytest.raises(InputError, match="the answer to 'count units by records_per_unit' is needed"):
        RecordsPerUnit.of(str(other))


@pytest.mark.parametrize("text", ["", "1", "1 = x", "1+ = 3, 2 = 4", "1 = 2, 1 = 3", "0 = 2", "1 = -2", "1 = 1e9999"])
def test_what_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--records-per-unit"):
        RecordsPerUnit.of(text)


def test_a_spec_without_units_has_no_caps(tmp_path: Path) -> None:
    spec = write_workers(tmp_path / "plain")
    assert plan_release(spec, None, 1).caps == ()
    with pytest.raises(InputError, match="the spec has no units"):
        plan_release(spec, None, 1, records=RecordsPerUnit.of("1 = 2"))
