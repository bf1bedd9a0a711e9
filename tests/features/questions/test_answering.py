"""Questions answered in this process: charged first, the same again for nothing, near the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matrix.cases import CASES
from releases.asked import ask, checked, drawn_again, key_at, ledger_of, public_files, spent, truth, write_workers

import features.questions.confidential as confidential
from features.questions.explaining import explain_question
from pipeline.errors import BudgetRefusedError, InputError, RefusedError, ReleaseError, SpecError
from pipeline.model.schema import AmountAttribute
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import read_answer
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.text import STATISTICS, parse
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_workers(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path, spec: Path) -> Iterator[Path]:  # noqa: ARG001
    with ledger_of(tmp_path) as place:
        yield place


def test_every_statistic_is_in_a_case() -> None:
    """With what is stored of its streams and noise, which the second program draws again."""
    asked = [command[7] for case in CASES for command in case.commands if command[1] == "ask"]
    assert {parse(text).statistic for text in asked} == set(STATISTICS)


def test_an_answer_is_charged_once_and_again_for_nothing(spec: Path, ledger: Path) -> None:
    root = ask(spec, "count by tract, sex where age >= 18")
    assert spent(ledger) == Fraction(1, 20)
    before = public_files(root)
    assert sorted(before) == ["answer.csv", "answer.json", "measurements.csv"]
    assert ask(spec, "count  by tract,sex where age>=18") == root
    assert public_files(root) == before
    assert spent(ledger) == Fraction(1, 20)
    assert read_answer(RunDirectory(root)).receipts[0].cost == "1/20"
    assert drawn_again(root) == []
    secret = (root / "restricted" / "key").read_text("ascii").split()[1]
    recorded = json.loads((root / "restricted" / "run.json").read_bytes())["input_fingerprints"]["question"]
    assert not [name for name, content in before.items() if secret in content.decode() or recorded in content.decode()]
    path = root / "public" / "answer.csv"
    path.write_text(path.read_text("utf-8").replace("A01,", "A01,1", 1), "utf-8")
    assert verify_answer(RunDirectory(root)) == [
        "answer.csv: was changed: it has not the hash that the manifest states"
    ]
    assert drawn_again(root) == ["answer.csv"]


def test_another_budget_question_or_key_is_another_charge_with_other_noise(spec: Path, ledger: Path) -> None:
    """The stream is bound to all of them: with the same key no two have the same noise; another name has the same."""
    key = key_at(spec.parent / "key")
    questions = [
        ("count by tract", "1/20"),
        ("count by tract", "1/10"),
        ("count by tract, sex", "1/20"),
        ("count by county", "1/20"),
    ]
    roots, cost = [], Fraction(0)
    for text, rho in questions:
        roots.append(ask(spec, text, rho, key=key))
        cost += Fraction(rho)
        assert spent(ledger) == cost
    assert len({read_answer(RunDirectory(root)).fingerprint for root in roots}) == len(questions)
    mine = ask(spec, "count by tract", "1/20", key=key, name="mine")
    assert public_files(mine)["measurements.csv"] == public_files(roots[0])["measurements.csv"]
    assert spent(ledger) == cost
    ask(spec, "count by tract", "1/20", key=key_at(spec.parent / "other"), name="other")
    assert spent(ledger) == cost + Fraction(1, 20)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("sum wages by county", 'column = "pay"', 'column = "pay2"'),
        ("count by county where wages > 60000", 'missing = "0"', 'missing = "10000"'),
        ("median wages", 'missing = "0"', 'missing = "10000"'),
        ("count by sex", 'geocode = "area"', 'geocode = "area"\nvalues = { sex = { "" = "f" } }'),
        ("count by tract", 'geocode = "area"', 'geocode = "area2"'),
        ("sum wages", 'geocode = "area"', 'geocode = "area"\nrows = { shift = ["day", "night"] }'),
    ],
)
def test_noise_depends_on_how_the_records_are_read(spec: Path, ledger: Path, text: str, old: str, new: str) -> None:
    """Nothing is missing, and columns are equal: the same true numbers, and the same noise would tell that."""
    records = pd.read_csv(spec.parent / "workers.csv", dtype=str).fillna({"pay": "9"})
    twice = {f"{name}2": records[name] for name in ("pay", "sex", "area")}
    records.assign(**twice).to_csv(spec.parent / "workers.csv", index=False)
    key = key_at(spec.parent / "key")
    first = ask(spec, text, key=key, name="first")
    cost, stated = spent(ledger), spec.read_text("utf-8")
    assert stated.count(old) == 1
    spec.write_text(stated.replace(old, new), "utf-8")
    second = ask(spec, text, key=key, name="second")
    assert spent(ledger) == 2 * cost
    numbers = [[receipt.number for receipt in read_answer(RunDirectory(root)).receipts] for root in (first, second)]
    assert numbers[0] != numbers[1]
    if text.startswith(("sum", "count by")):
        assert public_files(first)["measurements.csv"] != public_files(second)["measurements.csv"]


def test_other_records_are_refused_under_the_same_name_or_key_and_charged_under_others(
    spec: Path, ledger: Path
) -> None:
    key = key_at(spec.parent / "key")
    first = ask(spec, "count by tract")
    ask(spec, "count by tract", key=key, name="keyed")
    write_workers(spec.parent, seed=2)
    with pytest.raises(InputError, match="as begun on other records, or with another key"):
        ask(spec, "count by tract")
    with pytest.raises(InputError, match="the key of this run was used over other records before"):
        ask(spec, "count by tract", key=key, name="second")
    assert spent(ledger) == Fraction(1, 10)
    third = ask(spec, "count by tract", name="third")
    assert spent(ledger) == Fraction(3, 20)
    assert public_files(first)["measurements.csv"] != public_files(third)["measurements.csv"]


def test_an_answer_is_bound_to_what_it_counts(spec: Path, ledger: Path) -> None:
    """As docs/privacy.md says: where an amount changes, an answer without it is the same; one with it is refused."""
    key = key_at(spec.parent / "key")
    first = ask(spec, "count by sex", key=key, name="first")
    ask(spec, "sum wages by sex", key=key, name="paid")
    cost, records = spent(ledger), pd.read_csv(spec.parent / "workers.csv", dtype=str)
    row = records["pay"].notna().idxmax()
    records.loc[row, "pay"] = "1"
    records.to_csv(spec.parent / "workers.csv", index=False)
    second = ask(spec, "count by sex", key=key, name="second")
    assert public_files(first)["measurements.csv"] == public_files(second)["measurements.csv"]
    with pytest.raises(InputError, match="the key of this run was used over other records before"):
        ask(spec, "sum wages by sex", key=key, name="again")
    assert spent(ledger) == cost


def test_nothing_is_drawn_before_the_charge(spec: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that dies while it is drawn has spent its budget, and is finished by asking it again."""
    seen: list[Fraction] = []

    def dies(*_: object) -> None:
        seen.append(spent(ledger))
        raise KeyboardInterrupt

    for name in ("draw", "noise_of"):
        with monkeypatch.context() as patch:
            patch.setattr(confidential, name, dies)
            with pytest.raises(KeyboardInterrupt):
                ask(spec, "count by tract")
    assert seen == [Fraction(1, 20)] * 2
    root = ask(spec, "count by tract")
    assert spent(ledger) == Fraction(1, 20)
    assert verify_answer(RunDirectory(root)) == []


def test_no_ledger_no_answer(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINEWISE_LEDGER", str(tmp_path / "none.sqlite"))
    with pytest.raises(InputError, match=r"none\.sqlite"):
        ask(spec, "count")
    bare = write_workers(tmp_path / "bare", ('dataset = "workers"\n', ""))
    with pytest.raises(SpecError, match=r"privacy\.dataset: missing; a question is charged"):
        ask(bare, "count")
    tested = write_workers(tmp_path / "test", ('dataset = "workers"', 'dataset = "workers"\nkey = "insecure-test:1"'))
    with pytest.raises(InputError, match="insecure-test"):
        ask(tested, "count")
    assert not list(tmp_path.rglob("measurements.csv"))


def test_what_the_budget_does_not_allow_is_refused_with_status_3(spec: Path, tmp_path: Path) -> None:
    """All of it, or what is set aside for questions."""
    for part in ("whole", "aside"):
        folder = tmp_path / part
        folder.mkdir()
        with ledger_of(folder, purposes={"questions": Fraction(1, 4)} if part == "aside" else None) as place:
            with Ledger.open(str(place), state=folder / "state") as opened:
                opened.open_dataset(
                    "other", population="x", framework="zcdp", budget=Fraction(1), neighbours="change-one"
                )
            first, second = ("9/10", "1/5") if part == "whole" else ("1/5", "1/10")
            ask(spec, "count by tract", first, name=part)
            with pytest.raises(BudgetRefusedError) as error:
                ask(spec, "count by county", second, name=f"{part}-second")
            assert error.value.exit_status == 3
            assert spent(place) == Fraction(first)
            explained = explain_question(checked(spec, "count by county", second))
            assert (explained.left, explained.affordable) == ("1/10" if part == "whole" else "1/20", False)
    assert not list((spec.parent / "answers").glob("*-second/public/*"))


def test_a_question_whose_records_cannot_be_counted_is_refused_without_their_text(spec: Path, ledger: Path) -> None:
    """Its name can be used for another."""
    path = spec.parent / "workers.csv"
    path.write_text(path.read_text("utf-8").replace(",day,", ",secret-shift,", 1), "utf-8")
    with pytest.raises(RefusedError) as error:
        ask(spec, "count by shift", name="mine")
    assert "secret-shift" not in str(error.value)
    assert "secret-shift" in error.value.details.read_text("utf-8")
    assert spent(ledger) == 0
    ask(spec, "count by sex", name="mine")
    assert spent(ledger) == Fraction(1, 20)


def test_intervals_cover_nine_in_ten(spec: Path, ledger: Path) -> None:  # noqa: ARG001
    """Of 120 groups of one answer; the truth is of clipped and rounded amounts."""
    root = ask(spec, "mean wages by tract, sex, age, shift", "1")
    answer = pd.read_csv(root / "public" / "answer.csv", dtype={"tract": str})
    keys = ["tract", "sex", "age", "shift"]
    people = truth(spec).groupby(keys)["units"].agg(["count", "mean"]).reset_index()
    both = answer.merge(people, on=keys, suffixes=("", ":true"))
    both["mean:true"] *= 100
    for name in ("mean", "count"):
        covered = both[f"{name}:true"].between(both[f"{name}:low90"] - 1e-6, both[f"{name}:high90"] + 1e-6).mean()
        assert covered >= 0.8, name
    assert both["mean"].dropna().between(0, 60_000).all()


def test_an_answer_of_other_noise_than_was_charged_is_not_drawn_again(
    spec: Path,
    ledger: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its run is known by question and budget; another version of this program might give these less noise."""
    root = ask(spec, "count by tract")
    sound = vars(QuestionPlan)["parts"].func

    def quieter(own: QuestionPlan) -> tuple[Any, ...]:
        parts: tuple[Any, ...] = sound(own)
        return tuple(replace(one, mechanism=replace(one.mechanism, scale=one.mechanism.scale / 100)) for one in parts)

    monkeypatch.setattr(QuestionPlan, "parts", property(quieter))
    with pytest.raises(InputError, match="has no charge of this answer to workers; nothing was drawn"):
        drawn_again(root, spec)


def test_a_forged_manifest_is_no_way_to_read_the_records(spec: Path, ledger: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """Neither more budget, nor another question, nor a copy of the answer with another ledger is drawn."""
    root = ask(spec, "count by tract")
    path = root / "public" / "answer.json"
    content = json.loads(path.read_bytes())
    one = checked(spec, "count by tract", "5", name=root.name)
    forged = {**content, "budget": "5", "fingerprint": one.plan.fingerprint()}
    path.write_text(json.dumps(forged), "utf-8")
    with pytest.raises(InputError, match="nothing was read or drawn"):
        drawn_again(root, spec)
    key = MasterKey.read(root / "restricted" / "key")  # who has the key can forge all of the manifest
    salt = key.release_salt(f"answer/{root.name}/{one.work.privacy_fingerprint()}")
    recorded = json.loads((root / "restricted" / "run.json").read_bytes())["input_fingerprints"]["question"]
    published = key.published_fingerprint(salt, "question", recorded)
    salted = {"key_salt": salt, "key_commitment": key.commitment(salt), "input_fingerprint": published}
    path.write_text(json.dumps({**forged, **salted}), "utf-8")
    with pytest.raises(InputError, match="has no charge of this answer to workers; nothing was drawn"):
        drawn_again(root, spec)
    path.write_text(json.dumps({**content, "question": "count by tract, sex"}), "utf-8")
    with pytest.raises(InputError, match="now gives another question or other areas than were asked"):
        drawn_again(root, spec)
    path.write_text(json.dumps(content), "utf-8")
    write_workers(spec.parent, seed=2)
    with pytest.raises(InputError, match="the records are not those that"):
        drawn_again(root, spec)
    write_workers(spec.parent)
    (root / "restricted" / "key").unlink()
    MasterKey.generate().write(root / "restricted" / "key")
    with pytest.raises(InputError, match="the key is not the one that"):
        drawn_again(root, spec)


@pytest.mark.usefixtures("ledger")
def test_a_manifest_that_states_another_noise_does_not_verify(spec: Path) -> None:
    """No noise, a number that takes hours to read, or the sensitivity of a count for a sum of wages."""
    run = RunDirectory(ask(spec, "sum wages by tract"))
    path = run.public / "answer.json"
    stated = json.loads(path.read_bytes())
    (part,) = stated["parts"]
    scale = Fraction(part["scale"]) / part["reach"] ** 2
    counted = {**part, "reach": 1, "scale": str(scale)}
    path.write_text(json.dumps({**stated, "parts": [counted]}), "utf-8")
    assert "answer.json: parts: is not what its question and domain give" in verify_answer(run)
    for field, forged in (("scale", {"parts": [{**part, "scale": "0"}]}), ("budget", {"budget": "1e999999999"})):
        path.write_text(json.dumps({**stated, **forged}), "utf-8")
        with pytest.raises(ReleaseError, match=field):
            verify_answer(run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("count where wages < 70000", "counted in units"),
        ("count where wages > 19210", "counted in units"),
        ("count where age in " + ",".join(["18-64"] * 80), "with its blanks"),
        ("median wages where wages = 100", "the conditions leave one amount"),
        ("median age", "is an attribute and no amount"),
        ("most common wages", "it is an amount"),
        ("most common 3 shift", "it has 2 values here, of which 3 most common"),
        ("most common 1 sex by sex", "'sex' is told apart already"),
        ("most common 1 race", "it is no level, attribute or recode"),
        ("clip wages among 1, 1e41 above 9", "an end to choose among is a decimal number"),
    ],
)
def test_what_a_question_cannot_mean_is_refused(spec: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked(spec, text)


@pytest.mark.parametrize("accepted", ["", 'accept = ["geography"]\n'])
@pytest.mark.usefixtures("ledger")
def test_areas_that_were_made_from_the_records_are_refused(spec: Path, accepted: str) -> None:
    """They say where somebody is, and no noise is added to which areas an answer has."""
    section = f'[provenance]\n{accepted}[provenance.inputs.geography]\nsource = "records"\n'
    spec.write_text(spec.read_text("utf-8") + section, "utf-8")
    with pytest.raises(SpecError, match=r"provenance.*geography.*records"):
        ask(spec, "count by tract")
    assert not (spec.parent / "answers").exists()


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("sum wages by county", 'column = "pay"', 'column = "pay2"'),
        ("count by sex", 'geocode = "area"', 'geocode = "area"\nrows = { shift = ["day"] }'),
    ],
)
def test_a_rerun_with_another_reading_reads_nothing(
    spec: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch, text: str, old: str, new: str, same: bool
) -> None:
    """Whether counts are equal, or not, decided before which of two sentences came."""
    records = pd.read_csv(spec.parent / "workers.csv", dtype=str).fillna({"pay": "9"})
    other = records.assign(pay2=records["pay"], shift="day")
    if not same:
        other.loc[0, ["pay2", "shift"]] = "59000", "night"
    other.to_csv(spec.parent / "workers.csv", index=False)
    key = key_at(spec.parent / "key")
    root = ask(spec, text, key=key, name="first")
    cost, stated = spent(ledger), spec.read_text("utf-8")
    assert stated.count(old) == 1
    spec.write_text(stated.replace(old, new), "utf-8")
    monkeypatch.setattr(confidential, "counted", lambda *_: pytest.fail("records are read"))
    with pytest.raises(InputError, match="nothing was read or drawn"):
        drawn_again(root, spec, key)
    assert spent(ledger) == cost


def _unclipped(self: AmountAttribute, amount: Fraction) -> int:
    """The grid has no value for what is above it: the record is counted elsewhere."""
    return int((amount - self.low) / self.unit + Fraction(1, 2))


def test_half_a_charge_and_a_clip_that_is_forgotten_are_found(
    spec: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two planted faults; those that the second program has to find are in `releases.answer_mutants`."""
    assert spent(ledger) == 0
    charge_of = confidential.charge_of

    def half(*arguments: Any) -> Any:
        charge = charge_of(*arguments)
        return replace(charge, groups=tuple(replace(group, scale=2 * group.scale) for group in charge.groups))

    with monkeypatch.context() as patch:
        patch.setattr(confidential, "charge_of", half)
        assert verify_answer(RunDirectory(ask(spec, "mean wages by county", "1/2"))) != []
    monkeypatch.setattr(AmountAttribute, "number_of", _unclipped)
    (found,) = pd.read_csv(ask(spec, "sum wages", "3/4", name="unclipped") / "public" / "answer.csv")["sum"]
    assert abs(found - 100 * truth(spec)["units"].sum()) > 400_000  # euros: more than five standard deviations
