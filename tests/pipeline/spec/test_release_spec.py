"""What a spec means, edit rules in it too, that it comes back from its public form, and its JSON schema."""

from __future__ import annotations

import copy
import itertools
import json
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from auditor.reading.spec import public_spec
from pipeline.errors import SpecError
from pipeline.model.universe import Universe
from pipeline.spec.edit_rules import RuleError, impossible_by
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import Slots

#: Every key that a spec can have.
WHOLE = """
name = "whole-1"
records_per_person = 3
structural_zeros = [ { age = "0-17", grown = ["yes"] }, { kind = "ship", sex = ["f"] } ]
[privacy]
framework = "zcdp"
rho = "5/2"
delta = "1e-9"
population = 1000
neighbours = "change-one"
key = "insecure-test:7"
[geography]
file = "areas/blocks.csv"
column = "id"
parent = "up"
levels = ["state", "block"]
[schema.attributes]
kind = ["home", "ship"]
sex = ["f", "m"]
age = ["0-17", "18+"]
[schema.recodes.grown]
attribute = "age"
groups = { yes = ["18+"], no = ["0-17"] }
[strategy.queries]
total = "3/10"
"sex*age" = "7/10"
[strategy.levels]
state = "1/5"
block = { share = "4/5", queries = { detailed = "1" } }
[invariants]
block = ["kind"]
state = ["total", "grown"]
[[bounds]]
name = "ships"
level = "block"
file = "../ships.parquet"
geocode = "id"
query = "kind"
lower = 1
upper = 99
columns = { ship = "n_ships" }
[input]
file = "people.csv"
form = "long"
geocode = "id"
columns = { sex = "gender" }
values = { sex = { "1" = "f", "2" = "m" } }
[tables]
totals = "total"
"by.sex" = { query = "sex", levels = ["block"] }
[postprocess]
estimator = "topdown"
solver = "cvxpy"
passes = ["total", "kind"]
seed = 3
[publish]
margins = false
replicates = 0
unbiased = true
microdata = false
[companions.units]
privacy = { rho = ".07" }
schema = { attributes = { occupied = ["no", "yes"] } }
strategy = { levels = { state = "0", block = "1" }, queries = { detailed = "1" } }
passes = []
input = { file = "units.csv", form = "microdata", geocode = "id" }
"""

SMALL = """
name = "small"
[privacy]
rho = "1"
[geography]
file = "f.csv"
levels = ["state", "block"]
[schema.attributes]
sex = ["f", "m"]
age = ["0-17", "18+"]
[strategy.queries]
total = "1/2"
"age * sex" = "1/2"
[strategy.levels]
state = "1/2"
block = "1/2"
"""


def names(universe: Universe) -> dict[str, list[str]]:
    return {level.level: [m.query.name for m in level.queries] for level in universe.strategy.levels}


@pytest.fixture
def whole() -> ReleaseSpec:
    return parse_spec(WHOLE, "whole.toml", "/some/folder")


def test_every_key_is_understood(whole: ReleaseSpec) -> None:
    main, units = whole.universes()
    assert (main.name, main.framework, main.budget, main.neighbours) == ("", "zcdp", Fraction(5, 2), "change-one")
    assert main.delta == units.delta == Fraction(1, 10**9)
    assert names(main) == {"state": ["total", "sex * age"], "block": ["detailed"]}
    assert [level.share for level in main.strategy.levels] == [Fraction(1, 5), Fraction(4, 5)]
    assert [(level, query.name) for level, query in main.invariants] == [
        ("state", "total"),
        ("state", "grown"),
        ("block", "kind"),
    ]
    assert [(t.name, t.query.name, t.levels) for t in main.tables] == [
        ("totals", "total", ("state", "block")),
        ("by.sex", "sex", ("block",)),
    ]
    assert [query.name for query in main.passes] == ["total", "kind"]
    (bound,) = main.bounds
    assert (bound.lower, bound.upper, dict(bound.columns), bound.query.name) == (1, 99, {1: "n_ships"}, "kind")
    assert (units.name, units.budget, units.passes) == ("units", Fraction(7, 100), ())
    assert names(units) == {"state": [], "block": ["detailed"]}
    assert [t.name for t in units.tables] == ["detailed"]
    assert (whole.postprocess.solver, whole.publish.unbiased, whole.privacy.key) == ("cvxpy", True, "insecure-test:7")
    assert (whole.geography.form, whole.source) == ("pairs", "whole.toml")


def test_structural_zeros_are_the_cells_that_fit_every_term(whole: ReleaseSpec) -> None:
    main = whole.universes()[0]
    impossible = [label for label, z in zip(main.schema.cell_labels(), main.structural_zeros, strict=True) if z]
    # "0-17" and grown = yes fit no cell at once, so only the second combination counts.
    assert impossible == ["ship * f * 0-17", "ship * f * 18+"]


@pytest.mark.parametrize("text", [WHOLE, SMALL, SMALL.replace('rho = "1"', 'framework = "pure"\nepsilon = "1"')])
def test_a_public_spec_comes_back_whatever_the_order_of_its_keys(text: str) -> None:
    spec = parse_spec(text, folder="/some/folder")
    public = spec.public_dict()
    again = ReleaseSpec.from_public_dict(json.loads(json.dumps(public, sort_keys=True)))
    assert again.public_dict() == public
    for one, other in zip(spec.universes(), again.universes(), strict=True):
        assert one.privacy_fingerprint() == other.privacy_fingerprint()
        assert np.array_equal(one.structural_zeros, other.structural_zeros)
        for name in ("schema", "budget", "delta", "framework", "neighbours", "invariants", "tables", "passes"):
            assert repr(getattr(one, name)) == repr(getattr(other, name))
        assert [(b.name, b.level, b.columns, b.lower, b.upper) for b in one.bounds] == [
            (b.name, b.level, b.columns, b.lower, b.upper) for b in other.bounds
        ]
    assert (again.postprocess, again.publish) == (spec.postprocess, spec.publish)
    assert again.geography.levels == spec.geography.levels


def test_a_public_spec_holds_no_input_key_or_folder(whole: ReleaseSpec) -> None:
    text = json.dumps(whole.public_dict())
    for private in ("insecure-test", "people", "units.csv", "gender", "folder", "areas", ".."):
        assert private not in text
    files = [whole.public_dict()["geography"]["file"], whole.public_dict()["bounds"][0]["file"]]
    assert files == ["blocks.csv", "ships.parquet"]
    again = ReleaseSpec.from_public_dict(whole.public_dict())
    assert (again.input, again.privacy.key) == (None, None)


def test_a_changed_public_spec_is_refused_in_plain_words(whole: ReleaseSpec) -> None:
    public = whole.public_dict()
    public["strategy"]["levels"][0][1]["share"] = "1/2"
    with pytest.raises(SpecError) as error:
        ReleaseSpec.from_public_dict(public, "manifest.json")
    assert str(error.value).startswith("manifest.json: strategy.levels: the shares add up to 13/10")
    with pytest.raises(SpecError, match="list of pairs of a name and what it names is needed"):
        ReleaseSpec.from_public_dict({**whole.public_dict(), "invariants": ["state"]})
    with pytest.raises(SpecError, match="structural_zeros"):
        ReleaseSpec.from_public_dict({**whole.public_dict(), "structural_zeros": ["gender == m"]})
    for levels, refused in (
        ([[["state"], 1], ["block", 5]], "pairs of a level's name and its prefix length are needed"),
        ([["state", 1, 2]], "pairs of a level's name and its prefix length are needed"),
        ([["state", 1], ["state", 5]], "each level is named once"),
    ):
        geography = {**whole.public_dict()["geography"], "levels": levels}
        with pytest.raises(SpecError, match=f"geography.levels: found a list; {refused}"):
            ReleaseSpec.from_public_dict({**whole.public_dict(), "geography": geography})


def _lists_of_pairs(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a public spec has a table as pairs of names and what they name."""
    if isinstance(value, list) and value and all(isinstance(one, list) and isinstance(one[0], str) for one in value):
        yield place
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _lists_of_pairs(one, (*place, key))


def test_a_name_that_stands_twice_is_refused_in_every_table_of_a_public_spec(whole: ReleaseSpec) -> None:
    """The later of the two would be taken, so that a reader of the manifest could take the other."""
    public = whole.public_dict()
    places = list(_lists_of_pairs(public))
    assert len(places) >= 10
    for place in places:
        content = copy.deepcopy(public)
        table: Any = content
        for key in place:
            table = table[key]
        table.append(copy.deepcopy(table[0]))
        with pytest.raises(SpecError, match=r"found a list; each (name stands|level is named|language stands) once"):
            ReleaseSpec.from_public_dict(content)


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return parse_spec(SMALL.replace(old, new, 1)).universes()[0].privacy_fingerprint()


def test_the_privacy_fingerprint_is_of_what_the_noise_depends_on() -> None:
    same = parse_spec(SMALL).universes()[0].privacy_fingerprint()
    assert changed('"1/2"\n"age * sex" = "1/2"', '"1/2"\n"age*sex" = "2/4"') == same
    assert changed('total = "1/2"\n"age * sex" = "1/2"', '"age * sex" = "1/2"\ntotal = "1/2"') == same
    assert changed('name = "small"', 'name = "other"') == same
    assert changed('rho = "1"', 'rho = "1"\ndelta = "1e-5"') == same
    different = [
        changed('rho = "1"', 'rho = "2"'),
        changed('rho = "1"', 'rho = "1"\nneighbours = "add-remove"'),
        changed('rho = "1"', 'framework = "pure"\nepsilon = "1"'),
        changed('["f", "m"]', '["m", "f"]'),
        changed('"age * sex"', "detailed"),
        changed('"age * sex"', "age"),
        changed('levels = ["state", "block"]', 'levels = ["block", "state"]'),
        changed('total = "1/2"\n"age * sex" = "1/2"', 'total = "1/3"\n"age * sex" = "2/3"'),
        changed('state = "1/2"\nblock = "1/2"', 'state = "1/3"\nblock = "2/3"'),
    ]
    assert len({same, *different}) == 1 + len(different)


VALUES = {
    "age": ("0", "1", "2", "15", "16", "90+"),
    "marital": ("single", "married", "never married"),
    "a-b": ("x", "-1", "07"),
    "grown": ("no", "yes"),
}
SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
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


@pytest.mark.parametrize(
    "rule",
    [
        "age < 15 and marital = single", "age < 300", "'a-b' == 07", "__import__('os').system('true')", "age is 15",
        "age == (0, 1)", "age", " ", "(" * 5000 + "age < 15" + ")" * 5000, "not " * 5000 + "age < 15",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(RuleError):
        impossible_by(rule, VALUES)


def with_zeros(stated: str) -> ReleaseSpec:
    ages = SMALL.replace('"0-17", "18+"', '"0", "1", "2", "3"')
    recode = '[schema.recodes.grown]\nattribute = "age"\ngroups = { no = ["0", "1"], yes = ["2", "3"] }\n[strategy.q'
    return parse_spec(f"structural_zeros = {stated}\n" + ages.replace("[strategy.q", recode))


def test_a_release_has_them_as_structural_zeros() -> None:
    """The public spec is that of the zeros written by hand, so that every judge of it knows them."""
    rules = with_zeros('["age < 2 and sex == m", "grown == no and age == 1"]')
    zeros = with_zeros('[{ age = ["0", "1"], sex = "m" }, { grown = "no", age = "1" }]')
    (one,), (other,) = rules.universes(), zeros.universes()
    assert np.flatnonzero(one.structural_zeros).tolist() == [1, 4, 5] == np.flatnonzero(other.structural_zeros).tolist()
    assert rules.public_dict() == zeros.public_dict()
    assert np.flatnonzero(public_spec(rules.public_dict()).universes[0].impossible).tolist() == [1, 4, 5]


def test_keys_of_a_feature_that_is_not_installed_are_refused_in_one_sentence() -> None:
    """At whatever place they stand, in a spec and in a manifest."""
    slots = Slots((), {"postprocess.storms": "weather", "tide": "sea", "companions.harbor": "sea"})
    text = WHOLE.replace("seed = 3", "seed = 3\nstorms = 1").replace("passes = []", 'harbor = "east"')
    with pytest.raises(SpecError) as error:
        parse_spec(f"tide = 1\n{text}", slots=slots)
    assert str(error.value).splitlines() == [
        f"spec: {key}: is of {feature}, which this installation is without; there is no folder features/{feature}"
        for key, feature in (("postprocess.storms", "weather"), ("companions.units.harbor", "sea"), ("tide", "sea"))
    ]
    with pytest.raises(SpecError, match=r"^manifest: tide: is of sea, which this installation is without"):
        ReleaseSpec.from_public_dict({**parse_spec(SMALL).public_dict(), "tide": {}}, "manifest", slots)
