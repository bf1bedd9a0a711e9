"""A run that chooses privately how detailed a table is: what it publishes and is charged, what an audit finds in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.chosen import BLOCKS, write_chosen
from releases.command import feature_module
from releases.repeated import rerun
from releases.small import run
from releases.updated import seal

import pipeline.confidential.measure
import pipeline.privacy.ledger.charge
from auditor.program import audit
from pipeline.confidential.charge import charge_run, run_charges
from pipeline.confidential.custody import KeySource, key_of_release
from pipeline.confidential.measure import select_versions
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.public_input import OpenedInputs
from pipeline.privacy.accounting.uses import choices_of
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.select import Select
from pipeline.published import open_finished
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_input
from pipeline.release.spine import read_public_spine
from pipeline.runs.from_measurements import estimate_release
from pipeline.runs.rerun import compare_public
from pipeline.runs.verify import selected_problems
from pipeline.storage.readable import unchecked


def opened(place: str) -> None:
    with Ledger.open(place, create=True) as ledger:
        ledger.open_dataset(
            "people", population="made up", framework="zcdp", budget=Fraction(1), neighbours="change-one"
        )


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory of a run, and the ledger that it was charged to."""
    folder = tmp_path_factory.mktemp("chosen")
    ledger = str(folder / "ledger.sqlite")
    opened(ledger)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", ledger)
        return run(write_chosen(folder / "in"), folder / "out"), ledger


@pytest.fixture
def job(released: tuple[Path, str], tmp_path: Path) -> Job:
    """A copy of the release, to change."""
    root = RunDirectory(Path(shutil.copytree(released[0], tmp_path / "chosen")))
    release = open_finished(root.root, check_hashes=False)
    spine = read_public_spine(unchecked(root.spine), release.spec.geography.level_names)
    return Job(root, release.spec, release.universes, spine, Workers(1), Silent())


def key_of(job: Job) -> MasterKey:
    return key_of_release(job.run, KeySource())


def file_of(job: Job) -> Path:
    return job.run.main.selected("detail", "block")


def recorded(job: Job) -> dict[str, str]:
    """The records' fingerprints, which are not published."""
    fingerprints = recorded_input(job.run)
    assert fingerprints is not None
    return fingerprints


def test_the_package_says_what_is_in_the_list_of_every_row(job: Job) -> None:
    """By the version beside it, each number has a label; what is described is what the file has."""
    resources = json.loads(job.run.package.read_text("utf-8"))["resources"]
    (described,) = [one for one in resources if one["path"] == job.run.name_of(file_of(job))]
    fields = described["schema"]["fields"]
    assert [field["name"] for field in fields] == pq.read_schema(file_of(job)).names
    stored = pd.read_parquet(file_of(job))
    assert set(stored["version"]) <= set(fields[1]["constraints"]["enum"])
    assert {len(stored[stored["version"] == name]) > 0 for name in ("total", "race * sex")} == {True}
    for version, values in zip(stored["version"], stored["value"], strict=True):
        assert len(fields[2]["answers"][version]) == len(values)
    assert [answer["name"] for answer in fields[2]["answers"]["some"]] == ["ab", "cd"]


def choose_again(job: Job) -> None:
    (universe,) = job.universes
    fingerprint = recorded(job)[""]
    select_versions(job, key_of(job), fingerprint, universe, universe.selections[0])
    seal(job.run.root)


def failed(job: Job, *, key: bool = True) -> set[str]:
    if not key:
        job.run.key.unlink()
    return {one.check for one in audit(job.run.root) if not one.passed}


def test_a_run_is_charged_for_choice_and_measurement_and_audited(released: tuple[Path, str]) -> None:
    root, ledger = RunDirectory(released[0]), released[1]
    assert [one for one in audit(root.root, ledger=ledger) if not one.passed] == []
    with Ledger.open(ledger) as opened:
        assert opened.dataset("people").left == 0
        charges = {event.query: event for event in opened.events() if event.kind == "charge"}
    assert charges["select detail"].mechanism == "exponential"
    assert charges["select detail"].count == len(BLOCKS)
    assert Fraction(charges["select detail"].cost) + Fraction(charges["selected detail"].cost) == Fraction(1, 5)


def test_the_audit_names_what_it_looked_at(released: tuple[Path, str]) -> None:
    told: list[Any] = []
    found = feature_module("features.audit.finished").audit_release(
        RunDirectory(released[0]), KeySource(), released[1], 1, told.append
    )
    assert found.passed, found.failed
    assert {"noise found", "streams apart", "choices redrawn", "noise redrawn", "ledger", "verified"} <= {
        one.check for one in told
    }


def test_the_same_run_again_and_a_rerun_choose_the_same_and_cost_nothing(released: tuple[Path, str]) -> None:
    """Nothing is left in the ledger: a second charge would be refused."""
    root, ledger = RunDirectory(released[0]), released[1]
    before = root.main.selected("detail", "block").read_bytes()
    root.main.selected("detail", "block").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", ledger)
        run(released[0].parents[1] / "in" / "release.toml", released[0].parent)
    assert root.main.selected("detail", "block").read_bytes() == before
    assert rerun(root.root).same


def test_each_geounit_has_the_answers_of_the_version_that_it_chose(job: Job) -> None:
    (universe,) = job.universes
    truth = read_histogram(job.run.main.true_histogram("block"), job.spine.leaf_level.geocodes, universe.schema)
    found = pd.read_parquet(file_of(job))
    assert found["geocode"].tolist() == BLOCKS
    queries = {query.name: query for query in universe.selections[0].versions}
    assert set(found["version"]) == set(queries), "all are chosen by somebody"
    for row, value in enumerate(found["value"]):
        query = queries[found["version"][row]]
        assert np.abs(value - query.answer_csr(truth[[row]])[0]).max() < 12 * found["variance"][row] ** 0.5
    populations = np.asarray(truth.sum(axis=1)).reshape(-1)
    by_version = [populations[found["version"] == name].mean() for name in queries]
    assert by_version == sorted(by_version), "the more people, the more detail"


def test_the_bytes_do_not_depend_on_batches(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file_of(job).read_bytes()
    monkeypatch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 56)
    choose_again(job)
    assert file_of(job).read_bytes() == before


def test_a_third_of_the_noise_is_found(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed(job) == set()

    def third(spec: NoiseSpec) -> object:
        return sampler_for(NoiseSpec(spec.mechanism, spec.scale / 9))

    monkeypatch.setattr(pipeline.confidential.measure, "sampler_for", third)
    choose_again(job)
    noise_findings = feature_module("features.audit.finished").noise_findings
    assert {one.check for one in noise_findings(job.run.root) if not one.passed} == {"noise found"}
    assert failed(job) == {"choices redrawn", "tails"}


@pytest.mark.parametrize("key", [True, False])
def test_a_choice_that_follows_the_population_is_found(job: Job, monkeypatch: pytest.MonkeyPatch, key: bool) -> None:
    """The version that fits best is taken, without the mechanism."""

    def best(self: Select, stream_key: bytes, populations: np.ndarray, start: int = 0) -> np.ndarray:  # noqa: ARG001
        return self.losses(populations).argmin(axis=1)

    with monkeypatch.context() as patch:
        patch.setattr(Select, "choose", best)
        choose_again(job)
    assert failed(job, key=key) == ({"choices redrawn"} if key else set())


@pytest.mark.parametrize("key", [True, False])
def test_choices_of_another_epsilon_are_found(job: Job, monkeypatch: pytest.MonkeyPatch, key: bool) -> None:
    """Uniform choices, as of an epsilon near 0, though the file states the right one."""
    choose: Callable[..., np.ndarray] = Select.choose

    def uniform(self: Select, *arguments: object) -> np.ndarray:
        return choose(replace(self, epsilon=Fraction(1, 10**6)), *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Select, "choose", uniform)
        choose_again(job)
    assert failed(job, key=key) == {"choices found", *(["choices redrawn"] if key else [])}


@pytest.mark.parametrize("left_out", ["select detail", "selected detail"])
def test_a_choice_that_is_not_charged_is_found(
    job: Job, left_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pipeline.privacy.ledger.charge,
        "choices_of",
        lambda one: tuple(m for m in choices_of(one) if m.query != left_out),
    )
    ledger = str(tmp_path / "another.sqlite")
    opened(ledger)
    (job.run.restricted / "ledger.json").unlink()
    monkeypatch.setenv("SPINEWISE_LEDGER", ledger)
    (universe,) = job.universes
    inputs = OpenedInputs({BOUNDS.key: {universe.name: ()}})
    charged = replace(job, universes=(replace(universe, dataset="people"),), inputs=inputs)
    key = key_of(job)
    charge_run(charged, run_charges(charged, key, recorded(job)))
    findings = [one for one in audit(job.run.root, ledger=ledger) if not one.passed]
    assert {one.check for one in findings} == {"ledger"}
    assert f"{left_out} at block was not charged" in str([one.detail for one in findings])


def test_a_changed_file_is_named_with_its_level_and_geounit(job: Job, released: tuple[Path, str]) -> None:
    table = pq.read_table(file_of(job))
    versions = table.column("version").to_pylist()
    versions[7] = "some" if versions[7] != "some" else "total"
    column = table.schema.get_field_index("version")
    pq.write_table(table.set_column(column, table.schema.field(column), [versions]), file_of(job))
    (difference,) = compare_public(RunDirectory(released[0]), job.run, ["county", "block"])
    assert str(difference).startswith("public/selected/detail/block.parquet: level block, geounit A07")
    assert "has the answers of the version chosen" in str(selected_problems(job))


def test_a_file_with_fewer_geounits_does_not_verify(job: Job) -> None:
    pq.write_table(pq.read_table(file_of(job)).slice(1), file_of(job))
    (problem,) = selected_problems(job)
    assert problem == (
        "public/selected/detail/block.parquet does not have the geounits of level 'block', in the spine's order"
    )
    file_of(job).unlink()
    assert selected_problems(job)[0].startswith("public/selected/detail/block.parquet cannot be read")


def test_measurements_made_elsewhere_have_no_choices(tmp_path: Path) -> None:
    spec = write_chosen(tmp_path / "in")
    with pytest.raises(InputError, match="select: how detailed a table is can be chosen from records only"):
        estimate_release(tmp_path / "in", spec, tmp_path / "out", 1, Silent())
