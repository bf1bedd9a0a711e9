"""Many runs of two neighbouring inputs, each with its own key, and how well their outcomes distinguish the inputs.

The hockey-stick divergence of P from Q at epsilon is the largest P(S) - exp(epsilon) Q(S) over all sets S of outcomes:
the least delta for which the pair is (epsilon, delta)-private. A claim bounds it from above; runs bound it from below,
since any one set gives a lower bound (Jagielski, Ullman and Oprea 2020, arXiv 2006.07709).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy import stats
from scipy.signal import fftconvolve
from threadpoolctl import threadpool_limits

from features.audit.exact_noise import probabilities, reach_of
from geography.sums import roll_up
from pipeline.confidential.custody import KeySource
from pipeline.confidential.measure import true_histogram
from pipeline.confidential.process import RecordHolder
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.job import Job, perform_steps
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.publishing.steps import perform_public_steps
from pipeline.records.tabulate import tabulate
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.run_directory import make_run_folders
from pipeline.runs.open_public import open_listed
from pipeline.runs.request import CheckedRequest, Request, check_request
from pipeline.runs.run import Records
from pipeline.storage.paths import local_name
from postprocess.arrays import FloatArray, IntArray

_STEP = 1e-3  # of privacy losses, rounded up
_CHOOSING = 4  # every so many-th run chooses the score and the threshold
_CANDIDATES = 200  # thresholds tried


def claimed_delta(uses: Sequence[tuple[NoiseSpec, int]], epsilons: Sequence[float]) -> list[float]:
    """The divergence at each epsilon of noise on numbers of which some move by one, slightly too large.

    Args:
        uses: each noise, and how many numbers with it move.
        epsilons: at which the divergence is computed.
    """
    losses: FloatArray = np.array([1.0])
    start = 0
    for spec, moved in uses:
        single, least = _loss(spec)
        for _ in range(moved):
            losses, start = fftconvolve(losses, single), start + least
    values = (start + np.arange(losses.size)) * _STEP
    return [float((losses * -np.expm1(np.minimum(epsilon - values, 0.0))).sum()) for epsilon in epsilons]


def _loss(spec: NoiseSpec) -> tuple[FloatArray, int]:
    """Probabilities of the privacy losses of one number, and the first of these in steps; rare ones are left out."""
    reach = reach_of(spec)
    x = np.arange(-reach, reach + 1)
    chances = probabilities(spec, reach)
    loss = (spec.distance(x - 1) - spec.distance(x)) / float(spec.unit * spec.scale)
    used = chances > 1e-15
    steps = np.ceil(loss[used] / _STEP - 1e-9).astype(np.int64)
    distribution: FloatArray = np.bincount(steps - steps.min(), weights=chances[used]).astype(np.float64)
    return distribution, int(steps.min())


def log_likelihood_ratio(values: IntArray, first: IntArray, other: IntArray, spec: NoiseSpec) -> float:
    """The logarithm ln of how much likelier the noisy `values` are if the truth is `first` than if it is `other`."""
    return float((spec.distance(values - other) - spec.distance(values - first)).sum() / float(spec.unit * spec.scale))


def divergence_bounds(left: FloatArray, right: FloatArray, epsilons: Sequence[float], alpha: float) -> list[float]:
    """Lower bounds on delta at each epsilon from the outcomes of runs, the larger of both directions.

    The sets are those of scores above a threshold. If the outcome is one number, it is the logarithm of the likelihood
    ratio, for which the threshold epsilon gives the best set there is. Otherwise a part of the runs chooses the score,
    by linear discriminant analysis, and the threshold, and the rest bounds. Limits are exact (Clopper-Pearson), and all
    bounds together are wrong with probability `alpha` at most.

    Args:
        left: `(runs, numbers)` outcomes of each run on one of the inputs.
        right: the same on the other.
        epsilons: at which delta is bounded.
        alpha: the probability, 0 to 1, that any of the bounds is wrong.
    """
    each = alpha / (4 * len(epsilons))  # two limits in each of two directions
    several = left.shape[1] > 1
    first = rest = left[:, 0], right[:, 0]
    if several:
        choosing = left[::_CHOOSING], right[::_CHOOSING]
        weights = _discriminant(*choosing)
        first = choosing[0] @ weights, choosing[1] @ weights
        kept = [np.delete(scores, np.s_[::_CHOOSING], axis=0) @ weights for scores in (left, right)]
        rest = kept[0], kept[1]
    both = (first, rest), ((-first[1], -first[0]), (-rest[1], -rest[0]))
    return [
        max(
            0.0,
            *(
                _difference(last, _threshold(start, epsilon, each) if several else epsilon, epsilon, each)
                for start, last in both
            ),
        )
        for epsilon in epsilons
    ]


def _discriminant(first: FloatArray, other: FloatArray) -> FloatArray:
    """`(numbers,)` weights whose sum distinguishes the two best, were they normal with one covariance."""
    spread = np.cov(first, rowvar=False) + np.cov(other, rowvar=False)
    weights: FloatArray = np.linalg.pinv(spread, rcond=1e-6) @ (first.mean(axis=0) - other.mean(axis=0))
    return weights


def _threshold(runs: tuple[FloatArray, FloatArray], epsilon: float, alpha: float) -> float:
    candidates = np.unique(np.quantile(np.concatenate(runs), np.linspace(0, 1, _CANDIDATES)))
    return float(max(candidates, key=lambda t: _difference(runs, float(t), epsilon, alpha)))


def _difference(runs: tuple[FloatArray, FloatArray], threshold: float, epsilon: float, alpha: float) -> float:
    """Least P(score > t) - exp(epsilon) times the most Q(score > t)."""
    (hits, n), (false, m) = ((int((scores > threshold).sum()), scores.size) for scores in runs)
    least = float(stats.beta.ppf(alpha, hits, n - hits + 1)) if hits else 0.0
    most = float(stats.beta.ppf(1 - alpha, false + 1, m - false)) if false < m else 1.0
    return least - math.exp(epsilon) * most


_BATCH: Final = 25  # runs of one task

_SPEC: Final = """
name = "audited"
[privacy]
framework = "{framework}"
{budget_name} = "{budget}"
neighbours = "{neighbours}"
key = "insecure-test:0"
[geography]
file = "blocks.csv"
column = "block"
levels = {{ town = 1, block = 2 }}
[schema.attributes]
kind = ["one", "two", "three"]
[strategy.levels]
town = {{ share = "1/2", queries = {{ kind = "1" }} }}
block = {{ share = "1/2", queries = {{ total = "1/2", kind = "1/2" }} }}
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
[publish]
margins = false
microdata = false
unbiased = true
"""
_PEOPLE: Final = (("T1", "one"),) * 40 + (("T2", "two"),) * 30 + (("T2", "one"),) * 20 + (("T1", "three"),) * 10


@dataclass(frozen=True)
class Case:
    """A privacy definition whose claim is audited.

    Attributes:
        budget: rho or epsilon.
        less_noise: the power arm's budget is this many times as large, under the same claim.
    """

    framework: str
    neighbours: str
    budget: Fraction
    less_noise: int

    @property
    def subject(self) -> str:
        """What a finding on this case is about."""
        name = BUDGET_NAMES[self.framework]
        return f"{self.framework}, {self.neighbours}, {name} = {self.budget}"


def write_pair(folder: Path, case: Case, budget: Fraction) -> tuple[Path, Path]:
    """Write two neighbouring inputs and their specs with this budget; returns the specs' paths."""
    specs = []
    # The one who changes is of another block and another kind: every query's answers differ.
    neighbour = (*_PEOPLE[1:], *((("T2", "two"),) if case.neighbours == "change-one" else ()))
    for name, people in (("one", _PEOPLE), ("other", neighbour)):
        place = folder / f"{case.framework}-{case.neighbours}-{budget.numerator}-{budget.denominator}" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "blocks.csv").write_text("block\nT1\nT2\n", encoding="utf-8")
        rows = "".join(f"{block},{kind}\n" for block, kind in people)
        (place / "persons.csv").write_text(f"block,kind\n{rows}", encoding="utf-8")
        path = place / "audited.toml"
        name_of_budget = BUDGET_NAMES[case.framework]
        values = {"framework": case.framework, "neighbours": case.neighbours, "budget": budget}
        path.write_text(_SPEC.format(budget_name=name_of_budget, **values), encoding="utf-8")
        specs.append(path)
    return specs[0], specs[1]


def checked_spec(path: Path) -> CheckedRequest:
    """The spec at a path, checked as for a run."""
    return check_request(Request(path, path.parent, data=None, workers=1))


def scratch() -> str | None:
    """A folder in memory if there is one, since thousands of runs, all of them synthetic, need no disk; else None."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None


@contextmanager
def one_run(checked: CheckedRequest, key: str, *, whole: bool) -> Iterator[Job]:
    """A run in a temporary folder, from its records to measurements or, if `whole`, its release; with a test key."""
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder:
        run = RunDirectory(Path(folder) / "audited")
        make_run_folders(run)
        public = open_listed(checked.spec, checked.universes)
        job = public.job(run, Workers(1), Silent())
        holder = RecordHolder(KeySource(), key)
        holder.begin(job)
        source = Records(job, holder, None)
        perform_steps(job, [*source.counting(), *source.charging(), *source.drawing()])
        if whole:
            perform_public_steps(job, source.drawing_between())
        yield job


@dataclass(frozen=True, eq=False)
class ExpectedMeasurement:
    """A measurement that the spec calls for, with the noise that its fractions give."""

    level: str
    query: Query
    noise: NoiseSpec
    path: Path


def expected_of(universe: Universe, run: RunDirectory) -> Iterator[ExpectedMeasurement]:
    """Every measurement of a release's only universe, by the formula in docs/privacy.md, not by the code that measures.

    A record that changes moves two answers of a query at a level by one each, and one that is added or removed moves
    one. So sigma^2 = D / (2 rho) with D = 2 or 1, and b = D / epsilon, rho or epsilon being the total times the level's
    and the query's share.
    """
    moved = {"change-one": 2, "add-remove": 1}[universe.neighbours]
    for level in universe.strategy.levels:
        for one in level.queries:
            cost = universe.own_budget * level.share * one.share
            zcdp = universe.framework == "zcdp"
            noise = DiscreteGaussian(Fraction(moved, 2) / cost) if zcdp else DiscreteLaplace(moved / cost)
            yield ExpectedMeasurement(level.level, one.query, noise, run.main.measurement(level.level, one.query.name))


def claimed_noises(spec: Path) -> list[NoiseSpec]:
    """The noise that a spec states of each of its measurements, in the order of `expected_of`."""
    checked = checked_spec(spec)
    return [expected.noise for expected in expected_of(checked.universes[0], checked.run)]


def residuals_of(job: Job) -> IntArray:
    """`(n,)`: everything that was added to true answers, in a fixed order."""
    residuals = []
    (universe,) = job.universes
    for expected in expected_of(universe, job.run):
        truth = expected.query.answer_csr(true_histogram(job, universe, expected.level))
        residuals.append((read_measurement(job.readable(expected.path)).values - truth).ravel())
    return np.concatenate(residuals)


def outcomes_of(
    pair: tuple[Path, Path], claimed: tuple[Path, Path], runs: int, seed: int, workers: Workers, *, whole: bool
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The outcomes of runs on each input of `pair`, weighed by the noise that the specs `claimed` state.

    Returns:
        stage -> `(runs, numbers)` of each input; a single number is the logarithm of the likelihood ratio. The stages
        are the measurements and, if `whole`, the unbiased estimates and the release.
    """
    firsts = range(0, runs, _BATCH)
    tasks = [
        Trials(spec, claimed, seed * 10**8 + number * 10**7 + first, min(_BATCH, runs - first), whole)
        for number, spec in enumerate(pair)
        for first in firsts
    ]
    parts = list(workers.run(run_trials, tasks))
    own, neighbouring = np.concatenate(parts[: len(firsts)]), np.concatenate(parts[len(firsts) :])
    columns = {"measurements": slice(1)}
    if whole:
        cells = (own.shape[1] - 1) // 2
        columns |= {"estimates": slice(1, 1 + cells), "release": slice(1 + cells, None)}
    return {stage: (own[:, some], neighbouring[:, some]) for stage, some in columns.items()}


@dataclass(frozen=True)
class Trials:
    """`count` runs of a spec, with the test keys from number `first` on."""

    spec: Path
    claimed: tuple[Path, Path]
    first: int
    count: int
    whole: bool


def run_trials(trials: Trials) -> FloatArray:
    """The numbers of each run, `(count, 1)` or, if `trials.whole`, `(count, 1 + 2 n_cells)`.

    The first is the logarithm of the likelihood ratio of its measurements, which no score beats. All estimates of the
    leaves' cells follow, and then all their released counts.
    """
    checked = checked_spec(trials.spec)
    own, neighbouring = (_levels(checked_spec(path)) for path in trials.claimed)
    claimed = claimed_noises(trials.claimed[0])
    scores = []
    for number in range(trials.first, trials.first + trials.count):
        with threadpool_limits(1), one_run(checked, f"insecure-test:{number}", whole=trials.whole) as job:
            ratio = 0.0
            for expected, noise in zip(expected_of(job.universes[0], job.run), claimed, strict=True):
                level, query = job.spine.index_of(expected.level), expected.query
                values = read_measurement(job.readable(expected.path)).values
                truths = query.answer_csr(own[level]), query.answer_csr(neighbouring[level])
                ratio += log_likelihood_ratio(values, *truths, noise)
            outcome = [np.array([ratio])]
            if trials.whole:
                released = Estimation(job, job.universes[0]).released(job.spine.n_levels - 1).toarray()
                path = job.folder(job.universes[0]).estimates(job.spine.leaf_level.name)
                estimates = pq.read_table(local_name(path), columns=["kind"]).column("kind").to_pylist()
                outcome += [np.array(estimates, dtype=np.float64).ravel(), released.ravel()]
            scores.append(np.concatenate(outcome))
    return np.array(scores)


def _levels(checked: CheckedRequest) -> list[sp.csr_array]:
    """The true histogram of each level."""
    spine = read_spine(checked.spec.geography)
    (universe,) = checked.universes
    return roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
