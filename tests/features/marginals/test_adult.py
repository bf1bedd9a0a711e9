"""examples/adult.toml: 14 attributes, of which seven tables are measured, on the Adult data."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.small import run

from auditor.check.release import check_release
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "adult.toml"
YEARS = (20, 10, 5)


@pytest.mark.slow
def test_the_example_is_released_with_records_like_those_that_were_measured(shared_data: Path, tmp_path: Path) -> None:
    """CensusDP's published mean distance of all two-way tables at the top is .0452; columns by themselves have .08."""
    table = pd.read_parquet(shared_data / "adult.parquet")
    ages = np.arange(85)
    codes = {"all": np.full(85, "adult")}
    codes |= {f"years{n}": np.char.add(f"years{n}-", (ages // n).astype(str)) for n in YEARS}
    (tmp_path / "adult_files").mkdir()
    pd.DataFrame(codes).drop_duplicates().to_csv(tmp_path / "adult_files" / "areas.csv", index=False)
    table.assign(years5=codes["years5"][table["age"]]).to_parquet(tmp_path / "adult_files" / "persons.parquet")
    (tmp_path / "examples").mkdir()
    spec = tmp_path / "examples" / "adult.toml"
    spec.write_text(EXAMPLE.read_text("utf-8"))
    root = run(spec, tmp_path / "out")
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert check_release(root) == []
    records = pq.read_table(root / "public" / "microdata.parquet").to_pandas().drop(columns="geocode").astype(int)
    assert list(records.columns) == list(table.columns)
    distances = [_distance(table, records, pair) for pair in combinations(table.columns, 2)]
    assert len(distances) == 91
    assert np.mean(distances) < 0.0452
    rng = np.random.default_rng(1)
    shuffled = pd.DataFrame({name: rng.permutation(records[name]) for name in records})
    assert np.mean([_distance(table, shuffled, pair) for pair in combinations(table.columns, 2)]) > 0.07


def _distance(table: pd.DataFrame, records: pd.DataFrame, pair: tuple[str, str]) -> float:
    """Total variation distance of a two-way table."""
    one, other = (frame.groupby(list(pair)).size() / len(frame) for frame in (table, records))
    return float((one.sub(other, fill_value=0)).abs().sum() / 2)
