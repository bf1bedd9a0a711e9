"""The Parquet form of draws: for one table at one level, one row for each draw and geounit.

Columns: geocode, draw (int32, from 1), then the answers (float64, persons) under their labels, as in the table. The
rows are draw by draw, and within a draw all geounits of the level in the spine's order. Every number is a multiple of
1/256, so that sums of them are exact; it may be negative, and is NaN where the measurements do not determine it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import InputError, ReleaseError
from pipeline.model.universe import Table
from pipeline.storage.files import (
    ParquetSink,
    RowGroups,
    open_parquet,
    parquet_sink,
    read_header,
    read_row_groups,
    reading,
    rows_per_group,
    strings,
    texts,
)
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

#: Column with the number of the draw, from 1.
DRAW = "draw"
_ABOUT = (
    "Joint draws of what the truth may be given the noisy measurements, for multiple imputation and intervals: linear, "
    "may be negative, no release of counts. Numbers of one draw belong together, in all tables and at all levels."
)


def check_drawn_labels(table: str, labels: Sequence[str]) -> None:
    """Refuse a label that cannot stand beside the number of the draw.

    Raises:
        InputError: an answer is called "draw".
    """
    if DRAW in labels:
        raise InputError(
            f"tables.{table}: {DRAW!r} cannot be the label of an answer where publish.draws is not 0: the column with "
            "the number of the draw is called so; rename the value"
        )


class DrawsFile:
    """An open file of draws, which takes one draw at a time."""

    def __init__(self, sink: ParquetSink, geocodes: NDArray[np.str_], size: int) -> None:
        self._sink = sink
        self._geocodes = geocodes
        self._groups = RowGroups(rows_per_group(size + 2))

    def add(self, number: int, answers: FloatArray, first: int = 0) -> None:
        """The answers `(n, size)` of the draw `number`, from 0, for the geounits from `first` on; all in order."""
        draw = np.full(len(answers), number + 1, dtype=np.int32)
        for part in self._groups.add(self._geocodes[first : first + len(answers)], draw, answers):
            self._write(part)

    def finish(self) -> None:
        """Write the rows that wait."""
        for part in self._groups.rest():
            self._write(part)

    def _write(self, part: tuple[NDArray[np.generic], ...]) -> None:
        geocodes, draw, answers = part
        columns = np.ascontiguousarray(answers.T)
        self._sink.write(strings(geocodes), pa.array(draw), *(pa.array(column) for column in columns))


@contextmanager
def draws_file(
    target: Path, staging: Path, table: Table, level: str, geocodes: NDArray[np.str_], count: int
) -> Iterator[DrawsFile]:
    """A file of draws, whole or not at all.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        table: whose answers are drawn.
        level: name of the level.
        geocodes: `(n_geounits,)` of the level.
        count: draws.

    Raises:
        ReleaseError: the file cannot be written.
    """
    labels = table.query.answer_labels()
    header = {
        "kind": "draws", "name": table.name, "level": level, "query": table.query.name, "draws": count, "about": _ABOUT,
    }  # fmt: skip
    with parquet_sink(target, staging, _columns(labels), header) as sink:
        file = DrawsFile(sink, geocodes, len(labels))
        yield file
        file.finish()


def read_draws(path: Readable, table: Table, geocodes: NDArray[np.str_], count: int) -> pd.DataFrame:
    """The draws of a file, with the index (draw, geocode) and a column for each label.

    Args:
        path: of the file.
        table: of the release.
        geocodes: `(n_geounits,)` of the level.
        count: draws that the release has.

    Raises:
        ReleaseError: it is missing, damaged, or not of this table, level and number of draws.
    """
    labels = table.query.answer_labels()
    with open_parquet(path, len(geocodes) * count) as file, reading(path):
        header = read_header(file, path)
        if header.get("kind") != "draws" or not file.schema_arrow.equals(_columns(labels)):
            raise ReleaseError(f"{path} is not a file of draws of table {table.name!r}")
        rows = pa.concat_tables(list(read_row_groups(file, path)))
    draw, codes = rows.column(DRAW).to_numpy(), texts(rows.column("geocode"))
    expected = np.repeat(np.arange(1, count + 1), len(geocodes)), np.tile(geocodes, count)
    if not (np.array_equal(draw, expected[0]) and np.array_equal(codes, expected[1])):
        raise ReleaseError(f"{path} is damaged: it does not have {count} draws of the level's geounits, in order")
    import pandas as pd  # only who reads draws loads it

    index = pd.MultiIndex.from_arrays([draw, codes.astype(object)], names=[DRAW, "geocode"])
    return pd.DataFrame({label: rows.column(label).to_numpy() for label in labels}, index=index)


def _columns(labels: Sequence[str]) -> pa.Schema:
    fields = [pa.field("geocode", pa.string(), nullable=False), pa.field(DRAW, pa.int32(), nullable=False)]
    return pa.schema([*fields, *(pa.field(label, pa.float64(), nullable=False) for label in labels)])
