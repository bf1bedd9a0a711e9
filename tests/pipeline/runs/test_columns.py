"""A column that the records lack is said at once and openly, and nothing is written; see also the memory test."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.command import spinewise
from releases.small import QUICK, request_of, write_town

import spinewise as sw
from pipeline.errors import InputError, RefusedError
from pipeline.runs.measured import measuring_process


def town(folder: Path, *, column: str = "block", ending: str = "csv") -> Path:
    """The town's spec, which names a column and a file of persons of a kind."""
    spec = write_town(folder / "in", *QUICK)
    persons = pd.read_csv(folder / "in" / "persons.csv", dtype=str)
    if ending == "parquet":
        persons.to_parquet(folder / "in" / "persons.parquet")
    text = spec.read_text("utf-8").replace("persons.csv", f"persons.{ending}")
    old = f'file = "persons.{ending}"\nform = "microdata"\ngeocode = "block"'
    assert text.count(old) == 1
    spec.write_text(text.replace(old, old.replace('"block"', f'"{column}"')), encoding="utf-8")
    return spec


@pytest.mark.parametrize("engine", [["--no-prefect"], pytest.param([], marks=pytest.mark.slow)])
def test_on_the_command_line(tmp_path: Path, engine: list[str]) -> None:
    done = spinewise("run", town(tmp_path, column="blok"), *engine, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "persons.csv: no column 'blok'; the first line of the file names its columns" in done.stderr
    assert "restricted" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_of_a_parquet_file_its_columns_are_named(tmp_path: Path) -> None:
    checked = request_of(town(tmp_path, column="blok", ending="parquet"), tmp_path / "out")
    with pytest.raises(InputError) as told, measuring_process(checked):
        pass
    assert not isinstance(told.value, RefusedError)
    said = str(told.value)
    assert "no column 'blok'; the file's columns are 'block', 'age', 'sex', 'quarters'" in said


def test_of_tables_in_memory(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    records = pd.DataFrame({"block": ["1"], "years": ["0-17"]})
    with pytest.raises(InputError, match=r"no column .*; the table's columns are 'block', 'years'"):
        sw.run(spec, records=records, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_a_file_without_a_header_shows_no_record(tmp_path: Path) -> None:
    """Its first line is a record, and names of columns are shown openly."""
    spec = town(tmp_path)
    persons = spec.parent / "persons.csv"
    persons.write_text("".join(persons.read_text().splitlines(keepends=True)[1:]))
    first = persons.read_text().splitlines()[0].split(",")
    with pytest.raises(InputError) as told, measuring_process(request_of(spec, tmp_path / "out")):
        pass
    assert "no column 'block', 'age', 'sex', 'quarters'; the first line" in str(told.value)
    assert not any(f"'{value}'" in str(told.value) for value in first)


def test_what_is_there_is_not_refused(tmp_path: Path) -> None:
    for number, ending in enumerate(("csv", "parquet")):
        with measuring_process(request_of(town(tmp_path / str(number), ending=ending), tmp_path / "out")):
            pass
