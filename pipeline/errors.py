"""Errors of the pipeline; see `geography.errors` for the two they are built on."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from geography.errors import InputError, SpineError, SpinewiseError

__all__ = [
    "BudgetRefusedError",
    "ChangedFileError",
    "InputError",
    "MemoryShortError",
    "RecordsError",
    "RefusedError",
    "ReleaseError",
    "SpecError",
    "SpineError",
    "SpinewiseError",
]


class SpecError(InputError):
    """The release spec is wrong; the message names the key."""


class RecordsError(InputError):
    """The records are wrong; the message names the column, the number of rows, the first ones, what is allowed."""


class ReleaseError(SpinewiseError):
    """A release directory is damaged or contradicts itself, or cannot be written."""


class ChangedFileError(ReleaseError):
    """A file of a finished release is missing, or is not the one that its manifest lists; nothing of it is used."""

    exit_status = 2

    @classmethod
    def of(cls, problem: str, what: str, root: Path) -> Self:
        """The problem, and what to do: `what` is the release or the answer, in the directory `root`."""
        return cls(
            f"{problem}; get the {what} again, as it was published: `spinewise verify {root}` names every file that "
            "differs"
        )


class MemoryShortError(SpinewiseError):
    """The machine has not enough memory now; the same may do with more, or with fewer workers."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: not enough memory; run the same again with fewer --workers, or where there is more of it"
        )


class BudgetRefusedError(SpinewiseError):
    """The budget does not allow what was asked for."""

    exit_status = 3


class RefusedError(SpinewiseError):
    """A step that sees the records has failed; the reason is in a file that only its owner can read.

    Attributes:
        details: the file.
        exit_status: of the error that was raised.
    """

    def __init__(self, stage: str, details: Path, exit_status: int) -> None:
        super().__init__(f"{stage}: stopped; the reason may show what is in the records and is in {details}")
        self.details = details
        self.exit_status = exit_status

    def reason(self) -> str:
        """What was wrong, as confidential as the records: never in the error's own text, which logs and pages show."""
        return self.details.read_text(encoding="utf-8").rstrip()
