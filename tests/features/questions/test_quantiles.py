"""Medians, quantiles, clips and most common values, near the truth; releases whose amounts end where one was chosen."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import PURE, TOTAL, UNITS, ask, checked, drawn_again, forge, ledger_of, spent, truth, write_workers
from releases.mutant import resealed
from releases.small import changed, run

import pipeline.confidential.charge as charge
import pipeline.records.columns as columns
from auditor.check.release import check_release
from auditor.ledger import chain_problems, ledger_findings, priced, read_ledger
from auditor.program import audit
from auditor.release import Release as SecondRelease
from auditor.statements import noise_problems
from features.questions.explaining import explain_question
from pipeline.errors import InputError, SpecError
from pipeline.execution.steps import Silent
from pipeline.model.schema import ClippedAttribute
from pipeline.privacy.budget import Framework
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import read_answer
from pipeline.records.columns import AmountNumbers
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.request import Request, check_request
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec

#: Clips of the wages that a question chooses, and specs with sums that end there.
ENDS = [10_000, 20_000, 40_000, 80_000, 160_000]
CLIP = f"clip wages among {', '.join(map(str, ENDS))} above 1/50"


def wages(spec: Path) -> np.ndarray:
    """Those of the file; nothing where one is missing, as the spec says."""
    with (spec.parent / "workers.csv").open() as file:
        return np.array([float(row["pay"] or 0) for row in csv.DictReader(file)])


def chosen(root: Path) -> int:
    """The end that an answer has."""
    (row,) = csv.DictReader((root / "public" / "answer.csv").read_text().splitlines())
    assert int(row["clip:low90"]) <= int(row["clip"]) <= int(row["clip:high90"])
    return int(row["clip"])


AMOUNT = """
[companions.wages]
amount = "pay"
between = ["0", { answer = "answers/NAME" }]
unit = "500"
missing = "0"
[companions.wages.privacy]
rho = "1/2"
dataset = "workers"
[companions.wages.schema.attributes]
sex = ["f", "m"]
[companions.wages.strategy.queries]
total = "1"
[companions.wages.strategy.levels]
county = "1/2"
tract = "1/2"
"""


def with_amount(spec: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A spec beside with sums up to the end that an answer chose."""
    text = changed(AMOUNT.replace("NAME", name), changes)
    path = spec.with_name("wages.toml")
    path.write_text(spec.read_text("utf-8").replace('rho = "1"\ndataset', 'rho = "1/2"\ndataset') + text, "utf-8")
    return path


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
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
    """Its parts are those of a median, and its fingerprint and note are."""
    root = ask(spec, "median wages")
    problems = forge(root, lambda stated: stated.update(question="max wages"))
    assert problems == [
        f"answer.json: {name}: is not what its question and domain give" for name in ("parts", "fingerprint", "note")
    ]


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
    for one in charges:
        assert priced(one, framework) == Fraction(one["cost"])
        other = one | {"scale": str(Fraction(one["scale"]) * (2 if one["mechanism"] == chooser else Fraction(1, 2)))}
        more = 4 if one["mechanism"] == "exponential" else 2
        assert priced(other, framework) == more * Fraction(one["cost"])

    def other_mechanism(stated: dict[str, Any]) -> None:
        stated["parts"][0]["mechanism"] = "exponential" if pure else "permute_and_flip"

    assert forge(root, lambda _: None) == []
    assert forge(root, other_mechanism) == ["answer.json: parts: is not what its question and domain give"]


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


def test_a_clip_is_the_right_end_charged_once_and_drawn_again(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    run, pay = RunDirectory(root), wages(spec)
    # 33 of 1,500 are above 80,000 and a few above 160,000, so that no noise of this budget decides otherwise.
    assert chosen(root) == next(end for end in ENDS if (pay > end).sum() <= len(pay) / 50)
    cost = read_answer(run).cost
    assert Fraction(1, 4) * Fraction(9999, 10_000) < cost <= Fraction(1, 4)
    assert costs(spec) == cost
    assert drawn_again(run) == []
    assert ask(spec, CLIP.replace(", ", ",").replace("1/50", "0.02"), "1/4") == root
    assert costs(spec) == cost
    told = str(explain_question(checked(spec, CLIP, "1/4")))
    assert "the least of them that at most 1/50 of the records are above" in told


def test_several_records_a_person_cost_more_and_ends_of_totals_are_refused(tmp_path: Path) -> None:
    unit = (UNITS[0], UNITS[1].replace("2", "3"))
    of_clips = write_workers(tmp_path / "units", unit)
    with ledger_of(of_clips.parent):
        part = read_answer(RunDirectory(ask(of_clips, CLIP.replace("1/50", "20"), "1/4"))).parts[0]
        assert part.name == "clip"
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


def furthest(spec: Path, root: Path) -> float:
    """How far the counts are from those by pandas; a wage of 60,020 is above the end and rounds to it."""
    people = truth(spec)
    true = people[people["pay"] > 60_000].groupby(["tract", "sex"]).size()
    answer = pd.read_csv(root / "public" / "answer.csv", dtype={"tract": str}).set_index(["tract", "sex"])
    return float(np.abs(answer["count"] - true.reindex(answer.index).fillna(0)).max())


def test_the_count_above_the_clip_is_near_the_truth_and_costs_as_any_count(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ask(spec, TEXT, RHO)
    assert (truth(spec)["pay"] > 60_000).sum() > 100
    assert furthest(spec, root) < FAR
    (part,) = read_answer(RunDirectory(root)).parts
    assert (part.name, part.reach, part.scale) == ("count", 1, "2")
    assert costs(spec) == Fraction(1, 2)
    assert verify_answer(RunDirectory(root)) == []
    assert drawn_again(root) == []

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            number = super().__getitem__(text)
            return min(number, 1) if isinstance(self._attribute, ClippedAttribute) else number

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    assert furthest(spec, ask(spec, TEXT, RHO, name="faulty")) >= FAR, "a clip before the comparison is seen"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The spec of questions, and an answer that chose a clip; tests write another spec beside it."""
    spec = write_workers(tmp_path_factory.mktemp("asked"), n=1500)
    with ledger_of(spec.parent, budget="3"):
        yield spec, ask(spec, CLIP, "1/4")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("answers/NAME", "answers/other", "cannot be read (No such file or directory); a clip is chosen first"),
        ('["0", {', '[{ answer = "x" }, {', "an answer can be the upper end alone"),
        ("{ answer =", "{ answers =", "allowed is"),
        ('unit = "500"', 'unit = "700"', "both whole multiples of a unit"),
        ('unit = "500"', 'unit = "500"\nchosen = { answer = "x" }', "stands in published specs alone"),
        ('between = ["0"', 'between = ["x"', "companions.wages.between"),
        ('dataset = "workers"', 'dataset = "others"', "privacy.dataset"),
    ],
)
def test_what_cannot_be_an_end_is_refused(asked: tuple[Path, Path], old: str, new: str, sentence: str) -> None:
    spec, root = asked
    path = with_amount(spec, root.name, (old.replace("NAME", root.name), new.replace("NAME", root.name)))
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert sentence in str(refused.value)


def test_a_chosen_end_is_of_each_record_and_none_of_a_units_total(tmp_path: Path) -> None:
    """A clip of single amounts, 40,000, says nothing of what a unit with two of them may have together."""
    spec = write_workers(tmp_path, UNITS, n=1500)
    with ledger_of(tmp_path, budget="3"):
        root = ask(spec, CLIP.replace("1/50", "30"), "1/4")
        path = with_amount(spec, root.name)
        assert load_spec(path).universes()[1].reach == chosen(root) // 500
        total = path.read_text("utf-8").replace('unit = "500"', 'unit = "500"\nends = "total"')
        path.write_text(total, "utf-8")
        with pytest.raises(SpecError, match=r"companions\.wages\.ends: found 'total', and between has an end"):
            load_spec(path)
        path.write_text(total.replace(f'{{ answer = "answers/{root.name}" }}', '"60000"'), "utf-8")
        assert load_spec(path).universes()[1].reach == 120


def test_answers_that_are_no_clip_or_were_changed_are_refused(asked: tuple[Path, Path], tmp_path: Path) -> None:
    spec = write_workers(tmp_path, n=1500)
    with pytest.raises(SpecError, match="found the answer of a count; that of a clip is needed"):
        load_spec(with_amount(spec, ask(spec, "count by county").name))
    root = Path(shutil.copytree(asked[1], tmp_path / "answers" / asked[1].name))
    path = with_amount(spec, root.name)
    request = Request(path, spec.parent / "out", None, 1)
    assert check_request(request).universes[1].measure.amounts
    table = root / "public" / "measurements.csv"
    table.write_text(table.read_text("utf-8").replace(",", ",1"), "utf-8")
    with pytest.raises(SpecError, match=r"companions\.wages\.between: the answer .* does not verify"):
        check_request(request)
    answer = root / "public" / "answer.csv"
    answer.write_text(answer.read_text("utf-8").replace("0000", "000"), "utf-8")
    with pytest.raises(SpecError, match=r"answer\.csv beside it was changed"):
        load_spec(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ((('dataset = "workers"\n[geo', 'dataset = "workers"\nneighbours = "add-remove"\n[geo'),), "neighbours"),
        (
            (
                ('name = "work"\n', 'name = "work"\nrecords_per_person = 2\n'),
                ('missing = "0"\n[comp', 'missing = "0"\nrecords_per_person = 2\n[comp'),
            ),
            "records of a person: found 1, and 2 of the release",
        ),
        (
            (
                ('name = "work"\n[privacy]\nrho =', 'name = "work"\n[privacy]\nframework = "pure"\nepsilon ='),
                ("[companions.wages.privacy]\nrho =", "[companions.wages.privacy]\nepsilon ="),
            ),
            "framework: found zcdp, and pure of the release",
        ),
    ],
)
def test_an_answer_of_another_promise_is_refused(
    asked: tuple[Path, Path], changes: tuple[tuple[str, str], ...], sentence: str
) -> None:
    path = with_amount(asked[0], asked[1].name)
    text = path.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=rf"companions\.wages\.between: the answer .*/answers/.*{sentence}"):
        check_request(Request(path, path.parent / "out", None, 1))


def test_a_release_whose_end_was_charged_elsewhere_is_refused_and_named_by_ledger_verify_and_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new ledger with a dataset of the same name has no entry of what the clip cost.

    Planted: a run that does not compare ledgers; then a manifest that says the clip was charged to the release's.
    """
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3") as place:
        root = ask(spec, CLIP, "1/4")
    place.unlink()
    shutil.rmtree(tmp_path / "state")
    with ledger_of(tmp_path, budget="3"):
        with pytest.raises(InputError, match=r"companions\.wages\.between: the answer .* was charged to the ledger"):
            run(with_amount(spec, root.name), tmp_path / "out")
        assert spent(place) == 0
        monkeypatch.setattr(charge, "_refuse_chosen_elsewhere", lambda *_: None)
        released = RunDirectory(run(with_amount(spec, root.name), tmp_path / "out"))
        ledger = known(place)
        first, second = named(released, ledger), named(released, None)
        assert first == second
        assert "companions.wages.between: the answer" in first[0]
        assert "that chose the upper end was charged to the ledger" in first[0]
        assert [one.check for one in audit(released.root, ledger=str(place)) if not one.passed] == ["ledger"]

        def of_this_ledger(manifest: dict[str, Any]) -> None:
            dict(manifest["spec"]["companions"])["wages"]["chosen"].update(ledger=ledger.id)

        resealed(released.root, of_this_ledger)
        assert named(released, None) == []
        (problem,) = named(released, ledger)
        assert "the ledger has no charge to 'workers' for the question that chose the upper end, 'clip wages" in problem
        judged = ledger_findings(SecondRelease(released.root), None, read_ledger(str(place)))
        found = [one for one in judged if not one.passed]
        assert [one.subject for one in found] == ["chosen ends"]
        assert "was never charged for the question" in found[0].detail


def known(place: Path) -> KnownLedger:
    """The ledger as `ledger verify` reads it."""
    with Ledger.open(str(place), state=place.parent / "state") as opened:
        return KnownLedger(opened.id, opened.events())


def named(released: RunDirectory, ledger: KnownLedger | None) -> list[str]:
    """What `ledger verify` finds of a release."""
    return list(compare_receipts(find_manifests([released.root]), ledger).problems)


def test_a_release_whose_amount_ends_there_holds_for_all_who_look(tmp_path: Path) -> None:
    """verify, check and the second program, without the answer; the ledger has the cost of both, the words say so."""
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3") as place:
        root = ask(spec, CLIP, "1/4")
        end, before = chosen(root), spent(place)
        released = RunDirectory(run(with_amount(spec, root.name), tmp_path / "out"))
        assert spent(place) == before + 1
        shutil.rmtree(root)
        assert verify_release(released, 1, Silent()) == []
        assert check_release(released.root) == []
        assert [one for one in audit(released.root, ledger=str(place)) if not one.passed] == []
        assert named(released, known(place)) == named(released, None) == []
    manifest = json.loads(released.manifest.read_bytes())
    (audited,) = (one for one in SecondRelease(released.root).form.universes if one.name == "wages")
    (stated,) = (one for one in manifest["privacy"] if one["universe"] == "wages")
    words = f'except for the upper end {end}: it was chosen by the question "{CLIP}" (answer {root.name}), whose cost'
    assert words in stated["words"]
    assert noise_problems(audited, stated) == []
    for old, new in ((", except for the upper end", ". And"), ("above 1/50", "above 1/40")):
        assert noise_problems(audited, {**stated, "words": stated["words"].replace(old, new)})
    assert noise_problems(replace(audited, chosen=""), stated)
