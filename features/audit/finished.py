"""The audit of a finished release, or of an answer to a question, with its restricted/ folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from auditor.answers.kept import Answer
from auditor.program import left_out
from auditor.reading.errors import FormError
from features.audit.collected import FindingReporter, collected, installed_versions
from features.audit.findings import Audit, certain
from features.audit.independent import attack_findings, independent_findings
from features.audit.release_noise import noise_findings
from features.audit.release_reading import open_audited
from pipeline.confidential.custody import KeySource, key_of_answer, key_of_release
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
from pipeline.execution.settings import load_settings
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer
from pipeline.runs.verify import verify_release


def audit_release(
    run: RunDirectory, source: KeySource, ledger: str | None, workers: int, report: FindingReporter
) -> Audit:
    """Audit a finished release with its restricted/ folder.

    Args:
        run: the release.
        source: of its key, where the run did not keep it. Without a key the noise is tested by its distribution alone.
        ledger: the ledger that was charged; None if none was.
        workers: number of processes.
        report: called with each finding.

    Raises:
        InputError: there is no finished release, its true counts were not kept, or the key is a different one.
    """
    release = open_audited(run.root)
    for universe in release.universes:
        if reason := universe.source.refusal("audit"):
            raise InputError(f"{run.root}: {reason}")
    if release.spec.update is not None:
        names = ", ".join(added.name for added in release.spec.update.answers)
        and_answers = f" and the answers ({names}), each" if names else ","
        raise InputError(
            f"{run.root}: is a version of noise that was drawn before: audit the release that it replaces"
            f"{and_answers} in the directory in which it was made, and verify this version"
        )
    if not run.restricted.is_dir():
        raise InputError(f"{run.root}: has no restricted/ folder; without the true counts there is nothing to audit")
    has_key = source != KeySource() or run.key.exists()
    key = key_of_release(run, source) if has_key else None
    if ledger is not None:
        _check_ledger(ledger, key)
    findings = collected(noise_findings(release, key), report)
    findings += collected(independent_findings(run.root, source.file, ledger), report)
    problems = verify_release(run, workers, Silent())
    findings += collected(
        [certain("release", "verified", "public/", problems, well="follows from the measurements")], report
    )
    about = installed_versions() | {
        "release": release.spec.name,
        "key": "given" if key is not None else "not given",
        "ledger": "not compared; give --ledger" if ledger is None else "compared",
        **left_out(run.root, key=has_key, ledger=ledger is not None),
        "for": "the agency alone: computed from true counts",
    }
    if ledger is None and not any(universe.dataset for universe in release.universes):
        about["ledger"] = "none: the spec names no dataset"
    title = f"Audit of the release {release.spec.name}"
    return Audit(title, tuple(findings), about, release.spec.report.language)


def with_attacks(audit: Audit, run: RunDirectory, folder: Path, report: FindingReporter) -> Audit:
    """The audit, and what attacks on the release achieved; their figures go to `folder` as well, closed to others.

    Raises:
        InputError: there are no true counts to compare guesses with.
    """
    found = collected(attack_findings(run.root, folder), report)
    return replace(audit, findings=(*audit.findings, *found))


def _check_ledger(url: str, key: MasterKey | None) -> None:
    """InputError where there is no such ledger, or no key, without which the charges cannot be identified."""
    if key is None:
        raise InputError("--ledger: the release's charges can be found only with its key, which is not given")
    with Ledger.open(url, state=load_settings().state):
        pass


def audit_answer(run: RunDirectory, source: KeySource, ledger: str | None, report: FindingReporter) -> Audit:
    """Audit an answer with its restricted/ folder, by the second program, and verify it.

    Args:
        run: the answer.
        source: of its key, where the answer did not keep it. Without one the noise is tested by its distribution alone.
        ledger: the ledger that was charged; None to compare with none.
        report: called with each finding.

    Raises:
        InputError: its true counts were not kept, or the key is a different one.
    """
    manifest = read_answer(run)
    if not run.restricted.is_dir():
        raise InputError(f"{run.root}: has no restricted/ folder; without the true counts there is nothing to audit")
    try:
        Answer(run.root)
    except FormError as error:
        raise InputError(str(error)) from None
    has_key = source != KeySource() or run.key.exists()
    if has_key:
        key_of_answer(run, source.read())
    if ledger is not None and not has_key:
        raise InputError("--ledger: the answer's charges can be found only with its key, which is not given")
    findings = collected(independent_findings(run.root, source.file, ledger), report)
    problems = verify_answer(run)
    findings += collected(
        [certain("answer", "verified", "public/", problems, well="follows from the measurements")], report
    )
    about = installed_versions() | {
        "answer": manifest.answer,
        "question": manifest.question,
        "key": "given" if has_key else "not given",
        "ledger": "not compared; give --ledger" if ledger is None else "compared",
        **left_out(run.root, key=has_key, ledger=ledger is not None),
        "for": "the agency alone: computed from true counts",
    }
    return Audit(f"Audit of the answer {manifest.answer}", tuple(findings), about)
