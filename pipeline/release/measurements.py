"""The noisy measurement file: one Parquet file for each level and query, one row a geounit.

Columns: geocode (string), value (list of int64, the query's answers in the order of `Query.answer_labels`), variance
(float64, of the noise on every one of these answers). `pandas.read_parquet` reads it as it is. Invariants, which are
answers without noise, are kept in the same form with mechanism "exact". With mechanism "reports" the values are totals
of randomised reports, and the variance is that of the counts that are made of them by `Collected.debiased`; of words
they are counts in small parts of a person, and the last, the rest of the reports, is not measured by itself. With
mechanism "mixed" the values are the last number of the header's row times counts that have the variance; see
`pipeline.model.mixed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.mixed import MixedNoise
from pipeline.privacy.budget import Mechanism
from pipeline.storage.files import (
    ParquetSink,
    RowGroups,
    open_parquet,
    parquet_sink,
    read_header,
    read_row_group,
    reading,
    rows_per_group,
    strings,
    texts,
)
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pipeline.model.draw import Draw
    from pipeline.model.query import Query

#: The noise, or none: an invariant; "reports": totals of reports, whose debiased counts have the variance; "mixed":
#: numbers in which periods are mixed, discrete Gaussian noise of the scale on them.
MeasuredBy = Mechanism | Literal["exact", "reports", "mixed"]
_MEASURED_BY: tuple[str, ...] = (*get_args(Mechanism), "exact", "reports", "mixed")

_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.string(), nullable=False),
        pa.field("value", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class MeasurementHeader:
    """What was measured, and how.

    Attributes:
        level, query: their names.
        size: number of answers of the query.
        mechanism: the noise; "exact" for an invariant, "reports" for totals of reports.
        scale: sigma^2 of the discrete Gaussian, b of the discrete Laplace; 0 if exact; of reports the variance.
        variance: of the noise on each answer, in persons squared; 0 if exact.
        others: scale and variance in geounits that stand for levels below too, see `pipeline.model.draw`.
        row: of mixed numbers, by how much each period so far is multiplied; else empty.
    """

    level: str
    query: str
    size: int
    mechanism: MeasuredBy
    scale: Fraction
    variance: float
    others: tuple[tuple[Fraction, float], ...] = ()
    row: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.mechanism not in _MEASURED_BY:
            raise ValueError(f"mechanism must be one of {', '.join(_MEASURED_BY)}, got {self.mechanism!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}")
        noisy = self.mechanism != "exact"
        if (self.scale > 0) != noisy or (self.variance > 0) != noisy or not np.isfinite(self.variance):
            raise ValueError(
                f"scale and variance must be 0 if exact and positive if not, got mechanism {self.mechanism}, "
                f"scale {self.scale} and variance {self.variance}"
            )
        if any(scale <= 0 or not 0 < variance < np.inf for scale, variance in self.others):
            raise ValueError(f"other scales and variances must be positive, got {self.others}")
        if bool(self.row) != (self.mechanism == "mixed") or any(type(one) is not int for one in self.row):
            raise ValueError(f"mixed numbers, and they alone, have a row of whole numbers, got {self.row}")

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of each kind of geounit."""
        return (self.variance, *(variance for _, variance in self.others))

    def to_json(self) -> dict[str, object]:
        """As it stands in a file."""
        others = [[str(scale), variance] for scale, variance in self.others]
        return {
            "kind": "measurement",
            "level": self.level,
            "query": self.query,
            "size": self.size,
            "mechanism": self.mechanism,
            "scale": str(self.scale),
            "variance": self.variance,
            **({"others": others} if others else {}),
            **({"row": list(self.row)} if self.row else {}),
        }


def header_of(draw: Draw) -> MeasurementHeader:
    """The header of the file of one measurement."""
    noise, *others = draw.noises
    return MeasurementHeader(
        draw.level,
        draw.query.name,
        draw.query.n_asked,
        noise.mechanism,
        noise.scale,
        noise.variance,
        tuple((other.scale, other.variance) for other in others),
        noise.row if isinstance(noise, MixedNoise) else (),
    )


def exact_header(level: str, query: Query) -> MeasurementHeader:
    """The header of the file of an invariant."""
    return MeasurementHeader(level, query.name, query.size, "exact", Fraction(0), 0.0)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers of one query for some geounits of one level.

    Attributes:
        header: level, query, mechanism, scale.
        geocodes: `(n,)` of str.
        values: `(n, size)` int64, the noisy answers.
        variances: `(n,)` of the noise on each value of a geounit.
    """

    header: MeasurementHeader
    geocodes: NDArray[np.str_]
    values: IntArray
    variances: FloatArray

    @property
    def level(self) -> str:
        """The name of the level."""
        return self.header.level

    @property
    def query(self) -> str:
        """The name of the query."""
        return self.header.query

    @property
    def variance(self) -> float:
        """Variance of the noise on each value, where the geounit stands for its own level alone."""
        return self.header.variance


class MeasurementWriter:
    """Takes a measurement in batches of geounits of any size; `MeasurementWriter.open` gives one."""

    def __init__(self, sink: ParquetSink, header: MeasurementHeader) -> None:
        self._sink = sink
        self._header = header
        self._groups = RowGroups(rows_per_group(header.size))

    @classmethod
    @contextmanager
    def open(
        cls, target: Path, staging: Path, header: MeasurementHeader, *, private: bool = False
    ) -> Iterator[MeasurementWriter]:
        """The writer of a file that appears at `target` when the block ends without an error.

        The file's bytes depend on the header, the geocodes and the values, not on the batches.

        Raises:
            ReleaseError: the file cannot be written.
        """
        with parquet_sink(target, staging, _SCHEMA, header.to_json(), private=private) as sink:
            writer = cls(sink, header)
            yield writer
            writer._append(writer._groups.rest())

    def write(
        self, geocodes: NDArray[np.str_], values: IntArray, kinds: NDArray[np.signedinteger] | None = None
    ) -> None:
        """Append geounits; the arrays are not retained.

        Args:
            geocodes: `(n,)`.
            values: `(n, size)` of a signed integer type.
            kinds: `(n,)` which of the header's variances each geounit has; the first, where it is None.
        """
        if values.shape != (len(geocodes), self._header.size) or values.dtype.kind != "i":
            raise ValueError(
                f"values must be whole numbers of shape {(len(geocodes), self._header.size)}, "
                f"got {values.dtype} of shape {values.shape}"
            )
        kinds = np.zeros(len(geocodes), dtype=np.int8) if kinds is None else kinds
        variances = np.array(self._header.variances)[kinds]
        codes = np.asarray(geocodes, dtype=np.str_)
        self._append(self._groups.add(codes, values.astype(np.int64, copy=False), variances))

    def _append(self, groups: list[tuple[NDArray[Any], ...]]) -> None:
        for geocodes, values, variances in groups:
            n, size = values.shape
            offsets = pa.array(np.arange(0, n * size + 1, size, dtype=np.int32))
            self._sink.write(
                strings(geocodes),
                pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)), type=_SCHEMA.field("value").type),
                pa.array(variances),
            )


class MeasurementFile:
    """An open measurement file, read by ranges of geounits without loading the rest; see `open_measurement`."""

    def __init__(self, file: GuardedFile, path: Path) -> None:
        self._file = file
        self._path = path
        self.header = _read_header(file, path)
        with reading(path):
            columns = file.schema_arrow
        if not columns.equals(_SCHEMA):
            raise ReleaseError(f"{path} has the columns {columns.names}, a measurement has {_SCHEMA.names}")
        file.at_most(file.metadata.num_rows, self.header.size)
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]).astype(np.int64)

    def __len__(self) -> int:
        """Number of geounits."""
        return int(self._starts[-1])

    def geocodes(self) -> NDArray[np.str_]:
        """All geocodes, `(n,)`."""
        with reading(self._path):
            return texts(self._file.read(columns=["geocode"]).column(0))

    def read(self, start: int = 0, stop: int | None = None) -> Measurement:
        """The geounits at positions [start, stop); reads only the row groups they are in."""
        stop = len(self) if stop is None else stop
        values = np.empty((max(stop - start, 0), self.header.size), dtype=np.int64)
        variances, geocodes = np.empty(len(values)), [np.array([], dtype=np.str_)]
        first = 0
        for part in self.parts(start, stop):
            rows = slice(first, first + len(part.values))
            values[rows], variances[rows] = part.values, part.variances
            geocodes.append(part.geocodes)
            first = rows.stop
        return Measurement(self.header, np.concatenate(geocodes), values, variances)

    def parts(self, start: int, stop: int) -> Iterator[Measurement]:
        """The geounits at positions [start, stop), a row group at a time; the arrays cannot be written to."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"[{start}, {stop}) is not a range of the {len(self)} geounits of {self._path}")
        for group in range(int(np.searchsorted(self._starts, start, side="right")) - 1, self._file.num_row_groups):
            begin, end = int(self._starts[group]), int(self._starts[group + 1])
            if begin >= stop:
                return
            own = slice(max(start, begin) - begin, min(stop, end) - begin)
            with reading(self._path):
                table = read_row_group(self._file, group, self._path)
                codes = texts(table.column("geocode"))[own]
                values, variances = self._values(table)[own], table.column("variance").to_numpy()[own]
            yield Measurement(self.header, codes, values, variances)

    def variances(self) -> FloatArray:
        """The variances of all geounits, `(n,)`."""
        with reading(self._path):
            return np.asarray(self._file.read(columns=["variance"]).column(0).to_numpy(), dtype=np.float64)

    def _values(self, table: pa.Table) -> IntArray:
        """Values of a row group, `(rows, size)`; every row must have `size` of them and a variance of the header's."""
        size = self.header.size
        values = table.column("value").combine_chunks()
        regular = np.array_equal(np.asarray(values.offsets), np.arange(0, table.num_rows * size + 1, size))
        if not regular or not np.isin(table.column("variance").to_numpy(), self.header.variances).all():
            raise ReleaseError(
                f"{self._path} is damaged: not every row has the {size} values and the variance "
                f"{' or '.join(map(str, self.header.variances))} that its header states"
            )
        numbers: IntArray = values.values.to_numpy().reshape(table.num_rows, size)
        return numbers


@contextmanager
def open_measurement(path: Readable, rows: int | None = None) -> Iterator[MeasurementFile]:
    """The open measurement file, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_parquet(path, rows) as file:
        yield MeasurementFile(file, path)


def read_measurement(path: Readable) -> Measurement:
    """The whole measurement in memory; see `open_measurement`."""
    with open_parquet(path) as file:
        file.check_whole()
        return MeasurementFile(file, path).read()


def _read_header(file: GuardedFile, path: Path) -> MeasurementHeader:
    return header_in(read_header(file, path), path, "measurement")


def header_in(header: dict[str, Any], path: Path, kind: str) -> MeasurementHeader:
    """The header that a file of noisy answers of a kind has; ReleaseError where it is another."""
    try:
        if header.pop("kind") != kind:
            raise ReleaseError(f"{path} is not a {kind}" if kind == "measurement" else f"{path} is of another kind")
        others = tuple((Fraction(scale), float(variance)) for scale, variance in header.pop("others", ()))
        row = tuple(header.pop("row", ()))
        return MeasurementHeader(**{**header, "scale": Fraction(header["scale"]), "others": others, "row": row})
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ReleaseError(f"{path} is damaged: its header does not describe a measurement ({error})") from error
