"""Measurements are the true answers plus noise that depends on records, spec, level and query, and on no batch."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from releases.small import run, write_town

import pipeline.confidential.measure
from pipeline.confidential.measure import measure_level
from pipeline.errors import SpinewiseError
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.privacy.budget import noise_for
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.histograms import read_histogram, write_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.release.run_directory import recorded_input
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked
from postprocess.marginal import Marginal


def test_a_measurement_is_the_truth_plus_the_noise_at_its_place(town: Path, town_spec: Path) -> None:
    spec = load_spec(town_spec)
    spine, directory = read_spine(spec.geography), RunDirectory(town)
    key = MasterKey.from_text("insecure-test:1")
    fingerprints = recorded_input(directory)
    assert fingerprints is not None
    for universe in spec.universes():
        context = (fingerprints[universe.name], spine.fingerprint(), universe.privacy_fingerprint())
        for level in spine.levels:
            folder = directory.universe(universe.name)
            truth = read_histogram(folder.true_histogram(level.name), level.geocodes, universe.schema).toarray()
            strategy = universe.strategy.level(level.name)
            for one in strategy.queries:
                answers = np.zeros((len(level), one.query.size), dtype=np.int64)
                np.add.at(answers.T, one.query.cell_answer, truth.T)
                noise_spec = noise_for("zcdp", universe.budget, strategy.share, one.share, "change-one")
                stream = key.stream_key(context, level.name, one.query.name)
                noise = sampler_for(noise_spec).draw(stream, 0, answers.size).reshape(answers.shape)
                found = read_measurement(unchecked(folder.measurement(level.name, one.query.name)))
                assert np.array_equal(found.values, answers + noise)
                assert found.header.scale == noise_spec.scale
            for name, query in universe.invariants:
                if name == level.name:
                    answers = np.zeros((len(level), query.size), dtype=np.int64)
                    np.add.at(answers.T, query.cell_answer, truth.T)
                    assert np.array_equal(
                        read_measurement(unchecked(folder.invariant(name, query.name))).values, answers
                    )


@pytest.mark.parametrize("what", ["add_answers", "write"])
def test_what_goes_wrong_in_a_thread_ends_the_stage_and_leaves_no_file_of_the_level(
    town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    spec = load_spec(town_spec)
    universe, spine = spec.universes()[0], read_spine(spec.geography)
    level, done = spine.levels[-1].name, []
    of = {"add_answers": Marginal, "write": MeasurementWriter}[what]
    works = getattr(of, what)

    def fails_at_last(*given: object) -> None:
        done.append(given)
        if len(done) > 5:
            raise OSError(errno.ENOSPC, "no space")
        works(*given)

    directory = RunDirectory(tmp_path / "run")
    for folder in (directory.staging, directory.universe("").true_histogram(level).parent):
        folder.mkdir(parents=True)
    counts = sp.csr_array(np.ones((len(spine.levels[-1]), universe.schema.n_cells), dtype=np.int64))
    place = (level, spine.levels[-1].geocodes, universe.schema)
    write_histogram(directory.universe("").true_histogram(level), directory.staging, *place, counts)
    job = Job(directory, spec, (universe,), spine, Workers(2), Silent())
    monkeypatch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 40)
    monkeypatch.setattr(of, what, fails_at_last)
    with pytest.raises(SpinewiseError, match="no space left"):
        measure_level(job, MasterKey.from_text("insecure-test:1"), "records", universe, level)
    assert not [*directory.staging.iterdir()]
    assert not [path for path in directory.public.rglob("*") if path.is_file()]


def test_records_in_impossible_cells_are_refused_before_anything_is_published(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ('age = "child", quarters', 'age = "old", quarters'))
    with pytest.raises(SpinewiseError) as error:
        run(spec, tmp_path / "out")
    directory = RunDirectory(tmp_path / "out" / "town")
    assert "old * m" not in str(error.value)
    assert "old * m * prison" in directory.refusal.read_text()
    assert list(directory.public.rglob("*")) == []


def test_records_that_break_a_bound_are_a_warning(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ("upper = 60", "upper = 5"))
    directory = RunDirectory(run(spec, tmp_path / "out"))
    assert "bounds 'group quarters': the records break it in" in directory.warnings.read_text()
    assert directory.warnings.stat().st_mode & 0o077 == 0


def test_a_companion_of_the_same_shape_has_noise_of_its_own(town_spec: Path) -> None:
    main, units = load_spec(town_spec).universes()
    assert replace(main, name="units").privacy_fingerprint() != main.privacy_fingerprint()
    assert units.privacy_fingerprint() != main.privacy_fingerprint()
