"""A release from numbers that others published: no promise, key, ledger, records or process that sees them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import printed
from releases.pages import report_in, visible
from releases.toy_published import ToyInput, ToyKeys

import features.registry
import spinewise
from auditor.check.release import check_release
from auditor.reading.findings import FormError
from auditor.release import Release
from pipeline.confidential.custody import check_made_here
from pipeline.errors import InputError, SpecError
from pipeline.execution.steps import Silent
from pipeline.execution.workers import WorkerContext
from pipeline.inputs.geography import read_spine
from pipeline.inputs.public_input import InputScope
from pipeline.model.source import Received
from pipeline.plan import Plan
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.release.receipts import CHARGED
from pipeline.release.status import RECEIVED
from pipeline.runs.from_measurements import estimate_release, received_release
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec

SPEC = """name = "toys"

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 2, block = 3 }

[schema.attributes]
age = ["child", "adult", "old"]
sex = ["f", "m"]

[tables]
people = "age * sex"
sexes = "sex"

[publish]
unbiased = true

[toy_published]
query = "age * sex"
variance = "9/2"
files = { tract = "tracts.csv", block = "numbers.csv" }
"""
COMPANION = """[companions.homes]
privacy = { rho = "1" }
strategy = { queries = { total = "1" }, levels = { county = "1", tract = "0", block = "0" } }
schema = { attributes = { kind = ["house", "flat"] } }
"""
VARIANCE = 4.5
BLOCKS = [f"{county}{tract}{block}" for county in "AB" for tract in "12" for block in "123"]
CELLS = [f"{age} * {sex}" for age in ("child", "adult", "old") for sex in "fm"]


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind is among those that are installed."""
    installed = features.registry.slots()
    with_toys = replace(installed, filled=(ToyKeys, *installed.filled))
    monkeypatch.setattr(features.registry, "slots", lambda: with_toys)


@dataclass(frozen=True)
class Toys:
    """A spec with what was published: noisy counts of blocks and tracts, `(n, 6)`."""

    spec: Path
    blocks: np.ndarray
    tracts: np.ndarray


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return write_toys(tmp_path / "in")


def write_toys(folder: Path, text: str = SPEC) -> Toys:
    folder.mkdir()
    rng = np.random.default_rng(3)
    truth = rng.poisson(20, (len(BLOCKS), len(CELLS)))
    noise = np.sqrt(VARIANCE)
    blocks = truth + np.rint(rng.normal(0, noise, truth.shape)).astype(int)
    tracts = truth.reshape(4, 3, -1).sum(axis=1)
    tracts += np.rint(rng.normal(0, noise, tracts.shape)).astype(int)
    pd.DataFrame({"block": BLOCKS}).to_csv(folder / "blocks.csv", index=False)
    for name, codes, numbers in (("numbers", BLOCKS, blocks), ("tracts", sorted({b[:2] for b in BLOCKS}), tracts)):
        frame = pd.DataFrame(numbers, columns=CELLS).assign(geocode=codes)
        frame.sample(frac=1, random_state=1).to_csv(folder / f"{name}.csv", index=False)
    path = folder / "release.toml"
    path.write_text(text, "utf-8")
    return Toys(path, blocks, tracts)


def dense(toys: Toys) -> tuple[np.ndarray, np.ndarray]:
    """Best linear unbiased counts of the blocks by all that was published, and their covariance in each cell."""
    sums = np.kron(np.eye(4), np.ones(3))
    design = np.vstack([np.eye(len(BLOCKS)), sums])
    counts, *_ = np.linalg.lstsq(design, np.vstack([toys.blocks, toys.tracts]), rcond=None)
    return counts, VARIANCE * np.linalg.inv(design.T @ design)


#: Sums of blocks: of the areas of each level.
SUMS = {"county": np.kron(np.eye(2), np.ones(6)), "tract": np.kron(np.eye(4), np.ones(3)), "block": np.eye(12)}


@pytest.fixture
def nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, key or ledger."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("begun")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    monkeypatch.setattr(WorkerContext, "Process", refused)
    monkeypatch.setattr("pipeline.privacy.ledger.ledger.Ledger.__init__", refused)
    monkeypatch.setattr("pipeline.privacy.keys.MasterKey.__init__", refused)
    monkeypatch.setenv("SPINEWISE_LEDGER", "sqlite:////nowhere/ledger.db")


@pytest.mark.usefixtures("nothing_begins")
def test_a_run_charges_nothing_and_begins_nothing(toys: Toys, tmp_path: Path) -> None:
    """By the command, with Prefect as by default; again it is the same release."""
    root = tmp_path / "out" / "toys"
    assert printed("run", toys.spec, "--out", tmp_path / "out", "--workers", 1).split() == [str(root)]
    manifest = read_manifest(root / "public" / "manifest.json")
    assert manifest.status == manifest.promise == RECEIVED
    assert (manifest.privacy, manifest.accounts, manifest.joint, manifest.receipts) == ((), (), None, ())
    assert (manifest.key_commitment, manifest.key_salt, manifest.charging) == ("", "", "")
    assert manifest.input_fingerprints == {}
    assert manifest.spec["privacy"] == {}
    assert [(one.level, one.mechanism, one.scales) for one in manifest.draws] == [
        ("tract", "received", ("9/2",)),
        ("block", "received", ("9/2",)),
    ]
    assert {one.name for one in manifest.provenance} == {"geography", "schema", "toy_published"}
    kept = {path.name for path in (root / "restricted").rglob("*") if path.is_file()}
    assert kept <= {"lock", "run.json", "steps.json", ".gitignore", "run.log"}
    before = (root / "public" / "manifest.json").read_bytes()
    printed("run", toys.spec, "--out", tmp_path / "out", "--workers", 1)
    assert (root / "public" / "manifest.json").read_bytes() == before


def test_numbers_are_those_of_a_dense_computation(toys: Toys, tmp_path: Path) -> None:
    """Estimates, their variances, released counts and margins; whatever the number of workers."""
    root = received_release(toys.spec, tmp_path / "one", 1, Silent())
    two = received_release(toys.spec, tmp_path / "two", 2, Silent())
    assert read_manifest(root / "public" / "manifest.json") == read_manifest(two / "public" / "manifest.json")
    counts, covariance = dense(toys)
    release = open_finished(root, check_hashes=True)
    released = {level.name: release.histogram(release.universes[0], level).toarray() for level in release.spine.levels}
    for name, sums in SUMS.items():
        expected, variance = sums @ counts, np.diag(sums @ covariance @ sums.T)
        estimates = pq.read_table(root / "public" / "estimates" / f"{name}.parquet").to_pandas()
        np.testing.assert_allclose(np.stack(estimates["people"]), expected, atol=1e-6)
        np.testing.assert_allclose(np.stack(estimates["people:variance"]), np.outer(variance, np.ones(6)), rtol=1e-6)
        assert (np.abs(released[name] - expected) < 1.5).all()
        assert (released[name] >= 0).all()
        assert (released[name] == sums @ released["block"]).all()
        table = pq.read_table(root / "public" / "tables" / "people" / f"{name}.parquet").to_pandas()
        normal = 1.645 * np.sqrt(variance)[:, None]
        margins = table[[f"{cell}:moe90" for cell in CELLS]].to_numpy() / normal
        assert 0.9 < margins.mean() < 1.15, "the ends are whole numbers"


def test_it_is_verified_judged_exported_and_shown(toys: Toys, tmp_path: Path) -> None:
    root = received_release(toys.spec, tmp_path, 1, Silent())
    run = RunDirectory(root)
    assert verify_release(run, 1, Silent()) == []
    release = open_finished(root, check_hashes=True)
    scope = InputScope(release.spec, release.universes, release.spine)
    tracts, blocks = ToyInput({}).again(scope, release)
    assert (tracts == toys.tracts).all()
    assert (blocks == toys.blocks).all()
    # The second program knows no section of this kind; draws, files and sums it has compared.
    (unjudged,) = check_release(root)
    assert "'toy_published', which is not known here: it is not judged" in unjudged
    with pytest.raises(FormError, match="nothing is promised, no budget to judge"):
        Release(root)
    with pytest.raises(InputError, match="there are no records and no budget here"):
        printed("audit", root)
    with pytest.raises(InputError, match="there is no key and no record to repeat it from"):
        check_made_here(run)
    printed("export", root, "--format", "csv", "--out", tmp_path / "csv")
    exported = pd.read_csv(tmp_path / "csv" / "people" / "block.csv", dtype={"geocode": str})
    table = pq.read_table(root / "public" / "tables" / "people" / "block.parquet").to_pandas()
    assert exported["geocode"].tolist() == table["geocode"].tolist() == BLOCKS
    assert (exported[CELLS] == table[CELLS]).all(axis=None)
    assert RECEIVED in (tmp_path / "csv" / "about.csv").read_text("utf-8")
    with pytest.raises(InputError, match="promises nothing"):
        printed("export", root, "--format", "dp-registry", "--out", tmp_path / "registry")
    for page, sentence in (
        (run.report.read_text("utf-8"), RECEIVED),
        (report_in(root, "es"), "aquí no se hace ninguna promesa de privacidad"),
    ):
        said = visible(page)
        assert said.count(sentence) >= 3, "the banner, the first paragraph, the section on privacy"
        assert not {"ε", "budget", "presupuesto", "secret", "confidential"} & set(said.replace(".", " ").split())


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"status": "official"}, "public/manifest.json: status is not what the spec gives"),
        ({"draws": ()}, "public/manifest.json: draws is not what the spec gives"),
        ({"charging": CHARGED}, "public/manifest.json: charging is not what the spec gives"),
    ],
)
def test_a_manifest_that_says_otherwise_is_found(
    toys: Toys, tmp_path: Path, changed: dict[str, object], found: str
) -> None:
    run = RunDirectory(received_release(toys.spec, tmp_path, 1, Silent()))
    write_manifest(run, read_manifest(run.manifest).model_copy(update=changed))
    assert found in verify_release(run, 1, Silent())


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({"variance": 9.0}, "otherwise than public/measurements/block/age.sex.parquet states it"),
        ({"geocode": "B23"}, "has not the areas of level 'block'"),
        ({}, ""),
    ],
)
def test_the_second_program_compares_files_with_the_draws_listed(
    toys: Toys, tmp_path: Path, fault: dict[str, object], found: str
) -> None:
    root = received_release(toys.spec, tmp_path, 1, Silent())
    path = root / "public" / "measurements" / "block" / "age.sex.parquet"
    table = pq.read_table(path)
    for name, value in fault.items():
        column = [value, *table[name].to_pylist()[1:]]
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), [column])
    pq.write_table(table, path)
    found_here = [problem for problem in check_release(root) if "of the spec" not in problem]
    assert any(found in problem for problem in found_here)
    assert any("block" in problem for problem in found_here) == bool(fault)


def test_a_plan_of_them_promises_nothing(toys: Toys) -> None:
    spec = load_spec(toys.spec)
    universes = spec.universes()
    scope: Any = SimpleNamespace(spec=spec, universes=universes, run=RunDirectory(toys.spec.parent))
    plan = Plan(scope, (), read_spine(spec.geography)).checked()
    assert plan.promises == ()
    assert plan.spent(universes[0]) == 0
    assert {one.scales for one in plan.draws} == {(str(Fraction("9/2")),)}
    again = type(spec).from_public_dict(json.loads(json.dumps(spec.public_dict())))
    assert again.universes()[0].promises == ()
    assert again.public_dict() == spec.public_dict()


def test_nothing_is_drawn_where_nothing_is_promised(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that says it was received, and draws all the same, is refused before anything is counted."""
    spec = load_spec(toys.spec)
    (universe,) = spec.universes()
    drawn = tuple(replace(draw, drawn=(DiscreteGaussian(Fraction(9, 2)),)) for draw in universe.draws())
    monkeypatch.setattr(Received, "draws", lambda *_: drawn)
    scope: Any = SimpleNamespace(spec=spec, universes=(universe,), run=RunDirectory(toys.spec.parent))
    with pytest.raises(ValueError, match="costs 4/9, and 0 is promised"):
        Plan(scope, (), read_spine(spec.geography)).checked()


def test_a_run_that_was_stopped_is_gone_on_with(toys: Toys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = received_release(toys.spec, tmp_path / "whole", 1, Silent())

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pipeline.run.write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            received_release(toys.spec, tmp_path / "stopped", 1, Silent())
    stopped = received_release(toys.spec, tmp_path / "stopped", 1, Silent())
    manifests = [(root / "public" / "manifest.json").read_bytes() for root in (whole, stopped)]
    assert manifests[0] == manifests[1]


def test_python_users_have_it_and_other_files_are_another_release(toys: Toys, tmp_path: Path) -> None:
    release = spinewise.run(toys.spec, out=tmp_path, workers=1, progress=False)
    assert release.promise == RECEIVED
    numbers = pd.read_csv(toys.spec.parent / "numbers.csv", dtype={"geocode": str})
    numbers.assign(**{CELLS[0]: numbers[CELLS[0]] + 1}).to_csv(toys.spec.parent / "numbers.csv", index=False)
    with pytest.raises(InputError, match="the numbers of others"):
        spinewise.run(toys.spec, out=tmp_path, workers=1, progress=False)
    numbers.iloc[1:].to_csv(toys.spec.parent / "numbers.csv", index=False)
    with pytest.raises(InputError, match="areas that are not those of the level"):
        spinewise.run(toys.spec, out=tmp_path / "other", workers=1, progress=False)


def test_options_of_records_and_measurements_are_refused(toys: Toys, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data: found with numbers that others published, which does without"):
        printed("run", toys.spec, "--out", tmp_path, "--data", toys.spec.parent)
    with pytest.raises(InputError, match="toy_published: the numbers were published by others"):
        estimate_release(tmp_path, toys.spec, tmp_path / "out", 1, Silent())


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ('[privacy]\nrho = "1"\n', "privacy: not with [toy_published]"),
        ('[input]\nfile = "numbers.csv"\nform = "microdata"\ngeocode = "geocode"\n', "input: not with [toy_published]"),
        ('[invariants]\ncounty = ["total"]\n', "invariants: not with [toy_published]"),
        ('[strategy]\npreset = "pl94-2020-us"\n', "strategy.preset: not with [toy_published]"),
        (COMPANION, "companions.homes: not with [toy_published]"),
    ],
)
def test_a_promise_or_records_beside_them_are_refused(tmp_path: Path, added: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(write_toys(tmp_path / "in", f"{SPEC}\n{added}").spec)
    (line,) = str(refused.value).splitlines()
    assert says in line
    assert "there are no records and no promise" in line


def test_neither_a_promise_nor_numbers_of_others_is_refused(tmp_path: Path) -> None:
    strategy = '[strategy]\nqueries = { total = "1" }\nlevels = { county = "1", tract = "0", block = "0" }\n'
    stated = SPEC[: SPEC.index("[toy_published]")] + strategy
    with pytest.raises(SpecError) as refused:
        load_spec(write_toys(tmp_path / "in", stated).spec)
    (line,) = str(refused.value).splitlines()
    assert "privacy.rho: missing" in line
