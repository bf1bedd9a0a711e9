"""What records are known to hold: a run of others stops before anything is charged, and nothing of it is published."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.small import QUICK, run, write_town

from pipeline.errors import InputError, RecordsError, RefusedError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

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
