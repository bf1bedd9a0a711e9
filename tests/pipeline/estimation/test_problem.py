"""The problem is read from public files alone, exactly, and only where they are what the spec says."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ReleaseError
from pipeline.estimation.computed import Computed
from pipeline.estimation.measurement_files import read_compact
from pipeline.estimation.problem import measurement_files
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, open_measurement, read_measurement
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked


def job_of(root: Path, spec_path: Path) -> Job:
    spec, run = load_spec(spec_path), RunDirectory(root)
    spine = read_public_spine(unchecked(run.spine), spec.geography.level_names)
    return Job(run, spec, spec.universes(), spine, Workers(1), Silent())


@pytest.mark.parametrize(
    ("extreme", "dtype"),
    [(127, np.int8), (-129, np.int16), (40_000, np.int32), (-(2**40), np.int64), (2**40, np.int64)],
)
def test_values_are_kept_exactly_in_the_smallest_type(tmp_path: Path, extreme: int, dtype: type) -> None:
    header = MeasurementHeader("block", "total", 3, "discrete_gaussian", Fraction(2), 2.0)
    values = np.arange(30, dtype=np.int64).reshape(10, 3)
    values[7, 1] = extreme
    codes = np.array([f"{i}" for i in range(10)])
    with MeasurementWriter.open(tmp_path / "m.parquet", tmp_path, header) as writer:
        writer.write(codes, values)
    with open_measurement(unchecked(tmp_path / "m.parquet")) as file:
        found, _, same = read_compact(file, 0, codes)
        some, _, of_some = read_compact(file, 6, codes[6:9])
        _, _, of_others = read_compact(file, 6, codes[5:8])
    assert found.dtype == dtype
    assert np.array_equal(found, values)
    assert (same, of_some, of_others) == (True, True, False)
    assert np.array_equal(some, values[6:9])


def test_the_problem_has_the_measurements_and_the_constraints(town: Path, town_spec: Path) -> None:
    job = job_of(town, town_spec)
    problem = Computed(job, job.universes[0]).problem
    assert problem.spine.fingerprint() == job.spine.fingerprint()
    assert [len(level) for level in problem.measured] == [3, 3, 3]
    for level, queries in zip(job.spine.level_names, problem.measured, strict=True):
        for one in queries:
            stored = read_measurement(unchecked(job.run.main.measurement(level, one.marginal.name)))
            assert np.array_equal(one.values, stored.values)
            assert one.variance == stored.variance
    exact = [bound for bound in problem.constraints.bounds[0] if np.array_equal(bound.lower, bound.upper)]
    assert any(bound.marginal.size == 1 for bound in exact)
    assert problem.constraints.structural_zeros.sum() == 2
    assert [one.name for one in problem.passes] == ["total"]


def test_a_part_of_the_geounits_is_read_alone_and_checked(town: Path, town_spec: Path) -> None:
    job = job_of(town, town_spec)
    whole = Computed(job, job.universes[0]).problem.measured[-1][0]
    (file, *_) = measurement_files(job, job.universes[0])[-1]
    codes = job.spine.leaf_level.geocodes
    assert np.array_equal(file.read(codes[3:7], 3).values, whole.values[3:7])
    with pytest.raises(ReleaseError, match="does not have the geounits of level 'block'"):
        file.read(codes[3:7], 4)
    with pytest.raises(ReleaseError, match="does not have the geounits"):
        file.read(codes[3:7], len(codes) - 2)


def test_nothing_restricted_is_read(town: Path, town_spec: Path, tmp_path: Path) -> None:
    shutil.copytree(town / "public", tmp_path / "town" / "public")
    job = job_of(tmp_path / "town", town_spec)
    for universe in job.universes:
        _ = Computed(job, universe).problem


def test_a_file_that_is_not_what_the_spec_says_is_refused(town: Path, town_spec: Path, tmp_path: Path) -> None:
    root = tmp_path / "town"
    shutil.copytree(town, root)
    job = job_of(root, town_spec)
    path = job.run.main.measurement("block", "detailed")
    shutil.copy(job.run.main.measurement("tract", "detailed"), path)
    with pytest.raises(ReleaseError, match=r"detailed\.parquet does not match the spec: its level is tract"):
        _ = Computed(job, job.universes[0]).problem
    stored = read_measurement(unchecked(town / "public" / "measurements" / "block" / "detailed.parquet"))
    with MeasurementWriter.open(path, job.run.staging, stored.header) as writer:
        writer.write(stored.geocodes[::-1], stored.values)
    with pytest.raises(ReleaseError, match="does not have the geounits of level 'block'"):
        _ = Computed(job, job.universes[0]).problem
    other = MeasurementHeader("block", "detailed", 18, "discrete_gaussian", stored.header.scale * 2, 4.0)
    with MeasurementWriter.open(path, job.run.staging, other) as writer:
        writer.write(stored.geocodes, stored.values)
    with pytest.raises(ReleaseError, match="its scale is"):
        _ = Computed(job, job.universes[0]).problem
