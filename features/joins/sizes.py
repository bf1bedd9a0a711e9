"""Average household sizes of a level: one row for each geounit, empty ones too.

Columns: geocode, persons and households (int64), average (float64) and, where margins of error are published,
"average:moe90", "average:low90" and "average:high90" (float64), as a table has them. Null where there are no
households, and the last three where the interval of a count is unknown. No number is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.release.tables import INTERVAL_SUFFIXES
from pipeline.storage.files import open_parquet, parquet_sink, read_header, reading, rows_per_group, strings, texts
from pipeline.storage.readable import Readable
from postprocess.statistics import Averages

#: Columns of the file; the interval's follow the last.
PERSONS, HOUSEHOLDS, AVERAGE = "persons", "households", "average"


@dataclass(frozen=True, eq=False)
class HouseholdSizes:
    """Average household sizes of the geounits of a level.

    Attributes:
        companion: whose records are the households.
        level: of the geounits.
        geocodes: `(n,)` of str.
        persons, households: `(n,)` int64, released.
        averages: persons for each household, and their intervals.
    """

    companion: str
    level: str
    geocodes: NDArray[np.str_]
    persons: NDArray[np.int64]
    households: NDArray[np.int64]
    averages: Averages

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns after the geocode, with their names; NaN for what is null in the file."""
        yield PERSONS, self.persons
        yield HOUSEHOLDS, self.households
        values, lows, highs = self.averages.values, self.averages.lows, self.averages.highs
        yield AVERAGE, values
        if lows is not None and highs is not None:
            margins = np.maximum(values - lows, highs - values)
            yield from zip((AVERAGE + suffix for suffix in INTERVAL_SUFFIXES), (margins, lows, highs), strict=True)


def _columns(*, with_margins: bool) -> pa.Schema:
    names = [AVERAGE, *(AVERAGE + suffix for suffix in INTERVAL_SUFFIXES if with_margins)]
    fields = [pa.field("geocode", pa.string(), nullable=False)]
    fields += [pa.field(name, pa.int64(), nullable=False) for name in (PERSONS, HOUSEHOLDS)]
    return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in names)])


def write_household_sizes(target: Path, staging: Path, sizes: HouseholdSizes) -> None:
    """Write the file of a level; ReleaseError where it cannot be written."""
    with_margins = sizes.averages.lows is not None
    columns = _columns(with_margins=with_margins)
    header = {
        "kind": "household sizes", "companion": sizes.companion, "level": sizes.level, "margins": with_margins,
    }  # fmt: skip
    step = rows_per_group(len(columns))
    with parquet_sink(target, staging, columns, header) as sink:
        for first in range(0, len(sizes.geocodes), step):
            rows = slice(first, first + step)
            arrays = [
                pa.array(values[rows], mask=np.isnan(values[rows]) if values.dtype == np.float64 else None)
                for _, values in sizes.columns()
            ]
            sink.write(strings(sizes.geocodes[rows]), *arrays)


def read_household_sizes(path: Readable, rows: int | None = None) -> HouseholdSizes:
    """What `write_household_sizes` wrote, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_parquet(path, rows) as file, reading(path):
        header = read_header(file, path)
        if header.get("kind") != "household sizes" or header.keys() != {"kind", "companion", "level", "margins"}:
            raise ReleaseError(f"{path} is not a file of average household sizes")
        with_margins = bool(header["margins"])
        if not file.schema_arrow.equals(_columns(with_margins=with_margins)):
            raise ReleaseError(f"{path} is damaged: its columns are not those of average household sizes")
        table = file.read()
    counts = [table.column(name).to_numpy() for name in (PERSONS, HOUSEHOLDS)]
    names = (AVERAGE, *(AVERAGE + suffix for suffix in INTERVAL_SUFFIXES[1:])) if with_margins else (AVERAGE,)
    values = [np.array(table.column(name).to_numpy(), dtype=np.float64) for name in names]
    lows, highs = (values[1], values[2]) if with_margins else (None, None)
    return HouseholdSizes(
        companion=str(header["companion"]),
        level=str(header["level"]),
        geocodes=texts(table.column("geocode")),
        persons=counts[0],
        households=counts[1],
        averages=Averages(values[0], lows, highs),
    )
