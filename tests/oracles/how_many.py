"""How many of what there are very many a run of the tests takes; `make test-version` takes all.

Spoilt inputs: 700 of all kinds in fast tests, 2,000 in slow ones, 20,000 of a version.

The 700 are always the same. The 2,000 are others with every commit: a fault that is rare enough to be missed by one run
is met by one soon after, and the number that a failure names gives the input again. `make test-version` makes the
20,000, before a version is published. Of long tables, as that of planted faults, the slow tests take some rows with
each commit (`turns`).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

Row = TypeVar("Row")

#: Set by `make test-version`: everything in full.
OF_A_VERSION = bool(os.environ.get("SPINEWISE_TEST_VERSION"))

#: Kind -> inputs in the fast tests, in the slow ones, and of a version.
KINDS = {
    "spec": (150, 1_050, 10_510),
    "records": (60, 60, 600),
    "areas": (30, 110, 1_100),
    "table": (60, 100, 1_000),
    "summary": (60, 120, 1_200),
    "release": (20, 30, 220),
    "manifest": (40, 150, 1_500),
    "nmf": (8, 50, 500),
    "ledger": (80, 250, 2_500),
    "exported ledger": (100, 30, 310),
    "key": (100, 44, 440),
    "command line": (20, 240, 240),
}
FEW = {kind: few for kind, (few, _, _) in KINDS.items()}
MANY = {kind: most if OF_A_VERSION else many for kind, (_, many, most) in KINDS.items()}

SIZES = [
    pytest.param(FEW, id="hundreds"),
    pytest.param(MANY, id="thousands", marks=pytest.mark.slow),
]


@cache
def seed_of_commit() -> int:
    """A number that is another with every commit; SPINEWISE_TEST_SEED, where it is set."""
    given = os.environ.get("SPINEWISE_TEST_SEED")
    if given:
        return int(given)
    told = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(hashlib.sha256(told.stdout.encode()).hexdigest()[:8], 16)


def seed_of(sizes: dict[str, int]) -> int:
    """What the inputs are drawn from, and the first number of numbered ones: 0 for the few that are always the same."""
    return seed_of_commit() if sizes is MANY else 0


def turns(rows: Iterable[Row], of: int) -> list[Row]:
    """The rows of a table whose turn it is with this commit, one in `of`; all rows of a version.

    SPINEWISE_TEST_SEED set to 0 up to `of` - 1 takes all rows in turn.
    """
    return [row for number, row in enumerate(rows) if OF_A_VERSION or (number + seed_of_commit()) % of == 0]
