"""Every released table has one row for each geounit, in the spine's order; a file that has others is not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from oracles.damage import restored
from releases.small import QUICK, run, write_town

from pipeline.errors import ReleaseError
from pipeline.release.tables import read_table, read_table_parts
from pipeline.storage.readable import unchecked


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    changes = [(old, new.replace("replicates = 2", "margins = true\nreplicates = 2")) for old, new in QUICK]
    return run(write_town(folder / "in", *changes), folder / "out")


def rows_of(damage: str, n: int) -> list[int]:
    """Which rows of a file of `n` are written, in which order."""
    rows = list(range(n))
    return {
        "the first twice": [0, *rows],
        "the last twice": [*rows, n - 1],
        "all twice": rows * 2,
        "one for another": [*rows[:-1], 0],
        "two exchanged": [*rows[:-2], n - 1, n - 2],
        "one less": rows[:-1],
        "none": [],
    }[damage]


DAMAGES = ("the first twice", "the last twice", "all twice", "one for another", "two exchanged", "one less", "none")


def rewrite(path: Path, damage: str) -> None:
    table = pq.read_table(path)
    rows = rows_of(damage, table.num_rows)
    pq.write_table(table.take(np.array(rows, dtype=np.int64)), path)


def tables(release: Path) -> list[Path]:
    """All of tables that have more than one row."""
    found = sorted((release / "public").rglob("tables/*/*.parquet"))
    return [path for path in found if pq.read_metadata(path).num_rows > 2]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_reader(damage: str, release: Path) -> None:
    """Whatever is wrong with the rows, the first that is wrong is named."""
    (path, *_) = tables(release)
    geocodes = read_table(unchecked(path)).geocodes
    assert read_table(unchecked(path), geocodes=geocodes).counts.shape[0] == len(geocodes)
    rows = rows_of(damage, len(geocodes))
    first = next((place for place, row in enumerate(rows) if row != place), len(rows))
    says = "it has no row for the geocode"
    if first < len(rows):
        again = rows[first] < first
        says = f"several rows for the geocode '{geocodes[rows[first]]}'" if again else f"row {first + 1:,} is of"
    with restored([path]):
        rewrite(path, damage)
        with pytest.raises(ReleaseError, match=says):
            list(read_table_parts(unchecked(path), geocodes=geocodes))
