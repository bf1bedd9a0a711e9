"""How many spoilt inputs of each kind the tests make: hundreds in the fast tests, 20,000 in the slow ones."""

from __future__ import annotations

import pytest

#: Kind -> inputs in the fast tests, and in the slow ones.
KINDS = {
    "spec": (150, 4_000),
    "records": (60, 600),
    "areas": (30, 400),
    "table": (60, 1_000),
    "summary": (60, 1_200),
    "release": (150, 3_500),
    "manifest": (100, 1_500),
    "nmf": (40, 1_000),
    "ledger": (80, 1_500),
    "exported ledger": (100, 1_500),
    "key": (100, 1_300),
    "command line": (120, 2_500),
}
FEW = {kind: few for kind, (few, _) in KINDS.items()}
MANY = {kind: many for kind, (_, many) in KINDS.items()}
assert sum(MANY.values()) == 20_000

SIZES = [
    pytest.param(FEW, id="hundreds"),
    pytest.param(MANY, id="thousands", marks=pytest.mark.slow),
]
