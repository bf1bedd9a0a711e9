"""Public numbers of areas, from a file that a spec names with one row a geounit: facilities of bounds, and others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Spine, first_few
from pipeline.errors import InputError
from pipeline.inputs.public_file import open_public
from pipeline.model.universe import Bound
from pipeline.records.columns import LARGEST_COUNT, MISSING, CountReader, LeafReader, NumberReader, parse_count
from pipeline.records.problems import MistakeLog
from pipeline.records.record_files import column_names
from postprocess.arrays import FloatArray, IntArray

#: Largest number: more than square metres of any country, and far from where digits are lost in sums.
LARGEST_NUMBER = 1e15

_NEGATIVE, _NOT_A_NUMBER, _TOO_LARGE = -2, -3, -4


@dataclass(frozen=True)
class AreaNumberReader(NumberReader):
    """Reads a column of numbers from 0 to LARGEST_NUMBER. NaN is a missing number; infinity is not a number.

    Attributes:
        geocodes: of the rows; messages name those of the geounits.
    """

    geocodes: pa.Array
    problems = {  # noqa: RUF012
        MISSING: "a missing number",
        _NEGATIVE: "a negative number",
        _NOT_A_NUMBER: "something that is not a number",
        _TOO_LARGE: "a number that is too large",
    }
    allowed = "allowed are numbers from 0 to 10^15"

    def where(self, rows: IntArray) -> str:
        """With the geounits."""
        codes = ", ".join(str(self.geocodes[int(row)].as_py()) for row in rows[:3])
        more, several = ", ..." if len(rows) > 3 else "", "s" if len(rows) > 1 else ""
        return f"column {self.column!r}, geounit{several} {codes}{more}"

    def parse(self, value: object) -> float:
        """The number that `value` states, or which problem it has (a negative constant of this module)."""
        if isinstance(value, bool):
            return _NOT_A_NUMBER
        if value is None or (isinstance(value, str) and not value.strip()):
            return MISSING
        if not isinstance(value, str | int | float | Decimal) or (isinstance(value, str) and "_" in value):
            return _NOT_A_NUMBER
        try:
            number = float(value)
        except ValueError:
            return _NOT_A_NUMBER
        if math.isnan(number):
            return MISSING
        if number < 0:
            return _NEGATIVE
        if math.isinf(number):
            return _NOT_A_NUMBER
        return number if number <= LARGEST_NUMBER else _TOO_LARGE


#: Added to whole numbers of either sign, so that none that is right is negative.
_SHIFT: Final = 2 * LARGEST_COUNT


@dataclass(frozen=True)
class SignedReader(AreaNumberReader):
    """Reads a column of whole numbers from -LARGEST_COUNT to LARGEST_COUNT, to each of which `_SHIFT` is added."""

    problems = CountReader.problems
    allowed = f"allowed are whole numbers from -{LARGEST_COUNT:,} to {LARGEST_COUNT:,}"

    def parse(self, value: object) -> int:
        """The number that `value` states, or which problem it has."""
        text = str(value).strip() if isinstance(value, str | int | float | Decimal) else ""
        negative = text.startswith("-")
        found = parse_count(text[1:] if negative else value)
        return found if found < 0 else _SHIFT + (-found if negative else found)


N = TypeVar("N", np.int64, np.float64)
#: The most persons that all facilities of a bound can have together: sums of them stay far within 64 bits.
MOST_BOUNDED: Final = 10**15


def read_facilities(bound: Bound, spine: Spine) -> IntArray:
    """The number of facilities of each answer that the bound is on, `(n_geounits, n_columns)` int64.

    Columns are in the order of the answers' numbers.

    Raises:
        InputError: the file cannot be read, does not have one row for each geounit of the bound's level, or allows
            more than `MOST_BOUNDED` persons.
    """
    where = f"bound {bound.name!r}"
    names, upto = [bound.columns[answer] for answer in sorted(bound.columns)], spine.down_to(bound.level)
    facilities = _read_rows(where, bound.file, bound.geocode, names, upto, lambda name, _: CountReader(name), np.int64)
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
    return _read_rows(where, path, geocode, names, upto, AreaNumberReader, np.float64)


def read_whole_numbers(where: str, path: Path, geocode: str, names: Sequence[str], upto: Spine) -> IntArray:
    """Whole numbers of the geounits of the lowest level of a spine, `(n_geounits, n_columns)` int64.

    Args:
        where: the key of the spec that names the file, for messages.
        path: CSV or Parquet with one row a geounit, and no other columns than these.
        geocode: the file's column of geocodes.
        names: its columns of numbers.
        upto: down to the level that the file has numbers for.

    Raises:
        InputError: the file cannot be read, has other columns, or not one row with whole numbers for each geounit.
    """
    try:
        found = column_names(path)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if other := [name for name in found if name not in (geocode, *names)]:
        raise InputError(
            f"{where}: {path}: found the columns {first_few(other)}; none but {geocode} and {len(names):,} others are "
            f"read: {first_few(names)}"
        )
    return _read_rows(where, path, geocode, names, upto, SignedReader, np.int64) - _SHIFT


def _read_rows(
    where: str,
    path: Path,
    geocode: str,
    names: Sequence[str],
    upto: Spine,
    reader_of: Callable[[str, pa.Array], NumberReader],
    dtype: type[N],
) -> NDArray[N]:
    """The columns of some names, `(n_geounits, n_columns)`; a reader is made of a name and a chunk's geocodes.

    InputError where the file cannot be read, or a geounit has no row, or several.
    """
    numbers = np.zeros((upto.n_leaves, len(names)), dtype)
    rows_of, last_of = (np.zeros(upto.n_leaves, dtype=np.int64) for _ in range(2))
    first_row = 0
    try:
        file = open_public(path, [geocode, *names], "the public file")
        reader, log = LeafReader(upto, geocode, path), MistakeLog(path, file.find_lines)
        for chunk in file.chunks():
            geounits, _ = reader.read(chunk.column(geocode), first_row, log)
            placed = geounits >= 0
            rows_of += np.bincount(geounits[placed], minlength=upto.n_leaves)
            last_of[geounits[placed]] = first_row + np.flatnonzero(placed) + 1
            for number, name in enumerate(names):
                found = reader_of(name, chunk.column(geocode)).read(chunk.column(name), first_row, log)
                numbers[geounits[placed], number] = found[placed]
            first_row += chunk.num_rows
        log.raise_if_any()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    for affected, problem in ((rows_of > 1, "several rows"), (rows_of == 0, "no row")):
        if affected.any():
            codes, level = upto.leaf_level.geocodes[affected], upto.level_names[-1]
            last = f" (the last is row {last_of[affected][0]:,})" if problem[0] == "s" else ""
            raise InputError(
                f"{where}: {path}: {len(codes):,} geounits of level {level!r} have {problem}: "
                f"{first_few(codes)}{last}; each needs one"
            )
    return numbers
