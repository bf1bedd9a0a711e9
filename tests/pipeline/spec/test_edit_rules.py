"""Edit rules mean what they say: random ones against every record of a small schema, and what cannot be read."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from auditor.reading.spec import public_spec
from pipeline.errors import SpecError
from pipeline.spec.edit_rules import RuleError, impossible_by
from pipeline.spec.release_spec import parse_spec

VALUES = {
    "age": ("0", "1", "2", "15", "16", "90+"),
    "marital": ("single", "married", "never married"),
    "a-b": ("x", "-1", "07"),
    "grown": ("no", "yes"),
}
SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Truth = Callable[[Mapping[str, int]], bool]


def _written(text: str, quoted: bool) -> str:
    plain = text.isidentifier() or (text.lstrip("-").isdigit() and text.lstrip("-0"))
    return text if plain and not (text.startswith("0") and text != "0") and not quoted else f"'{text}'"


def _comparison(of: random.Random) -> tuple[str, Truth]:
    term = of.choice(list(VALUES))
    name = _written(term, of.random() < 0.2)
    shown = [_written(value, of.random() < 0.2) for value in VALUES[term]]
    place = of.randrange(len(shown))
    kind = of.randrange(4)
    if kind == 0:
        sign = of.choice(list(SIGNS))
        return f"{name} {sign} {shown[place]}", lambda record: SIGNS[sign](record[term], place)
    if kind == 1:
        sign = of.choice(list(SIGNS))
        return f"{shown[place]} {MIRRORED[sign]} {name}", lambda record: SIGNS[sign](record[term], place)
    if kind == 2:
        other = of.randrange(len(shown))
        return f"{shown[other]} <= {name} < {shown[place]}", lambda record: other <= record[term] < place
    places = of.sample(range(len(shown)), of.randint(1, len(shown)))
    inside = of.random() < 0.5
    listed = ", ".join(shown[one] for one in places)
    return f"{name} {'in' if inside else 'not in'} ({listed},)", lambda record: (record[term] in places) == inside


def _rule(of: random.Random, depth: int) -> tuple[str, Truth]:
    kind = of.randrange(4) if depth else 3
    if kind == 3:
        return _comparison(of)
    text, truth = _rule(of, depth - 1)
    if kind == 2:
        return f"not ({text})", lambda record: not truth(record)
    other_text, other = _rule(of, depth - 1)
    if kind == 1:
        return f"({text}) and ({other_text})", lambda record: truth(record) and other(record)
    return f"({text}) or ({other_text})", lambda record: truth(record) or other(record)


def test_a_rule_is_true_of_the_records_that_fit_one_of_its_entries() -> None:
    records = [
        dict(zip(VALUES, places, strict=True)) for places in itertools.product(*map(range, map(len, VALUES.values())))
    ]
    for seed in range(300):
        text, truth = _rule(random.Random(seed), 3)
        expected = [truth(record) for record in records]
        if not any(expected):
            with pytest.raises(RuleError, match="is true of no record"):
                impossible_by(text, VALUES)
            continue
        entries = impossible_by(text, VALUES)
        found = [
            any(all(VALUES[term][record[term]] in values for term, values in entry.items()) for entry in entries)
            for record in records
        ]
        assert found == expected, text


EXAMPLE = "a rule is, for example, age < 15 and marital != single"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("age < 15 and marital = single", f"found = at character 22 where == is needed; {EXAMPLE}"),
        ("aeg < 15", "'aeg' is not an attribute or recode; did you mean 'age'? allowed are age, marital, a-b, grown"),
        ("age < 300", "'300' is not a value of age; allowed are 0, 1, 2, 15, 16, 90+"),
        ("grown == yse", "'yse' is not a value of grown; did you mean 'yes'? allowed are no, yes"),
        ("'a-b' == 07", "found a number that begins with 0 at character 10; such values stand in quotes"),
        ("grown == a-b", "found 'a-b' where a value of grown is needed; names and values with other signs than "
         "letters, digits and _ stand in quotes"),
        ("age", f"found 'age' where a comparison is needed; {EXAMPLE}"),
        ("__import__('os').system('true')", "found \"__import__('os').system('true')\" where a comparison is needed; "
         + EXAMPLE),
        ("age is 15", f"found `is`; allowed are ==, !=, <, <=, >, >=, in, not in; {EXAMPLE}"),
        ("age == (0, 1)", "found '(0, 1)' after a sign for one value; several are meant by `in`"),
        ("(age < 15", f"found '(age < 15', which cannot be read at character 1; {EXAMPLE}"),
        (" ", f"found an empty text; {EXAMPLE}"),
        ("age < 0", "is true of no record: it says nothing"),
        ("(" * 5000 + "age < 15" + ")" * 5000, None),
        ("not " * 5000 + "age < 15", None),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_told(rule: str, said: str | None) -> None:
    with pytest.raises(RuleError) as raised:
        impossible_by(rule, VALUES)
    if said is not None:
        assert str(raised.value) == said


SPEC = """
name = "small"
RULE
[privacy]
rho = "1"
[geography]
file = "f.csv"
levels = ["state", "block"]
[schema.attributes]
sex = ["f", "m"]
age = ["0", "1", "2", "3"]
[schema.recodes.grown]
attribute = "age"
groups = { no = ["0", "1"], yes = ["2", "3"] }
[strategy.queries]
total = "1/2"
"age * sex" = "1/2"
[strategy.levels]
state = "1/2"
block = "1/2"
"""


def test_a_release_has_them_as_structural_zeros() -> None:
    """The public spec is that of the zeros written by hand, so that every judge of it knows them."""
    rules = parse_spec(SPEC.replace("RULE", 'structural_zeros = ["age < 2 and sex == m", "grown == no and age == 1"]'))
    zeros = parse_spec(
        SPEC.replace("RULE", 'structural_zeros = [{ age = ["0", "1"], sex = "m" }, { grown = "no", age = "1" }]')
    )
    (one,), (other,) = rules.universes(), zeros.universes()
    assert np.flatnonzero(one.structural_zeros).tolist() == [1, 4, 5] == np.flatnonzero(other.structural_zeros).tolist()
    assert rules.public_dict() == zeros.public_dict()
    assert np.flatnonzero(public_spec(rules.public_dict()).universes[0].impossible).tolist() == [1, 4, 5]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('"age < 9"', "structural_zeros[0]: 'age < 9': '9' is not a value of age; allowed are 0, 1, 2, 3"),
        (
            '["age < 2", "sex = m"]',
            "structural_zeros[1]: 'sex = m': found = at character 5 where == is needed; " + EXAMPLE,
        ),
        ('["age < 2", "grown == yes"]', "structural_zeros: every cell is impossible; at least one must be possible"),
    ],
)
def test_a_spec_names_its_key(rule: str, said: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_spec(SPEC.replace("RULE", f"structural_zeros = {rule}")).universes()
    assert str(raised.value).splitlines() == [f"spec: {said}"]
