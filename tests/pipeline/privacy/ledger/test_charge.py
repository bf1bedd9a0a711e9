"""What a universe is charged: its whole budget, for every answer."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charge import charge_for
from pipeline.privacy.ledger.ledger import Ledger, OverspentError
from pipeline.spec.release_spec import parse_spec


def test_a_release_is_charged_its_whole_budget_for_every_answer(tmp_path: Path) -> None:
    """Exactly, query by query, for a universe of the 2020 production strategy; and not under a test key."""
    found = parse_spec("""
name = "homes"
[geography]
file = "f.csv"
column = "b"
levels = { State = 2, County = 5, Block = 15 }
[schema.attributes]
occupied = ["yes", "no"]
[strategy]
levels = { State = "1/7", County = "2/7", Block = "4/7" }
queries = { total = "3/11", detailed = "8/11" }
[privacy]
rho = "542/339"
""", "x").universes()[0]  # fmt: skip
    how: dict[str, Any] = {
        "dataset": "persons",
        "release": "homes",
        "input_fingerprint": "i",
        "spine_fingerprint": "s",
        "level_sizes": {"State": 1, "County": 5, "Block": 100},
    }
    made = charge_for(found, key=MasterKey(bytes(32)), **how)
    assert {(g.level, g.query): g.count for g in made.groups} == {
        ("State", "total"): 1, ("State", "detailed"): 2, ("County", "total"): 5, ("County", "detailed"): 10,
        ("Block", "total"): 100, ("Block", "detailed"): 200,
    }  # fmt: skip
    file = str(tmp_path / "ledger.sqlite")
    with Ledger.open(file, create=True) as ledger:
        ledger.open_dataset(
            "persons", population="everyone", framework="zcdp", budget=Fraction(542, 339), neighbours="change-one"
        )
        ledger.reserve(made)
        assert ledger.dataset("persons").left == 0
        assert not ledger.reserve(charge_for(found, key=MasterKey(bytes(32)), **how)).new
        with pytest.raises(OverspentError):
            ledger.reserve(charge_for(found, key=MasterKey(b"1" * 32), **how))
    with pytest.raises(InputError, match="cannot draw on a ledger"):
        charge_for(found, key=MasterKey.from_text("insecure-test:1"), **how)
