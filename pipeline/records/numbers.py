"""Reads a column of public numbers that are not counts of records: any number from 0, whole or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.records.columns import Distinct
from pipeline.records.problems import MistakeLog

#: Largest number: more than square metres of any country, and far from where digits are lost in sums.
LARGEST_NUMBER = 1e15

_MISSING, _NEGATIVE, _NOT_A_NUMBER, _TOO_LARGE = -1.0, -2.0, -3.0, -4.0
_PROBLEMS = {
    _MISSING: "a missing number",
    _NEGATIVE: "a negative number",
    _NOT_A_NUMBER: "something that is not a number",
    _TOO_LARGE: "a number that is too large",
}


@dataclass(frozen=True)
class NumberReader:
    """Reads a column of numbers from 0 to LARGEST_NUMBER."""

    column: str

    def read(self, column: pa.Array, geocodes: pa.Array, first_row: int, log: MistakeLog) -> NDArray[np.float64]:
        """The number of each row, `(n_rows,)`, negative where it is noted in `log` as wrong, with its geocode.

        NaN is a missing number; infinity is not a number.
        """
        distinct = Distinct.of(column)
        of_value = np.array([parse_number(value) for value in distinct.values.to_pylist()], dtype=np.float64)
        numbers: NDArray[np.float64] = np.append(of_value, _MISSING)[distinct.index]
        if numbers.size and numbers.min() < 0:
            for problem, description in _PROBLEMS.items():
                rows = np.flatnonzero(numbers == problem)
                if len(rows):
                    codes = [geocodes[int(row)].as_py() for row in rows[:3]]
                    where = f"column {self.column!r}, geounit{'s' if len(rows) > 1 else ''} {_shown(codes, len(rows))}"
                    texts = () if problem == _MISSING else distinct.first_found(rows)
                    log.add(where, description, first_row + rows + 1, texts, "allowed are numbers from 0 to 10^15")
        return numbers


def _shown(codes: list[object], n: int) -> str:
    return ", ".join(str(code) for code in codes) + (", ..." if n > len(codes) else "")


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
