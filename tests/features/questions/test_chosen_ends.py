"""A release whose amounts end where a question has chosen: what is refused, and who looks at it afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from releases.asked import UNITS, ask, ledger_of, spent, write_workers
from releases.clipped import CLIP, chosen, with_amount
from releases.mutant import resealed
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
from pipeline.release.layout import RunDirectory
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.request import Request, check_request
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The spec of questions, and an answer that chose a clip; tests write another spec beside it."""
    spec = write_workers(tmp_path_factory.mktemp("asked"), n=1500)
    with ledger_of(spec.parent, budget="3"):
        yield spec, ask(spec, CLIP, "1/4")


def charged_to_a_lost_ledger(folder: Path) -> tuple[Path, Path, Path]:
    """The spec, an answer that chose a clip, and where the ledger was that it was charged to."""
    spec = write_workers(folder, n=1500)
    with ledger_of(folder, budget="3") as place:
        root = ask(spec, CLIP, "1/4")
    place.unlink()
    shutil.rmtree(folder / "state")
    return spec, root, place


def test_an_amount_ends_where_an_answer_says(asked: tuple[Path, Path]) -> None:
    spec, root = asked
    loaded = load_spec(with_amount(spec, root.name))
    amount = loaded.universes()[1].measure.amounts[0]
    assert (amount.low, amount.high) == (Fraction(0), Fraction(chosen(root)))
    public = loaded.public_dict()
    again = ReleaseSpec.from_public_dict(public)
    assert again.public_dict() == public
    assert again.universes()[1].measure == loaded.universes()[1].measure
    (stated,) = (one for _, one in public["companions"])
    assert stated["between"] == ["0", str(chosen(root))]
    assert (stated["chosen"]["answer"], stated["chosen"]["question"]) == (root.name, CLIP)


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
    spec, root, place = charged_to_a_lost_ledger(tmp_path)
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
