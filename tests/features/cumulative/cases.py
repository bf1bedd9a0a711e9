"""Small releases of running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, released
from releases.small import QUICK, write_town

#: Running sums of a table, of one attribute and of two.
_CUMULATIVE = (
    (
        'total = "total"\nsex =',
        'total = "total"\nage = { query = "age", cumulative = true, levels = ["county", "tract"] }\n'
        'both = { query = "sex * age", cumulative = "age" }\nsex =',
    ),
)

CASES: Final[Sequence[Case]] = (
    released("cumulative", lambda folder: write_town(folder, *QUICK, *_CUMULATIVE), "release.toml", "town", full=True),
)
REFUSALS: Final[Sequence[Refusal]] = ()
