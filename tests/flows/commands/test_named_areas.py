"""Names and labels in `spinewise query`, in what Python gives, and in exported files, whatever is in them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from releases.command import printed, spinewise
from releases.named import TRACTS

from pipeline.errors import InputError
from pipeline.reading.release import Release, open_release


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
