"""Units with several records in the installed program: what is counted of one never depends on another.

The statement about a unit is about so many of its records as are counted, and about amounts within their ends: of each
of these records, or of all together. It fails if more is counted, or if one unit's records decide what is counted of
another: then its change alters what is counted of others as well.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from features.audit.findings import Finding, certain
from geography.build import spine_from_prefixes
from pipeline.model.schema import AmountAttribute, Attribute, Schema
from pipeline.privacy.keys import MasterKey
from pipeline.records.tabulate import tabulate_units
from pipeline.spec.input_section import InputSpec
from postprocess.arrays import IntArray

_BLOCKS: Final = ("11", "12", "21")
_REASONS: Final = ("fall", "fever")
_MOST: Final = 6
#: Upper end of what a visit costs; many cost more.
_HIGH: Final = 9

#: Unit, block, value and cost of a record.
_Row = tuple[str, str, str, int]


@dataclass(frozen=True)
class _Counting:
    """What is counted of a unit.

    Attributes:
        at_most: so many records.
        ends: of what: "" where records are counted, "record" or "total" where costs are summed.
    """

    at_most: int
    ends: str = ""

    @property
    def most(self) -> int:
        """What a unit adds to all numbers together."""
        return {"": self.at_most, "record": self.at_most * _HIGH, "total": _HIGH}[self.ends]

    def __str__(self) -> str:
        return f"{self.at_most} of each unit's records " + {
            "": "counted", "record": "summed", "total": "summed, within the ends of a total"
        }[self.ends]  # fmt: skip


def unit_findings(seed: int, trials: int = 24) -> Iterator[Finding]:
    """Count made-up records of units, change one unit's, and count again.

    Args:
        seed: of the public test key and the records.
        trials: pairs of neighbours for each number of records counted of a unit.
    """
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-") as folder:
        for counting in (_Counting(1), _Counting(3), _Counting(3, "record"), _Counting(3, "total")):
            problems = dict.fromkeys(_problems(Path(folder) / "records.csv", counting, seed, trials))
            well = f"{trials} changes of a unit, none of which altered more than it may"
            yield certain("pipeline", "units", str(counting), problems, well=well)


def _problems(path: Path, counting: _Counting, seed: int, trials: int) -> Iterator[str]:
    rng = random.Random(seed)
    key = MasterKey.from_text(f"insecure-test:{seed}")
    for _ in range(trials):
        others = [row for number in range(rng.randrange(1, 5)) for row in _records(rng, f"p{number}", 1)]
        before, after = _records(rng, "changed", 0), _records(rng, "changed", 0)
        alone, first, second, shuffled = (
            _counted(path, rows, counting, key)
            for rows in (others, others + before, after + others, rng.sample(others + before, len(others + before)))
        )
        own = int(np.abs(first - alone).sum())
        if own > counting.most or (first < alone).any():
            yield f"a unit with {len(before)} records adds more than {counting.most}, or alters what others add"
        if not counting.ends and own != min(counting.at_most, len(before)):
            yield f"a unit with {len(before)} records alters other counts than those of {own} of them"
        moved = np.abs(first - second)
        if moved.sum() > 2 * counting.most or (moved**2).sum() > 2 * counting.most**2:
            yield f"a unit's change alters more than what it adds before and after, {counting.most} each"
        if (first != shuffled).any():
            yield "the order of the file decides which records are counted"


def _records(rng: random.Random, unit: str, least: int) -> list[_Row]:
    return [
        (unit, rng.choice(_BLOCKS), rng.choice(_REASONS), rng.randrange(2 * _HIGH))
        for _ in range(rng.randint(least, _MOST))
    ]


def _counted(path: Path, rows: Sequence[_Row], counting: _Counting, key: MasterKey) -> IntArray:
    lines = (",".join(map(str, row)) for row in rows)
    path.write_text("unit,block,reason,cost\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    source = InputSpec.model_validate({"file": path, "form": "microdata", "geocode": "block"}).source()
    cost = AmountAttribute.of("cost", Fraction(0), Fraction(_HIGH), Fraction(1), total=counting.ends == "total")
    counts, _ = tabulate_units(
        replace(source, unit="unit", at_most=counting.at_most, amount=cost if counting.ends else None),
        Schema((Attribute("reason", _REASONS),)),
        spine_from_prefixes(_BLOCKS, {"city": 1, "block": 2}),
        lambda data: key.keyed_hash("unit/", data).encode(),
        amounts=(cost,) if counting.ends else (),
    )
    return counts.toarray()
