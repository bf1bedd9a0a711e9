"""Records in other forms, asked by the spec's own rules: a row a cell, and values by their numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.asked import SPEC, ask, ledger_of, write_workers

from features.questions.section import QuestionsPart
from pipeline.errors import RefusedError, SpecError
from pipeline.spec.release_spec import parse_spec

LONG = ('form = "microdata"', 'form = "long"\ncount = "n"')


def write_long(folder: Path, *, twice: bool = False, add: bool = False, shift: bool = False) -> Path:
    """The workers counted by area, age and sex; `shift`: and by a column beyond the schema."""
    form = (LONG[0], LONG[1] + ('\nrepeated = "add"' if add else ""))
    spec = write_workers(folder, form)
    people = pd.read_csv(folder / "workers.csv", dtype={"area": str})
    keys = ["area", "age", "sex", *(["shift"] if shift else [])]
    cells = people.groupby(keys).agg(n=("pay", "size"), pay=("pay", "first")).reset_index()
    if not shift:
        cells["shift"] = "day"
    if twice:
        cells = pd.concat([cells, cells.iloc[:1]])
    cells.to_csv(folder / "workers.csv", index=False)
    return spec


def test_a_cell_that_stands_twice_is_refused_as_in_a_run(tmp_path: Path) -> None:
    """Or where a column beyond the schema tells rows apart."""
    for name in ("once", "twice", "shift"):
        spec = write_long(tmp_path / name, twice=name == "twice", shift=name == "shift")
        with ledger_of(spec.parent):
            if name == "once":
                ask(spec, "count by sex")
                continue
            with pytest.raises(RefusedError) as error:
                ask(spec, "count by shift")
        assert "a cell that an earlier row has" in error.value.details.read_text("utf-8")


def test_rows_are_added_up_where_the_spec_says_so(tmp_path: Path) -> None:
    spec = write_long(tmp_path, add=True, shift=True)
    with ledger_of(tmp_path, budget="9"):
        root = ask(spec, "count by shift", "5")
    answer = pd.read_csv(root / "public" / "answer.csv").set_index("shift")["count"]
    assert abs(answer.sum() - 400) <= 6


def test_columns_beyond_the_schema_have_their_values_though_others_are_coded(tmp_path: Path) -> None:
    spec = write_workers(tmp_path, ('form = "microdata"', 'form = "microdata"\ncoded = true'))
    people = pd.read_csv(tmp_path / "workers.csv", dtype={"area": str})
    people["age"] = people["age"].map({"0-17": 0, "18-64": 1, "65+": 2})
    people["sex"] = people["sex"].map({"f": 0, "m": 1})
    people.to_csv(tmp_path / "workers.csv", index=False)
    with ledger_of(tmp_path, budget="9"):
        root = ask(spec, "count by sex, shift", "5")
    answer = pd.read_csv(root / "public" / "answer.csv")
    true = people.assign(sex=people["sex"].map({0: "f", 1: "m"})).groupby(["sex", "shift"]).size().reset_index(name="n")
    both = answer.merge(true)
    assert len(both) == 4
    assert ((both["count"] - both["n"]).abs() <= 4).all()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["0", "60000"]', '["0"]', "wages.between: found a list of 1 entry; at least 2 are needed"),
        ('["0", "60000"]', '["0", "1", "2"]', "wages.between: found a list of 3 entries; at most 2 are allowed"),
        ('["0", "60000"]', "[0]", 'write it in quotes, "0"'),
        ('["0", "60000"]', '["0", "60050"]', "wages.between"),
        ('unit = "100"\n', "", "wages.unit: between and unit are needed together"),
        ('column = "pay"\n', 'values = ["a"]\n', "wages.values: found both of values and between"),
        ('["day", "night"]', '["day", "day"]', "shift.values: a value stands twice"),
        ('["day", "night"]', '["day", "night"]\nmissing = "dusk"', "shift.missing: found 'dusk'"),
        ('["day", "night"]', '["day", "night"]\nends = "total"', "shift.ends: only for an amount"),
    ],
)
def test_what_is_refused_is_named_by_its_key(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC.replace(old, new), "a.toml", Path())
    assert [line for line in str(error.value).splitlines() if line.startswith("a.toml: questions.") and says in line]


def test_keys_that_are_not_published_are_in_no_public_spec() -> None:
    spec = parse_spec(SPEC, "a.toml", Path())
    part = spec.part(QuestionsPart)
    assert part is not None
    assert sorted(part.questions or ()) == ["shift", "wages"]
    without = parse_spec(SPEC[: SPEC.index("[questions.")], "a.toml", Path())
    assert spec.public_dict() == without.public_dict()
