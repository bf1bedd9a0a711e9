"""Medians, quantiles, clips, most common values and thresholds: charged, verified, drawn again, near the truth."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import PURE, TOTAL, UNITS, ask, checked, drawn_again, forge, ledger_of, spent, truth, write_workers
from releases.clipped import CLIP, ENDS, chosen, wages

import pipeline.records.columns as columns
from auditor.ledger import chain_problems, priced, read_ledger
from features.questions.explaining import explain_question
from pipeline.errors import InputError
from pipeline.model.schema import ClippedAttribute
from pipeline.privacy.budget import Framework
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.records.columns import AmountNumbers
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path):
        yield spec


def costs(spec: Path) -> Fraction:
    return spent(spec.parent / "ledger.sqlite")


def test_quantiles_are_near_the_truth_and_in_their_intervals(spec: Path) -> None:
    """Each with the true quantile by pandas; the ends of 12 intervals, each wrong in 5 % of cases at most."""
    people, missed = truth(spec), 0
    for text, q in (("median wages", 0.5), ("quantile 1/4 wages", 0.25), ("quantile 9/10 wages", 0.9)):
        answer = pd.read_csv(ask(spec, f"{text} by county, sex", "1/4") / "public" / "answer.csv")
        name = text.split()[0]
        for row in answer.to_dict("records"):
            units = people[(people["county"] == row["county"]) & (people["sex"] == row["sex"])]["units"]
            true = 100 * units.quantile(q, interpolation="inverted_cdf" if q == 0 else "lower")
            missed += not row[f"{name}:low90"] <= true <= row[f"{name}:high90"]
            within = (units * 100).between(min(row[name], true), max(row[name], true), inclusive="neither").sum()
            assert within <= 40
    assert missed <= 3


def test_a_median_that_is_called_a_maximum_does_not_verify(spec: Path) -> None:
    """Of a maximum the fraction is fixed, and a stated number is none of it."""
    root = ask(spec, "median wages")
    maximum = {"statistic": "max", "question": "max wages", "number": "1/2"}
    problems = forge(root, lambda stated: stated.update(maximum))
    assert "number: stated is 1/2, and its question has none" in problems
    assert "nothing is chosen for a max with the number 1/2" in problems


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_the_auditor_computes_the_cost_of_a_choice_again(framework: Framework, tmp_path: Path) -> None:
    """And what another mechanism would be in its place is not what the budget buys."""
    pure = framework == "pure"
    spec = write_workers(tmp_path / framework, *([PURE] if pure else []))
    with ledger_of(spec.parent, framework=framework) as place:
        for text in ("median wages by county", "max wages", "clip wages among 20000, 40000 above 1/10"):
            root = ask(spec, text, None if pure else "1/4", epsilon="1/4" if pure else None)
    ledger, events = read_ledger(str(place))
    charges = [event for event in events if event["kind"] == "charge"]
    chooser, noise = ("permute_and_flip", "discrete_laplace") if pure else ("exponential", "discrete_gaussian")
    assert [event["mechanism"] for event in charges] == [chooser, noise] * 3
    assert chain_problems(ledger, events) == []
    for charge in charges:
        assert priced(charge, framework) == Fraction(charge["cost"])
        other = charge | {
            "scale": str(Fraction(charge["scale"]) * (2 if charge["mechanism"] == chooser else Fraction(1, 2)))
        }
        more = 4 if charge["mechanism"] == "exponential" else 2
        assert priced(other, framework) == more * Fraction(charge["cost"])

    def other_mechanism(stated: dict[str, Any]) -> None:
        stated["parts"][0]["mechanism"] = "exponential" if pure else "permute_and_flip"

    assert forge(root, lambda _: None) == []
    assert any("are not those that 1/4 buys for a clip" in problem for problem in forge(root, other_mechanism))


def test_the_most_common_values_by_noisy_counts(spec: Path) -> None:
    root = ask(spec, "most common 2 age by county", "1/4")
    answer = pd.read_csv(root / "public" / "answer.csv")
    people = truth(spec)
    true = [people[people["county"] == county]["age"].value_counts().index[:2].tolist() for county in "AB"]
    assert answer["age"].tolist() == [*true[0], *true[1]]
    assert answer["rank"].tolist() == [1, 2, 1, 2]
    assert (answer[["rank:low90", "rank:high90"]].to_numpy() == [[1, 1], [2, 2]] * 2).all()
    assert costs(spec) == Fraction(1, 4)
    assert verify_answer(RunDirectory(root)) == []
    measured = pd.read_csv(root / "public" / "measurements.csv")
    assert len(measured) == 6
    (part,) = explain_question(checked(spec, "most common 2 age by county", "1/4")).parts
    assert ((answer["count:high90"] - answer["count:low90"]).astype(str) == str(2 * int(part.half_width))).all()


def test_receipts_of_answers_are_compared_with_the_ledger(spec: Path, tmp_path: Path) -> None:
    """As those of releases: added up, and found in a ledger that was put back."""
    roots = [ask(spec, "median wages by county"), ask(spec, "count by tract")]
    manifests = find_manifests([roots[0].parent])
    with Ledger.open(str(tmp_path / "ledger.sqlite"), state=tmp_path / "state") as ledger:
        known = KnownLedger(ledger.id, ledger.events())
    found = compare_receipts(manifests, known)
    assert found.problems == ()
    assert [(one.dataset, one.cost, one.releases) for one in found.spending] == [("workers", costs(spec), 2)]
    first = read_answer(RunDirectory(roots[0])).receipts[0].number
    back = compare_receipts(manifests, KnownLedger(known.id, known.events[:first]))
    assert "put back to an older state" in back.problems[0]
    path = roots[1] / "public" / "answer.json"
    path.write_text(path.read_text("utf-8").replace('"cost": "1/20"', '"cost": "1/40"'), "utf-8")
    forged = compare_receipts(find_manifests([path]), known)
    assert "it costs 1/20 (rho) of 'workers', and charged was 1/40 (rho) to 'workers'" in forged.problems[0]


@pytest.fixture
def of_clips(tmp_path: Path) -> Iterator[Path]:
    of_clips = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
        yield of_clips


def test_a_clip_is_the_right_end_charged_once_and_drawn_again(of_clips: Path) -> None:
    root = ask(of_clips, CLIP, "1/4")
    run, pay = RunDirectory(root), wages(of_clips)
    # 33 of 1,500 are above 80,000 and a few above 160,000, so that no noise of this budget decides otherwise.
    assert chosen(root) == next(end for end in ENDS if (pay > end).sum() <= len(pay) / 50)
    cost = read_answer(run).cost
    assert Fraction(1, 4) * Fraction(9999, 10_000) < cost <= Fraction(1, 4)
    assert spent(of_clips.parent / "ledger.sqlite") == cost
    assert drawn_again(run) == []
    assert ask(of_clips, CLIP.replace(", ", ",").replace("1/50", "0.02"), "1/4") == root
    assert spent(of_clips.parent / "ledger.sqlite") == cost
    told = str(explain_question(checked(of_clips, CLIP, "1/4")))
    assert "the least of them that at most 1/50 of the records are above" in told


def test_several_records_a_person_cost_more_and_ends_of_totals_are_refused(tmp_path: Path) -> None:
    unit = (UNITS[0], UNITS[1].replace("2", "3"))
    of_clips = write_workers(tmp_path / "units", unit)
    with ledger_of(of_clips.parent):
        part = read_answer(RunDirectory(ask(of_clips, CLIP.replace("1/50", "20"), "1/4"))).parts[0]
        assert isinstance(part, RankStated)
        # Each of three records moves a loss by one: a third of the epsilon that one record would have.
        assert 2 * (3 * Fraction(part.scale)) ** 2 / 8 == Fraction(part.budget)
    of_clips = write_workers(tmp_path / "totals", unit, TOTAL)
    with (
        ledger_of(of_clips.parent),
        pytest.raises(InputError, match="found 'wages'; its ends are those of a unit's total"),
    ):
        checked(of_clips, CLIP)


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
