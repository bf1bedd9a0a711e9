"""Faults planted in what is done with amounts, joins, answers where the parent is positive, and in the second reading.

Of a sound release a fault of reading is a false alarm, which shows it. Where both would be blind, the release has the
fault that they do not see, and the first program's `verify` does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pipeline.confidential.measure
import pipeline.model.universe
import pipeline.privacy.accounting.statements as joint
import pipeline.privacy.ledger.charges
import pipeline.records.tabulate
from pipeline.estimation.measurement_files import PositiveSource
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import household_statement
from pipeline.release.histograms import read_histogram
from pipeline.storage.files import ParquetSink
from pipeline.storage.paths import unchecked
from releases.mutant import Mutant, Patch, attribute, mutant, resealed, rewritten
from releases.tested_mutants import text

_CHARGED = "pipeline.privacy.ledger.charges:charge_for"
_REACH, _OF_RECORD = "pipeline.model.universe:Universe.reach", "self.measure.reach(self.neighbours)"
_LARGER_END = "max([1, *(end for one in self.measure.amounts for end in (-one.first, one.last))])"
_KEPT = "records.at_most, keyed, found.beside"

AMOUNTS: tuple[Mutant, ...] = (
    mutant("amounts are not clipped before they are summed", "s", on="amounts", plant=text(
        "pipeline.model.schema:AmountAttribute.number_of", "min(max(amount, self.low), self.high)", "amount")),
    mutant("the noise of sums is that of counts, whatever one record adds", "sa", on="amounts",
           plant=text(_REACH, _OF_RECORD, "1")),
    mutant("sums of losses and gains get the noise of the larger end", "s", on="balances",
           plant=text(_REACH, _OF_RECORD, _LARGER_END)),
    mutant("the ledger is not told how far one record moves a sum", "sv", on="amounts ledger",
           plant=text(_CHARGED, "reach=universe.reach", "reach=1")),
    mutant("sums of several records of a unit get the noise of one", "s", on="jobs", plant=text(
        "pipeline.model.universe:Universe.record_budget",
        "return ", "return self.budget if self.measure.amounts else ")),
    mutant("the ledger is not told how many records of a unit are summed", "sv", on="jobs ledger",
           plant=text(_CHARGED, "records=universe.unit.records", "records=1")),
    mutant("a unit's amounts are not taken down to the ends of its total", "i", on="installed",
           plant=attribute(pipeline.records.tabulate, "within_ends", lambda units, amounts, low, high: amounts)),  # noqa: ARG005
    mutant("all records of a unit are summed, and not as many as are counted", "i", on="installed", plant=text(
        "pipeline.records.tabulate:tabulate_units", _KEPT, f"10**9 if found.beside else {_KEPT}")),
)  # fmt: skip


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


def true_counts(patch: Patch) -> None:
    """The answers that are positive in the true counts of the area above are drawn."""

    def true_histogram(path: Any, *at: Any, **form: Any) -> Any:
        return read_histogram(unchecked(Path(str(path).replace("/public/", "/restricted/"))), *at, **form)

    patch.setattr(pipeline.confidential.measure, "read_histogram", true_histogram)


def _unnoticed(patch: Patch) -> None:
    """The same, and the estimation takes whatever was drawn."""
    true_counts(patch)
    patch.setattr(PositiveSource, "check_places", lambda *_: None)


def without_true_zeros(root: Path) -> None:
    """Leave out of a file the answers that are 0 in the true counts of the area above."""
    above = root / "restricted" / "histograms"
    true = pq.read_table(above / "county.parquet").to_pylist()
    spec = json.loads((root / "public" / "manifest.json").read_text("utf-8"))["spec"]
    values = {name: [str(value) for value in stated] for name, stated in spec["schema"]["attributes"]}
    kept: dict[str, set[int]] = {}
    for row in true:
        cell = 0
        for name, stated in values.items():
            cell = cell * len(stated) + stated.index(str(row[name]))
        kept.setdefault(row["geocode"], set()).add(cell)

    def change(table: pa.Table) -> pa.Table:
        rows = []
        for row in table.to_pylist():
            due = kept.get(row["geocode"][:2], ())
            pairs = [pair for pair in zip(row["answer"], row["value"], strict=True) if pair[0] in due]
            rows.append({**row, "answer": [one[0] for one in pairs], "value": [one[1] for one in pairs]})
        changed = pa.Table.from_pylist(rows, schema=table.schema)
        assert sum(map(len, changed.column("answer").to_pylist())) < sum(map(len, table.column("answer").to_pylist()))
        return changed

    rewritten(root, "positive/block/detailed.parquet", change)


POSITIVES: tuple[Mutant, ...] = (
    mutant("answers drawn where the true area above is positive", "sc", on="positive", plant=_unnoticed),
    mutant("answers left out where the true area above is empty", "svc", on="positive", edit=without_true_zeros),
)


_TABLE = "tables/race/county.parquet"


def _as_it_is(root: Path) -> None:
    """The release is sound."""


def _further_part(root: Path) -> None:
    """A table has a second part with another row of the last county."""
    path = root / "public" / _TABLE
    table = pq.read_table(path)
    sink = ParquetSink(path, table.schema, json.loads(table.schema.metadata[b"spinewise"]))
    for part in (table, table.slice(table.num_rows - 1)):
        sink.write(*(column.combine_chunks() for column in part.columns))
    sink.close()
    assert pq.ParquetFile(path).num_row_groups == 2
    resealed(root)


def _negative(root: Path) -> None:
    """The largest number of a table is below 0."""

    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index("a")
        counts = table.column(place).to_pylist()
        row = int(np.argmax(counts))
        assert counts[row] > 0
        counts[row] = -counts[row]
        return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int64()))

    rewritten(root, _TABLE, change)


READINGS: tuple[Mutant, ...] = (
    mutant("a reading without signs, and a number below 0 in a table", "v", edit=_negative, plant=text(
        "auditor.reading.files:whole_numbers", "np.where(whole, numbers, 0)", "np.where(whole, np.abs(numbers), 0)")),
    mutant("a reading of the first part of a file, and a further row in the next", "v", edit=_further_part, plant=text(
        "auditor.reading.files:Files.read", "yield part\n", "yield part\n                break\n")),
    mutant("a reading of the spine that gives each area its neighbour's parent", "sc", edit=_as_it_is, plant=text(
        "auditor.reading.spine:read_levels", "(level, codes, parents)", "(level, codes, np.roll(parents, 1))")),
    mutant("a reading of queries that puts cells into other answers", "sc", edit=_as_it_is, plant=text(
        "auditor.reading.cells:Cells.query", "factors), of_cell, names)", "factors), of_cell[::-1].copy(), names)")),
    mutant("a reading of joins that limits no household", "sc", on="joined", edit=_as_it_is, plant=text(
        "auditor.reading.cells:read_join", "JoinedGroup(name, *group)",
        "replace(JoinedGroup(name, *group), most=np.full(cells[companion].size, NO_LIMIT))")),
    mutant("a reading of the spec without its invariants", "sc", on="joined", edit=_as_it_is, plant=text(
        "auditor.reading.spec:public_spec", "tuple(universes)",
        'tuple(type(one)(**{**vars(one), "invariants": ()}) for one in universes)')),
)  # fmt: skip
