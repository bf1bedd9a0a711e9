"""A version in which something was changed, with all hashes made to agree: verify and the second program find it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.updated import QUESTIONS, answer_to, charged_release, seal, update

from auditor.check.release import check_release
from pipeline.execution.progress import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import open_finished, release_at
from pipeline.questions.domain import Domain
from pipeline.questions.manifest import read_answer_file
from pipeline.questions.resolve import resolve
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.questions.text import parse
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.release.tables import read_table, write_table
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.verify import verify_release
from pipeline.storage.files import sha256_file
from pipeline.storage.readable import unchecked

#: A recode, and few replicates.
PUBLISH = """[schema.recodes.grown]
attribute = "age"
groups = { grown = ["18-64", "65+"], child = ["0-17"] }
[publish]
replicates = 2
[input]"""


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A version that was made with one answer, and the name of the answer."""
    folder = tmp_path_factory.mktemp("planted")
    with charged_release(folder, ("[input]", PUBLISH)) as (spec, release):
        answer = answer_to(spec, *QUESTIONS[0])
        yield update(release, [answer], folder / "new").root, answer.name


@pytest.fixture
def copied(version: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copytree(version[0] / "public", tmp_path / "public")
    return tmp_path


def found(root: Path) -> str:
    return "\n".join(verify_release(release_at(root), 1, Silent()))


def shift(path: Path, root: Path) -> None:
    """One number of a measurement is another."""
    stored = read_measurement(unchecked(path))
    with MeasurementWriter.open(path, root, stored.header) as writer:
        writer.write(stored.geocodes, stored.values + (np.arange(len(stored.values)) == 0)[:, None])


def test_a_number_of_the_answer_in_the_measurement(copied: Path, version: tuple[Path, str]) -> None:
    path = f"measurements/tract/{version[1]}.parquet"
    shift(copied / "public" / path, copied)
    seal(copied)
    assert f"public/{path} is not what its measurements give" in found(copied)
    assert any("has not the answer's number" in problem for problem in check_release(copied))


def test_a_number_of_the_release_before(copied: Path) -> None:
    shift(copied / "public/measurements/tract/sex.parquet", copied)
    seal(copied)
    problem = "public/measurements/tract/sex.parquet is not that of the version before"
    assert problem in found(copied)
    assert problem in check_release(copied)


def test_a_number_of_the_answer_itself(copied: Path, version: tuple[Path, str]) -> None:
    folder = copied / "public/answers" / version[1]
    lines = (folder / "measurements.csv").read_text("utf-8").splitlines()
    lines[1] = lines[1].rsplit(",", 1)[0] + ",77"
    (folder / "measurements.csv").write_text("\n".join(lines) + "\n", "utf-8")
    seal(copied)
    assert "measurements.csv: was changed" in found(copied)
    assert any("measurements.csv was changed" in problem for problem in check_release(copied))
    # With its manifest made to agree, that is another answer than the spec states.
    stated = json.loads((folder / "answer.json").read_text("utf-8"))
    stated["files"]["measurements.csv"] = sha256_file(folder / "measurements.csv")
    (folder / "answer.json").write_text(json.dumps(stated), "utf-8")
    seal(copied)
    assert "the spec is not that of the version before with these answers" in found(copied)
    assert any("answer.json is not the one that the spec states" in problem for problem in check_release(copied))


def test_a_table_of_the_version_before(copied: Path) -> None:
    path = copied / "public/replaced/tables/sex/county.parquet"
    table = read_table(unchecked(path))
    table.counts[0, 0] += 1
    write_table(path, copied, [table])
    seal(copied)
    problem = "public/replaced/tables/sex/county.parquet is not that of the version before"
    assert problem in found(copied)
    assert problem in check_release(copied)
    assert "public/changes.json is not what its measurements give" in found(copied)


def test_a_count_beyond_64_bits(copied: Path, version: tuple[Path, str]) -> None:
    folder = copied / "public/answers" / version[1]
    lines = (folder / "measurements.csv").read_text("utf-8").splitlines()
    lines[1] = lines[1].rsplit(",", 1)[0] + ",99999999999999999999"
    (folder / "measurements.csv").write_text("\n".join(lines) + "\n", "utf-8")
    stated = json.loads((folder / "answer.json").read_text("utf-8"))
    stated["files"]["measurements.csv"] = sha256_file(folder / "measurements.csv")
    (folder / "answer.json").write_text(json.dumps(stated), "utf-8")
    spec = json.loads((copied / "public/manifest.json").read_text("utf-8"))["spec"]
    spec["update"]["answers"][0]["sha256"] = sha256_file(folder / "answer.json")
    seal(copied, spec=spec)
    assert found(copied)
    assert "public/answers: measurements.csv has a count beyond 64 bits" in check_release(copied)


Spec = dict[str, Any]


def _scale(spec: Spec) -> None:
    spec["update"]["answers"][0]["scale"] = "50"


def _groups(spec: Spec) -> None:
    (_, section), *_ = spec["update"]["answers"][0]["by"]
    section["groups"] = section["groups"][::-1]


def _level(spec: Spec) -> None:
    spec["update"]["answers"][0]["level"] = "county"


def _budget(spec: Spec) -> None:
    spec["privacy"]["rho"] = "1/2"


def _replaces(spec: Spec) -> None:
    spec["update"]["replaces"] = "0" * 64


def _version(spec: Spec) -> None:
    spec["update"]["version"] = 3


def _where(spec: Spec) -> None:
    spec["update"]["answers"][0]["where"] = [["age", ["65+"]]]


def _by(spec: Spec) -> None:
    """Women are called men, and men women: the labels and their order stay."""
    groups = dict(spec["update"]["answers"][0]["by"])["sex"]["groups"]
    groups[0][1], groups[1][1] = groups[1][1], groups[0][1]


def _question(spec: Spec) -> None:
    spec["update"]["answers"][0]["question"] = "count by tract, age, sex"


def _strategy(spec: Spec) -> None:
    spec["records_per_person"] = 2


def _none(spec: Spec) -> None:
    del spec["update"]


@pytest.mark.parametrize(
    "change", [_scale, _groups, _level, _budget, _replaces, _version, _where, _by, _question, _strategy, _none]
)
def test_another_statement_in_the_spec(copied: Path, change: Callable[[Spec], None]) -> None:
    spec = json.loads((copied / "public/manifest.json").read_text("utf-8"))["spec"]
    change(spec)
    seal(copied, spec=spec)
    assert found(copied)
    if change is not _where:  # of a question with conditions, which `check` does not read
        assert check_release(copied)


def test_a_condition_that_the_question_does_not_have(version: tuple[Path, str], tmp_path: Path) -> None:
    """Here by a recode, whose groups are the schema's."""
    folder = version[0].parents[1]
    answer = answer_to(folder / "in/release.toml", "count by county, grown, sex", "1/4", out=tmp_path / "answers")
    new = update(folder / "out" / version[0].name, [answer], tmp_path / "new").root
    assert found(new) == ""
    assert check_release(new) == []
    true = json.loads((new / "public/manifest.json").read_text("utf-8"))["spec"]

    def planted(change: Callable[[Spec], object]) -> list[str]:
        spec = json.loads(json.dumps(true))
        change(spec["update"]["answers"][0])
        seal(new, spec=spec)
        return check_release(new)

    name = f"public/answers/{answer.name}"
    assert f"{name}: the spec states a condition, and the question has none" in planted(
        lambda stated: stated["where"].append(["sex", ["f"]])
    )
    assert f"{name}: the groups of 'grown' are not those of the schema" in planted(
        lambda stated: dict(stated["by"])["grown"]["groups"][0][1].append("0-17")
    )
    assert f"{name}: the groups of 'grown' are not those of the schema" in planted(
        lambda stated: dict(stated["by"])["grown"]["groups"][0][1].remove("65+")
    )


def test_a_receipt_of_another_cost_than_that_of_the_noise(copied: Path, version: tuple[Path, str]) -> None:
    path = copied / "public/answers" / version[1] / "answer.json"
    stated = json.loads(path.read_text("utf-8"))
    stated["receipts"][0]["cost"] = "1/4"
    path.write_text(json.dumps(stated), "utf-8")
    spec = json.loads((copied / "public/manifest.json").read_text("utf-8"))["spec"]
    spec["update"]["answers"][0]["sha256"] = sha256_file(path)
    seal(copied, spec=spec)
    assert f"public/answers/{version[1]}: its noise costs 1/2, its receipts state 1/4" in check_release(copied)


@pytest.mark.parametrize(
    ("key", "value"),
    [("receipts", []), ("status", "EXAMPLE: made-up data, about nobody"), ("key_commitment", "0123456789abcdef" * 4)],
)
def test_another_statement_than_that_of_the_version_before(copied: Path, key: str, value: object) -> None:
    seal(copied, **{key: value})
    assert f"public/manifest.json: {key} is not that of the version before" in found(copied)
    if key == "receipts":
        assert "public/manifest.json: its receipts are not those of the version before" in check_release(copied)


def test_a_promise_that_forgets_the_answers(copied: Path) -> None:
    privacy = json.loads((copied / "public/manifest.json").read_text("utf-8"))["privacy"]
    privacy[0]["budget"] = "1"
    seal(copied, privacy=privacy)
    assert "public/manifest.json: privacy is not what the spec gives" in found(copied)
    assert "public/manifest.json: states the budget 1; release and answers cost 3/2 together" in check_release(copied)


def known_ledger(folder: Path) -> KnownLedger:
    with Ledger.open(str(folder / "ledger.sqlite"), state=folder / "state") as ledger:
        return KnownLedger(ledger.id, ledger.events())


def cheaper(answer: Path, release: Path) -> None:
    """The answer with ten times the variance and a tenth of the cost, in everything that states them."""
    path = answer / "public/answer.json"
    stated = json.loads(path.read_text("utf-8"))
    stated["budget"] = stated["parts"][0]["budget"] = stated["receipts"][0]["cost"] = "1/20"
    stated["parts"][0]["scale"] = str(10 * Fraction(stated["parts"][0]["scale"]))
    opened = open_finished(release, check_hashes=True)
    domain = Domain(opened.spec.geography.level_names, opened.universes[0].schema)
    asked = resolve(parse(stated["question"]), domain)
    stated["fingerprint"] = asked.fingerprint("workers", "zcdp", "1/20", "change-one", "1")
    path.write_text(json.dumps(stated, indent=1, ensure_ascii=False) + "\n", "utf-8")
    manifest = read_answer_file(unchecked(path))
    numbers = answer_bytes(manifest, read_measurements(unchecked(path.with_name("measurements.csv")), manifest))
    path.with_name("answer.csv").write_bytes(numbers)
    stated["files"]["answer.csv"] = sha256_file(path.with_name("answer.csv"))
    path.write_text(json.dumps(stated, indent=1, ensure_ascii=False) + "\n", "utf-8")


def test_an_answer_that_states_less_than_it_cost(version: tuple[Path, str], tmp_path: Path) -> None:
    """Only the ledger knows: everything public agrees with everything else."""
    folder = version[0].parents[1]
    ledger, release = known_ledger(folder / "in"), folder / "out" / version[0].name
    answer = next(folder.glob(f"in/**/{version[1]}"))
    true = compare_receipts(find_manifests([version[0], release, answer]), ledger)
    assert (true.problems, true.spending[0].cost) == ((), Fraction(3, 2))
    forged = shutil.copytree(answer, tmp_path / answer.name)
    cheaper(forged, release)
    new = update(release, [forged], tmp_path / "new").root
    assert read_manifest(new / "public/manifest.json").privacy[0].budget == str(Fraction(21, 20))
    assert found(new) == ""
    problems = "\n".join(compare_receipts(find_manifests([new]), ledger).problems)
    assert "its receipt states rho = 1/20, the ledger was charged rho = 1/2" in problems
    assert "its areas, mechanisms and scales are not those that the ledger was charged for" in problems
    # Beside the true answer that is seen without the ledger.
    (problem,) = compare_receipts(find_manifests([answer, forged]), None).problems
    assert "cost rho = 1/20 here, and rho = 1/2 in" in problem


def test_an_answer_to_another_question_than_was_charged(version: tuple[Path, str], tmp_path: Path) -> None:
    folder = version[0].parents[1]
    forged = shutil.copytree(next(folder.glob(f"in/**/{version[1]}")), tmp_path / version[1])
    path = forged / "public/answer.json"
    stated = json.loads(path.read_text("utf-8"))
    stated["question"] = "count by tract, sex"
    path.write_text(json.dumps(stated), "utf-8")
    (problem,) = compare_receipts(find_manifests([forged]), known_ledger(folder / "in")).problems
    assert "its question is not that which the ledger was charged for" in problem


@pytest.mark.parametrize(("unit", "cost"), [("rho", "1/2"), ("epsilon", "1")])
def test_a_release_that_states_another_cost(version: tuple[Path, str], tmp_path: Path, unit: str, cost: str) -> None:
    folder = version[0].parents[1]
    forged = tmp_path / "forged"
    shutil.copytree(folder / "out" / version[0].name / "public", forged / "public")
    stated = json.loads((forged / "public/manifest.json").read_text("utf-8"))
    stated["spec"]["privacy"]["rho"] = stated["receipts"][0]["cost"] = cost
    stated["receipts"][0]["unit"] = unit
    seal(forged, spec=stated["spec"], receipts=stated["receipts"])
    (problem,) = compare_receipts(find_manifests([forged]), known_ledger(folder / "in")).problems
    assert f"its receipt states {unit} = {cost}, the ledger was charged rho = 1" in problem
