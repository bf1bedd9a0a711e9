"""Names of areas that a list of areas or the records have beside the codes are kept, and told."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from features.imports.tables.importer import ImportedTable, TableRequest, TableSource, import_table
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.inputs.names import read_names
from pipeline.publishing.provenance import check_provenance
from pipeline.spec.release_spec import ReleaseSpec, load_spec

COUNTIES = {"01": "Alder", "02": "Birch"}
TOWNS = {"0101": "Ford", "0102": "Mill <b>", "0201": "Ford", "0202": "=Hill"}


def areas() -> pd.DataFrame:
    rows = [(town[:2], COUNTIES[town[:2]], town, name) for town, name in TOWNS.items()]
    return pd.DataFrame(rows, columns=["CTY23CD", "CTY23NM", "town", "name of town"])


def records() -> pd.DataFrame:
    """Persons with a name of their own, which is none of an area."""
    rows = [(town, f"P{i}", "fm"[i % 2]) for i, town in enumerate(sorted(TOWNS) * 10)]
    return pd.DataFrame(rows, columns=["town", "name", "sex"])


def imported(folder: Path, people: pd.DataFrame, listed: pd.DataFrame | None = None, **more: object) -> ImportedTable:
    people.to_csv(folder / "people.csv", index=False)
    if listed is not None:
        listed.to_csv(folder / "areas.csv", index=False)
        more["areas"] = folder / "areas.csv"
    return import_table(TableRequest(TableSource(str(folder / "people.csv")), **more), folder / "out")  # type: ignore[arg-type]


def names_of(spec: ReleaseSpec) -> dict[str, dict[str, str]]:
    """Level -> code -> name, as a run reads them."""
    spine = read_spine(spec.geography)
    return {
        level: dict(zip(spine.level(level).geocodes.tolist(), named.in_language(), strict=True))
        for level, named in read_names(spec.geography, spine).items()
    }


def test_names_of_a_list_of_areas(tmp_path: Path) -> None:
    """A column of names is that of the level whose name it has; a plain "name" is that of the list's own areas."""
    done = imported(tmp_path, records(), areas().rename(columns={"name of town": "name"}))
    spec = load_spec(done.spec)
    assert names_of(spec) == {"CTY23CD": COUNTIES, "town": TOWNS}
    assert "column 'CTY23NM' has the names of 'CTY23CD'" in done.messages
    assert "column 'name' has the names of 'town'" in done.messages
    assert spec.provenance is not None
    assert {name: one.source for name, one in spec.provenance.inputs.items()}["names"] == "public"


def test_names_in_the_records(tmp_path: Path) -> None:
    """They are made from the records, as the areas are, and are to be accepted; a person's name is none."""
    done = imported(tmp_path, records().merge(areas(), on="town"))
    spec = load_spec(done.spec)
    assert names_of(spec) == {"CTY23CD": COUNTIES, "town": TOWNS}
    assert set(spec.schema_section.attributes) == {"sex"}
    assert '# accept = ["geography", "names", "schema"]' in done.spec.read_text()
    with pytest.raises(InputError, match="names"):
        check_provenance(spec)


def test_names_beside_nested_codes(tmp_path: Path) -> None:
    """Each is the name of the areas that the first characters of a code are."""
    listed = areas().rename(columns={"CTY23NM": "county_name"})[["town", "county_name"]]
    done = imported(tmp_path, records(), listed, levels={"county": 2, "town": 4}, geocode="town")
    assert names_of(load_spec(done.spec)) == {"county": COUNTIES}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"0102": "Oak"}, "column 'CTY23NM': names of 'CTY23CD' are not kept: '01' has several"),
        ({"0201": "", "0202": ""}, "column 'CTY23NM': names of 'CTY23CD' are not kept: that of '02' is empty"),
        ({"0201": "a\u202eb", "0202": "a\u202eb"}, "that of '02' has the control character U+202E"),
    ],
)
def test_names_that_are_none(wrong: dict[str, str], says: str, tmp_path: Path) -> None:
    """They are left out and the import says why; its areas are as without them."""
    listed = areas()
    listed["CTY23NM"] = [wrong.get(town, name) for town, name in zip(listed["town"], listed["CTY23NM"], strict=True)]
    done = imported(tmp_path, records(), listed)
    spec = load_spec(done.spec)
    assert any(says in line for line in done.messages)
    assert set(spec.geography.names or {}) == {"town"}
    assert read_spine(spec.geography).n_leaves == 4


@pytest.mark.parametrize("option", ["ignore", "attributes"])
def test_a_column_that_is_wanted_otherwise(option: str, tmp_path: Path) -> None:
    """The user leaves it out, or counts by it."""
    unwanted: dict[str, object] = {option: ("CTY23NM",)}
    done = imported(tmp_path, records().merge(areas(), on="town"), None, **unwanted)
    assert set(load_spec(done.spec).geography.names or {}) == {"town"}
