"""An audit of the pipeline from end to end: can neighbouring inputs be told apart better than is claimed?

A town of two blocks is run many times from its records to its release, each time with another key, and so is its
neighbour, in which one person is another one. How well outcomes tell the two apart is bounded from below
(`pipeline.audit.divergence`) at the measurements, at the unbiased estimates and at the release. The bound has to stay
under the claim; and as a power arm, runs with half the noise have to break it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

from flows.audits.trials import Case, checked_spec, expected_of, one_run, outcomes_of, residuals_of, scratch, write_pair
from flows.execution.workers import Workers
from pipeline.audit.divergence import claimed_delta
from pipeline.audit.findings import ALPHA, Finding, certain
from pipeline.privacy.keys import MasterKey

__all__ = ["CASES", "case_findings", "pipeline_findings", "reuse_finding"]

#: Where claims are compared with what is found.
EPSILONS: Final = (0.5, 1.0, 2.0)

#: Four times the rho, or twice the epsilon, is half the noise.
CASES: Final = (
    Case("zcdp", "change-one", Fraction(2), 4),
    Case("zcdp", "add-remove", Fraction(2), 4),
    Case("pure", "change-one", Fraction(3), 2),
)


def pipeline_findings(measured: int, whole: int, seed: int, workers: Workers) -> Iterator[Finding]:
    """Audit the measuring stage, the estimates and the release.

    Args:
        measured: runs of the measuring stage, for each input, case and arm.
        whole: runs to the release, for each input and arm of the first case; 0 for a short audit, of one case alone.
        seed: of the public test keys.
    """
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder:
        for case in CASES if whole else CASES[:1]:
            yield from case_findings(Path(folder), case, measured, seed, workers, whole=False)
        if whole:
            yield from case_findings(Path(folder), CASES[0], whole, seed + 1, workers, whole=True)
        yield reuse_finding(Path(folder), seed)


def case_findings(
    folder: Path, case: Case, runs: int, seed: int, workers: Workers, *, whole: bool
) -> Iterator[Finding]:
    """Compare the divergence that is found with the one claimed, at the measurements or, if `whole`, at every stage."""
    pair = write_pair(folder, case, case.budget)
    less = write_pair(folder, case, case.budget * case.less_noise)
    sound = outcomes_of(pair, pair, runs, seed, workers, whole=whole)
    faulty = outcomes_of(less, pair, runs, seed, workers, whole=whole)
    moved = 2 if case.neighbours == "change-one" else 1
    claims = claimed_delta([(one.noise, moved) for one in expected_of(checked_spec(pair[0]))], EPSILONS)
    for right, wrong in zip(sound, faulty, strict=True):
        bounds, broken = right.bounds(EPSILONS, ALPHA), wrong.bounds(EPSILONS, ALPHA)
        compared = list(zip(bounds, broken, claims, strict=True))
        problems = [
            f"at epsilon {bound.epsilon:g} delta is at least {bound.delta:.3f}, claimed is {claim:.3f}"
            for bound, _, claim in compared
            if bound.delta > claim
        ]
        if not any(fault.delta > claim for _, fault, claim in compared):
            problems.append("half the noise is not noticed")
        told = ", ".join(
            f"{bound.delta:.3f} at epsilon {bound.epsilon:g} (claimed {claim:.3f}, half the noise {fault.delta:.3f})"
            for bound, fault, claim in compared
        )
        nearest = max(compared, key=lambda found: found[0].delta / found[2])
        detail = "; ".join([*problems, f"delta is at least {told}; {runs} runs of each input"])
        check = f"divergence at the {right.stage}"
        yield Finding("pipeline", check, case.subject, not problems, nearest[0].delta, nearest[2], detail)


def reuse_finding(folder: Path, seed: int) -> Finding:
    """One key must draw other noise for other records, and the same for the same."""
    case = CASES[0]
    one, other = write_pair(folder, case, case.budget)
    same, repeated, runs = 0.0, True, 4
    for number in range(runs):
        key = MasterKey.from_text(f"insecure-test:{seed + number}")
        noise = []
        for spec in (one, one, other):
            with one_run(checked_spec(spec), key, whole=False) as job:
                noise.append(residuals_of(job))
        repeated &= bool((noise[0] == noise[1]).all())
        same += float((noise[0] == noise[2]).mean()) / runs
    problems = [] if repeated else ["the same records meet other noise under one key"]
    if same > 0.75:
        problems.append(f"neighbouring records meet the same noise under one key in {same:.0%} of places")
    return certain("pipeline", "key and records", case.subject, problems, well="other records, other noise, one key")
