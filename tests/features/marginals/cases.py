"""Small releases of marginals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, released
from releases.wide import CHOSEN, write_wide

CASES: Final[Sequence[Case]] = (
    released("marginals", write_wide, "release.toml", "wide", full=True),
    released("cliques", lambda folder: write_wide(folder, CHOSEN), "release.toml", "wide"),
)
REFUSALS: Final[Sequence[Refusal]] = ()
