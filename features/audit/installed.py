"""The audit of the installed software: samplers, streams, and the pipeline from end to end.

The end-to-end question: can neighbouring inputs be distinguished better than is claimed? A town of two blocks is run
many times from its records to its release, each time with another key, and so is its neighbour, in which one person
differs. How well the outcomes distinguish the two is bounded from below (`features.audit.trials`) at the
measurements, at the unbiased estimates and at the release. The bound has to stay below the claim; as a power arm, runs
with half the noise have to exceed it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

from features.audit.findings import (
    ALPHA,
    Audit,
    Finding,
    FindingReporter,
    certain,
    collected,
    installed_versions,
    statistical,
)
from features.audit.questions_asked import question_findings
from features.audit.report import write_audit
from features.audit.samplers import FULL, QUICK, sampler_findings
from features.audit.second_opinion import second_findings
from features.audit.streams import stream_findings
from features.audit.trials import (
    Case,
    checked_spec,
    claimed_delta,
    claimed_noises,
    divergence_bounds,
    one_run,
    outcomes_of,
    residuals_of,
    scratch,
    write_pair,
)
from features.audit.units import unit_findings
from features.audit.whole_trial import whole_findings
from pipeline.execution.workers import Workers
from pipeline.spec.slots import installed_slots

#: Runs of the measuring stage and of whole releases, full and quick.
_RUNS = ((1500, 700), (300, 0))


#: Where claims are compared with measured divergences.
EPSILONS: Final = (0.5, 1.0, 2.0)

#: Four times the rho, or twice the epsilon, is half the noise.
CASES: Final = (
    Case("zcdp", "change-one", Fraction(2), 4),
    Case("zcdp", "add-remove", Fraction(2), 4),
    Case("pure", "change-one", Fraction(3), 2),
)


def audit_installed(*, quick: bool, seed: int, workers: int, report: FindingReporter) -> Audit:
    """Test the installed samplers, streams and pipeline, with public test keys; nothing confidential is touched.

    Args:
        quick: take about half a minute instead of several: fewer scales, and the measuring stage of one case alone.
        seed: the same seed and versions give the same findings.
        workers: number of processes.
        report: called with each finding.
    """
    extent, (measured, released) = (QUICK, _RUNS[1]) if quick else (FULL, _RUNS[0])
    findings = collected(
        report,
        stream_findings(seed),
        sampler_findings(extent, seed),
        randomiser_findings(seed),
        second_findings(quick=quick, seed=seed),
        whole_findings(quick=quick),
        question_findings(quick=quick, seed=seed),
        unit_findings(seed),
        pipeline_findings(measured, released, seed, workers),
    )
    about = installed_versions() | {
        "extent": "quick" if quick else "full",
        "seed": str(seed),
        "draws of each distribution": f"{extent.draws:,}",
        "runs of the measuring stage": f"{measured:,} of each input, case and arm",
        "runs to the release": f"{released:,} of each input and arm",
    }
    return Audit("Audit of the installed Spinewise", findings, about)


def audit_to(folder: Path, *, quick: bool, seed: int, workers: int) -> tuple[Audit, Path]:
    """The same with its reports, as a flow of Prefect performs it, which finds this module by name.

    Args:
        folder: where the reports are written; it is made.

    Returns:
        what was found, and the page that shows it.
    """
    audit = audit_installed(quick=quick, seed=seed, workers=workers, report=lambda _: None)
    html, _ = write_audit(audit, folder)
    return audit, html


def audit_page(result: Audit, html: Path) -> str:
    """Markdown with the verdict and what failed; an audit of what is installed sees nothing confidential."""
    verdict = "passed" if result.passed else f"{len(result.failed)} of {len(result.findings)} checks FAILED"
    lines = [f"# {result.title}", "", f"{verdict}; [the report]({html.resolve().as_uri()}): `{html.resolve()}`", ""]
    lines += [f"- {finding.group}: {finding.check}, {finding.subject}: {finding.detail}" for finding in result.failed]
    return "\n".join(lines) + "\n"


def pipeline_findings(measured: int, released: int, seed: int, workers: int) -> Iterator[Finding]:
    """Audit the measuring stage, the estimates and the release.

    Args:
        measured: runs of the measuring stage, for each input, case and arm.
        released: runs to the release, for each input and arm of the first case; 0 for a short audit, of one case alone.
        seed: of the public test keys.
        workers: number of processes that perform the runs.
    """
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder, Workers(workers) as pool:
        for case in CASES if released else CASES[:1]:
            yield from case_findings(Path(folder), case, measured, seed, pool, whole=False)
        if released:
            yield from case_findings(Path(folder), CASES[0], released, seed + 1, pool, whole=True)
        yield reuse_finding(Path(folder), seed)


def case_findings(
    folder: Path, case: Case, runs: int, seed: int, workers: Workers, *, whole: bool
) -> Iterator[Finding]:
    """Compare the measured divergence with the claimed one, at the measurements or, if `whole`, at every stage."""
    pair = write_pair(folder, case, case.budget)
    less = write_pair(folder, case, case.budget * case.less_noise)
    sound = outcomes_of(pair, pair, runs, seed, workers, whole=whole)
    faulty = outcomes_of(less, pair, runs, seed, workers, whole=whole)
    moved = 2 if case.neighbours == "change-one" else 1
    claims = claimed_delta([(noise, moved) for noise in claimed_noises(pair[0])], EPSILONS)
    for stage, outcomes in sound.items():
        bounds, broken = (divergence_bounds(*both, EPSILONS, ALPHA) for both in (outcomes, faulty[stage]))
        compared = list(zip(EPSILONS, bounds, broken, claims, strict=True))
        problems = [
            f"at epsilon {epsilon:g} delta is at least {delta:.3f}, and {claim:.3f} is claimed"
            for epsilon, delta, _, claim in compared
            if delta > claim
        ]
        if not any(fault > claim for _, _, fault, claim in compared):
            problems.append("half the noise is not detected")
        summary = ", ".join(
            f"{delta:.3f} at epsilon {epsilon:g} (claimed {claim:.3f}, half the noise {fault:.3f})"
            for epsilon, delta, fault, claim in compared
        )
        _, least, _, claimed = max(compared, key=lambda entry: entry[1] / entry[3])
        detail = "; ".join([*problems, f"delta is at least {summary}; {runs} runs of each input"])
        yield Finding("pipeline", f"divergence at the {stage}", case.subject, not problems, least, claimed, detail)


def reuse_finding(folder: Path, seed: int) -> Finding:
    """One key must draw different noise for different records, and the same noise for the same records."""
    case = CASES[0]
    own, neighbour = write_pair(folder, case, case.budget)
    same, repeated, runs = 0.0, True, 4
    for number in range(runs):
        noise = []
        for spec in (own, own, neighbour):
            with one_run(checked_spec(spec), f"insecure-test:{seed + number}", whole=False) as job:
                noise.append(residuals_of(job))
        repeated &= bool((noise[0] == noise[1]).all())
        same += float((noise[0] == noise[2]).mean()) / runs
    problems = [] if repeated else ["the same records get different noise under one key"]
    if same > 0.75:
        problems.append(f"neighbouring records get the same noise under one key in {same:.0%} of places")
    well = "different records get different noise under one key"
    return certain("pipeline", "key and records", case.subject, problems, well=well)


_GROUP = "randomisers"


def randomiser_findings(seed: int) -> Iterator[Finding]:
    """Test every installed randomiser: what is drawn, and the bound that is stated.

    Args:
        seed: of the public test key that the reports are drawn with; the same gives the same findings.
    """
    for keys in installed_slots().features:
        for one in keys.randomiser_trials(seed):
            yield certain(_GROUP, **one) if "problems" in one else statistical(_GROUP, **one)
