"""A made-up register over years: people who are born, die, move and age, in the areas of the example's state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from features.example.example import block_codes, check_new, labelled, spec_text, write_files
from features.example.population import names_csv, populate
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.errors import InputError
from postprocess.arrays import IntArray

__all__ = ["BORN", "FIRST_YEAR", "LEVELS", "register", "write_years"]

#: The areas: those of the other examples down to the block groups.
LEVELS: Final = {"state": 2, "county": 5, "tract": 11, "block_group": 12}
FIRST_YEAR: Final = 2031
SEXES: Final = ("f", "m")
#: Years of birth, in groups that nobody leaves: ages would change by themselves.
BORN: Final = ("before 1966", "1966 to 1990", "1991 to 2013", "since 2014")
_BORN_UNTIL: Final = (1965, 1990, 2013)
_OLDEST: Final = 100
#: Of the living, a year: moves, most of them of people under 40; births; deaths at 80, which double every eight years.
_MOVES, _BIRTHS, _DEATHS, _DOUBLING = 0.07, 0.011, 0.05, 8.0
#: Share of moves within the county.
_NEAR: Final = 0.7
_MOST_YEARS: Final = 100


def write_years(folder: Path, years: int, *, people: int = 100_000, seed: int = 2020) -> Path:
    """Write persons-YEAR.parquet for each year, areas.parquet, names.csv and release.toml; returns the spec's path.

    Args:
        folder: where to; must not hold one of the files yet.
        years: of the register, from `FIRST_YEAR` on.
        people: in the first of them.
        seed: not negative; equal seeds give equal bytes, with the same versions of numpy and pyarrow.

    Raises:
        InputError: a number is not allowed, or the folder cannot be written to or holds one of the files.
    """
    if not 1 <= years <= _MOST_YEARS:
        raise InputError(f"--years: found {years}; 1 to {_MOST_YEARS} are allowed")
    last = FIRST_YEAR + years - 1
    records = [f"persons-{year}.parquet" for year in range(FIRST_YEAR, last + 1)]
    check_new(folder, [*records, "areas.parquet", "names.csv", "release.toml"], seed)
    spine = spine_from_prefixes(np.unique([code[:12] for code in block_codes(seed).tolist()]), LEVELS)
    spec = spec_text("years.toml").replace("@FIRST@", str(FIRST_YEAR)).replace("@LAST@", str(last))
    spec = spec.replace("@SPELLS@", "spells = 2" if 1 < years <= 20 else "# spells = 2")  # more are not mixed
    words = names_csv(*(level.geocodes.tolist() for level in spine.levels[:3]))
    areas = [("areas.parquet", spine.to_table()), ("names.csv", words)]
    registers = zip(records, register(spine, years, people, seed), strict=True)
    return write_files(folder, chain(areas, registers, [("release.toml", spec)]))


def register(spine: Spine, years: int, people: int, seed: int) -> Iterator[pa.Table]:
    """The register of each year, one row a person in random order: person, block_group, born, sex, all text."""
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(4)[3])
    weights = np.asarray(populate(spine, people, seed).sum(axis=1), dtype=np.int64)
    area = np.repeat(np.arange(spine.n_leaves), weights)
    county = spine.leaf_ancestors(1)
    born = FIRST_YEAR - rng.triangular(0, 25, _OLDEST, people).astype(np.int64)
    sex = rng.integers(0, 2, people)
    person = np.arange(people)
    for year in range(FIRST_YEAR, FIRST_YEAR + years):
        order = rng.permutation(len(person))
        yield pa.table(
            {
                "person": pa.array(np.char.mod("%09d", person[order])),
                "block_group": labelled(area[order], spine.leaf_level.geocodes.tolist()),
                "born": labelled(np.searchsorted(_BORN_UNTIL, born[order]), BORN),
                "sex": labelled(sex[order], SEXES),
            }
        )
        age = year - born
        living = rng.random(len(person)) >= np.minimum(_DEATHS * 2.0 ** ((age - 80) / _DOUBLING), 1.0)
        person, area, born, sex, age = (one[living] for one in (person, area, born, sex, age))
        moving = rng.random(len(person)) < _MOVES * np.where(age < 40, 1.6, 0.5)
        area = np.where(moving, _moved(area, county, rng), area)
        n_born = int(rng.poisson(_BIRTHS * len(person)))
        mothers = rng.choice(np.flatnonzero(age < 45), n_born)
        person = np.concatenate([person, person.max() + 1 + np.arange(n_born)])
        area, born = np.concatenate([area, area[mothers]]), np.concatenate([born, np.full(n_born, year + 1)])
        sex = np.concatenate([sex, rng.integers(0, 2, n_born)])


def _moved(area: IntArray, county: IntArray, rng: np.random.Generator) -> IntArray:
    """Where each would move to: where somebody else lives, mostly in the same county."""
    anywhere = area[rng.integers(0, len(area), len(area))]
    near = area.copy()
    for one in np.unique(county).tolist():
        there = np.flatnonzero(county[area] == one)
        near[there] = area[rng.choice(there, len(there))] if len(there) else near[there]
    return np.where(rng.random(len(area)) < _NEAR, near, anywhere)
