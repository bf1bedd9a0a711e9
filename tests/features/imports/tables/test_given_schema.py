"""A public list of values: an import takes them as they are, and refuses records with values that are not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features.imports.tables.attributes import STOCK_LISTS, stock_list
from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from flows.checks.validation import validate
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.publishing.provenance import from_records
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

LIST = """
[attributes]
age = "ages five-year"
sex = "sex"
works = { values = ["yes", "no", "missing"], column = "job" }
"""


def records(folder: Path, **changed: list[object]) -> Path:
    content: dict[str, list[object]] = {
        "county": ["01", "01", "02", "02"],
        "town": ["0101", "0102", "0201", "0201"],
        "age": [3, 41, "110+", 41],
        "sex": ["f", "M", "1", "female"],
        "job": ["yes", "no", None, "yes"],
    }
    pd.DataFrame(content | changed).to_csv(folder / "persons.csv", index=False)
    return folder / "persons.csv"


def imported(folder: Path, text: str, name: str = "in", n_areas: int = 3, **changed: Any) -> ReleaseSpec:
    (folder / "values.toml").write_text(text)
    areas = pd.DataFrame({"county": ["01", "01", "02", "02"], "town": ["0101", "0102", "0201", "0202"]})
    areas.to_csv(folder / "areas.csv", index=False)
    stated = Statement(
        str(records(folder, **changed)), geography="county,town", records=True, areas=str(folder / "areas.csv"),
        schema=str(folder / "values.toml"), expect_records=4, expect_areas=n_areas,
    )  # fmt: skip
    return load_spec(import_table(stated, folder / name).spec)


def test_the_values_are_those_of_the_list_whoever_is_in_the_records(tmp_path: Path) -> None:
    """One person more, or another, and nothing public changes: neither the areas, nor a value, nor a share."""
    spec = imported(tmp_path, LIST)
    (universe,) = spec.universes()
    assert [attribute.name for attribute in universe.schema.attributes] == ["age", "sex", "works"]
    assert universe.schema.attributes[0].values[:2] == ("0-4", "5-9")
    assert universe.schema.attributes[0].values[-1] == "100+"
    found = validate(None, tmp_path / "in" / "release.toml")
    assert found.findings == []
    counts = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray()
    assert counts.sum(axis=1).tolist() == [1, 1, 2, 0]
    expected = universe.schema.shape
    where = [(0, 0, 0), (8, 1, 1), (20, 1, 2), (8, 0, 0)]
    cells = [(a * expected[1] + b) * expected[2] + c for a, b, c in where]
    assert [counts[leaf, cell] for leaf, cell in zip([0, 1, 2, 2], cells, strict=True)] == [1, 1, 1, 1]
    assert from_records(spec) == ()
    other = imported(
        tmp_path,
        LIST,
        "other",
        age=[77, 8, 9, 10],
        sex=["m"] * 4,
        job=["no"] * 4,
        county=["02"] * 4,
        town=["0202"] * 4,
        n_areas=1,
    )
    assert other.public_dict() == spec.public_dict()
    assert read_spine(other.geography).fingerprint() == read_spine(spec.geography).fingerprint()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LIST.replace(', "missing"', ""),
            r"attributes\.works: .*, line 4, column 'job': found nothing, which the list does not",
        ),
        (LIST.replace('"no", ', ""), r"found 'no', which the list does not have; add it to the list, say with codes"),
        (
            LIST.replace('"ages five-year"', '"ages"'),
            r"found 'ages'; a list of values is needed, or one of ages single",
        ),
        (LIST.replace('"job"', '"jobs"'), r"attributes\.works: the table has no column 'jobs'; its columns are county"),
        ("[attribute]", r"it has no \[attributes\]; allowed are \[attributes\] and \[households\]"),
        (LIST.replace("column =", "colum ="), r"found the key 'colum'; allowed are values, column, codes"),
        ("x = ", "is not a TOML file"),
        ('[attributes]\nsex = ["f", "f"]', "a value stands twice"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        imported(tmp_path, text)
    assert not (tmp_path / "in").exists()


def test_a_column_is_found_by_the_name_that_an_import_makes_of_it(tmp_path: Path) -> None:
    """The attributes that an import without a list wrote are a list for the next one."""
    values = '[attributes]\njob_of_today = ["yes", "no"]'
    one: dict[str, Any] = {"job of today": ["yes", "no", "no", "no"]}
    spec = imported(tmp_path, values, "one", **one)
    (universe,) = spec.universes()
    counts = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray()
    assert counts.sum(axis=0).tolist() == [1, 3]
    two: dict[str, Any] = one | {"job-of today": ["yes"] * 4}
    with pytest.raises(InputError, match="has no column 'job_of_today'"):
        imported(tmp_path, values, "two", **two)


def test_codes_are_mapped_and_stock_lists_can_be_longer(tmp_path: Path) -> None:
    text = '[attributes]\nsex = { values = ["sex", "missing"], codes = { x = "missing", y = "male" } }'
    spec = imported(tmp_path, text, sex=["x", "y", "2", None])
    (universe,) = spec.universes()
    assert universe.schema.attributes[0].values == ("female", "male", "missing")
    counts = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray()
    assert counts.sum(axis=0).tolist() == [1, 1, 2]


@pytest.mark.parametrize("name", STOCK_LISTS)
def test_stock_lists_put_every_age_into_one_band(name: str) -> None:
    found = stock_list(name)
    assert found is not None
    assert len(set(found.values)) == len(found.values)
    assert set(found.mapped.values()) == set(found.values)
    if name.startswith("ages"):
        for age in range(131):
            low, _, high = found.mapped[str(age)].partition("-")
            last = low.endswith("+")
            assert int(low.rstrip("+")) <= age
            assert last or age <= int(high or low)
