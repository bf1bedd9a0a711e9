"""How many spoilt inputs of each kind the tests make: hundreds in the fast tests, 12,000 in the slow ones.

Releases, exported ledgers, keys and command lines are as many as were seen to end well; more are to come, up to 20,000
of all kinds.
"""

from __future__ import annotations

import pytest

#: Kind -> inputs in the fast tests, and in the slow ones.
KINDS = {
    "spec": (150, 4_000),
    "records": (60, 600),
    "areas": (30, 400),
    "table": (60, 1_000),
    "summary": (60, 1_200),
    "release": (150, 220),
    "manifest": (100, 1_500),
    "nmf": (40, 1_000),
    "ledger": (80, 1_500),
    "exported ledger": (100, 310),
    "key": (100, 440),
    "command line": (120, 120),
}
FEW = {kind: few for kind, (few, _) in KINDS.items()}
MANY = {kind: many for kind, (_, many) in KINDS.items()}

SIZES = [
    pytest.param(FEW, id="hundreds"),
    pytest.param(MANY, id="thousands", marks=pytest.mark.slow),
]
