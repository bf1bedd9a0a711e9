"""Small series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pytest
from matrix.case import Case, Refusal, run_of
from oracles.histories import farthest
from releases.series_town import INDEPENDENT, YEARS, MadeSeries, drawn_again, true_counts, write_series_town

from pipeline.release.measurements import read_measurement
from pipeline.storage.paths import unchecked

_LEVELS: Final = (("county", 1, Fraction(1, 4)), ("tract", 3, Fraction(1, 4)), ("block", 5, Fraction(1, 2)))


def numbers_by_hand(folder: Path) -> None:
    """Mixed truths of pandas less what is known, and the key's noise; sigma^2 is the reach of all pairs of histories.

    Independent periods are mixed by the identity, and people may be in another answer in each of them.
    """
    town = MadeSeries(folder, folder / "out")
    manifests = [json.loads((town.release(year) / "public" / "manifest.json").read_bytes()) for year in YEARS]
    rows = (manifests[-1]["spec"]["series"].get("terms") or {}).get("design")
    matrix = np.eye(3, dtype=np.int64)
    for t, row in enumerate(rows or ()):
        matrix[t, : t + 1] = row
    reach = farthest(matrix.T @ matrix, "change-one")[1 if rows else 2]
    inverse = np.linalg.inv(matrix.astype(float))
    for query, columns in (("total", []), ("born * sex", ["born", "sex"])):
        for level, prefix, share in _LEVELS:
            truths, counts = list[np.ndarray](), list[np.ndarray]()
            for t, year in enumerate(YEARS):
                path = town.release(year) / "public" / "measurements" / level / f"{query.replace(' * ', '.')}.parquet"
                read = read_measurement(unchecked(path))
                scale = reach / (2 * 2 * share * Fraction(1, 2))
                assert (read.header.scale, list(read.header.row)) == (scale, rows[t] if rows else [])
                truths.append(true_counts(folder, year, columns, prefix))
                mixed = sum(int(matrix[t, s]) * truths[s] for s in range(t + 1))
                known = sum((int(matrix[t, s]) * counts[s] for s in range(t)), np.zeros(truths[-1].shape))
                z = drawn_again(town.release(year), level, query, scale, truths[-1].shape)
                assert np.array_equal(read.values, mixed + z - np.rint(known).astype(np.int64))
                counts.append(read.values / matrix[t, t])
                assert read.variance == pytest.approx(float(scale) * (inverse[t] ** 2).sum(), rel=1e-9)
    for year in YEARS:
        released = pd.read_parquet(town.release(year) / "public" / "tables" / "total" / "block.parquet")["total"]
        assert np.abs(released.to_numpy() - true_counts(folder, year, [], 5).ravel()).mean() < 5


def _series(name: str, *changes: tuple[str, str], full: bool = False) -> Case:
    """Three periods of a series, each with its own records."""
    commands = tuple(run_of("release.toml", "out", "--period", year, "--data", f"persons-{year}.csv") for year in YEARS)
    published = tuple(f"out/padron-{year}" for year in YEARS)
    write = lambda folder: write_series_town(folder, *changes)  # noqa: E731
    without = {
        "audit": "the trials of this audit do not know series",
        "export --format nmf": "its noisy answers are of several periods, mixed",
    }
    return Case(name, write, commands, published, expect=numbers_by_hand, full=full, without=without)


CASES: Final[Sequence[Case]] = (_series("series", full=True), _series("independent", *INDEPENDENT))
REFUSALS: Final[Sequence[Refusal]] = ()
