"""Faults are planted, one after the other, and each is caught by who must catch it; docs/testplan.md has the table.

The fault stays where it is while the program judges its own work: what audits itself passes. The second program and the
checker share nothing with it. They must find it although a run does not: its plan, which refuses some of the faults
(pipeline/test_plan.py), lets all of them through here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest
from project.planted_faults import PAGE, parts, table
from releases.jobs import write_jobs
from releases.mutant import AUDIT, CHECKER, SECOND, VERIFY, Mutant
from releases.mutants import PLANTED
from releases.once import made_once
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
from pipeline.execution.steps import Silent
from pipeline.plan import Plan
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

_KEY, _DATASET = 'key = "insecure-test:1"', 'dataset = "nobody"'
#: What faults are planted on -> its spec, with a public test key; "" has blocks of 0 to 12 persons, and a choice.
SPECS: Final[dict[str, Callable[[Path], Path]]] = {
    "joined": write_patients,
    "amounts": write_wages,
    "balances": lambda folder: write_wages(folder, *BALANCES),
    "jobs": write_jobs,
    "positive": write_positive,
    "": lambda folder: written(folder, QUICK[0], _KEY),
}


def test_the_table_of_the_test_plan_is_that_of_the_tests() -> None:
    assert parts(PAGE.read_text("utf-8"))[1] == table(), "make docs"
    assert len(PLANTED) >= 30
    assert all(mutant.caught_by for mutant in PLANTED), "a fault that nothing catches"


def charged(folder: Path, kind: str) -> Path:
    """A run with a key of its own, charged to a ledger beside it, of which the state before is kept."""
    ledger = folder / "ledger.db"
    exact = ["county:total", "zeros"] if kind == "joined" else ()
    with Ledger.open(str(ledger), create=True) as opened:
        opened.open_dataset(
            "nobody", population="made up", framework="zcdp", budget=Fraction(9), neighbours="change-one", exact=exact
        )
    shutil.copy(ledger, folder / "ledger-before.db")
    (folder / "in").mkdir()
    spec = SPECS[kind](folder / "in")
    text = spec.read_text("utf-8").replace(f", {_KEY}", "").replace(_KEY, _DATASET)
    text = text.replace("privacy = { ", f"privacy = {{ {_DATASET}, ")
    spec.write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", str(ledger))
        return run(spec, folder)


def _second(root: Path, ledger: Path | None) -> bool:
    try:
        return not all(found.passed for found in audit(root, None, None if ledger is None else str(ledger)))
    except FormError:
        return True


#: Who judges a release -> whether they find something.
CATCHERS: Final[dict[str, Callable[[Path, Path | None], bool]]] = {
    SECOND: _second,
    AUDIT: lambda root, _: not all(found.passed for found in noise_findings(root)),
    VERIFY: lambda root, _: bool(verify_release(RunDirectory(root), 1, Silent())),
    CHECKER: lambda root, _: bool(examine(root).problems),
}


def installed() -> Iterator[bool]:
    """What the audit of the installation finds, one after the other."""
    for findings in (unit_findings(1), second_findings(quick=True, seed=1), whole_findings(quick=True)):
        for found in findings:
            yield found.passed


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [m for m in PLANTED if not (m.question or m.test)], ids=lambda mutant: mutant.name)
def test_each_fault_is_caught(mutant: Mutant, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind = next(kind for kind in SPECS if mutant.on.startswith(kind))
    ledger = tmp_path / "ledger.db" if mutant.on.endswith("ledger") else None
    root = None
    if mutant.edit is not None and ledger is None:  # what is edited was made without the fault
        sound = made_once(tmp_path_factory, f"planted {kind}", lambda folder: run(SPECS[kind](folder), folder / "out"))
        root = Path(shutil.copytree(sound, tmp_path / sound.name))
    sampler_for.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if mutant.plant is not None:
            mutant.plant(patch)
            patch.setattr(Plan, "checked", lambda self: self)
        if mutant.on == "installed":
            missed = mutant.caught_by if all(installed()) else ()
        else:
            if root is None:
                root = run(SPECS[kind](tmp_path), tmp_path / "out") if ledger is None else charged(tmp_path, kind)
            if mutant.edit is not None:
                mutant.edit(root)
            missed = tuple(name for name in mutant.caught_by if not CATCHERS[name](root, ledger))
    sampler_for.cache_clear()
    assert missed == ()


@pytest.mark.slow
def test_what_is_sound_passes_everywhere(tmp_path: Path) -> None:
    """With a test key and no ledger, and with a secret key and one; the matrix shows it of the other kinds."""
    plain = run(SPECS[""](tmp_path), tmp_path / "out")
    with_ledger = charged(tmp_path, "")
    for root, ledger in ((plain, None), (with_ledger, tmp_path / "ledger.db")):
        assert [name for name, finds in CATCHERS.items() if finds(root, ledger)] == []
    assert all(installed())
