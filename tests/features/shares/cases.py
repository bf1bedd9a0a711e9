"""Small releases of shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, released
from releases.shared_town import write_shared_town

CASES: Final[Sequence[Case]] = (released("shares", write_shared_town, "release.toml", "town", full=True),)
REFUSALS: Final[Sequence[Refusal]] = ()
