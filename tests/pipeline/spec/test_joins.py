"""What a [[join]] means, number by number; that joins which no release could keep are refused, and why."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipeline.errors import SpecError
from pipeline.model.join import NO_MOST, Join
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


def spec_of(*joins: str, zeros: str = "", more: str = "", base: str = BASE) -> ReleaseSpec:
    text = base.replace("ZEROS", zeros) + more + "".join(f"[[join]]\n{join}" for join in joins)
    return parse_spec(text, "r.toml")


def only(*joins: str, base: str = BASE) -> Join:
    (join,) = spec_of(*joins, base=base).joins()
    return join


def problems(*joins: str, zeros: str = "", more: str = "", base: str = BASE) -> list[str]:
    with pytest.raises(SpecError) as error:
        spec_of(*joins, zeros=zeros, more=more, base=base)
    return [line.removeprefix("r.toml: ") for line in str(error.value).splitlines()]


def test_size_is_exact_for_closed_labels_and_up_to_most_for_the_open_one() -> None:
    join = only(SIZE)
    assert (join.name, join.companion, join.others) == ("homes size", "homes", False)
    assert (join.persons.terms, join.households.terms) == (("place",), ("size",))
    assert join.inside.tolist() == [True, False, False]
    assert join.least.tolist() == [[1, 2, 3], [0, 0, 0], [0, 0, 0]]
    assert join.most.tolist() == [[1, 2, 9], [0, 0, 0], [0, 0, 0]]
    assert join.expected.tolist() == [[1.0, 2.0, 3.5], [0.0] * 3, [0.0] * 3]
    assert [array.dtype.name for array in (join.least, join.most, join.inside)] == ["int64", "int64", "bool"]


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


def test_the_values_of_a_group_name_its_recode() -> None:
    join = only('companion = "homes"\nwhere = { place = ["prison", "dorm"] }\nsize = "size"\nmost = 9\n')
    assert join.persons.terms == ("housed",)
    assert join.inside.tolist() == [False, True]
    join = only('companion = "homes"\nwhere = { housed = "in" }\nsize = "size"\nmost = 9\n')
    assert join.persons.terms == ("housed",)
    assert join.inside.tolist() == [True, False]


def test_a_householder_is_a_member_with_its_values() -> None:
    join = only(WHERE + 'householder = { sex = "head_sex", age = "head_age" }\n')
    assert join.persons.terms == ("age", "sex", "place")
    assert join.households.terms == ("head_age", "head_sex")
    households = join.households.answer_labels()
    for row, label in enumerate(join.persons.answer_labels()):
        age, sex, place = label.split(" * ")
        assert join.inside[row] == (place == "household")
        equal = [int(place == "household" and f"{age} * {sex}" == kind) for kind in households]
        assert join.least[row].tolist() == equal
        assert join.most[row].tolist() == [NO_MOST if place == "household" else 0] * 4
        assert np.isnan(join.expected[row]).all() if place == "household" else not join.expected[row].any()
    assert join.least.sum() == 4


def test_householders_alone_are_counted_exactly() -> None:
    where = 'companion = "homes"\nwhere = { place = "household", role = "head" }\n'
    join = only(where + 'householder = { age = "head_age" }\nexactly = true\n')
    assert join.persons.terms == ("age", "place", "role")
    rows = dict(zip(join.persons.answer_labels(), range(join.persons.size), strict=True))
    expected = np.zeros((join.persons.size, 2))
    expected[rows["18-64 * household * head"], 0] = expected[rows["65+ * household * head"], 1] = 1
    assert np.array_equal(join.least, expected)
    assert np.array_equal(join.most, expected)
    assert np.array_equal(join.expected, expected)
    assert {label for label, row in rows.items() if join.inside[row]} == {
        f"{age} * household * head" for age in ("0-17", "18-64", "65+")
    }


@pytest.mark.parametrize("members", ['{ child = "child" }', '{ age = "0-17" }', '{ old = ["young"] }'])
def test_present_is_at_least_one_or_none(members: str) -> None:
    join = only(WHERE + f'present = {{ children = ["one", "more"] }}\nmembers = {members}\n')
    (row,) = np.flatnonzero(join.inside)
    assert join.name == "homes children"
    assert join.persons.answer_labels()[row] in ("child * household", "0-17 * household", "young * household")
    assert join.least[row].tolist() == [0, 1, 1]
    assert join.most[row].tolist() == [0, NO_MOST, NO_MOST]
    assert np.isnan(join.expected[row]).all()
    assert not join.least[~join.inside].any()
    assert not join.most[~join.inside].any()


def test_present_finds_the_recode_of_a_group_of_values() -> None:
    join = only(WHERE + 'present = { children = "no" }\nmembers = { age = ["65+", "18-64"] }\n')
    assert join.persons.terms == ("child", "place")
    assert [join.persons.answer_labels()[row] for row in np.flatnonzero(join.inside)] == ["adult * household"]
    assert join.least[join.inside].tolist() == [[1, 0, 0]]


TABLE = """
companion = "homes"
name = "children of a size"
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


def test_a_table_states_each_number() -> None:
    join = only(TABLE + ROWS)
    assert join.name == "children of a size"
    rows = dict(zip(join.persons.answer_labels(), range(join.persons.size), strict=True))
    household, dorm = rows["child * household"], rows["child * dorm"]
    assert np.flatnonzero(join.inside).tolist() == [household, dorm]
    assert join.least[household].tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 2]
    assert join.most[household].tolist() == [0, 0, 0, 0, 1, 0, 0, 1, NO_MOST]
    assert np.isnan(join.expected[household]).all()
    assert join.expected[dorm].tolist() == [0.0] * 9
    assert not join.least.sum(axis=1)[~join.inside].any()


def test_joins_come_back_from_the_public_spec() -> None:
    spec = spec_of(SIZE + 'mean = "4.25"\n', HEAD, CHILDREN, zeros=NO_LONE_CHILD)
    for stated in (spec, spec_of(TABLE + ROWS)):
        content = json.loads(json.dumps(stated.public_dict(), sort_keys=True))
        again = ReleaseSpec.from_public_dict(content)
        assert again.public_dict() == stated.public_dict()
        for own, other in zip(stated.joins(), again.joins(), strict=True):
            assert (own.name, own.companion, own.others) == (other.name, other.companion, other.others)
            for name in ("inside", "least", "most", "expected"):
                assert np.array_equal(getattr(own, name), getattr(other, name), equal_nan=name == "expected")


def test_a_spec_without_joins_is_published_as_before() -> None:
    spec = spec_of()
    assert spec.joins() == ()
    assert "join" not in spec.public_dict()


def test_noise_does_not_depend_on_joins() -> None:
    fingerprints = [
        [universe.privacy_fingerprint() for universe in spec.universes()] for spec in (spec_of(), spec_of(SIZE, HEAD))
    ]
    assert fingerprints[0] == fingerprints[1]


#: A join, and what is said of it; in place of @, "join[0]".
MISTAKES: list[tuple[str, str]] = [
    ('companion = "homes"\n', "@: has no form; one of the keys size, householder, present, table is needed"),
    (
        SIZE + 'exactly = true\nhouseholder = { age = "head_age" }\n',
        "@: has keys of 2 forms, size (form size) and householder (form householder); a join has one form, so state "
        "two joins",
    ),
    (WHERE + "most = 3\n", "@.size: missing; the form size needs size"),
    (WHERE + 'present = { children = "no" }\n', "@.members: missing; the form present needs present and members"),
    (
        'companion = "homes"\npersons = "age"\n',
        "@.table: missing; the form table needs table and persons and households\n"
        "@.households: missing; the form table needs table and persons and households",
    ),
    (
        'companion = "units"\nsize = "size"\n',
        "@.companion: 'units' is not a companion; the companions are homes",
    ),
    (
        WHERE + 'size = "sice"\n',
        "@.size: 'sice' is not an attribute or recode; did you mean 'size'? allowed are size, head_age, head_sex, "
        "children",
    ),
    (
        WHERE + 'size = "size"\n',
        "@.most: missing; 3+ needs `most`, the most members that it stands for, such as most = 11 (with others = true "
        "it can be left out)",
    ),
    (WHERE + 'size = "size"\nmost = 2\n', "@.most: found 2; at least 3 is needed, the least that 3+ stands for"),
    (SIZE + 'mean = "2.5"\n', "@.mean: found 5/2; 3+ stands for from 3 to 9"),
    (SIZE + "mean = 4.5\n", '@.mean: found the number 4.5; write it in quotes, "4.5", so that it is exact'),
    (
        WHERE + 'size = "head_sex"\n',
        "@.size: 'head_sex' has the label 'f', which is no number of members; allowed are whole numbers and one "
        'such as "7+"',
    ),
    (
        SIZE.replace("place", "plac"),
        "@.where.plac: 'plac' is not an attribute or recode; did you mean 'place'? allowed are age, sex, place, role, "
        "child, old, housed",
    ),
    (
        SIZE.replace("household", "home"),
        "@.where.place: 'home' is not a value of place; allowed are household, dorm, prison",
    ),
    (
        WHERE.replace('"household"', '["household", "dorm"]') + 'size = "size"\nmost = 3\n',
        "@.where.place: no recode has a group of just household, dorm; state one, [schema.recodes.NAME] with attribute "
        "= 'place', and name it here: a join is about answers of a query",
    ),
    (
        WHERE + 'householder = { sex = "head_age" }\n',
        "@.householder.sex: 'head_age' has the label '18-64', which 'sex' does not have; its labels are f, m",
    ),
    (
        WHERE + 'householder = { place = "head_age" }\n',
        "@.householder.place: 'head_age' has the label '18-64', which 'place' does not have; its labels are household, "
        "dorm, prison\n@.householder.place: stands in `where`, too; leave one of them out",
    ),
    (
        WHERE + 'present = { children = "two" }\nmembers = { age = ["0-17", "65+"] }\n',
        "@.members.age: no recode has a group of just 0-17, 65+; state one, [schema.recodes.NAME] with attribute = "
        "'age', and name it here: a join is about answers of a query\n"
        "@.present.children: 'two' is not a value of children; allowed are no, one, more",
    ),
    (
        WHERE + 'present = { children = "one" }\nmembers = { age = "65+", child = "child" }\n',
        "@.members: the query 'place * age * child' names the attribute 'age' twice ('age' and 'child'); once is "
        "allowed",
    ),
    (
        TABLE + ROWS.replace('"2 * one" = 0\n', "").replace('"3+ * no" = 0', '"4 * no" = 0'),
        "@.table.\"child * dorm\".\"4 * no\": '4 * no' is not an answer of 'size * children'; did you mean '2 * no'? "
        "allowed are 1 * no, 1 * one, 1 * more, 2 * no, 2 * one, 2 * more, 3+ * no, 3+ * one, 3+ * more\n"
        "@.table.\"child * dorm\": says nothing of '2 * one', '3+ * no'; each of the 9 answers of 'size * children' is "
        "needed",
    ),
    (
        TABLE + ROWS.replace('"2 * one" = 0', '"2 * one" = [3, 1]'),
        '@.table."child * dorm"."2 * one": found [3, 1]; allowed are a number of members such as 2, the least and the '
        "most, [1, 3], or the least alone, [1]; whole numbers up to 1,000,000",
    ),
]


@pytest.mark.parametrize(("join", "says"), MISTAKES, ids=[f"{i}-{m[1].split(':')[0]}" for i, m in enumerate(MISTAKES)])
def test_each_mistake_has_its_message(join: str, says: str) -> None:
    assert problems(join) == says.replace("@", "join[0]").splitlines()


def test_several_open_sizes() -> None:
    base = BASE.replace('"2", "3+"', '"2+", "3+"')
    assert problems(SIZE, base=base) == ["join[0].size: 'size' has several open labels, 2+, 3+; one is allowed"]
    base = BASE.replace('"2", "3+"', '"2", "3"')
    assert problems(SIZE, base=base) == ["join[0].most: 'size' has no open label such as \"7+\"; leave it out"]


def test_two_joins_differ_in_name() -> None:
    assert problems(SIZE, SIZE) == ["join[1].name: join[0] is called 'homes size', too; names must differ"]


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
    assert spec_of(SIZE, base=base).joins()
    base = BASE.replace("[privacy]", 'invariants = { zone = ["housed"] }\n[privacy]')
    assert problems(SIZE, base=base) == [
        "invariants.zone: 'housed' is exact in every zone; its households ([companions.homes], join[0]) are released "
        "first, and may imply more or fewer persons than this allows; keep it at the top level, county"
    ]
    bound = (
        '[[bounds]]\nname = "b"\nlevel = "{}"\nfile = "f.csv"\ngeocode = "g"\nquery = "place"\nupper = 9\n'
        'columns = {{ {} = "n" }}\n'
    )
    assert spec_of(SIZE, more=bound.format("zone", "dorm")).joins()
    assert spec_of(SIZE, more=bound.format("county", "household")).joins()
    (said,) = problems(SIZE, more=bound.format("zone", "household"))
    assert said.startswith("bounds[0]: bounds persons in households in every zone; its households")


def test_a_kind_that_no_members_fit_is_reported_as_it_is_to_be_declared() -> None:
    assert problems(SIZE, HEAD, CHILDREN) == [
        "join[0]: a household with size = 1 and children = one or more would need 2 members in 'household', where at "
        "most 1 can be; there can be none, so declare it in companions.homes.structural_zeros: "
        '{ size = "1", children = ["one", "more"] }'
    ]
    assert len(spec_of(SIZE, HEAD, CHILDREN, zeros=NO_LONE_CHILD).joins()) == 3


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


def test_a_join_in_words() -> None:
    heads = 'companion = "homes"\nwhere = { role = "head" }\nhouseholder = { age = "head_age" }\nexactly = true\n'
    words = [join.words for join in spec_of(SIZE, HEAD, CHILDREN, zeros=NO_LONE_CHILD).join]
    words += [
        spec_of(heads).join[0].words,
        spec_of('companion = "homes"\nsize = "size"\nothers = true\n').join[0].words,
    ]
    words.append(spec_of(TABLE + ROWS).join[0].words)
    assert words == [
        "each of homes has as many members as its size says (the open one: at most 9) among persons with place "
        "household",
        "each of homes has a member with its householder's age (head_age) among persons with place household",
        "each of homes has somebody with child child if children one or more, else nobody among persons with place "
        "household",
        "each of homes has one member with its householder's age (head_age) among persons with role head",
        "each of homes has as many members as its size says; other persons count there, too",
        "each of homes has by size * children the members by child * place that its table states",
    ]
