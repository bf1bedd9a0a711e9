"""Whatever is stated of a random hierarchy, what is read is everybody or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import SpinewiseError


def _table(rng: np.random.Generator) -> tuple[str, int, int]:
    """A table with rows of all levels and sums, the people in it, and its lowest areas."""
    rows, people, towns = [], 0, 0
    off = int(rng.integers(0, 3))
    for county in range(rng.integers(1, 4)):
        of_county = np.zeros(2, dtype=int)
        for town in range(rng.integers(1, 4)):
            counts = rng.integers(20, 60, 2)
            name = f"C{county}" if town == 0 and rng.random() < 0.3 else f"T{county}{town}"
            rows += [("town", name, sex, n) for sex, n in zip("fm", counts, strict=True)]
            if rng.random() < 0.5:
                rows.append(("town", name, "t", counts.sum()))
            of_county += counts
            towns += 1
        rows += [("county", f"C{county}", sex, n) for sex, n in zip("fm", of_county, strict=True)]
        people += int(of_county.sum())
    rows += [("land", "L", "f", people // 2), ("land", "L", "m", people - people // 2 + off)]
    return "level,area,sex,n\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), people, towns


def _check(numbers: range, folder: Path) -> None:
    """Of random hierarchies under random statements some are read, each with all of its people."""
    n_read = 0
    for number in numbers:
        rng = np.random.default_rng([52, number])
        text, people, towns = _table(rng)
        path = folder / f"{number}.csv"
        path.write_text(text, encoding="utf-8")
        stated: dict[str, Any] = {"geography": "area", "count": "n", "attributes": "sex"}
        if rng.random() < 0.7:
            stated |= {"level": "level", "drop_level": str(rng.choice(["county,land", "land", "county", "town,land"]))}
        if rng.random() < 0.7:
            stated["only"] = (str(rng.choice(["sex != t", "sex in f, m", "level == town and sex != t"])),)
        out = folder / f"out{number}"
        try:
            import_table(Statement(str(path), **stated, expect_records=people, expect_areas=towns), out)
        except SpinewiseError:
            assert not out.exists()
            continue
        n_read += 1
        assert pc.sum(pq.read_table(out / "persons.parquet")["count"]).as_py() == people
        shutil.rmtree(out)
    assert n_read > len(numbers) // 20


def test_everybody_or_nothing(tmp_path: Path) -> None:
    _check(range(100), tmp_path)


@pytest.mark.slow
def test_everybody_or_nothing_in_two_thousand_hierarchies(tmp_path: Path) -> None:
    _check(range(100, 2_100), tmp_path)
