"""Reports, and the texts that they are sent as: of fixed length and alphabet, so that a damaged one is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from features.local.collect.bits import IntArray

#: Reports, one a row: what was drawn, in the columns of the mechanism.
Reports = npt.NDArray[np.uint16]

#: What may be wrong with a report, by number; 0 is a good one.
FAULTS = ("", "wrong length", "wrong character", "not a report of the mechanism", "wrong cohort")
LENGTH, CHARACTER, VALUE, COHORT = 1, 2, 3, 4

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@dataclass(frozen=True)
class Decoded:
    """Reports as they arrived.

    Attributes:
        reports: (n, width) uint16 of the texts that are reports, in their order.
        faults: (n_texts,) int8, by `FAULTS`; reports are those with 0.
    """

    reports: Reports
    faults: npt.NDArray[np.int8]


def write_bits(bits: Reports) -> list[str]:
    """Rows of bits as lower-case hexadecimal digits, four bits each, the first bit highest; filled up with 0.

    Args:
        bits: (n, n_bits).
    """
    count, n_bits = bits.shape
    length = -(-n_bits // 4)
    padded = np.zeros((count, 4 * length), dtype=np.uint8)
    padded[:, :n_bits] = bits
    digits = padded.reshape(count, length, 4) @ np.array([8, 4, 2, 1], dtype=np.uint8)
    return [bytes(row).decode("ascii") for row in _HEX[digits]]


def read_bits(texts: Sequence[str], n_bits: int) -> Decoded:
    """Rows of bits from texts as `write_bits` writes them."""
    length = -(-n_bits // 4)
    codes, faults, rows = _codes(texts, length)
    values = np.full(codes.shape, 255, dtype=np.uint8)
    for digit, code in enumerate(_HEX):
        values[codes == code] = digit
    faults[rows[(values == 255).any(axis=1)]] = CHARACTER
    right = faults[rows] == 0
    values, rows = values[right], rows[right]
    bits = ((values[:, :, None] >> np.array([3, 2, 1, 0], dtype=np.uint8)) & 1).reshape(len(values), 4 * length)
    stray = bits[:, n_bits:].any(axis=1)
    faults[rows[stray]] = VALUE
    return Decoded(bits[~stray, :n_bits].astype(np.uint16), faults)


def write_numbers(numbers: Reports, n_values: int) -> list[str]:
    """Numbers below `n_values`, in decimal digits, all of one length.

    Args:
        numbers: (n, 1).
    """
    length = len(str(n_values - 1))
    return [f"{number:0{length}d}" for number in numbers[:, 0].tolist()]


def read_numbers(texts: Sequence[str], n_values: int) -> Decoded:
    """Numbers from texts as `write_numbers` writes them: (n, 1)."""
    length = len(str(n_values - 1))
    codes, faults, rows = _codes(texts, length)
    digits = codes.astype(np.int64) - ord("0")
    faults[rows[((digits < 0) | (digits > 9)).any(axis=1)]] = CHARACTER
    right = faults[rows] == 0
    digits, rows = digits[right], rows[right]
    numbers = digits @ 10 ** np.arange(length - 1, -1, -1, dtype=np.int64)
    over = numbers >= n_values
    faults[rows[over]] = VALUE
    return Decoded(numbers[~over, None].astype(np.uint16), faults)


def with_cohorts(decoded: Decoded, cohorts: Sequence[str], n_cohorts: int) -> Decoded:
    """The same, with the number of the cohort before each report; a wrong cohort is a fault where the text has none."""
    known = {str(number): number for number in range(n_cohorts)}
    numbers = np.array([known.get(cohort, -1) for cohort in cohorts], dtype=np.int64)
    faults = np.where((decoded.faults == 0) & (numbers < 0), np.int8(COHORT), decoded.faults)
    kept = numbers[decoded.faults == 0] >= 0
    column = numbers[faults == 0].astype(np.uint16)[:, None]
    return Decoded(np.hstack([column, decoded.reports[kept]]), faults)


def bit_totals(bits: Reports, groups: IntArray, n_groups: int) -> IntArray:
    """(n_groups, n_bits) int64: how many of each group have each bit.

    Args:
        bits: (n, n_bits).
        groups: (n,).
    """
    columns = [np.bincount(groups[bits[:, bit] > 0], minlength=n_groups) for bit in range(bits.shape[1])]
    return np.stack(columns, axis=1).astype(np.int64)


def _codes(texts: Sequence[str], length: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int8], IntArray]:
    """The characters of the texts of the right length, the faults of all, and which texts those are."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    faults = np.where(lengths == length, np.int8(0), np.int8(LENGTH))
    rows = np.flatnonzero(faults == 0)
    right = np.array([texts[row] for row in rows.tolist()], dtype=f"U{length}")
    return right.view(np.uint32).reshape(len(rows), length), faults, rows
