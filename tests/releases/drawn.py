"""A published table with numbers and margins that are drawn, from few persons to many."""

from __future__ import annotations

import numpy as np

from pipeline.release.tables import ReleasedTable


def drawn_table(n: int, size: int, seed: int) -> ReleasedTable:
    """A table of `n` areas with `size` numbers each, some of them 0; some margins are 0, some are not known."""
    rng = np.random.default_rng(seed)
    counts = np.where(rng.random((n, size)) < 0.3, 0, rng.lognormal(4, 3, (n, size))).astype(np.int64)
    margins = np.where(rng.random((n, size)) < 0.2, 0.0, rng.lognormal(2, 2.5, (n, size)))
    margins[rng.random((n, size)) < 0.05] = np.nan
    lows: np.ndarray = counts - margins * rng.random((n, size))
    highs: np.ndarray = counts + margins
    labels = tuple(f"cell {number}" for number in range(size))
    codes = np.array([f"{number:04d}" for number in range(n)])
    return ReleasedTable("t", "level", "q", codes, labels, counts, lows, highs)


def parts_of(whole: ReleasedTable, step: int) -> list[ReleasedTable]:
    """The same table in parts of `step` rows."""
    return [whole.rows(slice(i, i + step)) for i in range(0, len(whole.geocodes), step)]
