"""Questions answered in this process: charged first, the same again for nothing, near the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask, checked, key_at, ledger_of, public_files, spent, truth, write_workers

import features.questions.confidential as confidential
from features.questions.answering import again_of, answered, compared
from features.questions.confidential import AnsweringHere
from features.questions.explaining import explain_question
from pipeline.errors import BudgetRefusedError, InputError, RefusedError, ReleaseError, SpecError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.derived import Terms
from pipeline.questions.manifest import read_answer
from pipeline.questions.resolved import Resolved
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_workers(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path, spec: Path) -> Iterator[Path]:  # noqa: ARG001
    with ledger_of(tmp_path) as place:
        yield place


def test_an_answer_is_charged_once_and_again_for_nothing(spec: Path, ledger: Path) -> None:
    root = ask(spec, "count by tract, sex where age >= 18")
    assert spent(ledger) == Fraction(1, 20)
    before = public_files(root)
    assert sorted(before) == ["answer.csv", "answer.json", "measurements.csv"]
    assert ask(spec, "count  by tract,sex where age>=18") == root
    assert public_files(root) == before
    assert spent(ledger) == Fraction(1, 20)
    assert read_answer(RunDirectory(root)).receipts[0].cost == "1/20"


def test_another_budget_question_or_key_is_another_charge_with_other_noise(spec: Path, ledger: Path) -> None:
    """The stream is bound to all of them: with the same key no two have the same noise."""
    key = key_at(spec.parent / "key")
    questions = [
        ("count by tract", "1/20"),
        ("count by tract", "1/10"),
        ("count by tract, sex", "1/20"),
        ("count by county", "1/20"),
    ]
    streams, cost = [], Fraction(0)
    for text, rho in questions:
        answered_ = ask(spec, text, rho, key=key)
        cost += Fraction(rho)
        assert spent(ledger) == cost
        streams.append(read_answer(RunDirectory(answered_)).fingerprint)
    assert len(set(streams)) == len(questions)
    ask(spec, "count by tract", "1/20", key=key_at(spec.parent / "other"), name="other")
    assert spent(ledger) == cost + Fraction(1, 20)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("sum wages by county", 'missing = "0"', 'missing = "10000"'),
        ("sum wages by county", 'column = "pay"', 'column = "pay2"'),
        ("count by county where wages > 60000", 'missing = "0"', 'missing = "10000"'),
        ("median wages", 'missing = "0"', 'missing = "10000"'),
        ("clip wages among 20000, 40000", 'missing = "0"', 'missing = "10000"'),
        ("count by shift", '"night"]', '"night"]\nmissing = "day"'),
        ("count by sex", 'geocode = "area"', 'geocode = "area"\nvalues = { sex = { "" = "f" } }'),
        ("count where sex = f", 'geocode = "area"', 'geocode = "area"\ncolumns = { sex = "sex2" }'),
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


def test_what_does_not_say_how_the_records_are_read_leaves_the_noise(spec: Path, ledger: Path) -> None:
    """An attribute that the question does not look at, and a default that is said: the same answer for nothing."""
    key = key_at(spec.parent / "key")
    first = ask(spec, "count by sex", key=key, name="first")
    cost, stated = spent(ledger), spec.read_text("utf-8")
    read = 'geocode = "area"\nseparator = ","\ncolumns = { sex = "sex" }\nvalues = { age = { "" = "65+" } }'
    spec.write_text(stated.replace('geocode = "area"', read), "utf-8")
    second = ask(spec, "count by sex", key=key, name="second")
    assert spent(ledger) == cost
    assert public_files(first)["measurements.csv"] == public_files(second)["measurements.csv"]


def test_other_records_are_refused_under_the_same_name_and_charged_under_another(spec: Path, ledger: Path) -> None:
    first = ask(spec, "count by tract")
    write_workers(spec.parent, seed=2)
    with pytest.raises(InputError, match="as begun on other records, or with another key"):
        ask(spec, "count by tract")
    assert spent(ledger) == Fraction(1, 20)
    second = ask(spec, "count by tract", name="second")
    assert spent(ledger) == Fraction(1, 10)
    assert public_files(first)["measurements.csv"] != public_files(second)["measurements.csv"]


def test_one_key_is_for_one_set_of_records(spec: Path, ledger: Path) -> None:
    key = key_at(spec.parent / "key")
    ask(spec, "count by tract", key=key)
    write_workers(spec.parent, seed=2)
    with pytest.raises(InputError, match="the key of this run was used over other records before"):
        ask(spec, "count by tract", key=key, name="second")
    assert spent(ledger) == Fraction(1, 20)


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

    with monkeypatch.context() as patch:
        patch.setattr(confidential, "draw", dies)
        with pytest.raises(KeyboardInterrupt):
            ask(spec, "count by tract")
    assert seen == [Fraction(1, 20)]
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


def test_what_the_budget_does_not_allow_is_refused_with_status_3(spec: Path, ledger: Path) -> None:
    with Ledger.open(str(ledger), state=ledger.parent / "state") as opened:
        opened.open_dataset("other", population="x", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    ask(spec, "count by tract", "9/10")
    with pytest.raises(BudgetRefusedError) as error:
        ask(spec, "count by county", "1/5")
    assert error.value.exit_status == 3
    assert spent(ledger) == Fraction(9, 10)
    assert not list((spec.parent / "answers").glob("count-county-*/public/*"))


def test_records_that_cannot_be_counted_are_refused_without_their_text(spec: Path, ledger: Path) -> None:
    path = spec.parent / "workers.csv"
    path.write_text(path.read_text("utf-8").replace(",day,", ",secret-shift,", 1), "utf-8")
    with pytest.raises(RefusedError) as error:
        ask(spec, "count by shift")
    assert "secret-shift" not in str(error.value)
    assert "secret-shift" in error.value.details.read_text("utf-8")
    assert spent(ledger) == 0


def test_a_name_whose_question_was_refused_can_be_used_for_another(spec: Path, ledger: Path) -> None:
    path = spec.parent / "workers.csv"
    path.write_text(path.read_text("utf-8").replace(",day,", ",other,", 1), "utf-8")
    with pytest.raises(RefusedError):
        ask(spec, "count by shift", name="mine")
    ask(spec, "count by sex", name="mine")
    assert spent(ledger) == Fraction(1, 20)


@pytest.mark.parametrize("text", ["count by tract, sex, age, shift", "sum wages by tract, sex, age, shift"])
def test_the_numbers_are_the_true_ones_and_the_noise_that_is_stated(spec: Path, ledger: Path, text: str) -> None:  # noqa: ARG001
    """120 numbers: the mean square of what was added is the stated variance, within four standard deviations."""
    root = ask(spec, text)
    assert abs(noise_ratio(spec, root) - 1) < 4 * np.sqrt(2 / 120)


def noise_ratio(spec: Path, root: Path) -> float:
    """The mean square of the noise over the stated variance; true numbers are computed with pandas."""
    part = read_answer(RunDirectory(root)).parts[0]
    measured = pd.read_csv(root / "public" / "measurements.csv", dtype={"tract": str})
    keys = ["tract", "sex", "age", "shift"]
    people = truth(spec).groupby(keys)["units"].agg(["count", "sum"]).reset_index()
    both = measured.merge(people, on=keys, how="left", suffixes=("", ":true")).fillna(0)
    assert len(both) == 120
    true = both["count:true"] if part.name == "count" else both["sum:true"]
    return float(((both[part.name] - true) ** 2).mean() / float(Fraction(part.scale)))


def test_a_mean_is_near_the_truth_and_within_the_grid(spec: Path, ledger: Path) -> None:
    root = ask(spec, "mean wages by sex where age >= 18", "1")
    answer = pd.read_csv(root / "public" / "answer.csv").set_index("sex")
    people = truth(spec)
    true = people[people["age"] != "0-17"].groupby("sex")["units"].mean() * 100
    assert (answer["mean:low90"] <= answer["mean"]).all()
    assert (answer["mean"] <= answer["mean:high90"]).all()
    assert ((answer["mean"] - true).abs() < 3 * (answer["mean:high90"] - answer["mean:low90"])).all()
    assert answer["mean"].between(0, 60_000).all()
    manifest = read_answer(RunDirectory(root))
    assert [part.budget for part in manifest.parts] == ["1/2", "1/2"]
    assert spent(ledger) == 1


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


def test_units_with_several_records_cost_what_they_may_change(tmp_path: Path) -> None:
    units = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
    spec = write_workers(tmp_path / "units", units)
    with ledger_of(spec.parent) as place:
        root = ask(spec, "sum wages by county")
        manifest = read_answer(RunDirectory(root))
        assert spent(place) == Fraction(1, 20)
    assert manifest.records_per_person == 2
    assert manifest.parts[0].scale == str(Fraction(2 * 600**2 * 4) / (2 * Fraction(1, 20)))
    assert verify_answer(RunDirectory(root)) == []


def test_pure_budgets_and_records_that_come_and_go(tmp_path: Path) -> None:
    pure = ('rho = "1"', 'framework = "pure"\nepsilon = "1"\nneighbours = "add-remove"')
    spec = write_workers(tmp_path / "pure", pure)
    with ledger_of(spec.parent, framework="pure", neighbours="add-remove") as place:
        root = ask(spec, "mean wages by county", None, epsilon="1/2")
        manifest = read_answer(RunDirectory(root))
        assert spent(place) == Fraction(1, 2)
        with pytest.raises(InputError, match="the framework 'pure' of the spec needs --epsilon"):
            ask(spec, "count", "1/2")
    assert [(part.mechanism, part.scale) for part in manifest.parts] == [
        ("discrete_laplace", "1200"),
        ("discrete_laplace", "4"),
    ]
    assert verify_answer(RunDirectory(root)) == []


def test_explaining_reads_no_record_and_spends_nothing(spec: Path, ledger: Path) -> None:
    (spec.parent / "workers.csv").unlink()
    explained = explain_question(checked(spec, "mean wages by county"))
    assert spent(ledger) == 0
    assert (explained.cost, explained.left, explained.affordable) == ("1/20", "1", True)
    assert [part.half_width for part in explained.parts] == ["442,100", "10"]
    assert "left of 'workers'" in str(explained)
    assert not (spec.parent / "answers").exists()
    short = explain_question(checked(spec, "count by county", "2"))
    assert not short.affordable
    assert "not enough" in str(short)


def again(spec: Path, root: Path) -> list[str]:
    run = RunDirectory(root)
    one = again_of(run, spec, None, checked(spec, "count").request.key)
    return compared(run, one, AnsweringHere(one))


def test_an_answer_is_verified_and_drawn_again(spec: Path, ledger: Path) -> None:
    root = ask(spec, "mean wages by tract where age >= 18")
    assert verify_answer(RunDirectory(root)) == []
    assert again(spec, root) == []
    assert spent(ledger) == Fraction(1, 20)
    path = root / "public" / "answer.csv"
    path.write_text(path.read_text("utf-8").replace("A01,", "A01,1", 1), "utf-8")
    assert verify_answer(RunDirectory(root)) == [
        "answer.csv: was changed: it has not the hash that the manifest states"
    ]
    assert again(spec, root) == ["answer.csv"]


def test_an_answer_of_other_noise_than_was_charged_is_not_drawn_again(
    spec: Path,
    ledger: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its run is known by question and budget; another version of this program might give these less noise."""
    root = ask(spec, "count by tract")
    sound = Terms.parts

    def quieter(own: Terms, question: Resolved, n_places: int) -> tuple[Any, ...]:
        parts: tuple[Any, ...] = sound(own, question, n_places)
        return tuple(replace(one, noise=replace(one.noise, scale=one.noise.scale / 100)) for one in parts)

    monkeypatch.setattr(Terms, "parts", quieter)
    with pytest.raises(InputError, match="has no charge of this answer to 'workers'; nothing was drawn"):
        again(spec, root)


def test_a_forged_manifest_is_no_way_to_read_the_records(spec: Path, ledger: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """Neither more budget, nor another question, nor a copy of the answer with another ledger is drawn."""
    root = ask(spec, "count by tract")
    path = root / "public" / "answer.json"
    content = json.loads(path.read_bytes())
    one = checked(spec, "count by tract", "5", name=root.name)
    forged = {**content, "budget": "5", "fingerprint": one.work.fingerprint()}
    path.write_text(json.dumps(forged), "utf-8")
    with pytest.raises(InputError, match="nothing was read or drawn"):
        again(spec, root)
    key = MasterKey.read(root / "restricted" / "key")  # who has the key can forge all of the manifest
    salt = key.release_salt(f"answer/{root.name}/{one.work.privacy_fingerprint()}")
    recorded = json.loads((root / "restricted" / "run.json").read_bytes())["input_fingerprints"]["question"]
    published = key.published_fingerprint(salt, "question", recorded)
    salted = {"key_salt": salt, "key_commitment": key.commitment(salt), "input_fingerprint": published}
    path.write_text(json.dumps({**forged, **salted}), "utf-8")
    with pytest.raises(InputError, match="has no charge of this answer to 'workers'; nothing was drawn"):
        again(spec, root)
    path.write_text(json.dumps({**content, "question": "count by tract, sex"}), "utf-8")
    with pytest.raises(InputError, match="now gives another question or other areas than were asked"):
        again(spec, root)
    path.write_text(json.dumps(content), "utf-8")
    write_workers(spec.parent, seed=2)
    with pytest.raises(InputError, match="the records are not those that"):
        again(spec, root)
    write_workers(spec.parent)
    (root / "restricted" / "key").unlink()
    MasterKey.generate().write(root / "restricted" / "key")
    with pytest.raises(InputError, match="the key is not the one that"):
        again(spec, root)


def test_the_public_files_hold_no_key_and_no_plain_fingerprint(spec: Path, ledger: Path) -> None:  # noqa: ARG001
    root = ask(spec, "count by tract")
    secret = (root / "restricted" / "key").read_text("ascii").split()[1]
    recorded = json.loads((root / "restricted" / "run.json").read_bytes())["input_fingerprints"]["question"]
    for content in public_files(root).values():
        assert secret not in content.decode()
        assert recorded not in content.decode()


def test_the_answer_is_the_same_whoever_holds_the_records(spec: Path, ledger: Path) -> None:
    """A name of one's own, and the key handed in: the numbers are the same as under the default name."""
    key = key_at(spec.parent / "key")
    one, two = checked(spec, "count by tract", key=key), checked(spec, "count by tract", key=key, name="mine")
    first, second = (answered(each, AnsweringHere(each)) for each in (one, two))
    assert public_files(first)["measurements.csv"] == public_files(second)["measurements.csv"]
    assert spent(ledger) == Fraction(1, 20)


@pytest.mark.parametrize("field", ["scale", "budget", "parts"])
@pytest.mark.usefixtures("ledger")
def test_a_manifest_that_states_another_noise_does_not_verify(spec: Path, field: str) -> None:
    """No noise, a number that takes hours to read, or the sensitivity of a count for a sum of wages."""
    run = RunDirectory(ask(spec, "sum wages by tract"))
    assert verify_answer(run) == []
    path = run.public / "answer.json"
    stated = json.loads(path.read_bytes())
    if field == "parts":
        part = stated["parts"][0]
        scale = Fraction(part["scale"]) / part["reach"] ** 2
        part |= {"low": 1, "high": 1, "reach": 1, "scale": str(scale)}
    elif field == "scale":
        stated["parts"][0]["scale"] = "0"
    else:
        stated["budget"] = "1e999999999"
    path.write_text(json.dumps(stated), "utf-8")
    if field == "parts":
        assert any("its parts are" in problem for problem in verify_answer(run))
    else:
        with pytest.raises(ReleaseError, match=field):
            verify_answer(run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("count where wages < 70000", "counted in units"),
        ("count where wages > 19210", "counted in units"),
        ("count where wages <= 60000", "decides nothing"),
        ("count where age in " + ",".join(["18-64"] * 80), "with its blanks"),
    ],
)
@pytest.mark.usefixtures("ledger")
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
        ("count by sex", 'geocode = "area"', 'geocode = "area"\nencoding = "cp1252"'),
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
    run = RunDirectory(ask(spec, text, key=key, name="first"))
    cost, stated = spent(ledger), spec.read_text("utf-8")
    assert stated.count(old) == 1
    spec.write_text(stated.replace(old, new), "utf-8")
    checked = again_of(run, spec, None, key)
    monkeypatch.setattr(confidential, "counted", lambda *_: pytest.fail("records are read"))
    with pytest.raises(InputError, match="nothing was read or drawn"):
        compared(run, checked, AnsweringHere(checked))
    assert spent(ledger) == cost
