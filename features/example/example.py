"""A synthetic state with its spine and spec, ready to run: a stand-in for confidential records.

Persons of each leaf are dealt to households whose sizes follow the 2020 shares of the United States. Householders are
older in households of one, partners are mostly of the householder's age band, and the other members of households below
retirement age are mostly children. In a few large leaves some of the persons live in quarters. The shares are round
numbers, chosen to look like a population, and stand for nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.example.outlines import example_polygons
from features.example.population import SCHEMA, names_csv, populate
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.storage.paths import local_name
from postprocess.arrays import FloatArray, IntArray

AGES = ("0-17", "18-34", "35-64", "65+")
SEXES = ("female", "male")
RESIDENCES = ("household", "quarters")
SIZES = ("1", "2", "3", "4", "5", "6", "7+")
CHILDREN = ("no", "yes")

#: Shares of households of 1, 2 ... members; the last ones make up the open-ended size.
_SIZE_SHARE = np.array([0.282, 0.345, 0.151, 0.125, 0.058, 0.023, 0.010, 0.004, 0.002])
#: Shares of the age bands of householders: of households of one member, and of larger ones; nobody is a child.
_HEAD_SHARE = np.array([[0.0, 0.16, 0.42, 0.42], [0.0, 0.20, 0.58, 0.22]])
#: Shares of age bands of members who are neither householder nor partner, by the householder's age band.
_OTHER_SHARE = np.array(
    [[0.0, 0.0, 0.0, 0.0], [0.85, 0.14, 0.01, 0.0], [0.70, 0.26, 0.02, 0.02], [0.12, 0.22, 0.42, 0.24]]
)
#: Of households of two or more: the second member is a partner; and of the householder's age band.
_PARTNER, _SAME_AGE = 0.78, 0.90
#: Leaves of at least so many persons may have quarters; so many of them have; with this share of their persons.
_LARGE, _WITH_QUARTERS, _IN_QUARTERS = 60, 0.04, 0.5
#: Age bands of persons in quarters.
_QUARTERS_SHARE = np.array([0.04, 0.40, 0.16, 0.40])


@dataclass(frozen=True, eq=False)
class Population:
    """Persons and households, as the numbers of values.

    Attributes:
        leaf: `(n_persons,)` of each person; residence, age and sex alike.
        household_leaf: `(n_households,)` of each household; size, head and children alike.
    """

    leaf: IntArray
    residence: IntArray
    age: IntArray
    sex: IntArray
    household_leaf: IntArray
    size: IntArray
    head: IntArray
    children: IntArray


def settle(people: IntArray, seed: int) -> Population:
    """Give the persons of each leaf `(n_leaves,)` households, ages and sexes; equal seeds give equal populations."""
    rng = np.random.default_rng(seed)
    large = people >= _LARGE
    in_quarters = np.where(large & (rng.random(len(people)) < _WITH_QUARTERS), people * _IN_QUARTERS, 0).astype(
        np.int64
    )
    members = people - in_quarters
    starts = _starts(members, rng)
    sizes = np.diff(np.append(starts, members.sum()))
    ends = np.cumsum(members)
    household_leaf = np.searchsorted(ends, starts, side="right").astype(np.int64)
    head = _drawn(_HEAD_SHARE[np.minimum(sizes, 2) - 1], rng)
    household = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(household)) - starts[household]
    age = _ages(head[household], place, rng)
    outside = np.repeat(np.arange(len(people)), in_quarters)
    n = len(household) + len(outside)
    return Population(
        leaf=np.concatenate([household_leaf[household], outside]),
        residence=np.repeat([0, 1], [len(household), len(outside)]),
        age=np.concatenate([age, _drawn(np.tile(_QUARTERS_SHARE, (len(outside), 1)), rng)]),
        sex=rng.integers(0, len(SEXES), n),
        household_leaf=household_leaf,
        size=np.minimum(sizes, len(SIZES)) - 1,
        head=head,
        children=(np.bincount(household, age == 0, minlength=len(sizes)) > 0).astype(np.int64),
    )


def _starts(members: IntArray, rng: np.random.Generator) -> IntArray:
    """The number of the first person of each household; a household ends where its leaf does."""
    total = int(members.sum())
    drawn = 1 + rng.choice(len(_SIZE_SHARE), size=total // 2 + 100, p=_SIZE_SHARE / _SIZE_SHARE.sum())
    ends = np.cumsum(drawn)
    first_of_leaf = np.cumsum(members) - members
    starts = np.concatenate([[0], ends, first_of_leaf[members > 0]])
    return np.unique(starts[starts < total])


def _ages(head: IntArray, place: IntArray, rng: np.random.Generator) -> IntArray:
    """The age band of each member, from its householder's and its place in the household, from 0."""
    age = _drawn(_OTHER_SHARE[head], rng)
    partner = (place == 1) & (rng.random(len(place)) < _PARTNER)
    same = rng.random(len(place)) < _SAME_AGE
    near = np.clip(head + rng.choice([-1, 1], len(place)), 1, len(AGES) - 1)
    age = np.where(partner, np.where(same, head, near), age)
    return np.where(place == 0, head, age)


def _drawn(shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """A value for each row of shares `(n, k)`."""
    limits = np.cumsum(shares, axis=1)
    return np.asarray((rng.random(len(shares))[:, None] >= limits[:, :-1]).sum(axis=1), dtype=np.int64)


#: Characters of the codes, as in the real ones; 99 is the code of no state.
LEVELS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
STATE = "99"

N_BLOCK_GROUPS, N_BLOCKS = 800, 25_000
#: Counties of very different size; 250 tracts in all.
_TRACTS_OF_COUNTY = (13, 45, 22, 140, 30)
#: The last digit of a block group's code allows nine in a tract.
_MOST_IN_TRACT = 9
#: Standard deviation of the logarithm of a block group's number of blocks.
_BLOCKS_SPREAD = 0.6


def check_new(folder: Path, names: Sequence[str], seed: int) -> None:
    """InputError where a folder holds one of the files, or the seed is negative."""
    if there := [name for name in names if (folder / name).exists()]:
        raise InputError(f"{folder}: the folder holds {', '.join(there[:9])} already; give one that is new or empty")
    if seed < 0:
        raise InputError(f"seed: found {seed}; 0 or more is allowed")


def write_files(folder: Path, files: Iterable[tuple[str, pa.Table | str]]) -> Path:
    """Write tables and texts to the folder, which is made if it is missing; the path of its spec.

    Raises:
        InputError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files:
            if isinstance(content, str):
                (folder / name).write_text(content, encoding="utf-8")
            else:
                pq.write_table(content, local_name(folder / name), compression="zstd")
    except OSError as error:
        raise InputError(f"{folder}: the example cannot be written there: {error.strerror or error}") from error
    return folder / "release.toml"


def spec_text(name: str) -> str:
    """A spec of the examples."""
    return resources.files("features.example.spec").joinpath(name).read_text("utf-8")


_FILES = ("persons.parquet", "blocks.parquet", "counties.geojson", "tracts.geojson", "names.csv", "release.toml")


def write_example(folder: Path, *, people: int = 1_000_000, seed: int = 2020, households: bool = False) -> Path:
    """Write persons.parquet, blocks.parquet, names.csv, two files of polygons and release.toml to `folder`.

    The folder is made if it is missing.

    Args:
        folder: where to; must not hold one of the files yet.
        people: number of persons, at least 1.
        seed: not negative; equal seeds give equal bytes, with the same versions of numpy and pyarrow.
        households: persons in households: also households.parquet, and a spec that joins the two.

    Returns:
        The path of the spec.

    Raises:
        InputError: `people` or `seed` is too small, or the folder cannot be written to or holds one of the files.
    """
    check_new(folder, (*_FILES, "households.parquet") if households else _FILES, seed)
    codes_seed, people_seed, order_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(3))
    spine = spine_from_prefixes(block_codes(codes_seed), LEVELS)
    if households:
        records = _joined_records(spine, people, people_seed, order_seed)
    else:
        records = {"persons": _persons(spine, people, people_seed, order_seed)}
    county, tract = spine.levels[1], spine.levels[2]
    polygons = example_polygons(county.geocodes.tolist(), tract.geocodes.tolist(), tract.parents, codes_seed)
    words = names_csv(*(level.geocodes.tolist() for level in spine.levels[:3]))
    files = [("blocks.parquet", spine.to_table()), *((f"{name}.parquet", table) for name, table in records.items())]
    files += zip(("counties.geojson", "tracts.geojson"), polygons, strict=True)
    files += [("names.csv", words), ("release.toml", spec_text("households.toml" if households else "release.toml"))]
    return write_files(folder, files)


def block_codes(seed: int) -> NDArray[np.str_]:
    """`(25000,)` codes of 15 digits: 5 counties, 250 tracts, 800 block groups of uneven sizes."""
    rng = np.random.default_rng(seed)
    county = np.repeat(np.arange(len(_TRACTS_OF_COUNTY)), _TRACTS_OF_COUNTY)
    n_tracts = county.size
    tract_in_county = np.arange(n_tracts) - np.repeat(np.cumsum([0, *_TRACTS_OF_COUNTY[:-1]]), _TRACTS_OF_COUNTY)
    # Every tract has one block group; the others are dealt to the free places of all tracts.
    places = rng.choice(n_tracts * (_MOST_IN_TRACT - 1), N_BLOCK_GROUPS - n_tracts, replace=False)
    groups_of_tract = 1 + np.bincount(places // (_MOST_IN_TRACT - 1), minlength=n_tracts)
    tract = np.repeat(np.arange(n_tracts), groups_of_tract)
    group_in_tract = _number_within(groups_of_tract)
    weight = rng.lognormal(0.0, _BLOCKS_SPREAD, N_BLOCK_GROUPS)
    blocks_of_group = 1 + rng.multinomial(N_BLOCKS - N_BLOCK_GROUPS, weight / weight.sum())
    group_codes = [
        f"{STATE}{2 * county[t] + 1:03d}{100 * (tract_in_county[t] + 1):06d}{g + 1}"
        for t, g in zip(tract, group_in_tract, strict=True)
    ]
    numbers = [f"{number:03d}" for number in _number_within(blocks_of_group)]
    return np.strings.add(np.repeat(np.array(group_codes), blocks_of_group), np.array(numbers))


def _number_within(sizes: IntArray) -> IntArray:
    """0, 1, 2 ... within each of successive groups of the given sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _persons(spine: Spine, people: int, seed: int, order_seed: int) -> pa.Table:
    """One row a person in random order: block, votingage, race, all text."""
    counts = populate(spine, people, seed)
    leaves = np.repeat(np.arange(spine.n_leaves), np.diff(counts.indptr))
    order = np.random.default_rng(order_seed).permutation(people)
    leaf = np.repeat(leaves, counts.data)[order]
    codes = SCHEMA.cell_codes()[np.repeat(counts.indices, counts.data)[order]]
    columns = {"block": labelled(leaf, spine.leaf_level.geocodes.tolist())}
    for number, attribute in enumerate(SCHEMA.attributes):
        columns[attribute.name] = labelled(codes[:, number], attribute.values)
    return pa.table(columns)


def _joined_records(spine: Spine, people: int, seed: int, order_seed: int) -> dict[str, pa.Table]:
    """Persons and households, one row each, in random order."""
    leaf_people = np.asarray(populate(spine, people, seed).sum(axis=1), dtype=np.int64)
    settled = settle(leaf_people, seed)
    rng = np.random.default_rng(order_seed)
    codes = spine.leaf_level.geocodes.tolist()
    found = {}
    for name, leaf, columns in (
        ("persons", settled.leaf, {"residence": RESIDENCES, "age": AGES, "sex": SEXES}),
        ("households", settled.household_leaf, {"size": SIZES, "head": AGES, "children": CHILDREN}),
    ):
        order = rng.permutation(len(leaf))
        words = {column: labelled(getattr(settled, column)[order], labels) for column, labels in columns.items()}
        found[name] = pa.table({"block": labelled(leaf[order], codes), **words})
    return found


def labelled(codes: IntArray, labels: list[str] | tuple[str, ...]) -> pa.Array:
    """Text of each code."""
    dictionary = pa.array(labels, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), dictionary).cast(pa.string())
