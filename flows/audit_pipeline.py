"""An audit of the pipeline from end to end: can neighbouring inputs be told apart better than is claimed?

A town of two blocks is run many times from its records to its release, each time with another key, and so is its
neighbour, in which one person is another one. How well outcomes tell the two apart is bounded from below
(`pipeline.audit.divergence`) at the measurements, at the unbiased estimates and at the release. The bound has to stay
under the claim; and as a power arm, runs with too little noise have to break it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flows.inputs import read_spine
from flows.job import Job
from flows.request import CheckedRequest, Request, check_request
from flows.rerun import without_charge
from flows.stages import Records, perform_steps, public_steps
from flows.steps import Silent
from flows.workers import Workers
from geography.spine import Spine
from pipeline.audit.divergence import claimed_delta, divergence_bounds, log_likelihood_ratio
from pipeline.audit.findings import ALPHA, Finding, certain
from pipeline.audit.release_reading import Expected, FinishedRelease, expected_measurements
from pipeline.files import make_folder, make_restricted
from pipeline.histograms import read_histogram
from pipeline.layout import RunDirectory
from pipeline.measurements import read_measurement
from pipeline.privacy.keys import MasterKey
from pipeline.query import Query
from pipeline.universe import Universe

#: Where claims are compared with what is found.
EPSILONS: Final = (0.5, 1.0, 2.0)
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
        name = "rho" if self.framework == "zcdp" else "epsilon"
        return f"{self.framework}, {self.neighbours}, {name} = {self.budget}"


#: Four times the rho, or twice the epsilon, is half the noise.
CASES: Final = (
    Case("zcdp", "change-one", Fraction(2), 4),
    Case("zcdp", "add-remove", Fraction(1), 4),
    Case("pure", "change-one", Fraction(3), 2),
)


@dataclass(frozen=True)
class _Task:
    """Runs of one input: `count` keys from `first` on. Only paths and public numbers, so it can be handed on."""

    spec: str
    claimed: str
    other: str
    first: int
    count: int
    whole: bool


def pipeline_findings(measured: int, whole: int, seed: int, workers: Workers) -> Iterator[Finding]:
    """Audit the measuring stage, the estimates and the release.

    Args:
        measured: runs of the measuring stage, for each input, case and arm.
        whole: runs to the release, for each input and arm of the first case.
        seed: of the public test keys.
    """
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-") as folder:
        for case in CASES:
            yield from _case_findings(case, Path(folder), measured, seed, workers, whole=False)
        yield from _case_findings(CASES[0], Path(folder), whole, seed + 1, workers, whole=True)
        yield _reuse_finding(Path(folder), seed)


def _case_findings(
    case: Case, folder: Path, runs: int, seed: int, workers: Workers, *, whole: bool
) -> Iterator[Finding]:
    pair = _write_pair(folder, case, case.budget)
    scores = _scores(pair, pair[0], runs, seed, workers, whole=whole)
    faulty = _scores(
        _write_pair(folder, case, case.budget * case.less_noise), pair[0], runs, seed, workers, whole=whole
    )
    moved = 2 if case.neighbours == "change-one" else 1
    claims = claimed_delta([(one.noise, moved) for one in _expected(_checked(pair[0]))], EPSILONS)
    stages = ("measurements", "estimates", "release") if whole else ("measurements",)
    for number, stage in enumerate(stages):
        bounds = divergence_bounds(scores[0][:, number], scores[1][:, number], EPSILONS, ALPHA)
        broken = divergence_bounds(faulty[0][:, number], faulty[1][:, number], EPSILONS, ALPHA)
        noticed = any(bound.delta > claim for bound, claim in zip(broken, claims, strict=True))
        within = all(bound.delta <= claim for bound, claim in zip(bounds, claims, strict=True))
        nearest = max(zip(bounds, claims, strict=True), key=lambda pair: pair[0].delta - pair[1])
        told = ", ".join(
            f"epsilon {b.epsilon:g}: delta at least {b.delta:.3f}, with half the noise {f.delta:.3f}, claimed {c:.3f}"
            for b, f, c in zip(bounds, broken, claims, strict=True)
        )
        blind = "" if noticed else "half the noise is not noticed; "
        yield Finding(
            "pipeline", f"divergence at the {stage}", case.subject, within and noticed, nearest[0].delta, nearest[1],
            f"{blind}{told}; {runs} runs of each input",
        )  # fmt: skip


def _reuse_finding(folder: Path, seed: int) -> Finding:
    """One key on two inputs must not draw one noise, and on one input must."""
    case = CASES[0]
    pair = _write_pair(folder, case, case.budget)
    problems = []
    noise = []
    for spec in (*pair, pair[0]):
        drawn = []
        for number in range(5):
            with _one_run(_checked(spec), MasterKey.from_text(f"insecure-test:{seed + number}"), whole=False) as job:
                for one, values in _measured(job):
                    drawn.append(values - one.query.answer_csr(_truth(job, one.level)))
        noise.append(np.concatenate([values.ravel() for values in drawn]))
    same = float((noise[0] == noise[1]).mean())
    if same > 0.7:
        problems.append(f"neighbouring inputs meet the same noise under one key in {same:.0%} of places")
    if not np.array_equal(noise[0], noise[2]):
        problems.append("one input meets other noise under one key")
    return certain("pipeline", "key and input", case.subject, problems, well="other noise for other records, one key")


def _write_pair(folder: Path, case: Case, budget: Fraction) -> tuple[Path, Path]:
    """The specs of two neighbouring inputs."""
    specs = []
    for name, people in (("one", _PEOPLE), ("other", _neighbour(case))):
        place = folder / f"{case.framework}-{case.neighbours}-{budget.numerator}-{budget.denominator}" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "blocks.csv").write_text("block\nT1\nT2\n", encoding="utf-8")
        rows = "".join(f"{block},{kind}\n" for block, kind in people)
        (place / "persons.csv").write_text(f"block,kind\n{rows}", encoding="utf-8")
        name_of_budget = "rho" if case.framework == "zcdp" else "epsilon"
        text = _SPEC.format(
            framework=case.framework, budget_name=name_of_budget, budget=budget, neighbours=case.neighbours
        )
        (place / "audited.toml").write_text(text, encoding="utf-8")
        specs.append(place / "audited.toml")
    return specs[0], specs[1]


def _neighbour(case: Case) -> Sequence[tuple[str, str]]:
    if case.neighbours == "change-one":
        return (*_PEOPLE[1:], ("T2", "two"))  # in another block, of another kind: every query notices
    return _PEOPLE[1:]


def _scores(
    pair: tuple[Path, Path], claimed: Path, runs: int, seed: int, workers: Workers, *, whole: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`(runs, stages)` scores of runs on each input of `pair`, which are weighed as `claimed` says."""
    tasks = [
        _Task(
            str(spec),
            str(claimed),
            str(pair[1]),
            seed * 10**8 + number * 10**7 + first,
            min(_BATCH, runs - first),
            whole,
        )
        for number, spec in enumerate(pair)
        for first in range(0, runs, _BATCH)
    ]
    parts = list(workers.run(run_batch, tasks))
    half = len(parts) // 2
    return np.concatenate(parts[:half]), np.concatenate(parts[half:])


def run_batch(task: _Task) -> NDArray[np.float64]:
    """`(count, stages)` scores of runs; larger ones are more typical of the first input."""
    checked = _checked(Path(task.spec))
    claimed = {one.name: one for one in _expected(_checked(Path(task.claimed)))}
    truths = [_counts(_checked(Path(path))) for path in (task.claimed, task.other)]
    direction = (truths[0][-1] - truths[1][-1]).astype(np.float64)
    found = []
    for number in range(task.first, task.first + task.count):
        with _one_run(checked, MasterKey.from_text(f"insecure-test:{number}"), whole=task.whole) as job:
            scores = [
                sum(
                    log_likelihood_ratio(
                        values,
                        _answers(one.query, truths[0][job.spine.index_of(one.level)]),
                        _answers(one.query, truths[1][job.spine.index_of(one.level)]),
                        claimed[one.name].noise,
                    )
                    for one, values in _measured(job)
                )
            ]
            if task.whole:
                scores += [float((direction * _estimated(job)).sum()), float((direction * _released(job)).sum())]
            found.append(scores)
    return np.array(found)


class _one_run:  # noqa: N801 - used as a function
    """The job of one run in a temporary folder, as a context: from records to measurements, or to the release."""

    def __init__(self, checked: CheckedRequest, key: MasterKey, *, whole: bool) -> None:
        self._checked = checked
        self._key = key
        self._whole = whole

    def __enter__(self) -> Job:
        self._folder = Path(tempfile.mkdtemp(prefix="spinewise-audit-"))
        run = RunDirectory(self._folder / "audited")
        make_folder(run.public)
        make_restricted(run.restricted)
        make_restricted(run.staging)
        spine = _spine(self._checked)
        job = Job(run, self._checked.spec, self._checked.universes, spine, Workers(1), Silent())
        records = Records(job, self._key, {one.name: [] for one in job.universes})
        with threadpool_limits(1):
            perform_steps(job, without_charge([*records.before_measuring(), *records.measuring()]))
            if self._whole:
                perform_steps(job, public_steps(job))
        return job

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)
