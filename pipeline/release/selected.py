"""The file of a selection: for each geounit of a level the version chosen, and its noisy answers.

Columns: geocode (string), version (string, the query chosen), value (list of int64, its answers with noise, in the
order of `Query.answer_labels`; as drawn, so they can be negative), variance (float64, of the noise on each).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.selection import Selection
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
from postprocess.arrays import BoolArray, IntArray

_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("value", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class Selected:
    """What some geounits of a level chose, and what was measured of it.

    Attributes:
        geocodes: `(n,)` of str.
        chosen: `(n,)` int64, number of the version.
        values: `(n, size)` int64, `size` that of the most detailed version; 0 beyond the answers of the one chosen.
    """

    geocodes: NDArray[np.str_]
    chosen: IntArray
    values: IntArray


def answered(selection: Selection, chosen: IntArray) -> BoolArray:
    """`(n, size)`: which of the numbers are answers of the version chosen."""
    sizes = np.array([query.size for query in selection.versions])
    return np.arange(selection.size)[None, :] < sizes[chosen][:, None]


def write_selected(target: Path, staging: Path, selection: Selection, parts: Iterable[Selected]) -> None:
    """Write the geounits of a level in order; the bytes depend on what they hold, not on the parts.

    Raises:
        ReleaseError: the file cannot be written.
    """
    groups = RowGroups(rows_per_group(selection.size))
    with parquet_sink(target, staging, _SCHEMA, _header(selection)) as sink:
        for part in parts:
            for group in groups.add(part.geocodes, part.chosen, part.values):
                _write(sink, selection, *group)
        for group in groups.rest():
            _write(sink, selection, *group)


def read_selected(path: Readable, selection: Selection, rows: int | None = None) -> Iterator[Selected]:
    """The file's geounits, at most `rows` of them, some at a time.

    Raises:
        ReleaseError: it is missing or damaged, or does not match the spec.
    """
    with open_parquet(path, rows) as file, reading(path):
        header, expected = read_header(file, path), _header(selection)
        # The variance follows from the scale; a float of another machine is not relied on.
        if differing := [key for key in expected if key != "variance" and header.get(key) != expected[key]]:
            actual, required = header.get(differing[0]), expected[differing[0]]
            raise ReleaseError(
                f"{path} does not match the spec: its {differing[0]} is {actual}, and {required} is expected"
            )
        if not file.schema_arrow.equals(_SCHEMA):
            raise ReleaseError(f"{path} has the columns {file.schema_arrow.names}, a selection has {_SCHEMA.names}")
        for table in read_row_groups(file, path):
            yield _read(table, path, selection)


def _header(selection: Selection) -> dict[str, Any]:
    return {
        "kind": "selected",
        "name": selection.name,
        "level": selection.level,
        "versions": [query.name for query in selection.versions],
        "sizes": [query.size for query in selection.versions],
        "thresholds": [least for _, least in selection.select.versions],
        "epsilon": str(selection.select.epsilon),
        "mechanism": selection.noise.mechanism,
        "scale": str(selection.noise.scale),
        "variance": selection.noise.variance,
    }


def _write(
    sink: ParquetSink,
    selection: Selection,
    geocodes: NDArray[np.str_],
    chosen: IntArray,
    values: IntArray,
) -> None:
    mask = answered(selection, chosen)
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    sink.write(
        strings(geocodes),
        pa.array(selection.select.names(chosen), pa.string()),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[mask]), type=_SCHEMA.field("value").type),
        pa.array(np.full(len(chosen), selection.noise.variance)),
    )


def _read(table: pa.Table, path: Path, selection: Selection) -> Selected:
    names = [query.name for query in selection.versions]
    versions = table.column("version").to_pylist()
    if unknown := sorted(set(versions) - set(names)):
        raise ReleaseError(f"{path} is damaged: {unknown[0]!r} is not a version; they are {', '.join(names)}")
    chosen = np.array([names.index(version) for version in versions], dtype=np.int64)
    mask, lists = answered(selection, chosen), table.column("value").combine_chunks()
    if not np.array_equal(np.diff(np.asarray(lists.offsets)), mask.sum(axis=1)):
        raise ReleaseError(f"{path} is damaged: not every row has the answers of the version chosen")
    if not np.allclose(table.column("variance").to_numpy(), selection.noise.variance, rtol=1e-9, atol=0.0):
        raise ReleaseError(f"{path} is damaged: its variances are not {selection.noise.variance}")
    values = np.zeros(mask.shape, dtype=np.int64)
    values[mask] = lists.flatten().to_numpy()
    return Selected(texts(table.column("geocode")), chosen, values)
