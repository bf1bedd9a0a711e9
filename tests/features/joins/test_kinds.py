"""Kinds of households that no members fit, compared with enumeration of all families."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from features.joins.keys import JoinKinds
from features.joins.link import Join
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Recode, Schema

PERSONS = Schema(
    (Attribute("age", ("0-17", "18-64", "65+")), Attribute("place", ("household", "dorm"))),
    (Recode("child", "age", (("child", ("0-17",)), ("adult", ("18-64", "65+")))),),
)
HOUSEHOLDS = Schema((Attribute("size", ("1", "2", "3+")), Attribute("head", ("a", "b")), Attribute("kids", ("0", "1"))))
#: Persons' query of each join, and the households'.
QUERIES = (("place", "size"), ("age * place", "head"), ("child * place", "kids"))


def joins(rng: np.random.Generator) -> tuple[Join, ...]:
    """Limits drawn at random, for persons in households."""
    drawn = []
    for own, theirs in QUERIES:
        persons, households = Query.parse(own, PERSONS), Query.parse(theirs, HOUSEHOLDS)
        inside = persons.labels_of("place") == "household"
        least = np.where(inside[:, None], rng.integers(0, 3, (persons.size, households.size)), 0)
        most = np.where(inside[:, None], least + rng.integers(0, 3, least.shape), 0)
        drawn.append(
            Join(own, persons, households, least, most, inside, False, least.astype(np.float64), companion="homes")
        )
    return tuple(drawn)


def families(kinds: JoinKinds) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """`(n_kinds,)`: whether some family of up to 12 members of each age fits, held against the joins one by one."""
    ages, labels = PERSONS.attribute("age").values, PERSONS.cell_labels()
    cells = [labels.index(f"{age} * household") for age in ages]
    fits = np.zeros(len(kinds.answers), dtype=np.bool_)
    for family in itertools.product(range(13), repeat=len(ages)):
        right = ~fits
        for number, join in enumerate(kinds.joins):
            counts = np.bincount(join.persons.cell_answer[cells], weights=family, minlength=join.persons.size)
            within = (join.least <= counts[:, None]) & (counts[:, None] <= join.most)
            right &= within[join.inside][:, kinds.answers[:, number]].all(axis=0)
        fits |= right
    return fits


@pytest.mark.parametrize("seed", range(6))
def test_unfit_kinds_are_those_that_enumeration_finds(seed: int) -> None:
    possible = np.zeros(PERSONS.n_cells, dtype=np.bool_), np.zeros(HOUSEHOLDS.n_cells, dtype=np.bool_)
    kinds = JoinKinds.of(joins(np.random.default_rng(seed)), *possible)
    assert len(kinds.answers) == HOUSEHOLDS.n_cells
    unfit = {found.kind for found in kinds.unfit()}
    assert unfit == set(np.flatnonzero(~families(kinds)).tolist())
    assert len(unfit) > 0


@pytest.mark.parametrize("seed", range(20))
def test_boxes_hold_the_kinds_and_no_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    possible = np.zeros(PERSONS.n_cells, dtype=np.bool_), rng.random(HOUSEHOLDS.n_cells) < 0.2
    kinds = JoinKinds.of(joins(rng), *possible)
    wanted = np.flatnonzero(rng.random(len(kinds.answers)) < 0.5)
    held: set[int] = set()
    for box, first in kinds.boxes(wanted.tolist()):
        inside = np.ones(len(kinds.answers), dtype=np.bool_)
        for term, labels in box.items():
            inside &= np.isin(kinds.labels[term], labels)
        assert inside[first]
        held |= set(np.flatnonzero(inside).tolist())
    assert held == set(wanted.tolist())
