"""Joins that no release could keep are refused, each with what is wrong and what to do."""

from __future__ import annotations

import pytest
from releases.joined_specs import BASE, CHILDREN, HEAD, NO_LONE_CHILD, ROWS, SIZE, TABLE, WHERE, spec_of

from features.joins.keys import stated_joins
from pipeline.errors import SpecError


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
    (WHERE + 'size = "size"\n', ("@.most: missing; 3+ needs `most`",)),
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


def test_several_open_sizes() -> None:
    base = BASE.replace('"2", "3+"', '"2+", "3+"')
    assert problems(SIZE, base=base) == ["join[0].size: 'size' has several open labels, 2+, 3+; one is allowed"]
    base = BASE.replace('"2", "3+"', '"2", "3"')
    assert problems(SIZE, base=base) == ["join[0].most: 'size' has no open label such as \"7+\"; leave it out"]


def test_queries_that_cross_are_refused() -> None:
    old = WHERE + 'present = { head_age = "65+" }\nmembers = { old = "old" }\n'
    (said,) = problems(CHILDREN, old)
    assert said.startswith("join[1]: its query on persons, 'place * old', and that of join[0], 'place * child', cross")
    assert "[schema.recodes.NAME]" in said


def test_joins_with_one_companion_are_about_the_same_people() -> None:
    women = 'companion = "homes"\nwhere = { sex = "f" }\nhouseholder = { age = "head_age" }\n'
    (said,) = problems(SIZE, women)
    assert said.startswith("join[1]: is about other persons than join[0]")
    (said,) = problems(SIZE, HEAD + "others = true\n")
    assert said.startswith("join[1].others: found true, and false in join[0]")


def test_few_groups_are_told_apart() -> None:
    ages = ", ".join(f'"{age}"' for age in range(11))
    base = BASE.replace('age = ["0-17", "18-64", "65+"]', f"age = [{ages}]").replace(
        'head_age = ["18-64", "65+"]', f"head_age = [{ages}]"
    )
    base = base[: base.index("[schema.recodes.child]")] + base[base.index("[schema.recodes.housed]") :]
    assert problems(SIZE, HEAD, base=base) == [
        "join[1]: its query on persons, 'place * age', divides those in households into 11 groups; at most 10 are "
        "allowed, so use recodes with fewer"
    ]


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


def test_more_in_a_group_than_in_the_household() -> None:
    table = 'companion = "homes"\npersons = "child * place"\nhouseholds = "children"\n'
    table += '[join.table."child * household"]\nno = 0\none = 1\nmore = [2, 12]\n'
    (said,) = problems(SIZE, table)
    assert "with size = 1 and children = more would need 2 members in 'household', where at most 1 can be" in said
    (said,) = problems(SIZE, table.replace("more = [2, 12]", "more = [10, 12]"))
    assert "children = more would need 10 members" in said
    assert 'structural_zeros: { children = "more" }' in said


def test_an_impossible_group_of_persons_has_no_members() -> None:
    base = BASE.replace("[privacy]", 'structural_zeros = [ { age = "0-17", place = "household" } ]\n[privacy]')
    (said,) = problems(CHILDREN, base=base)
    assert "children = one or more would need 1 member in 'child * household', where at most 0 can be" in said
