"""How many of what there are very many a run of the tests takes; `make test-version` takes all.

Spoilt inputs: some 300 of all kinds in fast tests, others in slow ones, always the same; 20,000 of a version. The
number that a failure names gives the input again. Of long tables, as that of planted faults, the slow tests take some
rows with each commit (`turns`).
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
    "spec": (60, 400, 10_510),
    "text": (15, 60, 2_000),
    "records": (20, 60, 600),
    "areas": (15, 60, 1_100),
    "question": (40, 100, 2_000),
    "answer": (6, 20, 400),
    "table": (20, 60, 1_000),
    "summary": (20, 60, 1_200),
    "release": (12, 40, 220),
    "manifest": (15, 60, 1_500),
    "nmf": (3, 15, 500),
    "ledger": (30, 100, 2_500),
    "exported ledger": (30, 60, 310),
    "key": (30, 60, 440),
    "command line": (20, 240, 240),
}
FEW = {kind: few for kind, (few, _, _) in KINDS.items()}
MANY = {kind: most if OF_A_VERSION else many for kind, (_, many, most) in KINDS.items()}
SIZES = [pytest.param(FEW, id="hundreds"), pytest.param(MANY, id="thousands", marks=pytest.mark.slow)]


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
    """What the inputs are drawn from, and the first number of numbered ones: others than those of the fast tests."""
    return 1_000 if sizes is MANY else 0


def turns(rows: Iterable[Row], of: int) -> list[Row]:
    """The rows of a table whose turn it is with this commit, one in `of`; all rows of a version.

    SPINEWISE_TEST_SEED set to 0 up to `of` - 1 takes all rows in turn.
    """
    return [row for number, row in enumerate(rows) if OF_A_VERSION or (number + seed_of_commit()) % of == 0]
