"""A release whose amounts end where a question has chosen: what is refused, and who looks at it afterwards."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from releases.asked import ask, ledger_of, spent, write_workers
from releases.clipped import CLIP, ENDS, chosen, wages, with_amount
from releases.command import needs
from releases.mutant import resealed
from releases.repeated import rerun
from releases.small import run

import pipeline.confidential.charge as charge
from auditor.check.release import check_release
from auditor.ledger import ledger_findings, read_ledger
from auditor.program import audit
from auditor.reading.findings import Found
from auditor.release import Release as SecondRelease
from auditor.statements import noise_problems
from pipeline.errors import InputError, SpecError
from pipeline.execution.progress import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.request import Request, check_request
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=1500)
    with ledger_of(tmp_path, budget="3"):
        yield spec


def charged_to_a_lost_ledger(folder: Path) -> tuple[Path, Path, Path]:
    """The spec, an answer that chose a clip, and where the ledger was that it was charged to."""
    spec = write_workers(folder, n=1500)
    with ledger_of(folder, budget="3") as place:
        root = ask(spec, CLIP, "1/4")
    place.unlink()
    shutil.rmtree(folder / "state")
    return spec, root, place


def test_an_amount_ends_where_an_answer_says(spec: Path) -> None:
    root = ask(spec, CLIP, "1/4")
    loaded = load_spec(with_amount(spec, root.name))
    amount = loaded.universes()[1].measure.amounts[0]
    assert (amount.low, amount.high) == (Fraction(0), Fraction(chosen(root)))
    public = loaded.public_dict()
    again = ReleaseSpec.from_public_dict(public)
    assert again.public_dict() == public
    assert (again.universes()[1].measure, again.universes()[1].reach) == (
        loaded.universes()[1].measure,
        loaded.universes()[1].reach,
    )
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


def test_a_chosen_end_is_of_each_record_and_none_of_a_units_total(tmp_path: Path) -> None:
    """A clip of single amounts, 40,000, says nothing of what a unit with two of them may have together."""
    unit = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
    spec = write_workers(tmp_path, unit, n=1500)
    with ledger_of(tmp_path, budget="3"):
        root = ask(spec, CLIP.replace("1/50", "30"), "1/4")
        path = with_amount(spec, root.name)
        reach = load_spec(path).universes()[1].reach
        assert reach == chosen(root) // 500
        total = path.read_text("utf-8").replace('unit = "500"', 'unit = "500"\nends = "total"')
        path.write_text(total, "utf-8")
        with pytest.raises(SpecError) as refused:
            load_spec(path)
        told = "companions.wages.ends: found 'total', and between has an end that a question chose"
        assert f"{path}: {told}" in str(refused.value)
        assert "\n" not in str(refused.value)
        path.write_text(total.replace(f'{{ answer = "answers/{root.name}" }}', '"60000"'), "utf-8")
        reach = load_spec(path).universes()[1].reach
        assert reach == 120


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
    spec, root, place = charged_to_a_lost_ledger(tmp_path)
    with ledger_of(tmp_path, budget="3"):
        with pytest.raises(InputError, match=r"companions\.wages\.between: the answer .* was charged to the ledger"):
            run(with_amount(spec, root.name), tmp_path / "out")
        assert spent(place) == 0


def test_a_release_whose_end_was_charged_elsewhere_is_named_by_ledger_verify_and_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a run that does not compare ledgers; then a manifest that says the clip was charged to the release's."""
    monkeypatch.setattr(charge, "_refuse_chosen_elsewhere", lambda *_: None)
    spec, root, place = charged_to_a_lost_ledger(tmp_path)
    with ledger_of(tmp_path, budget="3"):
        released = RunDirectory(run(with_amount(spec, root.name), tmp_path / "out"))
        ledger = known(place)
        first, second = named(released, ledger), named(released, None)
        assert first == second
        assert "companions.wages.between: the answer" in first[0]
        assert "that chose the upper end was charged to the ledger" in first[0]
        assert [one.check for one in audit(released.root, ledger=str(place)) if not one.passed] == ["ledger"]

        resealed(released.root, lambda manifest: said(manifest).update(ledger=ledger.id))
        assert named(released, None) == []
        (problem,) = named(released, ledger)
        assert "the ledger has no charge to 'workers' for the question that chose the upper end, 'clip wages" in problem
        found = [one for one in second_program(released, place) if not one.passed]
        assert [one.subject for one in found] == ["chosen ends"]
        assert "was never charged for the question" in found[0].detail


def known(place: Path) -> KnownLedger:
    """The ledger as `ledger verify` reads it."""
    with Ledger.open(str(place), state=place.parent / "state") as opened:
        return KnownLedger(opened.id, opened.events())


def named(released: RunDirectory, ledger: KnownLedger | None) -> list[str]:
    """What `ledger verify` finds of a release."""
    return list(compare_receipts(find_manifests([released.root]), ledger).problems)


def said(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of the end that was chosen."""
    return dict(manifest["spec"]["companions"])["wages"]["chosen"]


def second_program(released: RunDirectory, place: Path) -> list[Found]:
    """What the second program finds of the ledger."""
    return list(ledger_findings(SecondRelease(released.root), None, read_ledger(str(place))))


@needs("report")
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
    assert [one for one in audit(released.root, ledger=str(place)) if not one.passed] == []
    assert named(released, known(place)) == named(released, None) == []
    manifest = json.loads(released.manifest.read_bytes())
    (stated,) = (one for name, one in manifest["spec"]["companions"] if name == "wages")
    end = int(stated["between"][1])
    assert end == next(e for e in ENDS if (wages(spec) > e).sum() <= len(wages(spec)) / 50)
    said = f'except for the upper end {end}: it was chosen by the question "{CLIP}" (answer {root.name}), whose cost'
    (words,) = (one["words"] for one in manifest["privacy"] if one["universe"] == "wages")
    assert said in words
    page = html.unescape((released.public / "report.html").read_text("utf-8"))
    assert (
        f'except for the upper end {end:,}: it was chosen by the question "{CLIP}" (answer {root.name}), whose' in page
    )
    assert f"{end} was chosen from the records by the question “{CLIP}” (answer {root.name})" in page
    (audited,) = (one for one in SecondRelease(released.root).form.universes if one.name == "wages")
    (stated,) = (one for one in manifest["privacy"] if one["universe"] == "wages")
    assert noise_problems(audited, stated) == []
    for forged in (words.replace(", except for the upper end", ". And"), words.replace("above 1/50", "above 1/40")):
        assert noise_problems(audited, {**stated, "words": forged})
    assert noise_problems(replace(audited, chosen=""), stated)
    means = open_release(released.root).companion("wages").means("total", "county")
    assert means["total:mean"].between(0, end).all()
