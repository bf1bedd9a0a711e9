"""The errors that this software raises on purpose; every other exception is a defect."""

from __future__ import annotations


class SpinewiseError(Exception):
    """Base of all errors raised on purpose; its text is one message for the user."""

    exit_status = 1


class InputError(SpinewiseError):
    """The user's input is wrong: the message names the place, what was found and what is allowed."""

    exit_status = 2


class SpineError(InputError):
    """The geography is not a tree of levels."""
