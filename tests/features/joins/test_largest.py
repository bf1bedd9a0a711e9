"""How many members the largest household has: as by enumeration, and as the second program finds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from releases.joined_specs import CHILDREN, HEAD, SIZE, WHERE, spec_of

from auditor.form import read_form
from features.joins.keys import stated_joins
from features.joins.link import Join, largest_household
from pipeline.publishing.promises import MEMBERS


def largest(joins: Sequence[Join], up_to: int) -> int:
    """By enumeration of all households of up to so many members of each kind, held against the joins one by one."""
    own = np.stack([np.where(join.inside[join.persons.cell_answer], join.persons.cell_answer, -1) for join in joins])
    kinds = np.unique(own[:, (own >= 0).any(axis=0)], axis=1)
    found = 0
    for family in itertools.product(range(up_to + 1), repeat=kinds.shape[1]):
        fits = np.ones(joins[0].households.cell_answer.size, dtype=np.bool_)
        for answers, join in zip(kinds, joins, strict=True):
            counted = answers >= 0
            counts = np.bincount(answers[counted], np.array(family)[counted], join.persons.size)[:, None]
            right = np.asarray(((join.least <= counts) & (counts <= join.most))[join.inside].all(axis=0))
            fits &= right[join.households.cell_answer]
        if fits.any():
            found = max(found, sum(family))
    return found


def table(group: str, *limits: str) -> str:
    """A join by table: the members of a group in households without, with one and with more children."""
    rows = "".join(f"{kind} = {limit}\n" for kind, limit in zip(("no", "one", "more"), limits, strict=True))
    head = 'companion = "homes"\npersons = "child * place"\nhouseholds = "children"\n'
    return f'{head}[join.table."{group} * household"]\n{rows}'


ADULTS, MANY = table("adult", "[1, 2]", "[1, 3]", "[0, 3]"), table("child", "0", "1", "[2, 5]")
JOINS: dict[str, tuple[tuple[str, ...], int]] = {
    "size": ((SIZE,), 9),
    "size and heads": ((SIZE, HEAD, CHILDREN), 9),
    "adults and children": ((ADULTS, MANY), 8),
    "children and size": ((SIZE, MANY), 9),
    "adults alone": ((ADULTS,), 3),
}


@pytest.mark.parametrize("name", JOINS)
def test_the_largest_household_is_that_of_enumeration(name: str) -> None:
    stated, members = JOINS[name]
    zeros = '{ size = "1", children = ["one", "more"] }, { size = "2", children = "more" }'
    found = spec_of(*stated, zeros=zeros if len(stated) > 1 and SIZE in stated else "")
    joins = stated_joins(found).joins
    assert largest(joins, 9) == members
    assert largest_household(joins, "homes", MEMBERS) == members
    assert read_form(found.public_dict()).households == {"homes": members}


@pytest.mark.parametrize(("join", "members"), [(HEAD, 7), (CHILDREN, 7), (table("adult", "[1]", "[1]", "[12]"), 12)])
def test_where_any_number_is_allowed_the_statement_is_for_seven_or_the_least(join: str, members: int) -> None:
    found = spec_of(join)
    assert largest_household(stated_joins(found).joins, "homes", MEMBERS) == members
    assert read_form(found.public_dict()).households == {"homes": members}


def test_open_sizes_without_a_limit_are_of_their_least_members() -> None:
    base = WHERE + 'size = "size"\nothers = true\n'
    found = spec_of(base)
    assert read_form(found.public_dict()).households == {"homes": 7}
    assert largest_household(stated_joins(found).joins, "homes", 2) == 3
