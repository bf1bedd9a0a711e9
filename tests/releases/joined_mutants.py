"""Faults planted in what is said and done about several records of one person, about units and about households.

The release judged is that of `patients`: a person alters two households, a patient three visits, and persons are joined
with their households.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pipeline.model.universe
import pipeline.privacy.accounting.statements as joint
import pipeline.privacy.ledger.charges
import pipeline.records.tabulate
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import household_statement
from releases.mutant import Mutant, attribute, mutant, resealed, rewritten
from releases.tested_mutants import text


def _persons_alone(universes: Sequence[Universe], accounts: Sequence[Any], companion: str, members: int) -> Any:
    kept = [number for number, universe in enumerate(universes) if universe.name != companion]
    return household_statement([universes[n] for n in kept], [accounts[n] for n in kept], companion, members)


def _stated_epsilon(root: Path) -> None:
    """The release's one epsilon is a tenth of what it is, in figures and words."""

    def change(content: dict[str, Any]) -> None:
        stated = content["joint"]
        lower = str(Decimal(stated["epsilon"]) / 10)
        stated.update(words=stated["words"].replace(stated["epsilon"], lower), epsilon=lower, losses=lower)

    resealed(root, change)


def _moved(root: Path) -> None:
    """A person is said to live in another household of the block."""

    def change(table: pa.Table) -> pa.Table:
        numbers = table.column("household").to_pylist()
        codes = table.column("geocode").to_pylist()
        pairs = ((i, j) for i, a in enumerate(numbers) for j, b in enumerate(numbers) if a and b and a < b)
        first, other = next((i, j) for i, j in pairs if codes[i] == codes[j])
        numbers[first] = numbers[other]
        place = table.column_names.index("household")
        return table.set_column(place, table.schema.field(place), pa.array(numbers, table.schema.field(place).type))

    rewritten(root, "microdata.parquet", change)


JOINED: tuple[Mutant, ...] = (
    mutant("a companion's record counted once where a person alters two", "sa", on="joined",
           plant=attribute(pipeline.model.universe, "budget_of_one", lambda _framework, budget, _records: budget)),
    mutant("a unit with three records counted as one record", "sa", on="joined", plant=text(
        "pipeline.spec.resolve:UniverseResolver._unit", "1 if measure.total else at_most or ", "")),
    mutant("two records of a person charged as one", "sv", on="joined ledger",
           plant=text(
               "pipeline.privacy.ledger.charges:charge_for", "records=universe.unit.records", "records=1")),
    mutant("a unit of which every record is counted", "i", on="installed",
           plant=attribute(
               pipeline.records.tabulate, "kept_records", lambda units, *_: np.ones(len(units), dtype=bool))),
    mutant("one epsilon for the release without one of its companions", "s", on="joined",
           plant=text("pipeline.privacy.accounting.statements:joint_statement", "main, *others = universes",
                      "universes, accounts = universes[:-1], accounts[:-1]\n    main, *others = universes")),
    mutant("one epsilon in the manifest a tenth of what it is", "sv", on="joined", edit=_stated_epsilon),
    mutant("a household of eight that costs what one person costs", "s", on="joined",
           plant=attribute(joint, "group_budget", lambda _framework, budget, _members: budget)),
    mutant("a household without its own record", "s", on="joined",
           plant=attribute(joint, "household_statement", _persons_alone)),
    mutant("a household of fewer members than joins allow", "s", on="joined",
           plant=text("features.joins.link:largest_household", "own = ", "return 2\n    own = ")),
    mutant("a person in another household of the block", "vc", on="joined", edit=_moved),
)  # fmt: skip
