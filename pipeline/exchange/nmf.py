"""Noisy measurement files in the layout that the Census Bureau published them in for 2020.

One row for each geounit and query, with the columns

    geocode       text
    query_name    text, such as "votingage * hispanic"; the Bureau adds "_dpq"
    query_shape   list of whole numbers, one an attribute: into how many groups its values fall, 1 where summed out
    value         list of whole numbers, the noisy answers in C order over the shape
    variance      number, of the noise on each of them; 0 for what is published exactly (invariants)

one Parquet file a level, `<level>.parquet`, or a folder `<level>` of such files; companions in `companions/<name>/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geography.spine import first_few
from pipeline.errors import InputError, MemoryShortError, ReleaseError, SpecError
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.privacy.noise.mechanisms import NOISES
from pipeline.release.measurements import MeasurementHeader, open_measurement
from pipeline.storage.files import texts
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable, local_name
from postprocess.arrays import FloatArray, IntArray

_SCHEMA: Final = pa.schema(
    [
        pa.field("geocode", pa.string(), nullable=False),
        pa.field("query_name", pa.string(), nullable=False),
        pa.field("query_shape", pa.list_(pa.int64()), nullable=False),
        pa.field("value", pa.list_(pa.int64()), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)
_SUFFIX: Final = "_dpq"
#: Numbers in one row group.
_AT_ONCE: Final = 1 << 22
#: No noisy count of persons is larger.
_LARGEST: Final = 1 << 50
#: Relative difference up to which two variances are the same.
_SAME_VARIANCE: Final = 1e-6


def write_nmf(target: Path, measurements: Sequence[tuple[Readable, Query]]) -> None:
    """Write all measurements (and exact answers) of one level to one file; ReleaseError where one is damaged."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(local_name(target), _SCHEMA, compression="zstd") as writer:
        for path, query in measurements:
            with open_measurement(path) as file:
                step = max(1, _AT_ONCE // query.size)
                for start in range(0, len(file), step):
                    part = file.read(start, min(start + step, len(file)))
                    n = len(part.geocodes)
                    columns = [
                        pa.array(part.geocodes.tolist(), pa.string()),
                        pa.array([query.name], pa.string()).take(pa.array(np.zeros(n, dtype=np.int64))),
                        _lists(np.tile(np.array(query.sizes, dtype=np.int64), (n, 1))),
                        _lists(part.values),
                        pa.array(part.variances),
                    ]
                    writer.write_table(pa.table(columns, schema=_SCHEMA))


def _lists(values: IntArray) -> pa.ListArray:
    n, size = values.shape
    offsets = pa.array(np.arange(0, n * size + 1, size, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).reshape(-1)))


@dataclass(frozen=True, eq=False)
class Wanted:
    """A measurement that a spec calls for.

    Attributes:
        header: the header of its file in a release.
        geocodes: `(n,)` those that are measured, in the order of the spine.
        kinds: `(n,)` which of the header's variances each has; None where all have the first.
    """

    query: Query
    header: MeasurementHeader
    geocodes: NDArray[np.str_]
    kinds: NDArray[np.int8] | None = None

    @property
    def exact(self) -> bool:
        """Whether the answers are exact (an invariant), not noisy."""
        return self.header.mechanism == "exact"

    def variances(self) -> FloatArray:
        """The variance of each geounit's answers, `(n,)`."""
        kinds = np.zeros(len(self.geocodes), dtype=np.int8) if self.kinds is None else self.kinds
        return np.array(self.header.variances)[kinds]

    def nominal(self) -> FloatArray:
        """The same by the scale alone, sigma^2 or 2 b^2, as a file made elsewhere may state it."""
        kind, scales = NOISES[self.header.mechanism], (self.header.scale, *(scale for scale, _ in self.header.others))
        kinds = np.zeros(len(self.geocodes), dtype=np.int8) if self.kinds is None else self.kinds
        return np.array([float(kind(scale).continuous_variance) for scale in scales])[kinds]


class LevelMeasurements:
    """The measurements of one level, read from files made elsewhere.

    Args:
        level: its name, for messages.
        schema: of the universe.
        wanted: what the spec calls for; each must be there, for each of its geounits, and nothing else.
    """

    def __init__(self, level: str, schema: Schema, wanted: Sequence[Wanted]) -> None:
        self.level = level
        self._schema = schema
        self._wanted = {(expected.query.terms, expected.exact): expected for expected in wanted}
        self._order = {key: np.argsort(expected.geocodes) for key, expected in self._wanted.items()}
        self._values = {
            key: np.zeros((len(expected.geocodes), expected.query.size), dtype=np.int64)
            for key, expected in self._wanted.items()
        }
        self._seen = {key: np.zeros(len(expected.geocodes), dtype=np.int64) for key, expected in self._wanted.items()}
        self._keys: dict[str, tuple[str, ...]] = {}

    def read(self, path: Path) -> None:
        """Take in one file.

        Raises:
            InputError: it is damaged, or has what the spec does not call for; the message names file and place.
        """
        most_rows = sum(len(expected.geocodes) for expected in self._wanted.values())
        most = max((expected.query.size for expected in self._wanted.values()), default=1)
        for first, table in _parts(path, most_rows, max(most, len(self._schema.shape))):
            names = table.column("query_name").combine_chunks().dictionary_encode()
            variances = table.column("variance").to_numpy()
            if not (np.isfinite(variances) & (variances >= 0)).all():
                row = int(np.flatnonzero(~(np.isfinite(variances) & (variances >= 0)))[0])
                raise InputError(
                    f"{path}: row {first + row + 1:,}: variance: found {variances[row]}; a number from 0 is needed"
                )
            codes = names.indices.to_numpy()
            for number, name in enumerate(names.dictionary.to_pylist()):
                terms = self._terms(name, path)
                for exact in (False, True):
                    rows = np.flatnonzero((codes == number) & ((variances == 0) == exact))
                    if len(rows):
                        self._take(path, first, table.take(pa.array(rows)), rows, name, (terms, exact))

    def _terms(self, name: str, path: Path) -> tuple[str, ...]:
        if name not in self._keys:
            try:
                query = Query.parse(name.strip().removesuffix(_SUFFIX).strip(), self._schema)
            except SpecError as error:
                raise InputError(f"{path}: query_name {name!r}: {error}") from None
            self._keys[name] = query.terms
        return self._keys[name]

    def _take(
        self,
        path: Path,
        first: int,
        table: pa.Table,
        rows: IntArray,
        name: str,
        key: tuple[tuple[str, ...], bool],
    ) -> None:
        subject = f"{name!r} at level {self.level!r}"
        if key not in self._wanted:
            kind = "an exact answer (variance 0)" if key[1] else "a noisy answer"
            raise InputError(
                f"{path}: row {first + int(rows[0]) + 1:,}: {kind} of {subject}; the spec does not call for one there"
            )
        expected = self._wanted[key]
        shapes, values = table.column("query_shape").combine_chunks(), table.column("value").combine_chunks()
        for label, lists, required in (
            ("query_shape", shapes, len(expected.query.sizes)),
            ("value", values, expected.query.size),
        ):
            lengths = np.diff(np.asarray(lists.offsets))
            if (lengths != required).any():
                row = int(np.flatnonzero(lengths != required)[0])
                raise InputError(
                    f"{path}: row {first + int(rows[row]) + 1:,}: {label} of {subject}: found {lengths[row]} numbers; "
                    f"{required} are needed"
                )
            numbers = lists.flatten()
            if numbers.null_count or (np.abs(numbers.to_numpy().astype(np.float64)) > _LARGEST).any():
                raise InputError(
                    f"{path}: {label} of {subject}: a number is missing or beyond {_LARGEST:,}; "
                    "whole numbers are needed"
                )
        shape = shapes.flatten().to_numpy().reshape(len(rows), -1)
        if (shape != np.array(expected.query.sizes)).any():
            shown_shape = shape[(shape != np.array(expected.query.sizes)).any(axis=1)][0].tolist()
            raise InputError(
                f"{path}: query_shape of {subject}: found {shown_shape}; "
                f"by the spec's attributes it is {list(expected.query.sizes)}"
            )
        geocodes = texts(table.column("geocode"))
        order = self._order[key]
        if not len(order):
            raise InputError(
                f"{path}: {subject}: by the spec no geounit is measured there, found {first_few(geocodes)}"
            )
        near = order[np.minimum(np.searchsorted(expected.geocodes, geocodes, sorter=order), len(order) - 1)]
        strange = expected.geocodes[near] != geocodes
        if strange.any():
            raise InputError(
                f"{path}: {subject}: {int(strange.sum()):,} geocodes that are not measured there by the spec: "
                f"{first_few(geocodes[strange])}"
            )
        self._values[key][near] = values.flatten().to_numpy().reshape(len(rows), -1)
        np.add.at(self._seen[key], near, 1)
        if not expected.exact:
            self._check_variances(path, subject, expected, near, table.column("variance").to_numpy())

    def _check_variances(
        self, path: Path, subject: str, expected: Wanted, near: IntArray, variances: FloatArray
    ) -> None:
        exact, nominal = expected.variances()[near], expected.nominal()[near]
        mismatch = ~(
            np.isclose(variances, exact, rtol=_SAME_VARIANCE, atol=0)
            | np.isclose(variances, nominal, rtol=_SAME_VARIANCE, atol=0)
        )
        if mismatch.any():
            row = int(np.flatnonzero(mismatch)[0])
            raise InputError(
                f"{path}: variance of {subject} in {expected.geocodes[near[row]]}: found {variances[row]:g}; "
                f"by the spec's budget and shares it is {exact[row]:g}: state the budget that the noise was drawn with"
            )

    def answers(self) -> Iterator[tuple[Wanted, IntArray]]:
        """Each measurement with its values `(n, size)`; InputError where a geounit is missing or occurs twice."""
        for key, expected in self._wanted.items():
            kind = "the exact answers (variance 0)" if expected.exact else "the noisy answers"
            for affected, problem in (
                (self._seen[key] == 0, "missing"),
                (self._seen[key] > 1, "present several times"),
            ):
                if affected.any():
                    raise InputError(
                        f"level {self.level!r}: {kind} of {expected.query.name!r} are {problem} for "
                        f"{int(affected.sum()):,} of {len(affected):,} geounits: "
                        f"{first_few(expected.geocodes[affected])}"
                    )
            yield expected, self._values[key]


def level_files(folder: Path, level: str) -> list[Path]:
    """The files of a level: `<level>.parquet`, or the Parquet files in the folder `<level>`; case does not matter."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; a folder of noisy measurement files is needed")
    for path in sorted(folder.iterdir()):
        if path.name.casefold() == f"{level}.parquet".casefold() and path.is_file():
            return [path]
        is_level = path.name.casefold() in (level.casefold(), f"{level}.parquet".casefold())
        if is_level and path.is_dir() and (files := sorted(path.rglob("*.parquet"))):
            return files
    return []


def _parts(path: Path, rows: int, values: int) -> Iterator[tuple[int, pa.Table]]:
    """Row groups of a file with the number of their first row, in the types of the layout.

    A file that states more than `rows` rows, or `values` numbers in one, is not read.
    """
    try:
        with GuardedFile(path, own_groups=False) as file:
            file.at_most(rows, values)
            missing = [name for name in _SCHEMA.names if name not in file.schema_arrow.names]
            if missing:
                raise InputError(
                    f"{path}: no column {', '.join(missing)}; noisy measurement files have {', '.join(_SCHEMA.names)}"
                )
            if twice := [name for name in _SCHEMA.names if file.schema_arrow.names.count(name) > 1]:
                raise InputError(f"{path}: several columns are named {', '.join(twice)}; each may be there once")
            first = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=_SCHEMA.names)
                if any(table.column(name).null_count for name in _SCHEMA.names):
                    raise InputError(f"{path}: a field is empty in rows {first + 1:,} to {first + table.num_rows:,}")
                yield first, table.select(_SCHEMA.names).cast(_SCHEMA)
                first += table.num_rows
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(path)) from None
    except ReleaseError as error:
        raise InputError(str(error)) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as noisy measurements: {str(error).splitlines()[0]}") from None
