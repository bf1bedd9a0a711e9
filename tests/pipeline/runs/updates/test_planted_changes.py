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
from pipeline.errors import SpecError
from pipeline.execution.steps import Silent
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
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import unchecked

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


def content_of(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def changed(path: Path, change: Callable[[Any], object]) -> None:
    """A file of JSON with other values."""
    content = content_of(path)
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def shifted(root: Path, name: str) -> None:
    """One number of a measurement is another."""
    path = root / name
    stored = read_measurement(unchecked(path))
    with MeasurementWriter.open(path, root, stored.header) as writer:
        writer.write(stored.geocodes, stored.values + (np.arange(len(stored.values)) == 0)[:, None])


def spec_of(root: Path) -> Any:
    return content_of(root / "public/manifest.json")["spec"]


def _measured(root: Path, name: str) -> None:
    shifted(root, f"public/measurements/tract/{name}.parquet")


def _before(root: Path, _: str) -> None:
    shifted(root, "public/measurements/tract/sex.parquet")


def _answered(root: Path, name: str, count: str = "77") -> None:
    path = root / "public/answers" / name / "measurements.csv"
    lines = path.read_text("utf-8").splitlines()
    lines[1] = f"{lines[1].rsplit(',', 1)[0]},{count}"
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _listed(root: Path, name: str, count: str = "77") -> None:
    """With its manifest made to agree, that is another answer than the spec states."""
    _answered(root, name, count)
    folder = root / "public/answers" / name
    digest = sha256_file(folder / "measurements.csv")
    changed(folder / "answer.json", lambda stated: stated["files"].update({"measurements.csv": digest}))


def _stated(root: Path, name: str) -> None:
    """And with the spec made to agree: a count beyond 64 bits."""
    _listed(root, name, "9" * 20)
    spec = spec_of(root)
    spec["update"]["answers"][0]["sha256"] = sha256_file(root / "public/answers" / name / "answer.json")
    seal(root, spec=spec)


def _replaced(root: Path, _: str) -> None:
    path = root / "public/replaced/tables/sex/county.parquet"
    table = read_table(unchecked(path))
    table.counts[0, 0] += 1
    write_table(path, root, [table])


def _cost(root: Path, name: str) -> None:
    path = root / "public/answers" / name / "answer.json"
    changed(path, lambda stated: stated["receipts"][0].update({"cost": "1/4"}))
    spec = spec_of(root)
    spec["update"]["answers"][0]["sha256"] = sha256_file(path)
    seal(root, spec=spec)


def _promise(root: Path, _: str) -> None:
    privacy = content_of(root / "public/manifest.json")["privacy"]
    privacy[0]["budget"] = "1"
    seal(root, privacy=privacy)


@pytest.mark.parametrize(
    ("plant", "verified", "checked"),
    [
        (_measured, ".parquet is not what its measurements give", "has not the answer's number"),
        (_before, "sex.parquet is not that of the version before", "sex.parquet is not that of the version before"),
        (_answered, "measurements.csv: was changed", "measurements.csv was changed"),
        (_listed, "the spec is not that of the version before with these", "is not the one that the spec states"),
        (_stated, "", "measurements.csv has a count beyond 64 bits"),
        (_replaced, "changes.json is not what its measurements give", "sex/county.parquet is not that of the version"),
        (_cost, "", "its noise costs 1/2, its receipts state 1/4"),
        (_promise, "privacy is not what the spec gives", "budget 1; release and answers cost 3/2 together"),
    ],
)
def test_another_number(
    copied: Path, version: tuple[Path, str], plant: Callable[[Path, str], None], verified: str, checked: str
) -> None:
    plant(copied, version[1])
    seal(copied)
    told = found(copied)
    assert told
    assert verified in told
    assert any(checked in problem for problem in check_release(copied))


#: Changes of the first answer as the spec states it, of its update, and of the spec.
STATED: dict[str, Callable[[Any, Any, Any], object]] = {
    "scale": lambda answer, _, __: answer.update({"scale": "50"}),
    "groups": lambda answer, _, __: answer["by"][0][1]["groups"].reverse(),
    "level": lambda answer, _, __: answer.update({"level": "county"}),
    "a level that there is not": lambda answer, _, __: answer.update({"level": "block"}),
    "where": lambda answer, _, __: answer.update({"where": [["age", ["65+"]]]}),
    "question": lambda answer, _, __: answer.update({"question": "count by tract, age, sex"}),
    "budget": lambda _, __, spec: spec["privacy"].update({"rho": "1/2"}),
    "replaces": lambda _, update, __: update.update({"replaces": "0" * 64}),
    "version": lambda _, update, __: update.update({"version": 3}),
    "records": lambda _, __, spec: spec.update({"records_per_person": 2}),
    "none": lambda _, __, spec: spec.pop("update"),
}


def test_another_statement_in_the_spec(copied: Path) -> None:
    right = spec_of(copied)
    for name, change in STATED.items():
        spec = json.loads(json.dumps(right))
        change(spec["update"]["answers"][0], spec["update"], spec)
        seal(copied, spec=spec)
        assert found(copied), name
        if name != "where":  # of a question with conditions, which `check` does not read
            assert check_release(copied), name
    spec = json.loads(json.dumps(right))
    groups = dict(spec["update"]["answers"][0]["by"])["sex"]["groups"]
    groups[0][1], groups[1][1] = groups[1][1], groups[0][1]  # women are called men; labels and their order stay
    seal(copied, spec=spec)
    assert found(copied)
    assert check_release(copied)


#: Changes of an update that no release can have.
IMPOSSIBLE: list[Callable[[Any], object]] = [
    lambda update: update["answers"][0].update(level="block"),
    lambda update: update["answers"][0].update(mechanism="discrete_laplace"),
    lambda update: update["answers"][0].update(scale="0"),
    lambda update: update["answers"][0]["by"][0][1]["groups"][0][1].append("x"),
    lambda update: update.update(version=1),
    lambda update: update["answers"].append(update["answers"][0]),
]


def test_a_published_spec_that_states_impossible_answers(copied: Path) -> None:
    """Of another level or mechanism, without noise, of a value that there is not, and used twice."""
    ReleaseSpec.from_public_dict(spec_of(copied))
    for change in IMPOSSIBLE:
        spec = spec_of(copied)
        change(spec["update"])
        with pytest.raises(SpecError, match="update"):
            ReleaseSpec.from_public_dict(spec)


def test_a_condition_that_the_question_does_not_have(version: tuple[Path, str], tmp_path: Path) -> None:
    """Here by a recode, whose groups are the schema's."""
    folder = version[0].parents[1]
    answer = answer_to(folder / "in/release.toml", "count by county, grown, sex", "1/4", out=tmp_path / "answers")
    new = update(folder / "out" / version[0].name, [answer], tmp_path / "new").root
    assert found(new) == ""
    assert check_release(new) == []
    true = spec_of(new)

    def planted(change: Callable[[Any], object]) -> list[str]:
        spec = json.loads(json.dumps(true))
        change(spec["update"]["answers"][0])
        seal(new, spec=spec)
        return check_release(new)

    name = f"public/answers/{answer.name}"
    assert f"{name}: the spec states a condition, and the question has none" in planted(
        lambda stated: stated["where"].append(["sex", ["f"]])
    )
    wrong = f"{name}: the groups of 'grown' are not those of the schema"
    assert wrong in planted(lambda stated: dict(stated["by"])["grown"]["groups"][0][1].append("0-17"))
    assert wrong in planted(lambda stated: dict(stated["by"])["grown"]["groups"][0][1].remove("65+"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("receipts", []), ("status", "EXAMPLE: made-up data, about nobody"), ("key_commitment", "0123456789abcdef" * 4)],
)
def test_another_statement_than_that_of_the_version_before(copied: Path, key: str, value: object) -> None:
    seal(copied, **{key: value})
    assert f"public/manifest.json: {key} is not that of the version before" in found(copied)
    if key == "receipts":
        assert "public/manifest.json: its receipts are not those of the version before" in check_release(copied)


def known_ledger(folder: Path) -> KnownLedger:
    with Ledger.open(str(folder / "ledger.sqlite"), state=folder / "state") as ledger:
        return KnownLedger(ledger.id, ledger.events())


def cheaper(answer: Path, release: Path) -> None:
    """The answer with ten times the variance and a tenth of the cost, in everything that states them."""
    path = answer / "public/answer.json"
    stated = content_of(path)
    stated["budget"] = stated["parts"][0]["budget"] = stated["receipts"][0]["cost"] = "1/20"
    stated["parts"][0]["scale"] = str(10 * Fraction(stated["parts"][0]["scale"]))
    opened = open_finished(release, check_hashes=True)
    domain = Domain(opened.spec.geography.level_names, opened.universes[0].schema)
    asked = resolve(parse(stated["question"]), domain)
    stated["fingerprint"] = asked.fingerprint("workers", "zcdp", "1/20", "change-one", "1")
    path.write_text(json.dumps(stated, indent=1, ensure_ascii=False) + "\n", "utf-8")
    plan = read_answer_file(unchecked(path)).plan()
    numbers = answer_bytes(plan, read_measurements(unchecked(path.with_name("measurements.csv")), plan))
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
    changed(forged / "public/answer.json", lambda stated: stated.update({"question": "count by tract, sex"}))
    problems = compare_receipts(find_manifests([forged]), known_ledger(folder / "in")).problems
    assert "its question is not that which the ledger was charged for" in problems[-1]


@pytest.fixture
def forged(version: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the release that the version replaces."""
    shutil.copytree(version[0].parents[1] / "out" / version[0].name / "public", tmp_path / "forged/public")
    return tmp_path / "forged"


@pytest.mark.parametrize(("unit", "cost"), [("rho", "1/2"), ("epsilon", "1")])
def test_a_release_that_states_another_cost(version: tuple[Path, str], forged: Path, unit: str, cost: str) -> None:
    stated = content_of(forged / "public/manifest.json")
    stated["spec"]["privacy"]["rho"] = stated["receipts"][0]["cost"] = cost
    stated["receipts"][0]["unit"] = unit
    seal(forged, spec=stated["spec"], receipts=stated["receipts"])
    ledger = known_ledger(version[0].parents[1] / "in")
    problems = compare_receipts(find_manifests([forged]), ledger).problems
    assert len(problems) == (1 if unit == "rho" else 2), "the release itself is charged rho"
    assert f"its receipt states {unit} = {cost}, the ledger was charged rho = 1" in problems[-1]


@pytest.mark.parametrize(
    "change", [{"cost": "1/2"}, {"cost": "2"}, {"unit": "epsilon"}, {"cost": "1/1"}, {"dataset": "x"}]
)
def test_a_receipt_of_another_cost_does_not_verify(forged: Path, change: dict[str, str]) -> None:
    """It is compared with the budget, without the ledger."""
    (receipt,) = content_of(forged / "public/manifest.json")["receipts"]
    assert receipt["cost"] == "1"
    seal(forged, receipts=[receipt | change])
    assert "receipts" in found(forged)
