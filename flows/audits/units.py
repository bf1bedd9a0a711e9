"""Units with several records in the installed program: what is counted of one never depends on another.

The statement about a unit is about so many of its records as are counted. It fails if more of them are, or if one
unit's records decide which of another's are: then its change alters what is counted of others as well.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geography.build import spine_from_prefixes
from pipeline.audit.findings import Finding, certain
from pipeline.model.schema import Attribute, Schema
from pipeline.privacy.keys import MasterKey
from pipeline.records.units import tabulate_units
from pipeline.spec.input_section import InputSpec

_BLOCKS: Final = ("11", "12", "21")
_REASONS: Final = ("fall", "fever")
_MOST: Final = 6

#: Unit, block and value of a record.
_Row = tuple[str, str, str]


def unit_findings(seed: int, trials: int = 24) -> Iterator[Finding]:
    """Count made-up records of units, change one unit's, and count again.

    Args:
        seed: of the public test key and the records.
        trials: pairs of neighbours for each number of records counted of a unit.
    """
    with tempfile.TemporaryDirectory(prefix="spinewise-audit-") as folder:
        for at_most in (1, 3):
            problems = dict.fromkeys(_problems(Path(folder) / "records.csv", at_most, seed, trials))
            well = f"{trials} changes of a unit, none of which altered more than it may"
            yield certain("pipeline", "units", f"{at_most} of each unit's records counted", problems, well=well)


def _problems(path: Path, at_most: int, seed: int, trials: int) -> Iterator[str]:
    rng = random.Random(seed)
    key = MasterKey.from_text(f"insecure-test:{seed}")
    for _ in range(trials):
        others = [row for number in range(rng.randrange(1, 5)) for row in _records(rng, f"p{number}", 1)]
        before, after = _records(rng, "changed", 0), _records(rng, "changed", 0)
        alone, first, second, shuffled = (
            _counted(path, rows, at_most, key)
            for rows in (others, others + before, after + others, rng.sample(others + before, len(others + before)))
        )
        own = min(at_most, len(before))
        if np.abs(first - alone).sum() != own or (first < alone).any():
            yield f"a unit with {len(before)} records alters other counts than those of {own} of them"
        if np.abs(first - second).sum() > own + min(at_most, len(after)):
            yield f"a unit's change alters more than {at_most} of its records before and after"
        if (first != shuffled).any():
            yield "the order of the file decides which records are counted"


def _records(rng: random.Random, unit: str, least: int) -> list[_Row]:
    return [(unit, rng.choice(_BLOCKS), rng.choice(_REASONS)) for _ in range(rng.randint(least, _MOST))]


def _counted(path: Path, rows: Sequence[_Row], at_most: int, key: MasterKey) -> NDArray[np.int64]:
    path.write_text("unit,block,reason\n" + "".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
    source = InputSpec.model_validate({"file": path, "form": "microdata", "geocode": "block"}).source()
    counts, _ = tabulate_units(
        replace(source, unit="unit", at_most=at_most),
        Schema((Attribute("reason", _REASONS),)),
        spine_from_prefixes(_BLOCKS, {"city": 1, "block": 2}),
        lambda data: key.keyed_hash("unit/", data).encode(),
    )
    return counts.toarray()
