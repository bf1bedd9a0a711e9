"""The ledger of budgets, opened according to the settings."""

from __future__ import annotations

from pathlib import Path

from pipeline.execution.settings import load_settings
from pipeline.privacy.ledger.ledger import Ledger


def open_ledger(url: str | Path | None = None, *, create: bool = False) -> Ledger:
    """The ledger of privacy-loss budgets at `url`; use it in a `with` block, or close it.

    Args:
        url: a file, sqlite:///PATH or postgresql://USER@HOST/DATABASE; by default that of the settings, or a file in
            the user's state folder.
        create: create it if there is none.

    Raises:
        InputError: there is none, or it cannot be opened.
        LedgerError: it is damaged.
    """
    named = None if url is None else str(url)
    settings = load_settings(ledger=named)
    return Ledger.open(settings.ledger, create=create, state=settings.state)
