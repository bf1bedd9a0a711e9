"""Faults are planted, one after the other, and each is caught; docs/testplan.md has the table of what by.

The fault stays where it is while the program judges its own work: what audits itself passes. The second program and the
checker share nothing with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from oracles.how_many import turns
from project.planted_faults import PAGE, parts, table
from releases.jobs import write_jobs
from releases.mutant import AUDIT, CHECKER, COURTS, INSTALLED, SECOND, VERIFY, Mutant
from releases.mutants import PLANTED
from releases.patients import write_patients
from releases.positive_town import write_positive
from releases.small import run
from releases.wages import BALANCES, write_wages

from auditor.check.release import examine
from auditor.program import audit
from auditor.reading.findings import FormError
from features.audit.finished import noise_findings
from features.audit.second_opinion import second_findings
from features.audit.units import unit_findings
from features.audit.whole_trial import QUICK, whole_findings, written
from pipeline.execution.progress import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release


def test_the_table_of_the_test_plan_is_that_of_the_tests() -> None:
    assert parts(PAGE.read_text("utf-8"))[1] == table(), "make docs"
    assert len(PLANTED) >= 30
    assert all(mutant.caught_by for mutant in PLANTED), "a fault that nothing catches"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks of 0 to 12 persons, with a private choice, and a public test key."""
    return written(tmp_path_factory.mktemp("mutants"), QUICK[0], 'key = "insecure-test:1"')


@pytest.fixture(scope="module")
def shared(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound release of it; copies of it are damaged."""
    return run(spec, tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def joined_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Persons joined with their households, and patients with several visits each, with a public test key."""
    return write_patients(tmp_path_factory.mktemp("joined mutants"))


@pytest.fixture(scope="module")
def joined(joined_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound release of it."""
    return run(joined_spec, tmp_path_factory.mktemp("sound joined"))


@pytest.fixture(scope="module")
def positive_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Persons whose wide queries are drawn only where the released area above is positive."""
    return write_positive(tmp_path_factory.mktemp("positive mutants"))


@pytest.fixture(scope="module")
def positive(positive_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound release of it."""
    return run(positive_spec, tmp_path_factory.mktemp("sound positive"))


def charged(folder: Path, kind: str = "") -> Path:
    """A run with a key of its own, charged to a ledger beside it, of which the state before is kept."""
    ledger = folder / "ledger.db"
    with Ledger.open(str(ledger), create=True) as opened:
        opened.open_dataset(
            "nobody", population="made up", framework="zcdp", budget=Fraction(9), neighbours="change-one",
            exact=["county:total", "zeros"] if kind == "joined" else (),
        )  # fmt: skip
    shutil.copy(ledger, folder / "ledger-before.db")
    (folder / "in").mkdir()
    key, dataset = 'key = "insecure-test:1"', 'dataset = "nobody"'
    if kind in ("amounts", "balances"):
        companion, more = 'privacy = { rho = "2" }', BALANCES if kind == "balances" else ()
        spec = write_wages(folder / "in", (key, dataset), (companion, f'privacy = {{ rho = "2", {dataset} }}'), *more)
    elif kind == "jobs":
        spec = write_jobs(folder / "in", (key, dataset))
        rho = 'privacy = { rho = "1"'
        spec.write_text(spec.read_text("utf-8").replace(rho, f"{rho}, {dataset}"), "utf-8")
    elif kind == "positive":
        spec = write_positive(folder / "in", (key, dataset))
    elif kind == "joined":
        spec = write_patients(folder / "in", (key, dataset))
        spec.write_text(spec.read_text("utf-8").replace("privacy = { ", f"privacy = {{ {dataset}, "), "utf-8")
    else:
        spec = written(folder / "in", QUICK[0], dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", str(ledger))
        return run(spec, folder)


def courts_of(root: Path, ledger: Path | None) -> set[str]:
    """Which of the four that judge a release find something."""
    caught = set()
    directory = RunDirectory(root)
    try:
        if not all(found.passed for found in audit(root, None, None if ledger is None else str(ledger))):
            caught.add(SECOND)
    except FormError:
        caught.add(SECOND)
    if not all(found.passed for found in noise_findings(root)):
        caught.add(AUDIT)
    if verify_release(directory, 1, Silent()):
        caught.add(VERIFY)
    if examine(root).problems:
        caught.add(CHECKER)
    return caught


def installed() -> Iterator[bool]:
    for findings in (unit_findings(1), second_findings(quick=True, seed=1), whole_findings(quick=True)):
        for found in findings:
            yield found.passed


def judged(mutant: Mutant, spec: Path, shared: Path, folder: Path) -> set[str]:
    """Who catches the fault, which is in the program while this runs."""
    if mutant.on == "installed":
        return set() if all(installed()) else {INSTALLED}
    with_ledger = mutant.on.endswith("ledger")
    if with_ledger:
        root = charged(folder, mutant.on.removesuffix("ledger").strip())
    elif mutant.edit is not None:
        root = Path(shutil.copytree(shared, folder / shared.name))
    else:
        root = run(spec, folder)
    if mutant.edit is not None:
        mutant.edit(root)
    return courts_of(root, folder / "ledger.db" if with_ledger else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", turns((one for one in PLANTED if one.question is None), 3), ids=lambda mutant: mutant.name
)
def test_each_fault_is_caught(mutant: Mutant, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kind = next(
        (kind for kind in ("joined", "amounts", "balances", "jobs", "positive") if mutant.on.startswith(kind)), ""
    )
    names = (f"{kind}_spec", kind) if kind else ("spec", "shared")
    spec, shared = map(request.getfixturevalue, names)
    sampler_for.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if mutant.plant is not None:
            mutant.plant(patch)
        caught = judged(mutant, spec, shared, tmp_path)
    sampler_for.cache_clear()
    assert [court for court in COURTS if court in caught] == [c for c in COURTS if c in mutant.caught_by], mutant.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a sensitivity of 1 for 2, in every scale and statement", "a choice charged for a sensitivity of 1"]
)
def test_a_quick_audit_of_the_installation_notices_a_sensitivity_of_1(name: str) -> None:
    """Its pipelines and private choices are judged by the second program, not by the scales that are wrong."""
    (mutant,) = (mutant for mutant in PLANTED if mutant.name == name)
    assert mutant.plant is not None
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        found = [one for one in whole_findings(quick=True) if not one.passed]
    assert {one.check for one in found} >= {"a pipeline and a choice"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "joined", "amounts", "balances", "jobs", "positive"])
def test_what_is_sound_passes_everywhere(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """With a test key and no ledger, and with a secret key and one: nobody finds anything."""
    assert courts_of(request.getfixturevalue(kind or "shared"), None) == set()
    assert courts_of(charged(tmp_path, kind), tmp_path / "ledger.db") == set()
    assert os.environ.get("SPINEWISE_LEDGER") is None
    assert kind or all(installed())
