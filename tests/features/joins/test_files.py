"""What readers get of persons and households that are joined: average sizes, and persons by their households."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from releases.homes import write_homes
from releases.made_case import made_case
from releases.small import request_of

from auditor.check.release import check_release
from pipeline.errors import InputError, SpecError
from pipeline.reading.release import Release, open_release
from pipeline.spec.release_spec import load_spec

TABLES = """
[household_tables]
age_by_size = { persons = "age", households = "size" }
head = { households = "head * children", levels = ["county", "block"] }

[companions.homes]"""
LEVELS = ("county", "tract", "block")


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the matrix that has both tables, joint draws, and averages."""
    return made_case(tmp_path_factory, "drawn") / "out" / "homes"


@pytest.fixture
def release(released: Path) -> Release:
    return open_release(released)


def test_ends_of_averages_are_made_from_those_of_whole_counts_half_a_step_further_out(release: Release) -> None:
    """Each end solves its equation, or is the limit of 1 or of 8 members; most solve it."""
    solved = 0
    for level in LEVELS:
        sizes = release.household_sizes(level)
        some = (sizes["households"] > 0).to_numpy()
        p, h, low, high = sizes[["persons", "households", "average:low90", "average:high90"]][some].to_numpy(float).T
        persons = release.table("residence", level)[["household" + end for end in ("", ":low90", ":high90")]]
        homes = release.companion("homes").table("total", level)[["total" + end for end in ("", ":low90", ":high90")]]
        (fewer_p, more_p), (fewer_h, more_h) = (_reaches(each.to_numpy(float)[some]) for each in (persons, homes))
        for end, limit, of_p, of_h in ((low, 1, fewer_p, more_h), (high, 8, more_p, np.minimum(fewer_h, h))):
            gap = (p - end * h) ** 2 - of_p**2 - (end * of_h) ** 2
            solves = np.abs(gap) <= 1e-9 * np.maximum(p**2, 1)
            assert (solves | ((end == limit) & (gap <= 0))).all()
            solved += int(solves.sum())
    assert solved > 20


def _reaches(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far counts `(n, 3)` with their whole ends reach down and up, as numbers without steps."""
    fewer, more = numbers[:, 0] - numbers[:, 1], numbers[:, 2] - numbers[:, 0]
    return fewer + 0.5 * (fewer > 0), more + 0.5 * (more > 0)


Change = Callable[[Any], None]


def _moved(frame: Any) -> None:
    """A child of a household of two is said to live in one of three."""
    row = int(np.flatnonzero(frame["child * 2"] > 0)[0])
    frame.loc[row, ["child * 2", "child * 3"]] += [-1, 1]


def _larger(frame: Any) -> None:
    frame.loc[frame["households"].idxmax(), "average"] += 0.01


def _narrower(frame: Any) -> None:
    row = frame["households"].idxmax()
    frame.loc[row, "average:low90"] += 0.001
    ends = frame.loc[row, ["average:low90", "average:high90"]].astype(float)
    frame.loc[row, "average:moe90"] = (ends - frame.loc[row, "average"]).abs().max()


def _no_width(frame: Any) -> None:
    for name in ("average:low90", "average:high90"):
        frame[name] = frame["average"]
    frame["average:moe90"] = frame["average"] * 0


def _a_number_for_nobody(frame: Any) -> None:
    frame.loc[frame["households"] == 0, "average"] = 1.0


def _one_more(frame: Any) -> None:
    frame.loc[frame["households"].idxmax(), "persons"] += 1


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("household_tables/age_by_size/tract", _moved, "1 too many (the persons of such households in the microdata)"),
        ("household_tables/age_by_size/block", _moved, "1 too few (the persons of such households in the microdata)"),
        ("household_sizes/homes/block", _larger, "found the average"),
        ("household_sizes/homes/tract", _narrower, "does not follow from the intervals of the tables"),
        ("household_sizes/homes/county", _no_width, "does not follow from the intervals of the tables"),
        ("household_sizes/homes/block", _a_number_for_nobody, "found the average 1.0 of 0 persons in 0 households"),
        ("household_sizes/homes/block", _one_more, "1 too many (the histogram)"),
    ],
)
def test_the_checker_finds_a_wrong_number_by_itself(
    released: Path, tmp_path: Path, name: str, change: Change, found: str
) -> None:
    copy = Path(shutil.copytree(released, tmp_path / "town"))
    path = copy / "public" / f"{name}.parquet"
    frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
    change(frame)
    frame.to_parquet(path, index=False)
    problems = check_release(copy)
    assert any(found in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('x = { persons = "height", households = "size" }', "household_tables.x.persons: 'height'"),
        ('x = { households = "rooms" }', "household_tables.x.households: 'rooms'"),
        ('x = { households = "size", companion = "shops" }', "household_tables.x.companion: "),
        ('x = { households = "size", levels = ["street"] }', "household_tables.x.levels: "),
        ('x = { households = "size", levels = [] }', "household_tables.x.levels: no level is named"),
        ('Total = { households = "size" }', "household_tables.Total: tables.total has this name"),
        ('size = { households = "size" }', "household_tables.size: companions.homes.tables.size has this name"),
        ("x = { }", "household_tables.x.households: "),
    ],
)
def test_a_table_that_cannot_be_is_refused(tmp_path: Path, table: str, message: str) -> None:
    path = write_homes(tmp_path, ("\n[companions.homes]", f"\n[household_tables]\n{table}\n\n[companions.homes]"))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert message in str(caught.value)


def test_without_a_join_there_are_no_households_to_tabulate_by(tmp_path: Path) -> None:
    path = write_homes(tmp_path, ("\n[companions.homes]", TABLES))
    text = path.read_text()
    path.write_text(text[: text.index("[[join]]")])
    with pytest.raises(SpecError, match=r"household_tables.age_by_size.companion: missing; .* joined companions, none"):
        load_spec(path)


def test_two_columns_of_one_name_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    changes = (
        ('children = ["yes", "no"]', 'children = ["geocode", "no"]'),
        ('children = "yes" } ]', 'children = "geocode" } ]'),
        ('present = { children = "yes" }', 'present = { children = "geocode" }'),
        ("\n[companions.homes]", '\n[household_tables]\nx = { households = "children" }\n\n[companions.homes]'),
    )
    path = write_homes(tmp_path / "in", *changes)
    with pytest.raises(InputError, match=r"tables.x: 'geocode' cannot be the label"):
        request_of(path, tmp_path / "out")


def test_areas_of_ones_own_have_an_average_too(release: Release) -> None:
    sizes = release.household_sizes("tract")
    areas = {"two": ["A01", "A02"], "one": ["A03"], "nobody": _empty_blocks(release)}
    found = release.household_sizes_over(areas)
    two: dict[str, Any] = dict(zip(found.columns, found.to_numpy()[0].tolist(), strict=True))
    assert two["persons"] == sizes.loc[["A01", "A02"], "persons"].sum()
    assert two["average"] == two["persons"] / two["households"]
    assert 1 <= two["average:low90"] < two["average"] < two["average:high90"] <= 8
    assert found.to_numpy()[1].tolist() == sizes[sizes.index == "A03"].to_numpy()[0].tolist()
    assert found.isna().to_numpy()[2].tolist() == [False, False, True, True, True, True]


def _empty_blocks(release: Release) -> list[str]:
    sizes = release.household_sizes("block")
    return [str(code) for code in sizes.index[sizes["households"] == 0]]
