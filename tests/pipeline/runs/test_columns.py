"""A column that the records lack is said at once and openly, and nothing is written; see also the memory test."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.small import QUICK, request_of, write_town

import spinewise as sw
from pipeline.errors import InputError, RefusedError
from pipeline.runs.measured import measuring_process


def refusal(spec: Path) -> str:
    with pytest.raises(InputError) as told, measuring_process(request_of(spec, spec.parent / "out")):
        pass
    assert not isinstance(told.value, RefusedError)
    assert not (spec.parent / "out").exists()
    return str(told.value)


def test_the_columns_of_a_file_are_named_and_no_record(tmp_path: Path) -> None:
    """Of a CSV file its first line, which may be a record, is not shown; of a Parquet file its columns are."""
    spec = write_town(tmp_path, *QUICK)
    persons, text = tmp_path / "persons.csv", spec.read_text("utf-8")
    lines = persons.read_text().splitlines(keepends=True)
    persons.write_text("".join(lines[1:]))
    told = refusal(spec)
    assert "no column 'block', 'age', 'sex', 'quarters'; the first line" in told
    assert not any(f"'{value}'" in told for value in lines[1].strip().split(","))
    persons.write_text("".join(lines))
    pd.read_csv(persons, dtype=str).rename(columns={"block": "blok"}).to_parquet(tmp_path / "persons.parquet")
    spec.write_text(text.replace("persons.csv", "persons.parquet"), "utf-8")
    assert "no column 'block'; the file's columns are 'blok', 'age', 'sex', 'quarters'" in refusal(spec)


def test_of_tables_in_memory(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    records = pd.DataFrame({"block": ["1"], "years": ["0-17"]})
    with pytest.raises(InputError, match=r"no column .*; the table's columns are 'block', 'years'"):
        sw.run(spec, records=records, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()
