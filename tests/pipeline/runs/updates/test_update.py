"""A version of a release, with answers or with corrected texts: by dense least squares, followed by both programs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.asked import ask
from releases.command import needs
from releases.signed import cli, keys_in
from releases.small import PEOPLE_EXACT, UNITS_EXACT, public_bytes, write_town
from releases.small import run as run_release
from releases.updated import DETAILED, PUBLISH, QUESTIONS, answer_to, charged_release, key_of, seal, update

from auditor.check.release import check_release
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.execution.steps import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import open_finished, release_at
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.changes import read_changes
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import read_measurement
from pipeline.release.tables import read_table, write_table
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.updates import Updated, update_release
from pipeline.runs.verify import verify_release
from pipeline.signatures.statement import is_signed, sign_release, signature_problems
from pipeline.storage.paths import unchecked


@dataclass(frozen=True)
class Made:
    """What the tests look at."""

    spec: Path
    release: Path
    answers: tuple[Path, ...]
    new: Updated


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """As the case "updated" of the matrix; that it verifies is shown there."""
    folder = tmp_path_factory.mktemp("updated")
    with charged_release(folder, PUBLISH, DETAILED) as (spec, release):
        answers = tuple(answer_to(spec, *question) for question in QUESTIONS)
        yield Made(spec, release, answers, update(release, answers, folder / "new"))


def verify(root: Path) -> list[str]:
    return verify_release(release_at(root), 1, Silent())


def dense(made: Made) -> dict[str, np.ndarray]:
    """Best estimates and variances of all cells of each area, level -> `(2, n_areas, 6)`, from the files alone."""
    tracts = [f"{county}{tract:02d}" for county in "AB" for tract in range(1, 6)]
    ages, design, values, weights = ["0-17", "18-64", "65+"], [], [], []

    def see(code: str, cells: np.ndarray, value: float, variance: float) -> None:
        design.append(np.concatenate([cells * tract.startswith(code) for tract in tracts]).astype(float))
        values.append(value)
        weights.append(1 / variance)

    for level in ("county", "tract"):
        for name, matrix in (("age.sex", np.eye(6)), ("sex", np.tile(np.eye(2), 3))):
            one = read_measurement(unchecked(made.release / f"public/measurements/{level}/{name}.parquet"))
            for code, row in zip(one.geocodes, one.values, strict=True):
                for cells, value in zip(matrix, row, strict=True):
                    see(str(code), cells, value, one.variance)
    for root in made.answers:
        stated = json.loads((root / "public/answer.json").read_text("utf-8"))
        variance = float(Fraction(stated["parts"][0]["scale"]))
        for row in pd.read_csv(root / "public/measurements.csv", dtype=str).to_dict("records"):
            cells = np.outer([age == row["age"] for age in ages], [sex == row["sex"] for sex in "fm"]).ravel()
            see(row[stated["place"]], cells, int(row["count"]), variance)
    rows, weight = np.array(design), np.array(weights)
    covariance = np.linalg.inv(rows.T @ (weight[:, None] * rows))
    best = covariance @ (rows.T @ (weight * np.array(values)))
    out = {}
    for level, n in (("county", 2), ("tract", 10)):
        summed = np.kron(np.kron(np.eye(n), np.ones((1, 10 // n))), np.eye(6))
        both = [summed @ best, np.diag(summed @ covariance @ summed.T)]
        out[level] = np.array(both).reshape(2, n, 6)
    return out


def test_linear_estimates_are_those_of_dense_least_squares(made: Made) -> None:
    """Over all measurements of the release and of both answers, the one with a condition too."""
    expected = dense(made)
    for level in ("county", "tract"):
        found = pd.read_parquet(made.new.root / f"public/estimates/{level}.parquet")
        np.testing.assert_allclose(np.stack(found["age.sex"].tolist()), expected[level][0], atol=1e-3)
        np.testing.assert_allclose(np.stack(found["age.sex:variance"].tolist()), expected[level][1], rtol=1e-4)
        before = pd.read_parquet(made.release / f"public/estimates/{level}.parquet")
        assert (np.stack(found["age.sex:variance"].tolist()) < np.stack(before["age.sex:variance"].tolist())).all()


@pytest.mark.slow
def test_the_cut_of_a_spine_does_not_show(tmp_path: Path) -> None:
    """With answers above the cut, at it and below; the one at the cut has a condition."""
    levels = ("levels = { county = 1, tract = 3 }", "levels = { county = 1, half = 2, tract = 3 }")
    shares = ('tract = "1/2"', 'half = "1/4"\ntract = "1/4"')
    with charged_release(tmp_path, PUBLISH, DETAILED, levels, shares) as (spec, release):
        texts = ("count by county, sex", "count by half, age where sex = f", "count by tract where age >= 65")
        new = update(release, [answer_to(spec, text, "1/10") for text in texts], tmp_path / "new").root
    with computed_again(new, tmp_path / "again", 1, 1) as job:
        assert isinstance(estimation_of(job, job.universes[0]), SubtreeEstimation)
        perform_public_steps(job)
    expected, found = public_bytes(new), public_bytes(tmp_path / "again")
    assert {name: expected[name] for name in found} == found
    assert {"public/estimates/tract.parquet", "public/tables/sex/tract.parquet"} <= found.keys()


def noise_of(root: Path, answer: str) -> tuple[str, str]:
    """Of an answer's numbers, as the version that has them states it: mechanism and scale."""
    (part,) = json.loads((root / "public/answers" / answer / "answer.json").read_text("utf-8"))["parts"]
    return part["mechanism"], part["scale"]


def test_the_promise_is_that_of_release_and_answers_together(made: Made) -> None:
    manifest, before = (open_finished(root, check_hashes=True).manifest for root in (made.new.root, made.release))
    statement = manifest.privacy[0]
    assert Fraction(statement.budget) == 1 + Fraction(1, 2) + Fraction(1, 4)
    assert [noise_of(made.new.root, one.name) for one in made.answers] == [
        ("discrete_gaussian", "2"),
        ("discrete_gaussian", "4"),
    ]
    assert manifest.joint is not None
    assert Fraction(manifest.joint.budget) == Fraction(7, 4)
    # By the Gaussian's own composition: rho of the record, and of its age, which all but the queries of sex show.
    (age, sex) = manifest.accounts[0].attributes
    assert (age.of, Fraction(age.budget)) == ("age", Fraction(1, 2) + Fraction(3, 4))
    assert (sex.of, Fraction(sex.budget)) == ("sex", Fraction(7, 4))
    (place,) = manifest.accounts[0].places
    assert Fraction(place.budget) == Fraction(1, 2) + Fraction(1, 2)
    assert manifest.spec["privacy"] == before.spec["privacy"]
    assert "with rho = 0.75 of it: they were charged when they were asked" in statement.words
    kept = ("receipts", "key_commitment", "key_salt", "input_fingerprints", "status")
    assert all(getattr(manifest, name) == getattr(before, name) for name in kept)


@needs("report")
def test_what_changed_is_told_in_figures(made: Made) -> None:
    changes = read_changes(unchecked(made.new.root / "public/changes.json"))
    assert (changes.version, len(changes.answers)) == (2, 2)
    for table in changes.tables:
        old, new = (
            pd.read_parquet(root / f"public/tables/{table.table}/{table.level}.parquet").set_index("geocode")
            for root in (made.release, made.new.root)
        )
        names = [name for name in old.columns if ":" not in name]
        apart = (new[names] - old[names]).abs().to_numpy()
        lows, highs = (old[[f"{name}:{end}90" for name in names]].to_numpy() for end in ("low", "high"))
        assert (table.numbers, table.changed, table.largest) == (apart.size, (apart > 0).sum(), apart.max())
        assert table.outside == ((new[names].to_numpy() < lows) | (new[names].to_numpy() > highs)).sum()
        assert table.mean == pytest.approx(apart.mean(), abs=1e-4)
        for number, stated in ((old, table.margin_before), (new, table.margin_after)):
            assert stated == pytest.approx(number[[f"{name}:moe90" for name in names]].to_numpy().mean(), abs=1e-3)
        for move in table.moves:
            assert (old.loc[move.geocode, move.number], new.loc[move.geocode, move.number]) == (move.before, move.after)
    assert changes.changed > 20


@pytest.mark.slow
def test_a_third_version_is_made_of_the_second(made: Made, tmp_path: Path) -> None:
    answer = answer_to(made.spec, "count by tract where sex = f", "1/10")
    third = update(made.new.root, [answer], tmp_path / "third")
    assert verify(third.root) == check_release(third.root) == []
    assert third.changes.version == 3
    assert [one.name for one in third.changes.answers] == [answer.name]
    opened = open_finished(third.root, check_hashes=True)
    assert opened.universes[0].budget == Fraction(7, 4) + Fraction(1, 10)
    assert opened.universes[0].own_budget == 1
    # The order does not matter but for names: the second answer's estimates are those of all three at once.
    at_once = update(made.release, [*made.answers, answer], tmp_path / "at_once")
    for level in ("county", "tract"):
        name = f"public/estimates/{level}.parquet"
        assert (third.root / name).read_bytes() == (at_once.root / name).read_bytes()


@pytest.mark.slow
def test_a_version_keeps_what_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(
        tmp_path / "in",
        ('key = "insecure-test:1"', 'dataset = "people"'),
        ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "homes" }'),
    )
    place, state = str(tmp_path / "ledger.sqlite"), tmp_path / "state"
    monkeypatch.setenv("SPINEWISE_LEDGER", place)
    monkeypatch.setenv("SPINEWISE_STATE", str(state))
    with Ledger.open(place, create=True, state=state) as ledger:
        for name, subjects in (("people", PEOPLE_EXACT), ("homes", UNITS_EXACT)):
            budget = {"framework": "zcdp", "budget": Fraction(9), "neighbours": "change-one"}
            ledger.open_dataset(name, population="x", exact=subjects, **budget)  # type: ignore[arg-type]
    key = KeySource(key_of(tmp_path, 1))
    release = run_release(spec, tmp_path / "out", key_file=key.file)
    texts = ("count by block, quarters where age in child, adult", "count by tract, grown", "count by county")
    new = update(release, [ask(spec, text, "1/4", key=key) for text in texts], tmp_path / "new").root
    assert verify_release(release_at(new), 1, Silent()) == []
    assert check_release(new) == []
    manifest = open_finished(new, check_hashes=True).manifest
    assert [Fraction(one.budget) for one in manifest.privacy] == [Fraction(11, 4), 1]
    assert manifest.joint is not None
    assert Fraction(manifest.joint.budget) >= Fraction(15, 4)
    exact, before = (pd.read_parquet(root / "public/tables/total/county.parquet") for root in (new, release))
    assert (exact["total"] == before["total"]).all()
    units = Path("public/companions/units/histograms/block.parquet")
    assert (new / units).read_bytes() == (release / units).read_bytes()
    assert (new / "public/histograms/block.parquet").read_bytes() != (
        release / "public/histograms/block.parquet"
    ).read_bytes()
    assert os.environ["SPINEWISE_LEDGER"] == place


def test_pure_budgets_add_up(tmp_path: Path) -> None:
    pure = ('rho = "1"', 'framework = "pure"\nepsilon = "1"')
    quick = ("[input]", "[publish]\nreplicates = 2\n[input]")
    with charged_release(tmp_path, pure, quick, framework="pure") as (spec, release):
        answer = answer_to(spec, "count by tract where sex = f", None, epsilon="1/2")
        new = update(release, [answer], tmp_path / "new").root
    assert verify_release(release_at(new), 1, Silent()) == []
    assert check_release(new) == []
    manifest = open_finished(new, check_hashes=True).manifest
    (statement,) = manifest.privacy
    assert (statement.framework, statement.budget) == ("pure", "3/2")
    assert noise_of(new, answer.name) == ("discrete_laplace", "4")


REPORTED = """[publish]
replicates = 2
unbiased = true
[report]
title = "Wrokers of two counties"
[input]"""
CORRECTIONS = '[report]\ntitle = "Workers of two counties"\nversion = "2, corrected"\n'
#: What may be another in a version with corrected texts.
DESCRIBING = ("public/manifest.json", "public/report.html", "public/datapackage.json", "public/changes.json")


@dataclass(frozen=True)
class Corrected:
    """A release whose title has a typing error, and the version without it."""

    spec: Path
    release: Path
    texts: Path
    events: int
    new: Updated


def correct(release: Path, texts: Path, out: Path) -> Updated:
    return update_release(release, (), out, 1, Silent(), texts=texts)


def events_of(folder: Path) -> KnownLedger:
    with Ledger.open(str(folder / "ledger.sqlite"), state=folder / "state") as ledger:
        return KnownLedger(ledger.id, ledger.events())


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corrected]:
    folder = tmp_path_factory.mktemp("texts")
    with charged_release(folder, ("[input]", REPORTED)) as (spec, release):
        texts = written(folder / "corrections.toml", CORRECTIONS)
        events = len(events_of(folder / "in").events)
        yield Corrected(spec, release, texts, events, correct(release, texts, folder / "new"))


def numbers(root: Path) -> dict[str, bytes]:
    """Every public file but those that describe the release, or are of the version before."""
    files = public_bytes(root)
    return {name: files[name] for name in files if name not in DESCRIBING and "public/replaced/" not in name}


def test_no_number_is_another_and_nothing_is_charged(corrected: Corrected) -> None:
    """The ledger has no further event, and counts the receipt that both versions state once."""
    assert numbers(corrected.new.root) == numbers(corrected.release)
    assert {"public/measurements/tract/sex.parquet", "public/histograms/tract.parquet"} <= numbers(
        corrected.release
    ).keys()
    assert not (corrected.new.root / "restricted/key").exists()
    changes = json.loads((corrected.new.root / "public/changes.json").read_text("utf-8"))
    assert (changes["version"], changes["answers"]) == (2, [])
    assert all(table["changed"] == table["largest"] == 0 for table in changes["tables"])
    assert {one["key"]: one["after"] for one in changes["texts"]} == {
        "report.title": "Workers of two counties", "report.version": "2, corrected",
    }  # fmt: skip
    ledger = events_of(corrected.spec.parent)
    assert len(ledger.events) == corrected.events
    compared = compare_receipts(find_manifests([corrected.release, corrected.new.root]), ledger)
    assert (compared.problems, [one.cost for one in compared.spending]) == ((), [Fraction(1)])
    old, new = (read_manifest(root / "public/manifest.json") for root in (corrected.release, corrected.new.root))
    assert (new.receipts, new.privacy, new.joint, new.status) == (old.receipts, old.privacy, old.joint, old.status)
    assert (new.key_commitment, new.input_fingerprints) == (old.key_commitment, old.input_fingerprints)


def test_a_signature_is_of_the_version_that_was_signed(corrected: Corrected, tmp_path: Path) -> None:
    key, _, public = keys_in(tmp_path / "keys")
    release = shutil.copytree(corrected.release, tmp_path / "release" / corrected.release.name)
    sign_release(release_at(release), key)
    with pytest.raises(InputError, match="--signed-by"):
        correct(release, corrected.texts, tmp_path / "new")
    words = ("--texts", corrected.texts, "--out", tmp_path / "new", "--signed-by", public, "--workers", 1)
    done = cli("update", release, *words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "a signature, a proof and an entry in a log hold for the version that it replaces" in said
    new = release_at(tmp_path / "new" / release.name)
    assert not is_signed(new)
    assert signature_problems(new, key.public())
    shutil.copy(release / "public/manifest.sig", new.public / "manifest.sig")
    assert signature_problems(new, key.public())  # as a forger would: it is not of this manifest
    assert signature_problems(release_at(release), key.public()) == []


def test_what_is_not_corrected(corrected: Corrected, tmp_path: Path) -> None:
    """With answers; where nothing is another; where a published number does not follow from the measurements."""
    with pytest.raises(InputError, match=r"--texts: found .* together with --with"):
        update_release(corrected.release, [tmp_path], tmp_path / "new", 1, Silent(), texts=corrected.texts)
    with pytest.raises(InputError, match="or a file of corrected texts for readers with --texts"):
        update_release(corrected.release, (), tmp_path / "new", 1, Silent())
    with pytest.raises(InputError, match="corrects nothing"):
        correct(corrected.new.root, corrected.texts, tmp_path / "new")
    release = shutil.copytree(corrected.release, tmp_path / "release")
    path = release / "public/tables/sex/tract.parquet"
    table = read_table(unchecked(path))
    table.counts[0, 0] += 1
    write_table(path, release, [table])
    seal(release)
    with pytest.raises(InputError, match=r"sex/tract\.parquet is computed otherwise than it was published"):
        correct(release, corrected.texts, tmp_path / "new")
    assert not (tmp_path / "new/work").exists()
