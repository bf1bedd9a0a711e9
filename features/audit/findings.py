"""What an audit found: one line for each thing that was tested, as they arrive; and the versions that it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Final

from pipeline.model.texts.message import marked
from pipeline.release.software import software

#: What stands for a number that could not be computed.
NOT_KNOWN: Final = marked("not known")
#: Probability at which a test may reject what is right; with a thousand tests, one audit in a thousand.
ALPHA: Final = 1e-6


@dataclass(frozen=True)
class Finding:
    """One thing that was tested.

    Attributes:
        group: "samplers", "streams", "randomisers", "pipeline", "release"; "independent", of the second program;
            "attack".
        check: what was tested.
        subject: of what, such as a distribution.
        passed: whether it is as it should be, and the test was shown able to fail.
        value: the number that decides, such as a p value; None where there is none.
        limit: what it was compared with.
        detail: a description.
    """

    group: str
    check: str
    subject: str
    passed: bool
    value: float | None = None
    limit: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Audit:
    """All findings of one audit.

    Attributes:
        title: what was audited.
        about: versions, seed, sizes: what is needed to repeat it.
        language: of the page, a tag; None for English.
    """

    title: str
    findings: tuple[Finding, ...]
    about: Mapping[str, str] = field(default_factory=dict)
    language: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(finding.passed for finding in self.findings)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings of the checks that failed, in order."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def groups(self) -> dict[str, list[Finding]]:
        """The findings by group, in order."""
        by_group: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_group.setdefault(finding.group, []).append(finding)
        return by_group

    def as_dict(self) -> dict[str, object]:
        """The audit as JSON has it: title, result, what was audited, and every finding; numbers not known are null."""
        return {
            "title": self.title,
            "passed": self.passed,
            "about": dict(self.about),
            "findings": [
                {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in one}
                for one in (asdict(finding).items() for finding in self.findings)
            ],
        }


def certain(group: str, check: str, subject: str, problems: Iterable[str], *, well: str = "") -> Finding:
    """A finding of something that holds or does not; `well` describes what was checked where nothing is wrong."""
    listed = list(problems)
    detail = "; ".join(listed[:5]) + (f"; and {len(listed) - 5} more" if listed[5:] else "")
    return Finding(group, check, subject, not listed, detail=detail or well)


def statistical(group: str, check: str, subject: str, p_value: float, arms: Mapping[str, float]) -> Finding:
    """A finding of a statistical test.

    Args:
        group: the heading that the finding is reported under.
        check: what is tested.
        subject: what it is tested on.
        p_value: of what is tested; it must not be below `ALPHA`.
        arms: deliberate fault -> p value of the same test with it, which must be below `ALPHA`: a test that cannot fail
            shows nothing.
    """
    # A p value that could not be computed is NaN: it neither accepts what is tested nor rejects a fault.
    blind = [f"{arm} is not noticed (p = {_text(p)})" for arm, p in arms.items() if not p < ALPHA]
    rejected = [] if p_value >= ALPHA else [f"rejected (p = {_text(p_value)})"]
    well = f"notices {', '.join(arms)}" if arms else ""
    return Finding(group, check, subject, not (rejected or blind), p_value, ALPHA, "; ".join(rejected + blind) or well)


def _text(p_value: float) -> str:
    return f"{p_value:.2g}" if math.isfinite(p_value) else NOT_KNOWN


#: Reports a finding as it arrives.
FindingReporter = Callable[[Finding], None]


def installed_versions() -> dict[str, str]:
    """The versions of Spinewise, Python and the packages, as the audit's page shows them."""
    installed = software()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(installed.packages.items()))
    return {"spinewise": installed.version, "Python": installed.python, "packages": packages}


def collected(report: FindingReporter, *parts: Iterable[Finding]) -> tuple[Finding, ...]:
    """All findings of the parts, each reported as it arrives."""
    kept = []
    for finding in chain(*parts):
        report(finding)
        kept.append(finding)
    return tuple(kept)
