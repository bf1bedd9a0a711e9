"""Names and labels in `spinewise query`, in what Python gives, and in exported files, whatever is in them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.command import printed, spinewise
from releases.named import FORMULA, SCRIPT, TRACTS

from features.exports.pl94171 import SummaryFiles
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import GEO_HEADER
from pipeline.reading.release import Release, open_release, reader_of


@pytest.fixture(scope="module")
def town(named_town: Path) -> Path:
    return named_town


@pytest.fixture(scope="module")
def release(town: Path) -> Release:
    return open_release(town)


def rows(town: Path, *arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed("query", town, *arguments, "--format", "csv"))))


def test_an_area_is_asked_for_by_its_name(town: Path, release: Release) -> None:
    """The numbers are those of its code, with whatever commas, equal signs and quotes the name has."""
    for code, name in [("A", "alder county"), ("B", "Condado de Abedules"), *TRACTS.items()]:
        if name == "Springfield":
            continue
        (found,) = rows(town, "sex", "--area", name)
        expected = release.query("sex").over({name: [code]})
        assert found["area"] == name
        assert [int(found[column]) for column in ("f", "m", "sum")] == expected[["f", "m", "sum"]].iloc[0].tolist()
    (both,) = rows(town, "total", "--area", "all=Alder County,B")
    assert int(both["total"]) == release.query("total").over(["A", "B"])["total"].sum()
    difference = release.query("total").difference(["Alder County"], ["Birch County"])
    assert difference.equals(release.query("total").difference(["A"], ["B"]))


def test_a_name_of_several_areas_is_refused_with_their_list(town: Path) -> None:
    found = spinewise("query", town, "total", "--area", "Springfield")
    assert found.returncode == 2
    assert "'Springfield' is the name of 2 areas: tract A03 in Alder County; tract B02 in Birch County" in found.stderr
    assert "such as 'tract:A03'" in found.stderr
    for wrong in ("Brich County", "birch"):
        with pytest.raises(InputError, match=rf"1 geocode or name not in town: '{wrong}'; did you mean 'Birch County'"):
            printed("query", town, "total", "--area", wrong)
    assert rows(town, "total", "--area", "tract:Old Town") != rows(town, "total", "--area", "tract:A03")


def test_names_and_labels_stand_beside_the_numbers(town: Path, release: Release) -> None:
    shown = printed("query", town, "--table", "sex", "--at", "county")
    assert "Alder County" in shown
    assert "Women * Adults <b>" in shown.replace("Adults <b> * Women", "Women * Adults <b>")
    frame = pd.DataFrame(rows(town, "--table", "sex", "--at", "tract"))
    assert list(frame.columns[:3]) == ["geocode", "name", "young * f"]
    guarded = {**TRACTS, "A02": "'" + FORMULA}
    assert dict(zip(frame["geocode"], frame["name"], strict=True)) == guarded
    found = json.loads(printed("query", town, "total", "--at", "tract", "--format", "json"))
    assert {row["geocode"]: row["name"] for row in found} == TRACTS
    assert release.names("tract").to_dict() == TRACTS
    assert release.names("county", "es")["B"] == "Condado de Abedules"
    assert release.names("block").tolist() == reader_of(release).spine.leaf_level.geocodes.tolist()
    about = reader_of(release).spec.about
    assert (about.reference_date, about.licence) == ("2030-04-01", "CC-BY-4.0")
    assert reader_of(release).labels.value("sex", "f") == "Women"
    assert reader_of(release.companion("units")).labels.value("status", "occupied") == "Lived in"


def test_summary_files_of_the_census_have_the_names(tmp_path: Path) -> None:
    """In the file's encoding, as long as its field, and without the sign that separates fields."""
    codes, counts = np.array(["44001", "44003"]), {"P1": np.ones((2, 71), dtype=np.int64)}
    with SummaryFiles(tmp_path, ["P1"]) as files:
        files.write("050", codes, counts, ["A|B \u05d1 \u00c9" + "x" * 200, SCRIPT])
        files.write("140", np.array(["44001000100"]), {"P1": counts["P1"][:1]})
    lines = (tmp_path / "rigeo2020.pl").read_text("latin-1").splitlines()
    found = [dict(zip(GEO_HEADER, line.split("|"), strict=True))["NAME"] for line in lines]
    assert found == [("A/B ? \u00c9" + "x" * 200)[:125], SCRIPT, ""]
