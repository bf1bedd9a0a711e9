"""Errors of the pipeline; see `geography.errors` for the two they are built on."""

from __future__ import annotations

from geography.errors import InputError, SpineError, SpinewiseError

__all__ = [
    "BudgetRefusedError",
    "InputError",
    "RecordsError",
    "ReleaseError",
    "SpecError",
    "SpineError",
    "SpinewiseError",
]


class SpecError(InputError):
    """The release spec is wrong; the message names the key."""


class RecordsError(InputError):
    """The records are wrong; the message names the column, how many rows, the first of them, what is allowed."""


class ReleaseError(SpinewiseError):
    """A release directory is not what it says it is, or cannot be written."""


class BudgetRefusedError(SpinewiseError):
    """The budget does not allow what was asked for."""

    exit_status = 3
