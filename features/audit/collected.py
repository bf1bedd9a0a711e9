"""Findings as they arrive, and the versions that an audit names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from features.audit.findings import Finding
from pipeline.release.software import software

#: Reports a finding as it arrives.
FindingReporter = Callable[[Finding], None]


def installed_versions() -> dict[str, str]:
    """The versions of Spinewise, Python and the packages, as the audit's page shows them."""
    installed = software()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(installed.packages.items()))
    return {"spinewise": installed.version, "Python": installed.python, "packages": packages}


def collected(findings: Iterable[Finding], report: FindingReporter) -> list[Finding]:
    """All findings, each reported as it arrives."""
    findings_kept = []
    for finding in findings:
        report(finding)
        findings_kept.append(finding)
    return findings_kept
