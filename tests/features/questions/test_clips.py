"""A clip chosen privately among listed ends: charged, verified, drawn again; a release whose amounts end there."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from releases.asked import TOTAL, UNITS, ask, checked, drawn_again, forge, ledger_of, spent, write_workers
from releases.clipped import CLIP, ENDS, chosen, wages

from features.questions.explaining import explain_question
from pipeline.errors import InputError
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.release.layout import RunDirectory


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


def test_a_clip_of_a_column_whose_name_needs_quotes(tmp_path: Path) -> None:
    spec = write_workers(tmp_path, ("questions.wages]", "questions.sum]"))
    with ledger_of(tmp_path):
        stated = read_answer(RunDirectory(ask(spec, 'clip "sum" among -0.000001, 1000000000000000 above 9')))
    assert stated.ends is not None
    assert (stated.ends.name, stated.ends.listed) == ("sum", ("-1/1000000", "1000000000000000"))
