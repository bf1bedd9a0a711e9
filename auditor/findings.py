"""What the auditor found: one line for each thing that was checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

#: Probability at which a test may reject what is right.
ALPHA: Final = 1e-6
_SHOWN: Final = 5


@dataclass(frozen=True)
class Found:
    """One thing that was checked.

    Attributes:
        check: what; `subject`: of what.
        value, limit: the number that decides, such as a p value, and what it was compared with; None if there is none.
        detail: what is wrong, or how far the check reaches.
    """

    check: str
    subject: str
    passed: bool
    value: float | None = None
    limit: float | None = None
    detail: str = ""

    def as_dict(self) -> dict[str, object]:
        """The finding as JSON has it."""
        return asdict(self)


def holds(check: str, subject: str, problems: Iterable[str], *, well: str = "") -> Found:
    """A finding of something that holds or does not."""
    listed = list(problems)
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return Found(check, subject, not listed, detail="; ".join(listed[:_SHOWN]) + more if listed else well)
