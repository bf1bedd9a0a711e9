"""The audit of what is installed as a flow of Prefect performs it, which finds this module by name."""

from __future__ import annotations

from pathlib import Path

from features.audit.findings import Audit
from features.audit.installed import audit_installed
from features.audit.report import write_audit
from features.audit.whole_trial import whole_findings


def audit_to(folder: Path, *, quick: bool, seed: int, workers: int) -> tuple[Audit, Path]:
    """Test the installed samplers and pipeline, and whole runs; arguments as of `audit_installed`.

    Args:
        folder: where the reports are written; it is made.

    Returns:
        what was found, and the page that shows it.
    """
    more = whole_findings(quick=quick)
    audit = audit_installed(quick=quick, seed=seed, workers=workers, report=lambda _: None, more=more)
    html, _ = write_audit(audit, folder)
    return audit, html


def audit_page(result: Audit, html: Path) -> str:
    """Markdown with the verdict and what failed; an audit of what is installed sees nothing confidential."""
    verdict = "passed" if result.passed else f"{len(result.failed)} of {len(result.findings)} checks FAILED"
    lines = [f"# {result.title}", "", f"{verdict}; [the report]({html.resolve().as_uri()}): `{html.resolve()}`", ""]
    lines += [f"- {finding.group}: {finding.check}, {finding.subject}: {finding.detail}" for finding in result.failed]
    return "\n".join(lines) + "\n"
