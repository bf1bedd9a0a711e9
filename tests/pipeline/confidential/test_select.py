"""A run that chooses privately how detailed a table is: what it publishes and is charged, what an audit finds in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.chosen import BLOCKS, write_chosen
from releases.small import run
from releases.updated import seal

from auditor.program import audit
from pipeline.confidential.custody import KeySource, key_of_release
from pipeline.confidential.measure import select_versions
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.select import Select
from pipeline.published import open_finished
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_input
from pipeline.release.spine import read_public_spine
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
