"""What a [[join]] means, number by number, what is refused, and how large a household can be; against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from auditor.form import read_form
from features.joins.keys import JoinKinds, JoinsKeys, stated_joins
from features.joins.link import Join, largest_household
from features.joins.mathematics.membership import NO_MOST
from pipeline.errors import SpecError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Recode, Schema
from pipeline.publishing.promises import MEMBERS
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

BASE = """
name = "one"
[privacy]
rho = "1"
[geography]
file = "zones.csv"
column = "zone"
levels = { county = 2, zone = 4 }
[schema.attributes]
age = ["0-17", "18-64", "65+"]
sex = ["f", "m"]
place = ["household", "dorm", "prison"]
role = ["head", "other"]
[schema.recodes.child]
attribute = "age"
groups = { child = ["0-17"], adult = ["18-64", "65+"] }
[schema.recodes.old]
attribute = "age"
groups = { young = ["0-17", "18-64"], old = ["65+"] }
[schema.recodes.housed]
attribute = "place"
groups = { in = ["household"], out = ["dorm", "prison"] }
[strategy]
queries = { detailed = "1" }
levels = { county = "1/2", zone = "1/2" }
[companions.homes]
privacy = { rho = "1" }
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", zone = "1/2" } }
structural_zeros = [ ZEROS ]
[companions.homes.schema.attributes]
size = ["1", "2", "3+"]
head_age = ["18-64", "65+"]
head_sex = ["f", "m"]
children = ["no", "one", "more"]
"""
WHERE = 'companion = "homes"\nwhere = { place = "household" }\n'
SIZE = WHERE + 'size = "size"\nmost = 9\n'
HEAD = WHERE + 'householder = { age = "head_age" }\n'
CHILDREN = WHERE + 'present = { children = ["one", "more"] }\nmembers = { child = "child" }\n'
NO_LONE_CHILD = '{ size = "1", children = ["one", "more"] }'
TABLE = """
companion = "homes"
persons = "child * place"
households = "size * children"
[join.table."child * household"]
"1 * no" = 0
"1 * one" = 0
"1 * more" = 0
"2 * no" = 0
"2 * one" = [1, 1]
"2 * more" = 0
"3+ * no" = 0
"3+ * one" = 1
"3+ * more" = [2]
[join.table."child * dorm"]
"""
ROWS = "".join(f'"{size} * {n}" = 0\n' for size in ("1", "2", "3+") for n in ("no", "one", "more"))


def spec_of(*joins: str, zeros: str = "", more: str = "", base: str = BASE) -> ReleaseSpec:
    """The spec with these joins; `zeros` of homes, and `more` tables before the joins."""
    text = base.replace("ZEROS", zeros) + more + "".join(f"[[join]]\n{join}" for join in joins)
    return parse_spec(text, "r.toml")


def only(*joins: str, base: str = BASE) -> Join:
    (join,) = stated_joins(spec_of(*joins, base=base)).joins
    return join


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ('companion = "homes"\nsize = "size"\nmost = 3\n', 3, 3.0),
        ('companion = "homes"\nsize = "size"\nmost = 9\nmean = "19/4"\n', 9, 4.75),
        ('companion = "homes"\nsize = "size"\nothers = true\n', NO_MOST, 3.5),
        ('companion = "homes"\nsize = "size"\nothers = true\nmean = "40"\n', NO_MOST, 40.0),
    ],
)
def test_size_of_everybody(text: str, most: int, expected: float) -> None:
    join = only(text)
    assert join.persons.answer_labels() == ("total",)
    assert join.inside.tolist() == [True]
    assert join.most.tolist() == [[1, 2, most]]
    assert join.expected.tolist() == [[1.0, 2.0, expected]]


def test_a_table_states_each_number() -> None:
    join = only(TABLE + ROWS)
    keys = spec_of(TABLE + ROWS).part(JoinsKeys)
    assert keys is not None
    assert "by size * children the members by child * place" in keys.join[0].words
    assert join.name == "homes table"
    rows = dict(zip(join.persons.answer_labels(), range(join.persons.size), strict=True))
    household, dorm = rows["child * household"], rows["child * dorm"]
    assert np.flatnonzero(join.inside).tolist() == [household, dorm]
    assert join.least[household].tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 2]
    assert join.most[household].tolist() == [0, 0, 0, 0, 1, 0, 0, 1, NO_MOST]
    assert np.isnan(join.expected[household]).all()
    assert join.expected[dorm].tolist() == [0.0] * 9
    assert not join.least.sum(axis=1)[~join.inside].any()


def test_noise_does_not_depend_on_joins() -> None:
    fingerprints = [
        [universe.privacy_fingerprint() for universe in spec.universes()] for spec in (spec_of(), spec_of(SIZE, HEAD))
    ]
    assert fingerprints[0] == fingerprints[1]


def problems(*joins: str, zeros: str = "", more: str = "", base: str = BASE) -> list[str]:
    with pytest.raises(SpecError) as error:
        spec_of(*joins, zeros=zeros, more=more, base=base)
    return [line.removeprefix("r.toml: ") for line in str(error.value).splitlines()]


#: A join, and what is said of it, place and what is allowed; in place of @, "join[0]".
MISTAKES: list[tuple[str, tuple[str, ...]]] = [
    ('companion = "homes"\n', ("@: has no form; one of the keys size, householder, present, table",)),
    (SIZE + 'householder = { age = "head_age" }\n', ("@: has keys of 2 forms, size (form size) and householder",)),
    (WHERE + "most = 3\n", ("@.size: missing",)),
    (WHERE + 'present = { children = "no" }\n', ("@.members: missing",)),
    ('companion = "homes"\npersons = "age"\n', ("@.table: missing", "@.households: missing")),
    ('companion = "units"\nsize = "size"\n', ("@.companion: 'units' is not a companion; the companions are homes",)),
    (WHERE + 'size = "sice"\n', ("@.size: 'sice' is not an attribute or recode; did you mean 'size'?",)),
    (WHERE + 'size = "size"\nmost = 2\n', ("@.most: found 2; at least 3 is needed",)),
    (SIZE + 'mean = "2.5"\n', ("@.mean: found 5/2; 3+ stands for from 3 to 9",)),
    (SIZE + "mean = 4.5\n", ("@.mean: found the number 4.5; write it in quotes",)),
    (WHERE + 'size = "head_sex"\n', ("@.size: 'head_sex' has the label 'f', which is no number of members",)),
    (SIZE.replace("place", "plac"), ("@.where.plac: 'plac' is not an attribute or recode; did you mean 'place'?",)),
    (SIZE.replace("household", "home"), ("@.where.place: 'home' is not a value of place; allowed are household",)),
    (
        WHERE.replace('"household"', '["household", "dorm"]') + 'size = "size"\nmost = 3\n',
        ("@.where.place: no recode has a group of just household, dorm",),
    ),
    (
        WHERE + 'householder = { sex = "head_age" }\n',
        ("@.householder.sex: 'head_age' has the label '18-64', which 'sex' does not have",),
    ),
    (
        WHERE + 'householder = { place = "head_age" }\n',
        ("@.householder.place: 'head_age' has the label", "@.householder.place: stands in `where`, too"),
    ),
    (
        WHERE + 'present = { children = "two" }\nmembers = { age = ["0-17", "65+"] }\n',
        ("@.members.age: no recode has a group of just 0-17, 65+", "@.present.children: 'two' is not a value"),
    ),
    (
        WHERE + 'present = { children = "one" }\nmembers = { age = "65+", child = "child" }\n',
        ("@.members: the query 'place * age * child' names the attribute 'age' twice",),
    ),
    (
        TABLE + ROWS.replace('"2 * one" = 0\n', "").replace('"3+ * no" = 0', '"4 * no" = 0'),
        (
            "@.table.\"child * dorm\".\"4 * no\": '4 * no' is not an answer of 'size * children'",
            "@.table.\"child * dorm\": says nothing of '2 * one', '3+ * no'",
        ),
    ),
    (
        TABLE + ROWS.replace('"2 * one" = 0', '"2 * one" = [3, 1]'),
        ('@.table."child * dorm"."2 * one": found [3, 1]; allowed are a number of members',),
    ),
]


@pytest.mark.parametrize(
    ("join", "says"), MISTAKES, ids=[f"{i}-{m[1][0].split(':')[0]}" for i, m in enumerate(MISTAKES)]
)
def test_each_mistake_has_its_message(join: str, says: tuple[str, ...]) -> None:
    found = problems(join)
    assert len(found) == len(says)
    for line, beginning in zip(found, says, strict=True):
        assert line.startswith(beginning.replace("@", "join[0]"))


OLD = WHERE + 'present = { head_age = "65+" }\nmembers = { old = "old" }\n'
WOMEN = 'companion = "homes"\nwhere = { sex = "f" }\nhouseholder = { age = "head_age" }\n'


@pytest.mark.parametrize(
    ("joins", "says"),
    [
        ((CHILDREN, OLD), "join[1]: its query on persons, 'place * old', and that of join[0], 'place * child', cross"),
        ((SIZE, WOMEN), "join[1]: is about other persons than join[0]"),
        ((SIZE, HEAD + "others = true\n"), "join[1].others: found true, and false in join[0]"),
    ],
)
def test_joins_with_one_companion_do_not_cross_and_are_about_the_same_people(joins: tuple[str, str], says: str) -> None:
    (said,) = problems(*joins)
    assert said.startswith(says)
    assert ("[schema.recodes.NAME]" in said) == ("cross" in says)


def test_nothing_below_the_top_may_fix_the_persons_in_households() -> None:
    base = BASE.replace("[privacy]", 'invariants = { county = ["total"] }\n[privacy]')
    assert stated_joins(spec_of(SIZE, base=base)).joins
    base = BASE.replace("[privacy]", 'invariants = { zone = ["housed"] }\n[privacy]')
    assert problems(SIZE, base=base) == [
        "invariants.zone: 'housed' is exact in every zone; its households ([companions.homes], join[0]) are released "
        "first, and may imply more or fewer persons than this allows; keep it at the top level, county"
    ]
    bound = (
        '[[bounds]]\nname = "b"\nlevel = "{}"\nfile = "f.csv"\ngeocode = "g"\nquery = "place"\nupper = 9\n'
        'columns = {{ {} = "n" }}\n'
    )
    assert stated_joins(spec_of(SIZE, more=bound.format("zone", "dorm"))).joins
    assert stated_joins(spec_of(SIZE, more=bound.format("county", "household"))).joins
    (said,) = problems(SIZE, more=bound.format("zone", "household"))
    assert said.startswith("bounds[0]: bounds persons in households in every zone; its households")


def test_a_kind_that_no_members_fit_is_reported_as_it_is_to_be_declared() -> None:
    assert problems(SIZE, HEAD, CHILDREN) == [
        "join[0]: a household with size = 1 and children = one or more would need 2 members in 'household', where at "
        "most 1 can be; there can be none, so declare it in companions.homes.structural_zeros: "
        '{ size = "1", children = ["one", "more"] }'
    ]
    assert len(stated_joins(spec_of(SIZE, HEAD, CHILDREN, zeros=NO_LONE_CHILD)).joins) == 3


def test_an_impossible_group_of_persons_has_no_members() -> None:
    base = BASE.replace("[privacy]", 'structural_zeros = [ { age = "0-17", place = "household" } ]\n[privacy]')
    (said,) = problems(CHILDREN, base=base)
    assert "children = one or more would need 1 member in 'child * household', where at most 0 can be" in said


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
