"""What a [[join]] means, number by number, and that it comes back from the public spec."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
from releases.joined_specs import BASE, CHILDREN, HEAD, NO_LONE_CHILD, ROWS, SIZE, TABLE, WHERE, spec_of

from features.joins.keys import JoinsKeys, stated_joins
from features.joins.link import Join
from features.joins.mathematics.membership import NO_MOST
from pipeline.spec.release_spec import ReleaseSpec, spec_json_schema


def only(*joins: str, base: str = BASE) -> Join:
    (join,) = stated_joins(spec_of(*joins, base=base)).joins
    return join


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


def test_joins_come_back_from_the_public_spec() -> None:
    spec = spec_of(SIZE + 'mean = "4.25"\n', HEAD, CHILDREN, zeros=NO_LONE_CHILD)
    for stated in (spec, spec_of(TABLE + ROWS)):
        content = json.loads(json.dumps(stated.public_dict(), sort_keys=True))
        again = ReleaseSpec.from_public_dict(content)
        assert again.public_dict() == stated.public_dict()
        for own, other in zip(stated_joins(stated).joins, stated_joins(again).joins, strict=True):
            assert (own.name, own.companion, own.others) == (other.name, other.companion, other.others)
            for name in ("inside", "least", "most", "expected"):
                assert np.array_equal(getattr(own, name), getattr(other, name), equal_nan=name == "expected")


def test_the_json_schema_knows_joins() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(json.dumps(spec_json_schema())))
    for joins in ((SIZE + 'mean = "4.25"\n', HEAD + "exactly = true\n", CHILDREN), (TABLE + ROWS,)):
        text = BASE.replace("ZEROS", "") + "".join(f"[[join]]\n{join}" for join in joins)
        validator.validate(tomllib.loads(text))
        assert not validator.is_valid(tomllib.loads(text.replace('companion = "homes"', "companion = 1")))


def test_noise_does_not_depend_on_joins() -> None:
    fingerprints = [
        [universe.privacy_fingerprint() for universe in spec.universes()] for spec in (spec_of(), spec_of(SIZE, HEAD))
    ]
    assert fingerprints[0] == fingerprints[1]
