"""Small releases of amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, released
from releases.wages import BALANCES, OVER, write_wages

CASES: Final[Sequence[Case]] = (
    released("wages", lambda folder: write_wages(folder, OVER), "wages.toml", "wages", full=True),
    released("balances", lambda folder: write_wages(folder, *BALANCES), "wages.toml", "wages"),
)
REFUSALS: Final[Sequence[Refusal]] = ()
