"""Faults planted in the reading that the check and the audit of the second program share, and what then catches them.

Of a sound release a fault of reading is a false alarm, which shows it. Where both would be blind, the release has the
fault that they do not see, and the first program's `verify` does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import auditor.check.release
import auditor.program  # noqa: F401 - so that every module that reads is there to be changed
from auditor.reading.cells import NO_LIMIT, Cells, Query, joined_groups
from auditor.reading.files import Files, whole_numbers
from auditor.reading.spec import public_spec
from auditor.reading.spine import Level, read_levels
from pipeline.storage.files import ParquetSink
from releases.mutant import Mutant, Patch, Plant, mutant, resealed, rewritten

_TABLE = "tables/race/county.parquet"


def _instead(sound: Callable[..., Any], change: Callable[..., Any]) -> Plant:
    """A function is another wherever the second program has it; `change` gets the sound one's answer."""

    def plant(patch: Patch) -> None:
        def changed(*arguments: Any, **named: Any) -> Any:
            return change(sound(*arguments, **named))

        name = sound.__name__
        users = [module for at, module in list(sys.modules.items()) if at.split(".")[0] == "auditor"]
        reached = [module for module in users if getattr(module, name, None) is sound]
        assert len(reached) > 1, f"{name} is used nowhere"
        for module in reached:
            patch.setattr(module, name, changed)

    return plant


def _as_it_is(root: Path) -> None:
    """The release is sound."""


def _other_parents(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    return tuple(replace(level, parents=np.roll(level.parents, 1)) for level in levels)


def _other_cells(patch: Patch) -> None:
    sound = Cells.query

    def query(self: Cells, name: str) -> Query:
        found = sound(self, name)
        return replace(found, of_cell=np.ascontiguousarray(found.of_cell[::-1]))

    patch.setattr(Cells, "query", query)


def _first_parts(patch: Patch) -> None:
    sound = Files.read

    def read(self: Files, *arguments: Any, **named: Any) -> Iterator[pa.Table]:
        yield next(iter(sound(self, *arguments, **named)))

    patch.setattr(Files, "read", read)


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


def _unlimited(groups: list[Any]) -> list[Any]:
    return [replace(group, most=np.full_like(group.most, NO_LIMIT)) for group in groups]


def _without_invariants(spec: Any) -> Any:
    return replace(spec, universes=tuple(replace(universe, invariants=()) for universe in spec.universes))


READINGS: tuple[Mutant, ...] = (
    mutant("a reading without signs, and a number below 0 in a table", "v", edit=_negative,
           plant=_instead(whole_numbers, lambda read: (np.abs(read[0]), read[1]))),
    mutant("a reading of the first part of a file, and a further row in the next", "v", edit=_further_part,
           plant=_first_parts),
    mutant("a reading of the spine that gives each area its neighbour's parent", "sc", edit=_as_it_is,
           plant=_instead(read_levels, _other_parents)),
    mutant("a reading of queries that puts cells into other answers", "sc", edit=_as_it_is, plant=_other_cells),
    mutant("a reading of joins that limits no household", "sc", on="joined", edit=_as_it_is,
           plant=_instead(joined_groups, _unlimited)),
    mutant("a reading of the spec without its invariants", "sc", on="joined", edit=_as_it_is,
           plant=_instead(public_spec, _without_invariants)),
)  # fmt: skip
