"""Releases of a series, made once for the tests that only read them; and periods that are measured of chosen counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from releases.series_town import YEARS, write_series_town
from releases.small import run_period

from features.years.chain import InSeries
from features.years.confidential import CarriedPeriods
from features.years.design import Design
from features.years.series import MixedPeriods, found
from geography.spine import Level, Spine
from pipeline.confidential.measure import measure_level
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.model.series import FIRST, SeriesPeriod
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.histograms import write_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import Measurement, read_measurement
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.readable import unchecked

Ints = NDArray[np.int64]
KEY = MasterKey.from_text("insecure-test:38")
LEVEL, QUERY = "area", "kind"

_SPEC = """
name = "flat"
[privacy]
rho = "RHO"
key = "insecure-test:38"
[geography]
file = "areas.csv"
column = "area"
levels = { area = 6 }
[schema.attributes]
kind = [KINDS]
[strategy.queries]
kind = "1"
[strategy.levels]
area = "1"
[input]
file = "persons.csv"
form = "microdata"
geocode = "area"
"""


@dataclass(frozen=True)
class MadeSeries:
    """The town's input, and the folder with its three releases."""

    given: Path
    out: Path

    @property
    def spec(self) -> Path:
        return self.given / "release.toml"

    def release(self, year: str) -> Path:
        return self.out / f"padron-{year}"


@pytest.fixture(scope="session")
def town_series(tmp_path_factory: pytest.TempPathFactory) -> MadeSeries:
    """Mixed periods; not to be changed."""
    folder = tmp_path_factory.mktemp("series")
    made = MadeSeries(folder / "in", folder / "out")
    spec = write_series_town(made.given)
    for year in YEARS:
        run_period(spec, made.out, year, made.given / f"persons-{year}.csv")
    return made


@pytest.fixture
def own_series(town_series: MadeSeries, tmp_path: Path) -> MadeSeries:
    """A copy that a test may change."""
    shutil.copytree(town_series.out, tmp_path / "out")
    return MadeSeries(town_series.given, tmp_path / "out")


@dataclass(frozen=True, eq=False)
class MeasuredPeriod:
    """What was published of one level's one query in a period, and what was drawn for it."""

    read: Measurement
    noise: Ints

    @property
    def values(self) -> Ints:
        return np.asarray(self.read.values, dtype=np.int64)


def _measured_periods(folder: Path, design: Design, rho: Fraction, truths: Sequence[Ints]) -> list[MeasuredPeriod]:
    """`measure_level` period by period, each with the true counts `(n, c)` and the public files of those before.

    Args:
        folder: in which a directory is made for each period.
        design: of the series, whose periods may be more than there are truths.
        rho: of the whole series.
        truths: of each period.
    """
    n, kinds = truths[0].shape
    level = Level(LEVEL, np.array([f"{i:06d}" for i in range(n)]), np.full(n, -1))
    labels = ", ".join(f'"k{i}"' for i in range(kinds))
    spec = parse_spec(_SPEC.replace("RHO", str(rho)).replace("KINDS", labels))
    plain, periods = spec.universes()[0], tuple(f"{2031 + t}" for t in range(design.periods))
    out: list[MeasuredPeriod] = []
    runs: list[RunDirectory] = []
    for t, truth in enumerate(truths):
        series = SeriesPeriod("flat", periods, t, f"{t:064x}" if t else FIRST, found(design))
        universe = replace(plain, series=series, source=MixedPeriods(series))
        run = RunDirectory(folder / f"flat-{periods[t]}")
        run.staging.mkdir(parents=True)
        place = (run.main.true_histogram(LEVEL), run.staging, LEVEL, level.geocodes, universe.schema)
        write_histogram(*place, sp.csr_array(truth), private=True)
        before = cast("tuple[InSeries, ...]", tuple(SimpleNamespace(run=one, unchanged=unchecked) for one in runs))
        carried = CarriedPeriods(
            design.rows[t], before, tuple(sp.csr_array(one) for one in truths[:t]), LEVEL, level.geocodes
        )
        with Workers(1) as workers:
            job = Job(run, spec, (universe,), Spine((level,)), workers, Silent())
            measure_level(job, KEY, f"records of {t}", universe, LEVEL, carried)
        read = read_measurement(unchecked(run.main.measurement(LEVEL, QUERY)))
        context = (f"records of {t}", job.spine.fingerprint(), universe.privacy_fingerprint())
        stream = KEY.stream_key(context, LEVEL, QUERY)
        noise = sampler_for(design.noise(rho)).draw(stream, 0, truth.size).reshape(truth.shape)
        out.append(MeasuredPeriod(read, noise))
        runs.append(run)
    return out


@pytest.fixture
def measured_periods(tmp_path: Path) -> Callable[..., list[MeasuredPeriod]]:
    """`_measured_periods` in a folder of the test, called by its name."""

    def measured(design: Design, rho: Fraction, truths: Sequence[Ints], name: str = "periods") -> list[MeasuredPeriod]:
        return _measured_periods(tmp_path / name, design, rho, truths)

    return measured
