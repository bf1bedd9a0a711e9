"""What a run refuses: other columns or records than are stated, budgets and promises beyond the usual limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from releases.small import QUICK, request_of, run, write_town

from pipeline.errors import InputError, RecordsError, RefusedError, SpecError
from pipeline.inputs.geography import read_spine
from pipeline.privacy.limits import beyond_limits
from pipeline.records.tabulate import tabulate
from pipeline.runs.request import check_request
from pipeline.runs.run_here import measuring_process
from pipeline.spec.release_spec import load_spec, parse_spec


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


FORM = 'file = "persons.csv"\nform = "microdata"'


def expecting(folder: Path, what: str) -> Path:
    return write_town(folder, *QUICK, (FORM, f"{FORM}\nexpect = {what}"))


def held(folder: Path) -> tuple[int, int]:
    persons = pd.read_csv(folder / "persons.csv")
    return len(persons), persons["block"].nunique()


@pytest.mark.parametrize(("more_records", "more_areas"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_another_number_stops_before_anything_is_drawn(tmp_path: Path, more_records: int, more_areas: int) -> None:
    write_town(tmp_path)
    records, areas = held(tmp_path)
    spec = expecting(tmp_path, f"{{ records = {records + more_records}, areas = {areas + more_areas} }}")
    with pytest.raises(RefusedError) as refused:
        run(spec, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("measurements/**/*.parquet"))
    told = refused.value.details.read_text("utf-8")
    assert f"{records:,} records in {areas:,} areas were counted" in told
    assert ("too few" in told) == (more_records + more_areas > 0)


def test_wide_and_long_records(tmp_path: Path) -> None:
    """They hold what their counts add up to, in the areas that their rows name."""
    spec = expecting(tmp_path, '"unproved"')
    counts = pd.read_csv(tmp_path / "units.csv")
    total, areas = int(counts["count"].sum()), counts["block"].nunique()
    wide = counts.pivot_table(index="block", columns="status", values="count", aggfunc="sum").reset_index()
    wide.to_csv(tmp_path / "wide.csv", index=False)
    form = 'file = "units.csv", form = "long", geocode = "block"'
    cells = 'file = "wide.csv", form = "wide", geocode = "block", cells = [{ counts = "{status}" }]'
    text = spec.read_text("utf-8")
    for stated in (form, cells):
        for more in (0, 1):
            expect = f"{stated}, expect = {{ records = {total + more}, areas = {areas} }}"
            spec.write_text(text.replace(form, expect), "utf-8")
            loaded = load_spec(spec)
            universe, spine = loaded.universes()[1], read_spine(loaded.geography)
            if more:
                with pytest.raises(RecordsError, match="1 too few records, as many areas"):
                    tabulate(universe.require_input(), universe.schema, spine)
            else:
                assert tabulate(universe.require_input(), universe.schema, spine).sum() == total


def test_other_records_bring_their_own(tmp_path: Path) -> None:
    """With --data, a file beside them says it; where it is not there, or says something else, nothing is run."""
    with pytest.raises(InputError, match=r"release\.toml.*input\.expect: unproved; say how many records and areas"):
        run(expecting(tmp_path / "in", '"unproved"'), tmp_path / "out")
    records, areas = held(tmp_path / "in")
    spec = expecting(tmp_path / "in", f"{{ records = {records}, areas = {areas} }}")
    other = tmp_path / "chunk.csv"
    pd.read_csv(tmp_path / "in" / "persons.csv").iloc[1:].to_csv(other, index=False)
    with pytest.raises(InputError, match=r"chunk\.csv: how many records .* to chunk\.csv\.expect\.toml"):
        run(spec, tmp_path / "out", data=other)
    beside = tmp_path / "chunk.csv.expect.toml"
    beside.write_text("records = 'many'\n", "utf-8")
    with pytest.raises(InputError, match=r"chunk\.csv\.expect\.toml: two lines are needed"):
        run(spec, tmp_path / "out", data=other)
    beside.write_text(f"records = {records}\nareas = {areas}\n", "utf-8")
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "out", data=other)
    assert "1 too few records" in next((tmp_path / "out").rglob("refused.txt")).read_text("utf-8")
    beside.write_text(f"records = {records - 1}\nareas = {areas}\n", "utf-8")
    assert run(spec, tmp_path / "out", data=other).is_dir()


SECRET = ('key = "insecure-test:1"', "")
UNITS_RHO = 'privacy = { rho = "1" }'

BEYOND = [
    ([('rho = "2"', 'rho = "4.1"')], "privacy.rho: found 5.1 over all universes; at most 5 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-4"')], "privacy.delta: found 0.0001; at most 1e-05 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-6"\npopulation = 1000000')], r"privacy.delta: .* less than 1 / 1,000,000"),
    (
        [('rho = "2"', 'framework = "pure"\nepsilon = "10"'), (UNITS_RHO, 'privacy = { epsilon = "1" }')],
        "privacy.epsilon: found 11 over all universes; at most 10 is usual",
    ),
    ([('block = ["total"]', 'block = ["status"]')], "companions.units.invariants: no record can change"),
]


@pytest.mark.parametrize(("changes", "says"), BEYOND)
def test_it_is_refused_before_anything_is_read_unless_it_is_meant(
    tmp_path: Path, changes: list[tuple[str, str]], says: str
) -> None:
    spec = write_town(tmp_path, SECRET, *changes)
    with pytest.raises(SpecError, match=rf"release\.toml: {says}.*--i-know"):
        request_of(spec, tmp_path)
    request = request_of(write_town(tmp_path / "usual", SECRET), tmp_path).request
    assert check_request(replace(request, spec=spec, i_know=True)).spec.name == "town"
    assert beyond_limits(load_spec(spec).universes())
    assert request_of(write_town(tmp_path / "test", *changes), tmp_path).universes, "a test key protects nobody"


@pytest.mark.parametrize("companion", [False, True])
def test_adding_and_removing_with_invariants_is_no_spec(tmp_path: Path, companion: bool) -> None:
    """No two neighbours agree on an invariant: whatever the noise, the guarantee compares nothing."""
    text = write_town(tmp_path, ('rho = "2"', 'rho = "2"\nneighbours = "add-remove"')).read_text()
    gone = '[invariants]\ncounty = ["total"]\n' if companion else 'invariants = { block = ["total"] }'
    key = "companions.units.invariants" if companion else "invariants"
    with pytest.raises(SpecError, match=rf"^town\.toml: {key}: with neighbours = \"add-remove\".*compare nothing"):
        parse_spec(text.replace(gone, ""), "town.toml")
