"""Adds up (leaf, cell) pairs that come in chunks, in memory bounded by the nonzero cells and one chunk."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import IntArray


class CountAccumulator:
    """Sums counts by key, the key of (row, column) being `row * n_columns + column`.

    Sums are kept in runs of sorted keys, each at least twice as long as the next, merged as they come: every entry is
    moved about log2(chunks) times.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        if n_rows * n_columns >= 2**63:
            raise OverflowError(f"{n_rows:,} x {n_columns:,} cells cannot be numbered in 64 bits")
        self.shape = (n_rows, n_columns)
        self.total = 0
        self._runs: list[tuple[IntArray, IntArray]] = []

    def add(self, keys: IntArray, counts: IntArray | None = None) -> None:
        """Add `counts` (n,), by default one each, at `keys` (n,); keys may repeat."""
        if not keys.size:
            return
        if counts is None:
            self.total += int(keys.size)
            run = _count_equal(np.sort(keys))
        else:
            self.total += int(counts.sum())
            order = np.argsort(keys, kind="stable")
            run = _sum_equal(keys[order], counts[order])
        self._runs.append(run)
        while len(self._runs) > 1 and self._runs[-2][0].size < 2 * self._runs[-1][0].size:
            self._merge_last()

    def _merge_last(self) -> None:
        (keys, counts), (more_keys, more_counts) = self._runs.pop(-2), self._runs.pop(-1)
        keys = np.concatenate([keys, more_keys])
        order = np.argsort(keys, kind="stable")  # two sorted runs: one linear merge
        self._runs.append(_sum_equal(keys[order], np.concatenate([counts, more_counts])[order]))

    def finish(self) -> sp.csr_array[np.int64]:
        """The sums as a canonical `(n_rows, n_columns)` int64 matrix: sorted indices, no stored zeros.

        Raises:
            RuntimeError: the sums do not add up to what was added, a defect of this class.
        """
        while len(self._runs) > 1:
            self._merge_last()
        empty = np.zeros(0, dtype=np.int64)
        keys, counts = self._runs.pop() if self._runs else (empty, empty)
        if (zero := counts == 0).any():
            keys, counts = keys[~zero], counts[~zero]
        if int(counts.sum()) != self.total:
            raise RuntimeError("the tabulated counts do not add up to the records that were read")
        n_rows, n_columns = self.shape
        rows, columns = np.divmod(keys, n_columns)
        indptr = np.searchsorted(rows, np.arange(n_rows + 1))
        small = max(keys.size, n_columns, n_rows) < 2**31
        index_type = np.int32 if small else np.int64
        matrix = sp.csr_array((counts, columns.astype(index_type), indptr.astype(index_type)), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix


def _starts(keys: IntArray) -> IntArray:
    """Where each distinct key begins in the sorted `keys`, which are not empty."""
    return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])


def _count_equal(keys: IntArray) -> tuple[IntArray, IntArray]:
    starts = _starts(keys)
    return keys[starts], np.diff(np.append(starts, keys.size))


def _sum_equal(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    starts = _starts(keys)
    return keys[starts], np.add.reduceat(counts, starts)
