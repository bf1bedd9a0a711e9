"""The error of the second program."""

from __future__ import annotations


class FormError(Exception):
    """Something of a release, an answer or a ledger is missing, or cannot be understood; the text is for the user."""
