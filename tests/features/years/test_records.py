"""Periods, spells and records of people in a series, plans; numbers of periods as a run measures them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from oracles.dense import subtree_gls
from oracles.histories import all_pairs, distances, farthest
from oracles.random_problems import random_problem
from oracles.series_numbers import errors_of, mixed, square_root
from releases.asked import spent
from releases.command import printed
from releases.series_town import INDEPENDENT, YEARS, MadeSeries, write_series_town
from releases.small import run_period

from auditor.ledger import chain_problems, read_ledger
from auditor.program import audit
from features.years.chain import InSeries
from features.years.confidential import CarriedPeriods, spell_counts
from features.years.design import Design, mixed_again, triangular, unmixed
from features.years.plan import series_plan
from features.years.series import MixedPeriods, Series, Step, counts_variance, found, independent_terms
from flows.checks.validation import validate
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
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.release.measurements import Measurement, read_measurement
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.paths import unchecked
from postprocess.linear.upward import basis_of, estimates_of, upward_pass

UNITS = ('rho = "2"', 'rho = "2"\nunit = "person"\nat_most = 1')
RECORDS = (("spells = 2\n", "records = 2\n"), UNITS)


def spells_of(life: list[object]) -> int:
    """Of one person: how often an answer begins that is not that of the period before; None for no record."""
    return sum(1 for t, one in enumerate(life) if one is not None and (t == 0 or life[t - 1] != one))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spells_are_those_of_each_unit(seed: int) -> None:
    """Units that come, go, move and come back, in records of any order; those with two records are left out."""
    rng = np.random.default_rng(seed)
    units, cells = [], []
    lives: dict[int, list[object]] = {i: [None] * 6 for i in range(200)}
    for period in range(6):
        here = rng.permutation(200)[: rng.integers(100, 200)]
        units.append(here)
        cells.append(rng.integers(0, 3, len(here)))
        for i, cell in zip(here.tolist(), cells[-1].tolist(), strict=True):
            lives[i][period] = cell
    again = [int(units[2][0]), int(units[4][1])]
    for period, unit in zip((2, 4), again, strict=True):
        units[period], cells[period] = np.append(units[period], unit), np.append(cells[period], 1)
    expected = Counter(spells_of(life) for i, life in lives.items() if i not in again)
    found, several = spell_counts(units, cells)
    assert (several, found[0]) == (len(set(again)), 0)
    assert {k: n for k, n in enumerate(found.tolist()) if n} == {k: n for k, n in expected.items() if k}
    found, several = spell_counts([np.array([], dtype=int)], [np.array([], dtype=int)])
    assert (found.sum(), several) == (0, 0)


@pytest.mark.parametrize("independent", [False, True])
def test_validate_counts_spells(tmp_path: Path, independent: bool) -> None:
    """Against pandas: block and values of each person over the years; with one spell allowed, by name and number."""
    spec = write_series_town(tmp_path, UNITS, INDEPENDENT[0] if independent else ("spells = 2", "spells = 1"))
    lives: dict[str, list[object]] = {}
    for t, year in enumerate(YEARS):
        for person, *answer in pd.read_csv(tmp_path / f"persons-{year}.csv", dtype=str).to_numpy().tolist():
            lives.setdefault(person, [None] * 3)[t] = answer
    expected = Counter(spells_of(life) for life in lives.values())
    assert expected[2] > 30
    files = [tmp_path / f"persons-{year}.csv" for year in YEARS]
    found = validate(files[2], spec, periods_before=files[:2])
    assert found.passed
    (said,) = (one for one in found.remarks if one.startswith("series"))
    assert f"1: {expected[1]}, 2: {expected[2]}, 3: {expected[3]};" in said
    more = expected[2] + expected[3]
    assert (f"{more} of {len(lives)} " in said) == (not independent)
    assert not [one for one in validate(files[2], spec).remarks if one.startswith("series")]


@pytest.mark.parametrize(("neighbours", "moved"), [("change-one", 2), ("add-remove", 1)])
@pytest.mark.parametrize("periods", [2, 3, 4])
def test_what_people_lose_is_that_of_all_pairs_of_histories(periods: int, neighbours: str, moved: int) -> None:
    """By another program, which goes through all pairs: with independent noise, of people with so many records."""
    pairs = all_pairs(periods)
    if neighbours == "add-remove":
        pairs = pairs[pairs[:, 1].max(axis=1) < 0]
    records = (pairs >= 0).sum(axis=2).max(axis=1)
    found = distances(pairs, np.eye(periods, dtype=np.int64))
    for most in range(1, periods + 1):
        terms = independent_terms(periods, most)
        assert terms.distance * moved == found[records <= most].max()
        for k, loss in terms.losses.items():
            assert loss.part * terms.distance * moved == found[records <= k].max()
        assert set(terms.losses) == {k for k in (1, 2, 3, most, periods) if k <= periods}


def test_a_series_of_few_records_a_person(tmp_path: Path, people: Path) -> None:
    """Of three years a person has a record in two: noise for two, charged once, stated, and audited."""
    spec = write_series_town(tmp_path / "in", *RECORDS, ('key = "insecure-test:1"', 'dataset = "people"'))
    for year in YEARS[:2]:
        release = run_period(spec, tmp_path / "out", year, tmp_path / "in" / f"persons-{year}.csv")
        read = read_measurement(unchecked(release / "public" / "measurements" / "block" / "total.parquet"))
        assert (read.header.mechanism, read.header.scale) == ("discrete_gaussian", 2 * 2 / (2 * 2 * Fraction(1, 4)))
        assert verify_release(RunDirectory(release), 1, Silent()) == []
        assert [one for one in audit(release, ledger=str(people)) if not one.passed] == []
    assert spent(people, "people") == 2
    assert chain_problems(*read_ledger(str(people))) == []
    run = RunDirectory(release)
    manifest = read_manifest(run.manifest)
    words = json.loads(run.manifest.read_text("utf-8"))["privacy"][0]["words"]
    assert "2 records or fewer loses no more than the budget; with 1, 0.5 of it; with 3, 1.5 of it." in words
    fewer = json.loads(json.dumps(manifest.spec))
    fewer["series"]["records"] = 1  # the planted fault: half the noise would do for it
    write_manifest(run, manifest.model_copy(update={"spec": fewer}))
    assert {"headers", "statements"} <= {one.check for one in audit(release) if not one.passed}


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [("", "records = 3\n", "found 3 and none in .*-2031"), ("records = 3\n", "", "found none and 3 in .*-2031")],
)
def test_periods_of_one_series_promise_the_same(tmp_path: Path, first: str, then: str, message: str) -> None:
    """As many records as periods have the same noise as none that are stated, and another sentence."""
    spec = write_series_town(tmp_path / "in", ("spells = 2\n", first), UNITS)
    run_period(spec, tmp_path / "out", "2031")
    spec = write_series_town(tmp_path / "in", ("spells = 2\n", then), UNITS)
    with pytest.raises(InputError, match=f"series.records: {message}; all releases of a series have the same"):
        run_period(spec, tmp_path / "out", "2032", tmp_path / "in" / "persons-2032.csv")
    assert not (tmp_path / "out" / "padron-2032").exists()


#: Step -> the ends of a year's first and last period, and pandas' name of it.
_ENDS: dict[Step, tuple[str, str, str]] = {
    "year": ("", "", "Y"),
    "quarter": ("-Q1", "-Q4", "Q"),
    "month": ("-01", "-12", "M"),
    "day": ("-01-01", "-12-31", "D"),
}


@pytest.mark.parametrize(("step", "year"), list(product(_ENDS, ("1999", "2000", "2031", "2100"))))
def test_periods_and_their_days_are_those_of_pandas(step: Step, year: str) -> None:
    first, last, frequency = _ENDS[step]
    series = Series("x", year + first, year + last, step)
    others = pd.period_range(f"{year}-01-01", f"{year}-12-31", freq=frequency)
    assert len(series.periods) == len(others)
    for number, (period, other) in enumerate(zip(series.periods, others, strict=True)):
        assert pd.Period(period.replace("-Q", "Q"), freq=frequency) == other
        assert series.number(period) == number
        assert series.days(period) == (str(other.start_time.date()), str(other.end_time.date()))


def test_errors_are_those_that_releases_state(town_series: MadeSeries) -> None:
    """Of the spec's own design the mean variance over the periods; of independent ones three times a release's."""
    plan = series_plan(town_series.spec, [1, 3])
    assert [one.spells for one in plan.designs] == [None, 1, 2, 3]
    own, independent = plan.designs[2], plan.designs[0]
    terms = json.loads((town_series.release("2033") / "public" / "manifest.json").read_text("utf-8"))["spec"]["series"]
    matrix = np.zeros((3, 3), dtype=np.int64)
    for t, row in enumerate(terms["terms"]["design"]):
        matrix[t, : t + 1] = row
    inverse = np.linalg.inv((matrix.T @ matrix).astype(float))
    for level, share in (("county", 0.25), ("tract", 0.25), ("block", 0.5)):
        for query in ("total", "born * sex"):
            name = f"{query.replace(' * ', '.')}.parquet"
            files = [town_series.release(year) / "public" / "measurements" / level / name for year in YEARS]
            variances = [read_measurement(unchecked(path)).variance for path in files]
            period, change = own.errors[level, query]
            assert period**2 == pytest.approx(np.mean(variances), rel=1e-9)
            scale = variances[0] / inverse[0, 0]
            steps = [inverse[t, t] + inverse[t + 1, t + 1] - 2 * inverse[t, t + 1] for t in range(2)]
            assert change**2 == pytest.approx(scale * np.mean(steps), rel=1e-9)
            alone = independent.errors[level, query]
            assert alone[0] ** 2 == pytest.approx(3 / (2 * share * 0.5), rel=1e-2)  # T 2 / (2 rho), rho = 2 shared
            assert alone[1] == pytest.approx(2**0.5 * alone[0])
    reaches = farthest(matrix.T @ matrix, "change-one")
    assert {k: loss.part for k, loss in own.losses.items()} == {
        k: Fraction(reaches[k - 1], reaches[1]) for k in (1, 2, 3)
    }
    assert plan.covariances == (2 + 4 + 12) * (3 * 4) ** 2
    shown = printed("series", "plan", town_series.spec)
    assert "spells = 2 (the spec)" in shown
    assert "a history of all periods keeps 2,592 covariances" in shown


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
