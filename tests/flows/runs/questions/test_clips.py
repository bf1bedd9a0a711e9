"""A clip chosen privately among listed ends: charged, verified, drawn again; a release whose amounts end there."""

from __future__ import annotations

import csv
import html
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.asked import ask, checked, forge, ledger_of, public_files, spent, write_workers
from releases.repeated import rerun
from releases.small import run

from flows.audits.finished import audit_release
from flows.confidential.custody import KeySource
from flows.execution.progress import Silent
from flows.runs.questions.answering import AnsweringHere
from flows.runs.questions.checking import again_of, compared, verify_answer
from flows.runs.questions.explaining import explain_question
from flows.runs.request import Request, check_request
from flows.runs.verify import verify_release
from pipeline.auditor.release import Release as SecondRelease
from pipeline.auditor.statements import noise_problems
from pipeline.checker.release import check_release
from pipeline.errors import InputError, SpecError
from pipeline.privacy.noise.exponential import Exponential
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import ReleaseSpec, load_spec

ENDS = [10_000, 20_000, 40_000, 80_000, 160_000]
CLIP = f"clip wages among {', '.join(map(str, ENDS))} above 1/50"


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
        yield spec


def wages(spec: Path) -> np.ndarray:
    """Those of the file; nothing where one is missing, as the spec says."""
    with (spec.parent / "workers.csv").open() as file:
        return np.array([float(row["pay"] or 0) for row in csv.DictReader(file)])


def chosen(root: Path) -> int:
    (row,) = csv.DictReader((root / "public" / "answer.csv").read_text().splitlines())
    assert int(row["clip:low90"]) <= int(row["clip"]) <= int(row["clip:high90"])
    return int(row["clip"])


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
    spec = write_workers(tmp_path, ("columns.wages]", "columns.sum]"))
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
    text = AMOUNT.replace("NAME", name)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = spec.with_name("wages.toml")
    path.write_text(spec.read_text("utf-8").replace('rho = "1"\ndataset', 'rho = "1/2"\ndataset') + text, "utf-8")
    return path


def test_an_amount_ends_where_an_answer_says(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    loaded = load_spec(with_amount(spec, root.name))
    amount = loaded.universes()[1].amount
    assert amount is not None
    assert (amount.low, amount.high) == (Fraction(0), Fraction(chosen(root)))
    public = loaded.public_dict()
    again = ReleaseSpec.from_public_dict(public)
    assert again.public_dict() == public
    assert (again.universes()[1].amount, again.universes()[1].reach) == (amount, loaded.universes()[1].reach)
    (stated,) = (one for _, one in public["companions"])
    assert stated["between"] == ["0", str(chosen(root))]
    assert stated["chosen"]["answer"] == root.name
    assert stated["chosen"]["question"] == CLIP


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
def test_what_cannot_be_an_end_is_refused(spec: Path, old: str, new: str, sentence: str) -> None:
    root = ask(spec, CLIP, "1/4")
    new = new.replace("NAME", root.name)
    path = with_amount(spec, root.name, (old.replace("NAME", root.name), new))
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert sentence in str(refused.value)


def test_the_key_of_published_specs_is_not_offered(spec: Path) -> None:
    with pytest.raises(SpecError, match=r"companions\.wages\.units: unknown key; did you mean 'unit'\?") as refused:
        load_spec(with_amount(spec, "", ('{ answer = "answers/" }', '"500"'), ('unit = "500"', 'units = "500"')))
    allowed = str(refused.value).partition("units: ")[2].partition("\n")[0]
    assert "count_clipped" in allowed
    assert "chosen" not in allowed


def test_answers_that_are_no_clip_or_were_changed_are_refused(spec: Path) -> None:
    counted = ask(spec, "count by county")
    with pytest.raises(SpecError, match="found the answer of a count; that of a clip is needed"):
        load_spec(with_amount(spec, counted.name))
    root = ask(spec, CLIP, "1/4")
    path = with_amount(spec, root.name)
    request = Request(path, spec.parent / "out", None, 1)
    assert check_request(request).universes[1].amount is not None
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
    spec: Path, changes: tuple[tuple[str, str], ...], sentence: str
) -> None:
    path = with_amount(spec, ask(spec, CLIP, "1/4").name)
    text = path.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=rf"companions\.wages\.between: the answer .*/answers/.*{sentence}"):
        check_request(Request(path, spec.parent / "out", None, 1))


def test_an_answer_that_was_charged_to_another_ledger_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """A new ledger with a dataset of the same name has no entry of what the clip cost."""
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3") as place:
        root = ask(spec, CLIP, "1/4")
    place.unlink()
    shutil.rmtree(tmp_path / "state")
    with ledger_of(tmp_path, budget="3"):
        with pytest.raises(InputError, match=r"companions\.wages\.between: the answer .* was charged to the ledger"):
            run(with_amount(spec, root.name), tmp_path / "out")
        assert spent(place) == 0


def test_a_release_whose_amount_ends_there_holds_for_all_who_look(spec: Path) -> None:
    """verify, rerun, check and the second program, without the answer; the ledger has the cost of both."""
    root = ask(spec, CLIP, "1/4")
    asked, place = spent(spec.parent / "ledger.sqlite"), spec.parent / "ledger.sqlite"
    released = RunDirectory(run(with_amount(spec, root.name), spec.parent / "out"))
    assert spent(place) == asked + 1
    shutil.rmtree(root)
    assert verify_release(released, 1, Silent()) == []
    assert check_release(released.root) == []
    assert rerun(released.root).same
    assert audit_release(released, KeySource(), str(place), 1, lambda _: None).failed == ()
    manifest = json.loads(released.manifest.read_bytes())
    (stated,) = (one for name, one in manifest["spec"]["companions"] if name == "wages")
    end = int(stated["between"][1])
    assert end == next(e for e in ENDS if (wages(spec) > e).sum() <= len(wages(spec)) / 50)
    said = f'but for the upper end {end}, chosen by the question "{CLIP}" (answer {root.name}), whose cost'
    (words,) = (one["words"] for one in manifest["privacy"] if one["universe"] == "wages")
    assert said in words
    page = html.unescape((released.public / "report.html").read_text("utf-8"))
    assert said in page
    assert f"{end} was chosen from the records by the question “{CLIP}” (answer {root.name})" in page
    (audited,) = (one for one in SecondRelease(released.root).form.universes if one.name == "wages")
    (stated,) = (one for one in manifest["privacy"] if one["universe"] == "wages")
    assert noise_problems(audited, stated) == []
    for forged in (words.replace(", but for the upper end", ". And"), words.replace("above 1/50", "above 1/40")):
        assert noise_problems(audited, {**stated, "words": forged})
    assert noise_problems(replace(audited, chosen=""), stated)
    means = open_release(released.root).companion("wages").means("total", "county")
    assert means["total:mean"].between(0, end).all()
