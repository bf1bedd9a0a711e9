"""A companion of which one person alters two records: its noise, its charge, and what an audit finds of it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from releases.command import needs
from releases.small import PEOPLE_EXACT, UNITS_EXACT, write_town
from typer.testing import CliRunner

from flows.cli import app
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import read_measurement
from pipeline.storage.readable import unchecked

CHANGES = (
    ('key = "insecure-test:1"', 'dataset = "town"'),
    ("replicates = 3", "replicates = 1"),
    ("[companions.units]", '[postprocess]\nsolver = "batched"\n\n[companions.units]\nrecords_per_person = 2'),
    ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "units" }'),
)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    spec, ledger = write_town(folder, *CHANGES), str(folder / "ledger.db")
    for name, rho in (("town", "2"), ("units", "1")):
        exact = [
            word for subject in (UNITS_EXACT if "units" in name else PEOPLE_EXACT) for word in ("--exact", subject)
        ]
        told("ledger", "--ledger", ledger, "open", name, "--population", "people", "--rho", rho, *exact)
    told("run", str(spec), "--out", str(folder / "out"), "--ledger", ledger, "--no-prefect")
    return folder / "out" / "town"


@pytest.mark.slow
def test_the_noise_on_file_is_for_eight(root: Path) -> None:
    """sigma^2 = D / (2 rho) with D = 2 x 2 x 2, of rho = 1 x 1/2 x 1/2 at block."""
    run = RunDirectory(root).universe("units")
    scale = read_measurement(unchecked(run.measurement("block", "total"))).header.scale
    assert scale == Fraction(8) / (2 * Fraction(1, 4))


@pytest.mark.slow
def test_a_person_is_charged_the_whole_budget_and_promised_the_sum(root: Path) -> None:
    ledger = str(root.parents[1] / "ledger.db")
    shown = json.loads(told("ledger", "--ledger", ledger, "show", "--json"))
    assert {one["dataset"]: Fraction(one["spent"]) for one in shown} == {"town": 2, "units": 1}
    joint = read_manifest(root / "public" / "manifest.json").joint
    assert joint is not None
    assert (joint.budget, joint.losses) == ("3", None)


@pytest.mark.slow
@needs("audit")
def test_an_audit_finds_noise_and_charge_as_they_should_be(root: Path) -> None:
    ledger = str(root.parents[1] / "ledger.db")
    assert "passed" in told("audit", str(root), "--ledger", ledger)
    told("verify", str(root))
