"""The problem is read from public files alone, exactly, and once; simulated noise comes from public things alone."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ReleaseError
from pipeline.estimation.margins import PublicNoise
from pipeline.estimation.measurement_files import read_compact
from pipeline.estimation.problem import measurement_files
from pipeline.estimation.whole_spine import Computed
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, open_measurement, read_measurement
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked


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


#: That noise is drawn on.
ANSWERS = np.zeros((400, 50), dtype=np.int64)


def test_simulated_noise_is_the_distribution_drawn_from_the_public_seed() -> None:
    spec = DiscreteGaussian(Fraction(25))
    noise = PublicNoise(3, "", (((spec,), (spec,)),), (None,))
    drawn = noise.draw(0, 0, 0, 0, ANSWERS)
    assert np.array_equal(drawn, noise.draw(0, 0, 0, 0, ANSWERS))
    assert drawn.std() == pytest.approx(5, rel=0.03)
    others = [
        noise.draw(1, 0, 0, 0, ANSWERS),
        noise.draw(0, 0, 1, 0, ANSWERS),
    ]
    others += [PublicNoise(s, u, (((spec,),),), (None,)).draw(0, 0, 0, 0, ANSWERS) for s, u in ((4, ""), (3, "units"))]
    for other in others:
        assert abs(np.corrcoef(drawn.ravel(), other.ravel())[0, 1]) < 0.04


def test_simulated_noise_follows_the_kinds_of_geounits() -> None:
    kinds = np.array([0, 1, -1, 1] * 100, dtype=np.int8)
    specs = (DiscreteGaussian(Fraction(25)), DiscreteGaussian(Fraction(4)))
    drawn = PublicNoise(3, "", ((specs,),), (kinds,)).draw(0, 0, 0, 0, ANSWERS)
    assert drawn[kinds == 0].std() == pytest.approx(5, rel=0.04)
    assert drawn[kinds == 1].std() == pytest.approx(2, rel=0.04)


@pytest.mark.parametrize("kinds", [None, np.array([0, 1, -1, 1] * 100, dtype=np.int8)])
def test_simulated_noise_does_not_depend_on_how_much_is_drawn_at_a_time(kinds: np.ndarray | None) -> None:
    specs = (DiscreteGaussian(Fraction(25)), DiscreteGaussian(Fraction(4)))
    noise = PublicNoise(3, "", ((specs,),), (kinds,))
    whole = noise.draw(0, 0, 0, 0, ANSWERS[:, :7])
    parts = [noise.draw(0, 0, 0, first, ANSWERS[first : first + 33, :7]) for first in range(0, 400, 33)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(parts[0], parts[1])
