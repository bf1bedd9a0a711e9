"""The audit of an answer to a question, with its restricted/ folder."""

from __future__ import annotations

from auditor.answers.audit import NOT_HERE
from auditor.answers.kept import Answer
from auditor.reading.errors import FormError
from features.audit.collected import FindingReporter, collected, installed_versions
from features.audit.findings import Audit, certain
from features.audit.independent import independent_findings
from pipeline.confidential.custody import KeySource, key_of_answer
from pipeline.errors import InputError
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer


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
        "not computed again by the second program": ", ".join(NOT_HERE),
        "for": "the agency alone: computed from true counts",
    }
    return Audit(f"Audit of the answer {manifest.answer}", tuple(findings), about)
