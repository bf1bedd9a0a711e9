"""Many runs of two neighbouring inputs, each with its own key, and a score of each that distinguishes the inputs."""

from __future__ import annotations

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
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from features.audit.divergence import LowerBound, divergence_bounds, log_likelihood_ratio
from features.audit.release_reading import Expected, expected_measurements
from pipeline.confidential.measure import true_histogram
from pipeline.confidential.parts import installed_parts
from pipeline.confidential.steps import ConfidentialSteps
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.job import Job
from pipeline.execution.perform import perform_steps
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.steps import perform_public_steps
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.run_directory import make_run_folders
from pipeline.runs.open_public import open_listed
from pipeline.runs.request import CheckedRequest, Request, check_request
from pipeline.storage.local_name import local_name

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
        name = "rho" if self.framework == "zcdp" else "epsilon"
        return f"{self.framework}, {self.neighbours}, {name} = {self.budget}"


def write_pair(folder: Path, case: Case, budget: Fraction) -> tuple[Path, Path]:
    """Write two neighbouring inputs and their specs with this budget; returns the specs' paths."""
    specs = []
    for name, people in (("one", _PEOPLE), ("other", _neighbour(case))):
        place = folder / f"{case.framework}-{case.neighbours}-{budget.numerator}-{budget.denominator}" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "blocks.csv").write_text("block\nT1\nT2\n", encoding="utf-8")
        rows = "".join(f"{block},{kind}\n" for block, kind in people)
        (place / "persons.csv").write_text(f"block,kind\n{rows}", encoding="utf-8")
        path = place / "audited.toml"
        name_of_budget = "rho" if case.framework == "zcdp" else "epsilon"
        values = {"framework": case.framework, "neighbours": case.neighbours, "budget": budget}
        path.write_text(_SPEC.format(budget_name=name_of_budget, **values), encoding="utf-8")
        specs.append(path)
    return specs[0], specs[1]


def _neighbour(case: Case) -> Sequence[tuple[str, str]]:
    if case.neighbours == "change-one":
        return (*_PEOPLE[1:], ("T2", "two"))  # of another block and another kind: every query's answers differ
    return _PEOPLE[1:]


def checked_spec(path: Path) -> CheckedRequest:
    """The spec at a path, checked as for a run."""
    return check_request(Request(path, path.parent, data=None, workers=1))


def scratch() -> str | None:
    """A folder in memory if there is one, since thousands of runs, all of them synthetic, need no disk; else None."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None


@contextmanager
def one_run(checked: CheckedRequest, key: MasterKey, *, whole: bool) -> Iterator[Job]:
    """A run in a temporary folder, from its records to its measurements, or to its release if `whole`."""
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder:
        run = RunDirectory(Path(folder) / "audited")
        make_run_folders(run)
        public = open_listed(checked.spec, checked.universes)
        job = public.job(run, Workers(1), Silent())
        confidential = ConfidentialSteps(job, key, installed_parts())
        perform_steps(job, [*confidential.counting(), *confidential.measuring()])
        if whole:
            perform_public_steps(job, last=False, between=confidential.measuring_positive())
        yield job


def expected_of(checked: CheckedRequest, run: RunDirectory | None = None) -> list[Expected]:
    """The measurements that a spec calls for, with the noise that it states."""
    return list(expected_measurements(run or checked.run, checked.universes))


def residuals_of(job: Job) -> NDArray[np.int64]:
    """`(n,)`: everything that was added to true answers, in a fixed order."""
    residuals = []
    for expected in expected_measurements(job.run, job.universes):
        truth = expected.query.answer_csr(true_histogram(job, expected.universe, expected.level))
        residuals.append((read_measurement(job.readable(expected.path)).values - truth).ravel())
    return np.concatenate(residuals)


def outcomes_of(
    pair: tuple[Path, Path], claimed: tuple[Path, Path], runs: int, seed: int, workers: Workers, *, whole: bool
) -> list[Outcomes]:
    """The outcomes of runs on each input of `pair`, weighed by the noise that the specs `claimed` state.

    They are those of the measurements and, if `whole`, of the unbiased estimates and the release.
    """
    firsts = range(0, runs, _BATCH)
    tasks = [
        Trials(spec, claimed, seed * 10**8 + number * 10**7 + first, min(_BATCH, runs - first), whole)
        for number, spec in enumerate(pair)
        for first in firsts
    ]
    parts = list(workers.run(run_trials, tasks))
    own, neighbouring = np.concatenate(parts[: len(firsts)]), np.concatenate(parts[len(firsts) :])
    outcomes = [Outcomes("measurements", own[:, :1], neighbouring[:, :1])]
    if whole:
        cells = (own.shape[1] - 1) // 2
        for stage, columns in (("estimates", np.s_[1 : 1 + cells]), ("release", np.s_[1 + cells :])):
            outcomes.append(Outcomes(stage, own[:, columns], neighbouring[:, columns]))
    return outcomes


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of runs on two inputs at a stage.

    Attributes:
        stage: such as "measurements".
        one, other: `(runs, numbers)`; a single number is the logarithm of the likelihood ratio.
    """

    stage: str
    one: NDArray[np.float64]
    other: NDArray[np.float64]

    def bounds(self, epsilons: Sequence[float], alpha: float) -> list[LowerBound]:
        """Lower bounds on delta at each epsilon."""
        return divergence_bounds(self.one, self.other, epsilons, alpha)


@dataclass(frozen=True)
class Trials:
    """`count` runs of a spec, with the test keys from number `first` on."""

    spec: Path
    claimed: tuple[Path, Path]
    first: int
    count: int
    whole: bool


def run_trials(trials: Trials) -> NDArray[np.float64]:
    """The numbers of each run, `(count, 1)` or, if `trials.whole`, `(count, 1 + 2 n_cells)`.

    The first is the logarithm of the likelihood ratio of its measurements, which no score beats. All estimates of the
    leaves' cells follow, and then all their released counts.
    """
    with threadpool_limits(1):
        return _scores(trials)


def _scores(trials: Trials) -> NDArray[np.float64]:
    checked = checked_spec(trials.spec)
    own, neighbouring = (_levels(checked_spec(path)) for path in trials.claimed)
    claimed = {expected.name: expected for expected in expected_of(checked_spec(trials.claimed[0]))}
    scores = []
    for number in range(trials.first, trials.first + trials.count):
        key = MasterKey.from_text(f"insecure-test:{number}")
        with one_run(checked, key, whole=trials.whole) as job:
            ratio = 0.0
            for expected in expected_of(checked, job.run):
                level, query = job.spine.index_of(expected.level), expected.query
                values = read_measurement(job.readable(expected.path)).values
                truths = query.answer_csr(own[level]), query.answer_csr(neighbouring[level])
                ratio += log_likelihood_ratio(values, *truths, claimed[expected.name].noise)
            outcome = [np.array([ratio])]
            if trials.whole:
                released = Estimation(job, job.universes[0]).released(job.spine.n_levels - 1).toarray()
                outcome += [_estimated(job).ravel(), released.ravel()]
            scores.append(np.concatenate(outcome))
    return np.array(scores)


def _levels(checked: CheckedRequest) -> list[sp.csr_array]:
    """The true histogram of each level."""
    spine = read_spine(checked.spec.geography)
    (universe,) = checked.universes
    return roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))


def _estimated(job: Job) -> NDArray[np.float64]:
    """Unbiased estimates of the leaves' cells `(n, n_cells)`."""
    path = job.folder(job.universes[0]).estimates(job.spine.leaf_level.name)
    return np.array(pq.read_table(local_name(path), columns=["kind"]).column("kind").to_pylist(), dtype=np.float64)
