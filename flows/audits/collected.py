"""Findings as they come, and what an audit says of the software."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeline.audit.findings import Finding
from pipeline.release.software import software

#: Told each finding as it comes.
Tell = Callable[[Finding], None]


def installed_versions() -> dict[str, str]:
    """What is installed here: Spinewise, Python and the packages that decide the numbers."""
    here = software()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(here.packages.items()))
    return {"spinewise": here.version, "Python": here.python, "packages": packages}


def collected(findings: Iterable[Finding], tell: Tell) -> list[Finding]:
    """The findings as a list, each told as it is made."""
    kept = []
    for finding in findings:
        tell(finding)
        kept.append(finding)
    return kept
