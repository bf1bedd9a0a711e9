"""A clip chosen privately among listed ends: charged, verified, drawn again; a release whose amounts end there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.asked import ask, checked, forge, ledger_of, public_files, spent, write_workers
from releases.clipped import CLIP, ENDS, chosen, wages

from features.questions.answering import again_of, compared
from features.questions.confidential import AnsweringHere
from features.questions.explaining import explain_question
from pipeline.errors import InputError
from pipeline.privacy.noise.exponential import Exponential
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
        yield spec


def test_a_clip_is_charged_once_verified_and_drawn_again(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    run, before, pay = RunDirectory(root), public_files(root), wages(spec)
    # 33 of 1,500 are above 80,000 and a few above 160,000, so that no noise of this budget decides otherwise.
    assert chosen(root) == next(end for end in ENDS if (pay > end).sum() <= len(pay) / 50)
    cost = read_answer(run).cost
    assert Fraction(1, 4) * Fraction(9999, 10_000) < cost <= Fraction(1, 4)
    assert spent(spec.parent / "ledger.sqlite") == cost
    assert verify_answer(run) == []
    one = again_of(run, spec, None, checked(spec, "count").request.key)
    assert compared(run, one, AnsweringHere(one)) == []
    assert ask(spec, CLIP.replace(", ", ",").replace("1/50", "0.02"), "1/4") == root
    assert (public_files(root), spent(spec.parent / "ledger.sqlite")) == (before, cost)
    told = str(explain_question(checked(spec, CLIP, "1/4")))
    assert "records too many or too few are above it, with a probability of 90 %" in told
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
    unit = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 3')
    spec = write_workers(tmp_path / "units", unit)
    with ledger_of(spec.parent):
        part = read_answer(RunDirectory(ask(spec, CLIP.replace("1/50", "20"), "1/4"))).parts[0]
        assert isinstance(part, RankStated)
        # Each of three records moves a loss by one: a third of the epsilon that one record would have.
        assert 2 * (3 * Fraction(part.scale)) ** 2 / 8 == Fraction(part.budget)
    total = ('missing = "0"', 'missing = "0"\nends = "total"')
    spec = write_workers(tmp_path / "totals", unit, total)
    with ledger_of(spec.parent), pytest.raises(InputError, match="found 'wages'; its ends are those of a unit's total"):
        checked(spec, CLIP)


@pytest.mark.parametrize("change", ["listed", "chosen", "beyond", "number"])
def test_an_answer_that_was_changed_does_not_verify(spec: Path, change: str) -> None:
    run = RunDirectory(ask(spec, CLIP.replace("1/50", "9")))
    path = run.public / "answer.json"
    stated = json.loads(path.read_bytes())
    if change == "listed":
        stated["ends"]["listed"][-1] = "90000"
        stated["ends"]["listed"][:-1] = ["1", "2", "3", "4"]
    elif change == "chosen":
        table = run.public / "answer.csv"
        table.write_text(table.read_text().replace("160000", "80000"), "utf-8")
    elif change == "beyond":
        stated["parts"][0]["beyond"] = 900
    else:
        stated["number"] = "8"
    path.write_text(json.dumps(stated), "utf-8")
    assert verify_answer(run)


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


@pytest.mark.parametrize("ends", ["1, 1e41", "1e-300, 1", "10000/3, 10000", "0.0000001, 1"])
def test_ends_that_cannot_be_written_are_refused_before_anything_is_charged(spec: Path, ends: str) -> None:
    with pytest.raises(InputError, match="an end to choose among is a decimal number"):
        ask(spec, f"clip wages among {ends} above 9")
    assert spent(spec.parent / "ledger.sqlite") == 0


def test_a_clip_of_a_column_whose_name_needs_quotes(tmp_path: Path) -> None:
    spec = write_workers(tmp_path, ("questions.wages]", "questions.sum]"))
    with ledger_of(tmp_path):
        stated = read_answer(RunDirectory(ask(spec, 'clip "sum" among -0.000001, 1000000000000000 above 9')))
    assert stated.ends is not None
    assert (stated.ends.name, stated.ends.listed) == ("sum", ("-1/1000000", "1000000000000000"))


def departure(spec: Path, n: int = 24) -> float:
    """How often the right end is chosen, less how often it should be, in deviations; each answer has a key of its own.

    Losses are counted from the wages in the file, and the probabilities by the definition.
    """
    pay = wages(spec)
    above = np.array([(pay > end).sum() for end in ENDS])
    loss = np.maximum(np.append(above[:-1] - 40, 0), np.insert(40 - above[:-1], 0, 0)).clip(0)
    excess = variance = 0.0
    for number in range(n):
        root = ask(spec, CLIP.replace("1/50", "40"), "1/20000", name=f"clip{number}")
        part = read_answer(RunDirectory(root)).parts[0]
        chance = np.exp(-float(Fraction(part.scale)) * loss / 2)
        chance /= chance.sum()
        right = float(chance[loss == 0].sum())
        excess += float(loss[ENDS.index(chosen(root))] == 0) - right
        variance += right * (1 - right)
    return float(excess / variance**0.5)


def test_a_clip_is_chosen_with_noise(spec: Path) -> None:
    assert abs(departure(spec)) < 4


def test_a_clip_that_is_chosen_without_noise_is_found(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exponential, "draw", lambda _, __, losses, ___=0: losses.argmin(axis=1))
    assert departure(spec) > 4
