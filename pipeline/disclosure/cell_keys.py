"""Cell-key perturbation: a method whose errors follow from the records that a number counts.

Cell-key perturbation is used by statistical offices in Australia and Europe for census tables. Every record has a
random key. The key of a table's cell is the sum of the keys of the records that it counts, without the whole part; it
decides how much is added to the count, by a table of probabilities. The same records are therefore published with the
same error wherever they are counted, but tables do not add up (Fraser and Wooton 2005, Australian Bureau of
Statistics). The probabilities are those of maximum entropy with mean 0, a variance of at most V and errors of at most
D, such that no count is below 0 or from 1 to js (Giessing 2016, doi:10.1007/978-3-319-45381-1_18; the R packages ptable
and cellKey, whose parameters have the same names). Empty cells stay empty; a number that is published as 0 may count up
to D records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv
from scipy.optimize import brentq

from pipeline.disclosure.method import KEYS, UNBOUNDED, DisclosureMethod, Range
from pipeline.errors import InputError
from postprocess.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class CellKeys(DisclosureMethod):
    """Cell-key perturbation by a table of probabilities.

    Attributes:
        rows: of each count from 0 on its errors and their probabilities; the last are those of all larger counts.
        of_large: variance of large counts, exact as it was stated, or as it follows from the last row.
        title: how it is called, with its parameters.
    """

    rows: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    of_large: Fraction
    title: str

    by_records: ClassVar[bool] = True

    @classmethod
    def of(cls, parameters: CellKeyParameters) -> Self:
        """That of the parameters D, V and js."""
        one = parameters
        found = [probabilities(count, one) for count in range(one.most + one.unpublished + 2)]
        rows = tuple((tuple(errors.tolist()), tuple(shares.tolist())) for errors, shares in found)
        title = f"cell keys with D = {one.most}, V = {one.variance:g}, js = {one.unpublished}"
        variance = min(Fraction(str(one.variance)), _variance(rows[-1]))
        return cls(rows, variance, title)

    @classmethod
    def of_table(cls, path: Path) -> Self:
        """That of a perturbation table, as the R package ptable writes it.

        Args:
            path: a CSV file with the columns i (a true count, from 0 on without a gap; the last stands for all above),
                v (an error) and p (its probability); others are not read.

        Raises:
            InputError: it is no such table; the message names the count.
        """
        try:
            types = {"i": pa.int64(), "v": pa.int64(), "p": pa.float64()}
            table = csv.read_csv(
                path, convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types))
            )
            counts, errors, shares = (table[name].to_numpy() for name in types)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise InputError(f"{path}: is no CSV table with the columns i, v and p: {error}") from None
        if not len(counts) or (np.unique(counts) != np.arange(counts.max() + 1)).any():
            raise InputError(f"{path}: the column i must have every count from 0 to the largest one")
        rows: list[tuple[Sequence[int], Sequence[float]]] = []
        for count in range(int(counts.max()) + 1):
            here = np.flatnonzero(counts == count)
            here = here[np.argsort(errors[here])]
            rows.append((errors[here].tolist(), shares[here].tolist()))
        try:
            return cls.of_rows(rows)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Sequence[int], Sequence[float]]]) -> Self:
        """That of a perturbation table: of each count from 0 on, errors and probabilities; the last row for all above.

        Raises:
            InputError: these are no probabilities, or a count with its error is below 0; the message names the count.
        """
        for count, (errors, shares) in enumerate(rows):
            own, chances = np.array(errors), np.array(shares)
            if not abs(chances.sum() - 1) < 1e-6 or (chances < 0).any() or (count + own[chances > 0] < 0).any():
                raise InputError(
                    f"count {count}: probabilities must be at least 0 and add up to 1, found {chances.sum():g}, and no "
                    "count with its error may be below 0"
                )
        exact = tuple((tuple(errors), tuple(share / sum(shares) for share in shares)) for errors, shares in rows)
        return cls(exact, _variance(exact[-1]), "cell keys by a perturbation table")

    @property
    def variance(self) -> Fraction:
        """See `DisclosureMethod.variance`: that of large counts."""
        return self.of_large

    @property
    def large(self) -> int:
        """See `DisclosureMethod.large`."""
        return len(self.rows) + self._most

    @cached_property
    def _most(self) -> int:
        return max(abs(error) for errors, _ in self.rows for error in errors)

    @cached_property
    def _reached(self) -> BoolArray:
        """Which number `(n, n)` each count, a row, can be published as, for counts that have a row of their own."""
        n = len(self.rows)
        out = np.zeros((n, n + self._most), dtype=bool)
        for count, (errors, shares) in enumerate(self.rows):
            own = np.array(errors)[np.array(shares) > 0]
            out[count, count + own] = True
        return out

    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """See `DisclosureMethod.publish`."""
        row, out = np.minimum(counts, len(self.rows) - 1), counts.copy()
        for count in np.unique(row).tolist():
            errors, shares = self.rows[count]
            ends = np.ceil(np.cumsum(shares) * KEYS)
            ends[-1] = math.inf
            where = row == count
            out[where] += np.array(errors)[np.searchsorted(ends, keys[where], side="right")]
        return out

    def allowed(self, published: IntArray) -> Range:
        """See `DisclosureMethod.allowed`."""
        reached, errors = self._reached, np.array(self.rows[-1][0])
        last, size = len(self.rows) - 1, reached.shape[1]
        small = np.clip(published, 0, size - 1)
        # Of the counts with rows of their own; larger ones have the errors of the last.
        least, most = reached.argmax(axis=0), last - reached[::-1].argmax(axis=0)
        least = np.where(reached.any(axis=0), least, UNBOUNDED)[small]
        most = np.where(reached.any(axis=0), most, -1)[small]
        above = published - int(errors.min())
        low = np.where(published >= size, published - int(errors.max()), least)
        return low, np.where(above > last, above, most)

    def impossible(self, published: IntArray) -> BoolArray:
        """See `DisclosureMethod.impossible`: below 0, or from 1 to js."""
        size = self._reached.shape[1]
        never = np.asarray(~self._reached.any(axis=0))
        never[len(self.rows) - 1 :] = False  # of counts without a row of their own
        return (published < 0) | never[np.clip(published, 0, size - 1)]

    def __str__(self) -> str:
        return self.title


def _variance(row: tuple[tuple[int, ...], tuple[float, ...]]) -> Fraction:
    """Of the errors of a row, to nine digits after the point."""
    errors, shares = np.array(row[0]), np.array(row[1])
    return Fraction(round(float(shares @ errors**2) * 10**9), 10**9)


@dataclass(frozen=True)
class CellKeyParameters:
    """Parameters of the perturbation.

    Attributes:
        most: D, the largest error, persons.
        variance: V, the largest variance of an error, persons squared.
        unpublished: js; counts from 1 to this are not published.

    Raises:
        InputError: no distribution has these parameters.
    """

    most: int = 5
    variance: float = 3.0
    unpublished: int = 2

    def __post_init__(self) -> None:
        least = max((i * (self.unpublished + 1 - i) for i in range(1, self.unpublished + 1)), default=0)
        if self.most < 1 or not 0 <= self.unpublished < self.most or not self.variance > 0 or self.variance < least:
            raise InputError(
                f"cell keys: found D = {self.most}, V = {self.variance:g}, js = {self.unpublished}; D must be at least "
                f"1, js from 0 to D - 1, and V above 0 and, with this js, at least {least}"
            )


def probabilities(count: int, parameters: CellKeyParameters) -> tuple[IntArray, FloatArray]:
    """Errors that a count may get, and their probabilities: p(v) = exp(a v - b v^2) with b >= 0, normalised.

    a is such that the mean is 0. b is 0 if the variance is within V then, else such that it is V.
    """
    if count == 0:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    errors = np.arange(-min(count, parameters.most), parameters.most + 1)
    errors = errors[(count + errors == 0) | (count + errors > parameters.unpublished)]

    def of(b: float) -> FloatArray:
        def weights(a: float) -> FloatArray:
            exponents = a * errors - b * errors**2
            raw = np.exp(exponents - exponents.max())
            return np.asarray(raw / raw.sum())

        end = 60.0 + 2 * b * parameters.most
        slope = float(brentq(lambda a: float(weights(a) @ errors), -end, end, xtol=1e-14))
        return weights(slope)

    found = of(0.0)
    if found @ errors**2 > parameters.variance:
        found = of(float(brentq(lambda b: float(of(b) @ errors**2) - parameters.variance, 0.0, 30.0, xtol=1e-14)))
    return errors, found
