"""How many spoilt inputs a run of the tests takes.

Some 300 of all kinds in fast tests, others in slow ones, always the same; 20,000 of a version (`make test-version`).
The number that a failure names gives the input again.
"""

from __future__ import annotations

import os

import pytest

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


def seed_of(sizes: dict[str, int]) -> int:
    """What the inputs are drawn from, and the first number of numbered ones: others than those of the fast tests."""
    return 1_000 if sizes is MANY else 0
