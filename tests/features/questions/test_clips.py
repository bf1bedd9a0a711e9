"""A clip chosen privately among listed ends: charged, verified, drawn again; a release whose amounts end there."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import TOTAL, UNITS, ask, checked, drawn_again, forge, ledger_of, spent, truth, write_workers
from releases.clipped import CLIP, ENDS, chosen, wages

import pipeline.records.columns as columns
from features.questions.explaining import explain_question
from pipeline.errors import InputError
from pipeline.model.schema import ClippedAttribute
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.records.columns import AmountNumbers
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
        yield spec


def test_a_clip_is_the_right_end_charged_once_and_drawn_again(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    run, pay = RunDirectory(root), wages(spec)
    # 33 of 1,500 are above 80,000 and a few above 160,000, so that no noise of this budget decides otherwise.
    assert chosen(root) == next(end for end in ENDS if (pay > end).sum() <= len(pay) / 50)
    cost = read_answer(run).cost
    assert Fraction(1, 4) * Fraction(9999, 10_000) < cost <= Fraction(1, 4)
    assert spent(spec.parent / "ledger.sqlite") == cost
    assert drawn_again(run) == []
    assert ask(spec, CLIP.replace(", ", ",").replace("1/50", "0.02"), "1/4") == root
    assert spent(spec.parent / "ledger.sqlite") == cost
    told = str(explain_question(checked(spec, CLIP, "1/4")))
    assert "the least of them that at most 1/50 of the records are above" in told


def test_without_a_number_as_few_are_above_as_the_budget_lets_be_told(spec: Path) -> None:
    manifest = read_answer(RunDirectory(ask(spec, CLIP.partition(" above")[0], "1/4")))
    part, pay = manifest.parts[0], wages(spec)
    assert isinstance(part, RankStated)
    # rho 7/32 = 2 e^2 / 8 with e = 0.935; 2 ln(4 / 0.1) / e = 7.9.
    assert (part.beyond, part.quantile) == (8, "1")
    end = chosen(RunDirectory(spec.parent / "answers" / manifest.answer).root)
    assert (pay > end).sum() < 16
    assert "the least of them that at most 8 records are above" in manifest.note


def test_several_records_a_person_cost_more_and_ends_of_totals_are_refused(tmp_path: Path) -> None:
    unit = (UNITS[0], UNITS[1].replace("2", "3"))
    spec = write_workers(tmp_path / "units", unit)
    with ledger_of(spec.parent):
        part = read_answer(RunDirectory(ask(spec, CLIP.replace("1/50", "20"), "1/4"))).parts[0]
        assert isinstance(part, RankStated)
        # Each of three records moves a loss by one: a third of the epsilon that one record would have.
        assert 2 * (3 * Fraction(part.scale)) ** 2 / 8 == Fraction(part.budget)
    spec = write_workers(tmp_path / "totals", unit, TOTAL)
    with ledger_of(spec.parent), pytest.raises(InputError, match="found 'wages'; its ends are those of a unit's total"):
        checked(spec, CLIP)


def test_other_ends_than_the_question_has_do_not_verify(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    kept = (root / "public" / "answer.json").read_text("utf-8")

    def problem(**stated: object) -> str:
        (root / "public" / "answer.json").write_text(kept, "utf-8")
        return " ".join(forge(root, lambda manifest: _put(manifest, stated)))

    assert problem() == ""
    listed = [str(10 * end) for end in ENDS]
    assert "ends: stated is 100000, 200000" in problem(**{"ends.listed": listed})
    assert "ends: stated is 10000, 20000, 40000, 80000, 160000, 320000" in problem(
        **{"ends.listed": [*map(str, ENDS), "320000"]}
    )
    assert "amount of the clip: stated is tips" in problem(**{"ends.name": "tips"})
    assert "number: stated is 1/40" in problem(number="1/40")
    assert "clip: 5 ends from number -1 on are stated" in problem(**{"parts.0.first": -1})
    assert "among is needed here" in problem(question="clip among 1, 2")
    assert "statistic: stated is clip" in problem(question="count")


def _put(manifest: dict[str, Any], stated: dict[str, object]) -> None:
    for place, value in stated.items():
        *above, last = place.split(".")
        at: Any = manifest
        for name in above:
            at = at[int(name) if name.isdigit() else name]
        at[last] = value


#: With rho = 1/2 the noise on a count has sigma^2 = 2.
TEXT, RHO, FAR = "count by tract, sex where wages > 60000", "1/2", 6


@pytest.fixture
def two_thousand(tmp_path: Path) -> Iterator[Path]:
    two_thousand = write_workers(tmp_path, n=2000)
    with ledger_of(tmp_path):
        yield two_thousand


def furthest(two_thousand: Path, root: Path) -> float:
    """How far the counts are from those by pandas; a wage of 60,020 is above the end and rounds to it."""
    people = truth(two_thousand)
    true = people[people["pay"] > 60_000].groupby(["tract", "sex"]).size()
    answer = pd.read_csv(root / "public" / "answer.csv", dtype={"tract": str}).set_index(["tract", "sex"])
    return float(np.abs(answer["count"] - true.reindex(answer.index).fillna(0)).max())


def test_the_count_above_the_clip_is_near_the_truth_and_costs_as_any_count(
    two_thousand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ask(two_thousand, TEXT, RHO)
    true = truth(two_thousand)
    assert (true["pay"] > 60_000).sum() > 100
    assert furthest(two_thousand, root) < FAR
    (part,) = read_answer(RunDirectory(root)).parts
    assert (part.name, part.reach, part.scale) == ("count", 1, "2")
    assert spent(two_thousand.parent / "ledger.sqlite") == Fraction(1, 2)
    assert verify_answer(RunDirectory(root)) == []
    assert drawn_again(root) == []

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            number = super().__getitem__(text)
            return min(number, 1) if isinstance(self._attribute, ClippedAttribute) else number

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    assert furthest(two_thousand, ask(two_thousand, TEXT, RHO, name="faulty")) >= FAR, (
        "a clip before the comparison is seen"
    )


def test_below_the_clip_and_beside_other_conditions(tmp_path: Path) -> None:
    two_thousand = write_workers(tmp_path / "low", ('between = ["0", "60000"]', 'between = ["10000", "60000"]'), n=2000)
    two_thousand.write_text(two_thousand.read_text("utf-8").replace('missing = "0"', 'missing = "10000"'), "utf-8")
    with ledger_of(two_thousand.parent):
        root = ask(two_thousand, "count where wages < 10000 and age >= 18", RHO)
        true = truth(two_thousand)
        below = int(((true["pay"] < 10_000) & (true["age"] != "0-17")).sum())
        assert abs(pd.read_csv(root / "public" / "answer.csv")["count"][0] - below) < FAR
        with pytest.raises(InputError, match="amounts beyond 60000 count as 60000: <= decides nothing here"):
            checked(two_thousand, "count where wages <= 60000")
