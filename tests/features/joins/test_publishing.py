"""Microdata, average sizes and tables of joined universes: every join kept, and each fault in them found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from oracles.households import drawn_town
from oracles.joined_homes import town_joins
from releases.homes import write_homes
from releases.made_case import made_case
from releases.one_town import HOUSEHOLD_VALUES, PERSON_VALUES, write_one_town

from auditor.check.households import Limit, RecordFile, check_households
from auditor.check.release import check_release
from auditor.reading.cells import Cells, JoinedGroup
from auditor.reading.files import Files
from auditor.reading.findings import FormError
from auditor.reading.spine import Level
from features.joins.link import Households
from features.joins.mathematics.assignment import assigned_spans
from features.joins.mathematics.membership import NO_MOST
from features.joins.publishing import AssignedHouseholds, JoinedRecords, publish_joined_records, write_joined_microdata
from pipeline.errors import SpecError
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.model.schema import Attribute, Schema
from pipeline.publishing.steps import linked_records
from pipeline.reading.release import Release, open_release
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.microdata import write_microdata
from pipeline.spec.release_spec import load_spec
from postprocess.errors import SolverError


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ((('sex = ["f", "m"]', 'household = ["f", "m"]'),), "schema.attributes.household"),
        ((('tenure = ["owned", "rented"]', 'members = ["owned", "rented"]'),), "homes.schema.attributes.members"),
        ((('tenure = ["owned", "rented"]', 'household = ["owned", "rented"]'),), "homes.schema.attributes.household"),
    ],
)
def test_an_attribute_called_like_a_column_of_the_key_is_refused_by_the_spec(
    tmp_path: Path, changes: tuple[tuple[str, str], ...], key: str
) -> None:
    spec = write_one_town(tmp_path, *changes)
    with pytest.raises(SpecError, match=f"{key}: with .* the microdata have a column of that name"):
        load_spec(spec)


PERSONS = Schema((Attribute("age", ("child", "adult")), Attribute("lives", ("home", "dorm"))))
HOMES = Schema((Attribute("tenure", ("owned", "rented")),))
N = 17
GEOCODES = np.array([f"44{i:03d}" for i in range(N)])


def _population(seed: int = 0) -> tuple[sp.csr_array, sp.csr_array, list[NDArray[np.int64]]]:
    """Persons, homes, and for each leaf the home of each person, at random; -1 in dormitories."""
    rng = np.random.default_rng(seed)
    homes = rng.poisson(1.5, (N, 2)).astype(np.int64)
    persons = rng.poisson(2.0, (N, 4)).astype(np.int64)
    persons[homes.sum(axis=1) == 0] *= np.array([0, 1, 0, 1])
    persons[3] = homes[5] = 0
    persons[5, 0::2] = 0
    assigned = []
    for people, houses in zip(persons, homes, strict=True):
        lives = np.repeat(np.arange(4) % 2, people)
        drawn = rng.integers(0, max(1, int(houses.sum())), len(lives))
        assigned.append(np.where(lives == 1, -1, drawn).astype(np.int64))
    return sp.csr_array(persons), sp.csr_array(homes), assigned


def _parts(assigned: list[NDArray[np.int64]], cuts: list[int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for start, stop in pairwise([0, *cuts, N]):
        yield stop - start, np.concatenate([np.zeros(0, dtype=np.int64), *assigned[start:stop]])


def _write(folder: Path, seed: int = 0, cuts: list[int] | None = None, names: tuple[str, ...] = ("household",)) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "staging").mkdir(exist_ok=True)
    persons, homes, assigned = _population(seed)
    households = [
        AssignedHouseholds(JoinedRecords(folder / f"{name}.parquet", HOMES, homes), name, _parts(assigned, cuts or []))
        for name in names
    ]
    records = JoinedRecords(folder / "persons.parquet", PERSONS, persons)
    assert write_joined_microdata(records, households, folder / "staging", "block", GEOCODES) == persons.sum()
    return folder


@pytest.mark.parametrize("seed", range(3))
def test_each_person_has_the_number_of_the_row_of_its_household(tmp_path: Path, seed: int) -> None:
    folder = _write(tmp_path, seed, cuts=[4, 9])
    persons, homes, assigned = _population(seed)
    people, houses = (pd.read_parquet(folder / f"{name}.parquet") for name in ("persons", "household"))
    assert list(people.columns) == ["geocode", "age", "lives", "household"]
    assert list(houses.columns) == ["geocode", "tenure", "household", "members"]
    assert houses["household"].tolist() == list(range(1, len(houses) + 1))
    numbers, first = [], 1
    for here, number in zip(homes.toarray(), assigned, strict=True):
        numbers += [None if one < 0 else first + one for one in number.tolist()]
        first += int(here.sum())
    assert [None if pd.isna(one) else int(one) for one in people["household"]] == numbers
    joined = people.dropna(subset="household").merge(houses, on="household", suffixes=("", "_home"))
    assert (joined["geocode"].astype(str) == joined["geocode_home"].astype(str)).all()
    counted = people["household"].value_counts().reindex(houses["household"]).fillna(0)
    assert (counted.to_numpy() == houses["members"].to_numpy()).all()
    assert (people["household"].isna() == (people["lives"] == "dorm")).all()
    types = {field.name: (str(field.type), field.nullable) for field in pq.read_schema(folder / "persons.parquet")}
    assert types["household"] == ("int64", True)
    types = {field.name: (str(field.type), field.nullable) for field in pq.read_schema(folder / "household.parquet")}
    assert types["household"] == types["members"] == ("int64", False)
    # But for the new columns these are the microdata without joins.
    write_microdata(tmp_path / "plain", folder / "staging", "block", GEOCODES, PERSONS, persons)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "plain"), people.drop(columns="household"))


N_BLOCKS = 30
BLOCKS = np.array([f"A{i:03d}" for i in range(N_BLOCKS)])


def stated_limits(*, others: bool = False) -> list[Limit]:
    """The groups of the town's joins, cell by cell."""
    return [
        (
            JoinedGroup(
                join.name,
                f"{join.name} {answer}",
                join.persons.cell_answer == answer,
                join.least[answer][join.households.cell_answer],
                np.where(join.most[answer] >= NO_MOST, -1, join.most[answer])[join.households.cell_answer],
            ),
            others,
        )
        for join in town_joins(others=others)
        for answer in np.flatnonzero(join.inside)
    ]


def _schema(values: dict[str, tuple[str, ...]]) -> Schema:
    return Schema(tuple(Attribute(name, each) for name, each in values.items()))


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """The folder of the two files, as the release writes them."""
    (tmp_path / "staging").mkdir()
    folder = tmp_path / "public"
    persons, homes = drawn_town(N_BLOCKS, 2)
    write_joined_microdata(
        JoinedRecords(folder / "persons.parquet", _schema(PERSON_VALUES), persons),
        [
            AssignedHouseholds(
                JoinedRecords(folder / "homes.parquet", _schema(HOUSEHOLD_VALUES), homes),
                "household",
                assigned_spans(town_joins(), persons, homes, 0),
            )
        ],
        tmp_path / "staging",
        "block",
        BLOCKS,
    )
    return folder


def problems(public: Path, limits: list[Limit] | None = None) -> list[str]:
    files = Files(public)
    check_households(
        files,
        Level("block", pa.array(BLOCKS.tolist()), np.full(N_BLOCKS, -1)),
        RecordFile(public / "persons.parquet", Cells(PERSON_VALUES, {}), ("household",), None),
        RecordFile(public / "homes.parquet", Cells(HOUSEHOLD_VALUES, {}), ("household", "members"), None),
        "household",
        stated_limits() if limits is None else limits,
    )
    assert files.findings.n_checks >= 7
    return files.findings.problems


def changed(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    frame = pd.read_parquet(path).astype({"geocode": str})
    if "members" not in frame:
        frame["household"] = frame["household"].astype("Int64")
    change(frame).to_parquet(path, index=False)


def test_what_the_release_writes_is_right(public: Path) -> None:
    assert problems(public) == []
    assert problems(public, stated_limits(others=True)[:0]) != []  # without a join nobody lives in households


def _first_home(frame: pd.DataFrame, value: int | None) -> pd.DataFrame:
    frame.loc[frame["household"].first_valid_index(), "household"] = value
    return frame


def _first_dorm(frame: pd.DataFrame) -> pd.DataFrame:
    frame.loc[int(np.flatnonzero(frame["quarters"] == "dorm")[0]), "household"] = 1
    return frame


FAULTS: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "absent": ("persons", lambda f: _first_home(f, 10**9), "household 1000000000: there is no such household"),
    "zero": ("persons", lambda f: _first_home(f, 0), "household 0: there is no such household"),
    "elsewhere": (
        "persons",
        lambda f: _first_home(f, int(f["household"].max())),
        "the household is in another block, block 'A029'",
    ),
    "homeless": ("persons", lambda f: _first_home(f, None), "such persons live in a household"),
    "dorm": ("persons", _first_dorm, "no join says that such persons live in households"),
    "text": ("persons", lambda f: f.assign(household="1"), "column 'household' holds"),
    "no column": ("persons", lambda f: f.drop(columns="household"), "it lacks 'household'"),
    "renumbered": ("homes", lambda f: f.assign(household=f["household"][::-1].to_numpy()), "it is that of the row"),
    "members": (
        "homes",
        lambda f: f.assign(members=f["members"] + (f.index == 3)),
        "household 4 in block 'A000' states",
    ),
    "negative": ("homes", lambda f: f.assign(members=f["members"] - 50), "whole numbers are required"),
    "size": ("homes", lambda f: f.assign(size="1"), "the join 'size'"),
    "shorter": ("homes", lambda f: f.iloc[:-1], "there is no such household"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_kind_of_fault_is_named(public: Path, fault: str) -> None:
    file, change, said = FAULTS[fault]
    changed(public / f"{file}.parquet", change)
    try:
        found = problems(public)
    except FormError as error:
        found = [str(error)]
    assert any(said in problem for problem in found), found


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


def test_a_leaf_whose_households_cannot_be_filled_is_named(released: Path, tmp_path: Path) -> None:
    """With the persons in the households of a block gone."""
    run = RunDirectory(Path(shutil.copytree(released, tmp_path / "homes")))
    spec = load_spec(released.parents[1] / "release.toml")
    job = Job(run, spec, spec.universes(), read_spine(spec.geography), Workers(1), Silent())
    files, leaves, schema = [job.folder(each) for each in job.universes], job.spine.leaf_level, job.universes[0].schema
    persons = read_histogram(job.readable(files[0].histogram(leaves.name)), leaves.geocodes, schema).toarray()
    at_home = np.array(["household" in label for label in schema.cell_labels()])
    leaf = int(np.flatnonzero(persons[:, at_home].sum(axis=1))[2])
    persons[leaf, at_home] = 0
    for one in files:
        one.microdata.unlink()
    households = [link for link in linked_records(job, job.universes[0]) if isinstance(link, Households)]
    with pytest.raises(SolverError, match=f"^block {leaves.geocodes[leaf]}: its persons cannot be"):
        publish_joined_records(job, households, sp.csr_array(persons))
    assert not any(one.microdata.exists() for one in files)


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
        ("household_sizes/homes/block", _one_more, "(the tables)"),
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
