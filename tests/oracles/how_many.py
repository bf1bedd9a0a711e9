"""How many spoilt inputs of each kind the tests make: hundreds in the fast tests, 20,000 in the slow ones."""

from __future__ import annotations

import pytest

#: Kind -> inputs in the fast tests, and in the slow ones.
KINDS = {
    "spec": (150, 10_510),
    "records": (60, 600),
    "areas": (30, 1_100),
    "table": (60, 1_000),
    "summary": (60, 1_200),
    "release": (20, 220),
    "manifest": (40, 1_500),
    "nmf": (8, 500),
    "ledger": (80, 2_500),
    "exported ledger": (100, 310),
    "key": (100, 440),
    "command line": (20, 120),
}
FEW = {kind: few for kind, (few, _) in KINDS.items()}
MANY = {kind: many for kind, (_, many) in KINDS.items()}

SIZES = [
    pytest.param(FEW, id="hundreds"),
    pytest.param(MANY, id="thousands", marks=pytest.mark.slow),
]
