"""Numbers of periods as a run measures them: mixed truths and keyed noise, with the stated covariance."""

from __future__ import annotations

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
from oracles.dense import subtree_gls
from oracles.random_problems import random_problem
from oracles.series_numbers import errors_of, mixed, square_root

from features.years.chain import InSeries
from features.years.confidential import CarriedPeriods
from features.years.design import Design, mixed_again, triangular, unmixed
from features.years.series import MixedPeriods, counts_variance, found
from geography.errors import InputError
from geography.spine import Level, Spine
from pipeline.confidential.measure import Carried, measure_level
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.model.series import FIRST, SeriesPeriod
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.histograms import write_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import Measurement, read_measurement
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.paths import unchecked
from postprocess.linear.upward import basis_of, estimates_of, upward_pass

Ints = NDArray[np.int64]
DESIGN = Design(((64,), (-30, 70), (3, -33, 71), (0, 2, -32, 72)), 2, "change-one")
RHO = Fraction(1, 3)
KEY = MasterKey.from_text("insecure-test:38")
LEVEL, QUERY = "area", "kind"
SPEC = """
name = "flat"
privacy = { rho = "RHO", key = "insecure-test:38" }
geography = { file = "areas.csv", column = "area", levels = { area = 6 } }
schema.attributes.kind = [KINDS]
strategy = { queries = { kind = "1" }, levels = { area = "1" } }
input = { file = "persons.csv", form = "microdata", geocode = "area" }
"""


@dataclass(frozen=True, eq=False)
class Measured:
    """What was published of one level's one query in a period, and what was drawn for it."""

    read: Measurement
    noise: Ints

    @property
    def values(self) -> Ints:
        return np.asarray(self.read.values, dtype=np.int64)


Measuring = Callable[..., list[Measured]]


def _measured_periods(folder: Path, design: Design, rho: Fraction, truths: Sequence[Ints]) -> list[Measured]:
    """`measure_level` period by period, each with the true counts `(n, c)` and the public files of those before."""
    n, kinds = truths[0].shape
    level = Level(LEVEL, np.array([f"{i:06d}" for i in range(n)]), np.full(n, -1))
    labels = ", ".join(f'"k{i}"' for i in range(kinds))
    spec = parse_spec(SPEC.replace("RHO", str(rho)).replace("KINDS", labels))
    plain, periods = spec.universes()[0], tuple(f"{2031 + t}" for t in range(design.periods))
    out: list[Measured] = []
    runs: list[RunDirectory] = []
    for t, truth in enumerate(truths):
        series = SeriesPeriod("flat", periods, t, f"{t:064x}" if t else FIRST, found(design))
        universe = replace(plain, series=series, source=MixedPeriods(series))
        run = RunDirectory(folder / f"flat-{periods[t]}")
        run.staging.mkdir(parents=True)
        place = (run.main.true_histogram(LEVEL), run.staging, LEVEL, level.geocodes, universe.schema)
        write_histogram(*place, sp.csr_array(truth), private=True)
        before = cast("tuple[InSeries, ...]", tuple(SimpleNamespace(run=one, unchanged=unchecked) for one in runs))
        known = tuple(sp.csr_array(one) for one in truths[:t])
        row = design.rows[t]
        carried = Carried(row[-1], CarriedPeriods(row, before, known, LEVEL, level.geocodes).answers)
        with Workers(1) as workers:
            job = Job(run, spec, (universe,), Spine((level,)), workers, Silent())
            measure_level(job, KEY, f"records of {t}", universe, LEVEL, carried)
        read = read_measurement(unchecked(run.main.measurement(LEVEL, QUERY)))
        context = (f"records of {t}", job.spine.fingerprint(), universe.privacy_fingerprint())
        stream = KEY.stream_key(context, LEVEL, QUERY)
        noise = sampler_for(design.noise(rho)).draw(stream, 0, truth.size).reshape(truth.shape)
        out.append(Measured(read, noise))
        runs.append(run)
    return out


@pytest.fixture
def measured_periods(tmp_path: Path) -> Measuring:
    """`_measured_periods` in a folder of the test, called by its name."""

    def measured(design: Design, truths: Sequence[Ints], name: str = "periods") -> list[Measured]:
        return _measured_periods(tmp_path / name, design, RHO, truths)

    return measured


def some_truths(n: int, periods: int = 4, more: int = 0) -> list[Ints]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 5000, (n, 3)) + more for _ in range(periods)]


def test_each_period_stands_alone_and_the_mixed_numbers_follow(measured_periods: Measuring) -> None:
    """v_t / L_tt is y_t, the truth and L^-1 z, but for half a number that is rounded; w follows from v, exactly.

    A period needs no later one, and no two have the same noise.
    """
    truths = some_truths(6, more=47_000_000)
    periods = measured_periods(DESIGN, truths)
    numbers, noises = [one.values for one in periods], [one.noise for one in periods]
    mixtures = mixed_again(DESIGN, numbers)
    assert all(np.array_equal(w, mixed(DESIGN.rows, truths[: t + 1], noises[t])) for t, w in enumerate(mixtures))
    errors = errors_of(DESIGN.rows, noises)
    for row, v, y, truth, error in zip(DESIGN.rows, numbers, unmixed(DESIGN, mixtures), truths, errors, strict=True):
        assert np.abs(v / row[-1] - y).max() < 0.5 / row[-1] * 1.6
        assert np.abs(y.ravel() - truth.ravel() - np.array([float(one) for one in error])).max() < 1e-6
    first = measured_periods(DESIGN, truths[:3], "some")
    assert all(np.array_equal(a.values, b.values) for a, b in zip(first, periods[:3], strict=True))
    assert len({one.noise.tobytes() for one in periods}) == 4


@pytest.mark.parametrize("wrong", [False, True])
def test_unmixed_noise_has_the_stated_covariance(
    measured_periods: Measuring, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60,000 answers, within 4 standard errors; not where z is used again in the next period, a planted fault."""
    if wrong:
        monkeypatch.setattr(MasterKey, "stream_key", lambda *_: bytes(32))
    periods = measured_periods(DESIGN, [np.zeros((20_000, 3), dtype=np.int64)] * 4)
    numbers = np.array(unmixed(DESIGN, mixed_again(DESIGN, [one.values for one in periods]))).reshape(4, -1)
    stated = DESIGN.noise(RHO).variance * DESIGN.covariance
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / numbers.shape[1])
    off = np.abs(numbers @ numbers.T / numbers.shape[1] - stated) / spread
    assert (off.max() > 4) == wrong
    for t, one in enumerate(periods):
        assert one.read.variance == pytest.approx(float(stated[t, t]))


def test_the_estimator_takes_a_period_as_it_is() -> None:
    """A problem whose measurements are the unmixed numbers of the third period, with their variances: dense algebra."""
    problem, _ = random_problem(5, n_levels=3)
    rng = np.random.default_rng(6)
    levels = []
    for level, queries in enumerate(problem.measured):
        changed = []
        for number, query in enumerate(queries):
            truths = [rng.integers(0, 40, query.values.shape) for _ in range(3)]
            noise = DESIGN.noise(Fraction(1, 2 + level + number))
            streams = [KEY.stream_key(("records", "spine", str(t)), str(level), str(number)) for t in range(3)]
            drawn = [sampler_for(noise).draw(one, 0, truths[0].size).reshape(truths[0].shape) for one in streams]
            values = unmixed(DESIGN, [mixed(DESIGN.rows, truths[: t + 1], drawn[t]) for t in range(3)])[2]
            variance = noise.variance * float(counts_variance(DESIGN.rows, 2))
            changed.append(replace(query, values=values, variance=variance, others=()))
        levels.append(tuple(changed))
    third = replace(problem, measured=tuple(levels), kinds=())
    basis = basis_of(third)
    for level, estimate in enumerate(upward_pass(third, basis)):
        rows = np.arange(len(estimate.classes))
        means = basis.unfold(estimates_of(third, basis, level, estimate, rows)[0])
        for i in rows.tolist():
            dense = subtree_gls(third, level, i)
            assert np.abs(dense.estimable @ (means[i] - dense.mean)).max() < 1e-8 * (1 + np.abs(dense.mean).max())


def test_numbers_of_another_design_are_others(measured_periods: Measuring) -> None:
    """The planted fault: A of another horizon unmixes to numbers far from the truth."""
    truths = some_truths(50)
    numbers = [one.values for one in measured_periods(DESIGN, truths)]
    far = []
    for design in (DESIGN, triangular(square_root(4), 2, "change-one")):
        counts = unmixed(design, mixed_again(design, numbers))
        far.append(max(float(np.abs(count - truth).mean()) for count, truth in zip(counts, truths, strict=True)))
    assert far[0] < 10 < 100 < far[1]
    with pytest.raises(InputError, match="period 5 of a series: it has periods 1 to 4"):
        unmixed(DESIGN, some_truths(2, 5))
