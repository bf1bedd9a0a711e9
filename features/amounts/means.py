"""Sums and means of an amount: for one table of a companion at one level, one row for each geounit, empty ones too.

Columns: geocode, then for each answer, under its label with a suffix, the sum (":sum", float64, in the amount's own
units of money or whatever it is in) and, where the release publishes the number of records, that number (":count",
int64) and the mean (":mean", float64). Where margins of error are published, sum and mean have the three columns of a
table's intervals right after them. Null where there is no record, so no mean, or an interval is unknown.

The sum is a whole number of units; the companion's own table has it exactly. The mean is the sum by the released number
of records, and lies within the clip. Its interval is MOVER's of both intervals, as that of an average household size
(`averages`): their noise is independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.schema import AmountAttribute
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable
from pipeline.storage.files import open_parquet, parquet_sink, read_header, reading, strings, texts
from pipeline.storage.readable import Readable
from postprocess.statistics import Averages, Counted, average_sizes

#: Suffixes of the columns of an answer.
SUM, COUNT, MEAN = ":sum", ":count", ":mean"

Floats = NDArray[np.float64]


def path_of(run: RunDirectory, companion: str, table: str, level: str) -> Path:
    """Where sums and means are of a companion's table at a level."""
    folder = run.public / "amounts" / file_name("companion", companion) / file_name("table", table)
    return folder / f"{file_name('level', level)}.parquet"


@dataclass(frozen=True, eq=False)
class Means:
    """Sums and means of the geounits of a level.

    Attributes:
        companion, table, level: what they are of.
        geocodes: `(n,)` of str.
        labels: of the answers, `size` of them.
        sums: `(n, size)`, with intervals.
        counts: `(n, size)` int64 records; None where the release does not publish them.
        means: `(n, size)`, with intervals; None without counts.
    """

    companion: str
    table: str
    level: str
    geocodes: NDArray[np.str_]
    labels: tuple[str, ...]
    sums: Averages
    counts: NDArray[np.int64] | None
    means: Averages | None

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns after the geocode, with their names; NaN for what is null in the file."""
        for number, label in enumerate(self.labels):
            yield from _interval(label + SUM, self.sums, number)
            if self.counts is not None and self.means is not None:
                yield label + COUNT, self.counts[:, number]
                yield from _interval(label + MEAN, self.means, number)


def _interval(name: str, of: Averages, number: int) -> Iterator[tuple[str, Floats]]:
    values = of.values[:, number]
    yield name, values
    if of.lows is not None and of.highs is not None:
        lows, highs = of.lows[:, number], of.highs[:, number]
        margins = np.maximum(values - lows, highs - values)
        yield from zip((name + suffix for suffix in INTERVAL_SUFFIXES), (margins, lows, highs), strict=True)


def means_of(companion: str, amount: AmountAttribute, sums: ReleasedTable, counts: ReleasedTable | None) -> Means:
    """From the published tables of sums, in units, and of counts with the same answers; None where there is none."""
    means = None
    if counts is not None:
        flat = average_sizes(_flat(sums), _flat(counts), amount.first, amount.last)
        ends = (None if end is None else end.reshape(sums.counts.shape) for end in (flat.lows, flat.highs))
        means = _scaled(Averages(flat.values.reshape(sums.counts.shape), *ends), amount.unit)
    return Means(
        companion=companion,
        table=sums.name,
        level=sums.level,
        geocodes=sums.geocodes,
        labels=sums.labels,
        sums=_scaled(Averages(sums.counts.astype(np.float64), sums.lows, sums.highs), amount.unit),
        counts=None if counts is None else counts.counts,
        means=means,
    )


def _flat(table: ReleasedTable) -> Counted:
    """All numbers of a table one after the other."""
    ends = (None if end is None else end.ravel() for end in (table.lows, table.highs))
    return Counted.of_whole(table.counts.ravel(), *ends)


def _scaled(of: Averages, unit: Fraction) -> Averages:
    """Units in what the amount is in: multiplied, then divided, which is exact where the product is a float's."""
    low, high = (None if end is None else end * unit.numerator / unit.denominator for end in (of.lows, of.highs))
    return Averages(of.values * unit.numerator / unit.denominator, low, high)


def _schema(labels: Sequence[str], *, counted: bool, with_margins: bool) -> pa.Schema:
    ends = INTERVAL_SUFFIXES if with_margins else ()
    fields = [pa.field("geocode", pa.string(), nullable=False)]
    for label in labels:
        fields += [pa.field(label + SUM + end, pa.float64()) for end in ("", *ends)]
        if counted:
            fields.append(pa.field(label + COUNT, pa.int64(), nullable=False))
            fields += [pa.field(label + MEAN + end, pa.float64()) for end in ("", *ends)]
    return pa.schema(fields)


def write_means(target: Path, staging: Path, means: Means) -> None:
    """Write the file of a level; ReleaseError where it cannot be written."""
    counted, with_margins = means.counts is not None, means.sums.lows is not None
    header = {
        "kind": "amounts", "companion": means.companion, "table": means.table, "level": means.level,
        "labels": list(means.labels), "counted": counted, "margins": with_margins,
    }  # fmt: skip
    schema = _schema(means.labels, counted=counted, with_margins=with_margins)
    with parquet_sink(target, staging, schema, header) as sink:
        arrays = [
            pa.array(values, mask=np.isnan(values) if values.dtype == np.float64 else None)
            for _, values in means.columns()
        ]
        sink.write(strings(means.geocodes), *arrays)


def read_means(path: Readable, rows: int | None = None) -> Means:
    """What `write_means` wrote, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    keys = {"kind", "companion", "table", "level", "labels", "counted", "margins"}
    with open_parquet(path, rows) as file, reading(path):
        header = read_header(file, path)
        if header.get("kind") != "amounts" or header.keys() != keys:
            raise ReleaseError(f"{path} is not a file of sums and means of an amount")
        labels = tuple(map(str, header["labels"]))
        counted, with_margins = bool(header["counted"]), bool(header["margins"])
        if not file.schema_arrow.equals(_schema(labels, counted=counted, with_margins=with_margins)):
            raise ReleaseError(f"{path} is damaged: its columns are not those of sums and means")
        table = file.read()

    def read(suffix: str) -> NDArray[np.generic]:
        return np.stack([np.array(table.column(label + suffix).to_numpy()) for label in labels], axis=1)

    def numbers(suffix: str) -> Averages:
        _, low, high = INTERVAL_SUFFIXES
        ends = (read(suffix + low).astype(np.float64), read(suffix + high).astype(np.float64)) if with_margins else None
        return Averages(read(suffix).astype(np.float64), *(ends or (None, None)))

    return Means(
        companion=str(header["companion"]),
        table=str(header["table"]),
        level=str(header["level"]),
        geocodes=texts(table.column("geocode")),
        labels=labels,
        sums=numbers(SUM),
        counts=read(COUNT).astype(np.int64) if counted else None,
        means=numbers(MEAN) if counted else None,
    )
