"""Public numbers of areas, from a file that a spec names with one row a geounit: facilities of bounds, and others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Spine, first_few
from pipeline.errors import InputError, RecordsError
from pipeline.inputs.public_file import open_public
from pipeline.model.memory_table import MemoryTable
from pipeline.model.universe import Bound
from pipeline.records.columns import CountReader, Distinct, LeafReader
from pipeline.records.problems import MistakeLog
from pipeline.records.record_files import RecordsFile
from postprocess.arrays import FloatArray, IntArray

#: Largest number: more than square metres of any country, and far from where digits are lost in sums.
LARGEST_NUMBER = 1e15

_MISSING, _NEGATIVE, _NOT_A_NUMBER, _TOO_LARGE = -1.0, -2.0, -3.0, -4.0
_PROBLEMS = {
    _MISSING: "a missing number",
    _NEGATIVE: "a negative number",
    _NOT_A_NUMBER: "something that is not a number",
    _TOO_LARGE: "a number that is too large",
}


def read_numbers(name: str, column: pa.Array, geocodes: pa.Array, first_row: int, log: MistakeLog) -> FloatArray:
    """The number of each row of a column, `(n_rows,)`, negative where it is noted in `log` as wrong, with its geocode.

    Numbers are from 0 to LARGEST_NUMBER. NaN is a missing number; infinity is not a number.
    """
    distinct = Distinct.of(column)
    of_value = np.array([parse_number(value) for value in distinct.values.to_pylist()], dtype=np.float64)
    numbers: FloatArray = np.append(of_value, _MISSING)[distinct.index]
    if numbers.size and numbers.min() < 0:
        for problem, description in _PROBLEMS.items():
            rows = np.flatnonzero(numbers == problem)
            if len(rows):
                codes = ", ".join(str(geocodes[int(row)].as_py()) for row in rows[:3])
                more, several = ", ..." if len(rows) > 3 else "", "s" if len(rows) > 1 else ""
                where = f"column {name!r}, geounit{several} {codes}{more}"
                texts = () if problem == _MISSING else distinct.first_found(rows)
                log.add(where, description, first_row + rows + 1, texts, "allowed are numbers from 0 to 10^15")
    return numbers


def parse_number(value: object) -> float:
    """The number that `value` states, or which problem it has (a negative constant of this module)."""
    if isinstance(value, bool):
        return _NOT_A_NUMBER
    if isinstance(value, str):
        if not value.strip():
            return _MISSING
        try:
            number = float(value) if "_" not in value else math.inf
        except ValueError:
            return _NOT_A_NUMBER
        if math.isnan(number):
            return _MISSING
    elif isinstance(value, int | float | Decimal):
        number = float(value)
        if math.isnan(number):
            return _MISSING
    else:
        return _MISSING if value is None else _NOT_A_NUMBER
    if number < 0:
        return _NEGATIVE
    if math.isinf(number):
        return _NOT_A_NUMBER
    return number if number <= LARGEST_NUMBER else _TOO_LARGE


N = TypeVar("N", np.int64, np.float64)

#: The most persons that all facilities of a bound can have together: sums of them stay far within 64 bits.
MOST_BOUNDED: Final = 10**15
#: Reads the column of a name, of a chunk whose first row has a number; mistakes are noted.
_Read = Callable[[str, pa.RecordBatch, int, MistakeLog], NDArray[N]]


def read_facilities(bound: Bound, spine: Spine) -> IntArray:
    """The number of facilities of each answer that the bound is on, `(n_geounits, n_columns)` int64.

    Columns are in the order of the answers' numbers.

    Raises:
        InputError: the file cannot be read, does not have one row for each geounit of the bound's level, or allows
            more than `MOST_BOUNDED` persons.
    """
    where = f"bound {bound.name!r}"
    names = [bound.columns[answer] for answer in sorted(bound.columns)]
    file = open_public(bound.file, [bound.geocode, *names], f"the file of the {where}")

    def read(name: str, chunk: pa.RecordBatch, first_row: int, log: MistakeLog) -> IntArray:
        return CountReader(name).read(chunk.column(name), first_row, log)

    upto = spine.down_to(bound.level)
    facilities = np.zeros((upto.n_leaves, len(names)), dtype=np.int64)
    _read_rows(where, (bound.file, file), bound.geocode, names, upto, read, facilities)
    most = sum(facilities.sum(axis=0).tolist()) * bound.upper
    if most > MOST_BOUNDED:
        raise InputError(
            f"{where}: upper: found {bound.upper:,} persons for each of the facilities of {bound.file}, {most:,} in "
            f"all; up to {MOST_BOUNDED:,} are allowed"
        )
    return facilities


def read_area_numbers(where: str, path: Path, geocode: str, names: Sequence[str], upto: Spine) -> FloatArray:
    """The public numbers of the geounits of the lowest level of a spine, `(n_geounits, n_columns)`.

    Args:
        where: the key of the spec that names the file, for messages.
        path: CSV or Parquet with one row a geounit.
        geocode: the file's column of geocodes.
        names: its columns of numbers.
        upto: down to the level that the file has numbers for.

    Raises:
        InputError: the file cannot be read, or does not have one row with a number from 0 for each geounit.
    """
    try:
        file = open_public(path, [geocode, *names], "the public file")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None

    def read(name: str, chunk: pa.RecordBatch, first_row: int, log: MistakeLog) -> FloatArray:
        return read_numbers(name, chunk.column(name), chunk.column(geocode), first_row, log)

    numbers = np.zeros((upto.n_leaves, len(names)))
    _read_rows(where, (path, file), geocode, names, upto, read, numbers, say_last=True)
    return numbers


def _read_rows(
    where: str,
    source: tuple[Path | MemoryTable, RecordsFile],
    geocode: str,
    names: Sequence[str],
    upto: Spine,
    read: _Read[N],
    numbers: NDArray[N],
    *,
    say_last: bool = False,
) -> None:
    """Read the columns of some names into `numbers`, `(n_geounits, n_columns)`, one row a geounit.

    InputError where a geounit has no row, or several; of these the last is named if that is wanted.
    """
    path, file = source
    rows_of, last_of = (np.zeros(upto.n_leaves, dtype=np.int64) for _ in range(2))
    reader, log = LeafReader(upto, geocode, path), MistakeLog(path, file.find_lines)
    first_row = 0
    try:
        for chunk in file.chunks():
            geounits, _ = reader.read(chunk.column(geocode), first_row, log)
            placed = geounits >= 0
            rows_of += np.bincount(geounits[placed], minlength=upto.n_leaves)
            last_of[geounits[placed]] = first_row + np.flatnonzero(placed) + 1
            for number, name in enumerate(names):
                numbers[geounits[placed], number] = read(name, chunk, first_row, log)[placed]
            first_row += chunk.num_rows
        log.raise_if_any()
    except RecordsError as error:
        raise InputError(f"{where}: {error}") from None
    for affected, problem in ((rows_of > 1, "several rows"), (rows_of == 0, "no row")):
        if affected.any():
            codes, level = upto.leaf_level.geocodes[affected], upto.level_names[-1]
            last = f" (the last is row {last_of[affected][0]:,})" if say_last and problem[0] == "s" else ""
            raise InputError(
                f"{where}: {path}: {len(codes):,} geounits of level {level!r} have {problem}: "
                f"{first_few(codes)}{last}; each needs one"
            )
