"""Faults planted in the reading that the check and the audit of the second program share, and what then catches them.

Of a sound release a fault of reading is a false alarm, which shows it. Where both would be blind, the release has the
fault that they do not see, and the first program's `verify` does.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.storage.files import ParquetSink
from releases.mutant import Mutant, mutant, resealed, rewritten
from releases.tested_mutants import text

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
