"""The section [marginals]: what it becomes, and one clear sentence for what does not go with it."""

from __future__ import annotations

import copy
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from releases.wide import CLIQUES, SPEC

from features.registry import slots
from pipeline.errors import SpecError
from pipeline.privacy.budget import MOVED
from pipeline.privacy.ledger.events import Group, by_losses, cost_of, per_person
from pipeline.publishing.provenance import accepted_inputs, check_inputs, from_records
from pipeline.publishing.public_inputs import named_inputs
from pipeline.spec.release_spec import ReleaseSpec, parse_spec, spec_of


def _spec(*changes: tuple[str, str]) -> ReleaseSpec:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return parse_spec(text, "wide.toml")


def test_every_clique_is_a_universe_with_its_part_of_the_budget() -> None:
    universes = _spec().universes()
    assert [one.schema.names for one in universes] == list(CLIQUES)
    assert [one.name for one in universes] == ["", "age-sex-school", "work-tenure-car", "tenure-rooms"]
    assert {one.budget for one in universes} == {Fraction(3, 4)}
    for universe, clique in zip(universes, CLIQUES, strict=True):
        for level in universe.strategy.levels:
            assert [(one.query.name, one.share) for one in level.queries] == [(" * ".join(clique), Fraction(1))]
    assert [one.record_attributes for one in universes[1:]] == [()] * 3
    assert [one.name for one in universes[0].record_attributes] == [
        "age",
        "sex",
        "school",
        "work",
        "tenure",
        "rooms",
        "car",
    ]
    assert [one.own_records for one in universes] == [False, True, True, True]


def test_other_frameworks_and_records_of_a_person_are_divided_alike() -> None:
    pure = _spec(
        ('rho = "3"', 'framework = "pure"\nepsilon = "2"'), ('name = "wide"', 'name = "wide"\nrecords_per_person = 2')
    )
    assert {(one.budget, one.unit.records) for one in pure.universes()} == {(Fraction(1, 2), 2)}


def test_what_a_choice_leaves_to_the_cliques_is_by_the_records_of_a_person() -> None:
    """By the ledger's prices; the epsilon of a choice is rounded for one record, so that for two it is another one."""
    declared = (
        'cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]'
    )
    chosen = 'choose = { share = "1/10", attributes_share = "1/20" }'
    universes = _spec((declared, chosen), ('name = "wide"', 'name = "wide"\nrecords_per_person = 2')).universes()
    (earlier,) = (one.earlier for one in universes if one.earlier is not None)
    prices = Fraction(0)
    for one in earlier.uses:
        query = one.query + by_losses(max(1, one.weight * MOVED["change-one"])) + per_person(2)
        prices += cost_of(Group(one.level, query, one.mechanism, one.scale, one.size), "zcdp", "change-one")
    assert sum(one.own_budget for one in universes) + prices == 3
    assert {one.unit.records for one in universes} == {2}


def test_with_fill_a_wider_table_is_estimated_from_the_cliques_inside_it() -> None:
    ring = ('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "work"]]')
    with pytest.raises(
        SpecError, match=r"marginals.cliques: found cliques that form no tree: .* work x tenure x rooms"
    ) as told:
        _spec(ring)
    assert len(str(told.value).splitlines()) == 1
    filled = _spec((ring[0], f"{ring[1]}\nfill = true")).universes()
    (wide,) = (one for one in filled if one.schema.names == ("work", "tenure", "rooms"))
    assert wide.budget == Fraction(3) * 2 / 5
    assert [(one.query.name, one.share) for one in wide.strategy.levels[0].queries] == [
        ("tenure * rooms", Fraction(1, 2)),
        ("work * rooms", Fraction(1, 2)),
    ]
    assert sum(one.budget for one in filled) == 3


def test_parts_of_the_budget_are_those_that_are_stated_and_one_of_the_others() -> None:
    """Of 3: 3/6 of it, 1/6 each of the rest; where a universe measures two cliques, its queries share their parts."""
    parts = ("[marginals]", '[marginals]\nparts = { "rooms * tenure" = 3 }')
    budgets = {one.name: one.budget for one in _spec(parts).universes()}
    assert budgets == {"": Fraction(1, 2), **dict.fromkeys(["age-sex-school", "work-tenure-car"], Fraction(1, 2))} | {
        "tenure-rooms": Fraction(3, 2)
    }
    ring = ('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "work"]]\nfill = true')
    (wide,) = (one for one in _spec(parts, ring).universes() if one.schema.names == ("work", "tenure", "rooms"))
    assert wide.budget == Fraction(3) * 4 / 7
    assert [(one.query.name, one.share) for one in wide.strategy.levels[0].queries] == [
        ("tenure * rooms", Fraction(3, 4)),
        ("work * rooms", Fraction(1, 4)),
    ]
    assert _spec(parts, ('rho = "3"', 'framework = "pure"\nepsilon = "3"')).universes()[-1].budget == Fraction(3, 2)
    even = ("[marginals]", '[marginals]\nparts = { "tenure * rooms" = 1 }')
    assert [one.privacy_fingerprint() for one in _spec(even).universes()] == [
        one.privacy_fingerprint() for one in _spec().universes()
    ]
    assert "parts" not in _spec().public_dict()["marginals"]


def test_a_published_spec_whose_budgets_are_not_the_stated_parts_is_refused() -> None:
    content = _spec(("[marginals]", '[marginals]\nparts = { "tenure * rooms" = 3 }')).public_dict()
    assert ReleaseSpec.from_public_dict(content).public_dict() == content
    for key, other in (("tenure * rooms", 2), ("school * work", 2)):
        changed = copy.deepcopy(content)
        changed["marginals"]["parts"] = [[key, other]]
        with pytest.raises(SpecError, match=r"privacy\.rho: found .*; see marginals\.parts"):
            ReleaseSpec.from_public_dict(changed)


#: Of seven parts at the county five, at the tract one of four, and at the block nothing.
_AT = """
[marginals.parts_at]
county = { "rooms * tenure" = 5 }
block = { "tenure * rooms" = 0, "school * work" = 3 }
"""


@pytest.mark.parametrize(("framework", "key"), [("zcdp", "rho"), ("pure", "epsilon")])
def test_parts_at_a_level_divide_its_share_and_add_up_to_the_budget(framework: str, key: str) -> None:
    pure = [('rho = "3"', 'framework = "pure"\nepsilon = "3"')] if framework == "pure" else []
    spec = _spec(("[strategy.levels]", f"{_AT}[strategy.levels]"), *pure)
    spent = {
        (level.level, query.query.name): one.budget * level.share * query.share
        for one in spec.universes()
        for level in one.strategy.levels
        for query in level.queries
    }
    parts = {
        "county": {"school * work": 1, "age * sex * school": 1, "work * tenure * car": 1, "tenure * rooms": 5},
        "tract": {"school * work": 1, "age * sex * school": 1, "work * tenure * car": 1, "tenure * rooms": 1},
        "block": {"school * work": 3, "age * sex * school": 1, "work * tenure * car": 1},
    }
    shares = {"county": Fraction(1, 4), "tract": Fraction(1, 4), "block": Fraction(1, 2)}
    assert spent == {
        (level, clique): 3 * shares[level] * Fraction(part, sum(of.values()))
        for level, of in parts.items()
        for clique, part in of.items()
    }
    assert sum(spent.values()) == sum(one.budget for one in spec.universes()) == 3
    content = spec.public_dict()
    assert ReleaseSpec.from_public_dict(content).public_dict() == content
    for place in (content["privacy"], content["companions"][2][1]["privacy"]):
        kept = place[key]
        place[key] = "1"
        with pytest.raises(
            SpecError, match=rf"marginals\.parts_at\.county: .* has another part of the {key} at county"
        ):
            ReleaseSpec.from_public_dict(content)
        place[key] = kept
    content["marginals"]["parts_at"][1][1][0][1] = 1
    with pytest.raises(SpecError, match=r"marginals\.parts_at\.block: .* has another part of the"):
        ReleaseSpec.from_public_dict(content)


def test_parts_at_levels_are_those_of_all_where_they_say_the_same() -> None:
    """And those that no level names are those of `parts`."""
    at = '[marginals.parts_at]\ncounty = {}\ntract = { "tenure * rooms" = 3 }\nblock = { "tenure*rooms" = 3 }\n'
    parts = ("[marginals]", '[marginals]\nparts = { "tenure * rooms" = 3 }')
    universes = _spec(parts, ("[strategy.levels]", f"{at}[strategy.levels]")).universes()
    assert [one.privacy_fingerprint() for one in universes] == [
        one.privacy_fingerprint() for one in _spec(parts).universes()
    ]


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ('blok = { "tenure * rooms" = 0 }', ".blok: 'blok' is not a level; did you mean 'block'?"),
        ('block = { "tenure * room" = 0 }', ".block.\"tenure * room\": found the attribute 'room'; the schema has "),
        ('block = { "tenure * car" = 0 }', ".block.\"tenure * car\": found 'tenure * car', which is no clique; "),
        ('block = { "tenure * rooms" = -1 }', '.block."tenure * rooms": found the number -1; at least 0 is needed'),
        ("block = 3", ".block: found the number 3; a table is needed"),
        (
            'block = { "tenure * rooms" = 0, "work*tenure*car" = 0, "work * school" = 0, "age * sex * school" = 0 }',
            ".block: no clique has a part at this level; one at least needs one",
        ),
        (
            "\n".join(f'{level} = {{ "tenure * rooms" = 0 }}' for level in ("county", "tract", "block")),
            ": tenure x rooms would be measured at no level; at one at least it needs a part",
        ),
    ],
)
def test_parts_that_nothing_can_come_of_are_refused(stated: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        _spec(("[strategy.levels]", f"[marginals.parts_at]\n{stated}\n[strategy.levels]"))
    assert str(error.value).startswith(f"wide.toml: marginals.parts_at{told}")
    assert len(str(error.value).splitlines()) == 1


def test_a_level_without_a_share_has_nothing_to_divide() -> None:
    with pytest.raises(SpecError, match=r"parts_at\.tract: this level has no share of the budget"):
        _spec(
            ('county = "1/4"', 'county = "1/2"'),
            ('tract = "1/4"', 'tract = "0"'),
            ("[strategy.levels]", '[marginals.parts_at]\ntract = { "tenure * rooms" = 2 }\n[strategy.levels]'),
        )


def test_tables_stand_with_the_clique_that_has_them() -> None:
    tables = '[tables]\nsexes = "sex * age"\nhomes = { query = "tenure", levels = ["county"] }\n[publish]'
    universes = {one.name: [table.name for table in one.tables] for one in _spec(("[publish]", tables)).universes()}
    assert universes == {"": [], "age-sex-school": ["sexes"], "work-tenure-car": ["homes"], "tenure-rooms": []}


def test_labels_stand_with_the_tables_that_have_them_also_where_these_are_the_default_ones() -> None:
    stated = '[schema.labels]\nattributes.tenure = "Owner or not"\ntables = {TABLES}\n[publish]'
    labels = '{ "school.work" = "Work", "tenure.rooms" = "Homes", "age.sex.school" = "Pupils" }'
    spec = _spec(("[publish]", stated.replace("TABLES", labels[1:-1])))
    found = {one.name: dict(spec.labels(one.name).tables) for one in spec.universes()}
    assert found == {
        "": {"school.work": "Work"},
        "age-sex-school": {"age.sex.school": "Pupils"},
        "work-tenure-car": {},
        "tenure-rooms": {"tenure.rooms": "Homes"},
    }
    assert {one.name for one in spec.universes() if spec.labels(one.name).attributes} == {
        "work-tenure-car",
        "tenure-rooms",
    }
    assert ReleaseSpec.from_public_dict(spec.public_dict()).public_dict() == spec.public_dict()
    tables = '[tables]\nhomes = "tenure"\n' + stated.replace("TABLES", 'homes = "At home"')
    own = _spec(("[publish]", tables))
    assert [dict(own.labels(one.name).tables) for one in own.universes()] == [{}, {}, {"homes": "At home"}, {}]


def test_attributes_and_labels_of_all_universes_are_from_where_those_of_the_table_are_from() -> None:
    others = ("age-sex-school", "work-tenure-car", "tenure-rooms")
    stated = "[provenance]\ninputs.{KEY} = {{ source = 'records', from = 'a guess' }}\n{MORE}\n[publish]"
    labels = "[schema.labels]\nattributes.age = 'Age'\n"
    for key, before in (("schema", ""), ("schema", labels), ("labels", labels)):
        for more, accepted in (("", False), (f"accept = ['{key}']", True)):
            spec = _spec(("[publish]", before + stated.format(KEY=key, MORE=more)))
            all_of_it = (key, *(f"companions.{name}.{key}" for name in others))
            for one in (spec, ReleaseSpec.from_public_dict(spec.public_dict())):
                assert from_records(one) == all_of_it
                assert accepted_inputs(one) == (all_of_it if accepted else ())
                origins = {named.name: named.origin(one).origin for named in named_inputs(one)}
                assert {name for name, origin in origins.items() if origin == "a guess"} == set(all_of_it)
            check_inputs(spec)
    own = "inputs.'companions.tenure-rooms.schema' = { source = 'public', from = 'a book' }"
    spec = _spec(("[publish]", stated.format(KEY="schema", MORE=own)))
    assert from_records(spec) == ("schema", *(f"companions.{name}.schema" for name in others[:2]))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('["tenure", "rooms"]]', '["tenure", "room"]]', "marginals.cliques: found the attribute 'room'; "),
        ('["tenure", "rooms"]]', '["tenure", "car"]]', "marginals.cliques: none has the attribute 'rooms'; "),
        ('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "tenure"]]', "marginals.cliques: found tenure x "),
        ('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "age"]]', "marginals.cliques: found cliques "),
        ("[strategy.levels]", '[strategy]\nqueries = { age = "1" }\n[strategy.levels]', "strategy: with [marg"),
        ('county = "1/4"', 'county = { share = "1/4", queries = { age = "1" } }', "strategy.levels.county: with [ma"),
        ('rho = "3"', "", "privacy.rho: missing; the whole budget, of which each clique has a part"),
        ('form = "microdata"', 'form = "long"', "input.form: found 'long'; with [marginals] records are \"microdata\""),
        *(
            ("[marginals]", f"[marginals]\nparts = {{ {parts} }}", f"marginals.parts.{told}")
            for parts, told in (
                ('"tenure * room" = 2', "\"tenure * room\": found the attribute 'room'; the schema has age, sex"),
                ('"tenure * car" = 2', "\"tenure * car\": found 'tenure * car', which is no clique; allowed are "),
                ('"total" = 2', "total: found 'total', which is no clique; allowed are age * sex * school, "),
                ('"detailed" = 2', "detailed: found 'detailed', which is no clique; allowed are age * sex * school, "),
                ('"tenure * rooms" = 2, "rooms*tenure" = 3', '"rooms*tenure": found a part of tenure x rooms twice'),
                ('"tenure * rooms" = 0', '"tenure * rooms": found the number 0; at least 1 is needed'),
                ('"tenure * rooms" = "1/2"', "\"tenure * rooms\": found "),
            )
        ),
        (
            'cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]',
            'choose = { share = "1/10", attributes_share = "1/20" }\nparts = { "age * sex" = 2 }',
            "marginals.parts: found together with choose; pairs that are chosen have the same part each",
        ),
        ("[publish]", '[tables]\nx = "age * car"\n[publish]', "tables.x: age x car is no table of this release"),
        ("[publish]", '[tables]\nx = "age * cars"\n[publish]', "tables.x: 'cars' is not an attribute;"),
        ('county = "1/4"', 'county = "1/3"', "strategy.levels: the shares add up to 13/12"),
        ('county = "1/4"', 'county = "1/4"\nregion = "0"', "strategy.levels.region: 'region' is not a level"),
        ('county = "1/4"', 'county = 3', "strategy.levels.county"),
        ('car = ["no", "yes"]', 'car = ["no", "no"]', "schema: attribute 'car' lists the value 'no' twice"),
        ('geocode = "block"', 'geocode = "block"\nfoo = 1', "input.foo: unknown key"),
        *(
            ('geocode = "block"', f'geocode = "block"\n{typo}', f"input.{told}")
            for typo, told in (
                ('columns = { sexx = "sex_reg" }', "columns.sexx: 'sexx' is not an attribute; did you mean 'sex'?"),
                ('values.agee = { 1 = "child" }', "values.agee: 'agee' is not an attribute; did you mean 'age'?"),
                ('values.age = { 1 = "kid" }', "values.age.1: 'kid' is not a value of age; allowed are child"),
            )
        ),
        *(
            ("[publish]", f"[schema.labels]\n{typo}\n[publish]", f"schema.labels.{told}")
            for typo, told in (
                ('attributes.agee = "Age"', "attributes.agee: 'agee' is not an attribute or recode; did you mean"),
                ('values.agee = { child = "0" }', "values.agee: 'agee' is not an attribute or recode; did you mean"),
                ('values.age = { kid = "0" }', "values.age.kid: 'kid' is not a value of age; allowed are child"),
                ('tables."school.sex" = "0"', "tables.\"school.sex\": 'school.sex' is not a published table; did"),
            )
        ),
        (
            "[publish]",
            '[tables]\na = "age"\n[schema.labels]\ntables.b = "x"\n[publish]',
            "schema.labels.tables.b: 'b' is not a published table; allowed are a",
        ),
        *(
            ("[strategy.levels]", f"[strategy]\n{key} = {value}\n[strategy.levels]", f"strategy{told}")
            for key, value, told in (
                ("foo", "3", ".foo: unknown key; allowed here are preset, queries, levels"),
                ("tables", "{}", ".tables: unknown key; tables = ... stands before the first [table], or as a [tab"),
                ("preset", '""', ": with [marginals] it has the share of each level and nothing else"),
                ("queries", "{}", ": with [marginals] it has the share of each level and nothing else"),
            )
        ),
        ('[strategy.levels]', '[other]', "strategy: with [marginals] it has the share of each level"),
        ("[publish]", "[publish]\ndraws = 3", "publish.draws: not together with [marginals] yet"),
        ("[publish]", "[publish]\nunbiased = true", "publish.unbiased: not together with [marginals] yet"),
        ("[publish]", '[postprocess]\npasses = ["age"]\n[publish]', "postprocess.passes: not together with"),
        ("[publish]", '[postprocess]\nestimator = "topdown"\n[publish]', "postprocess.estimator: not together with"),
        ("[publish]", '[postprocess]\nsolver = "cvxpy"\n[publish]', "postprocess.solver: not together with"),
        ("[publish]", '[postprocess]\ncomplete = "even"\n[publish]', "postprocess.complete: not together with"),
        ("[publish]", '[[bounds]]\nname = "x"\n[publish]', "bounds: not together with [marginals] yet"),
        ("[publish]", "[select.x]\nlevel = 1\n[publish]", "select: not together with [marginals] yet"),
        ("[publish]", "[[join]]\nx = 1\n[publish]", "join: not together with [marginals] yet"),
        ("[publish]", '[companions.units]\nschema.attributes.a = ["1"]\n[publish]', "companions: not together"),
        ("[publish]", "[series]\nx = 1\n[publish]", "series: not together with [marginals] yet"),
        ("[publish]", "[collect]\nx = 1\n[publish]", "collect: not together with [marginals] yet"),
        ("[publish]", '[postprocess.shares.x]\nlevel = "county"\n[publish]', "postprocess.shares: not together with"),
        ("[publish]", '[schema.recodes.x]\nattribute = "age"\ngroups = { a = ["old"] }\n[publish]', "schema.rec"),
        ('column = "block"', 'column = "block"\nbypass = true', "geography.bypass: not together with [marginals] yet"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_it_is_refused_in_one_sentence(old: str, new: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        _spec((old, new))
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"wide.toml: {told}")


def test_defaults_that_are_written_out_are_taken() -> None:
    stated = (
        '[postprocess]\nestimator = "full"\nsolver = "auto"\ncomplete = "proportional"\npasses = ["total"]\n[publish]'
    )
    assert _spec(("[publish]", stated)).public_dict() == _spec().public_dict()


def test_what_is_wrong_by_itself_is_told_as_in_any_spec() -> None:
    with pytest.raises(SpecError, match=r"wide\.toml: marginals\.cliques: found the number 3; a list in"):
        _spec(("[marginals]", "[marginals]\ncliques = 3\n[other]"))
    with pytest.raises(SpecError, match=r"wide\.toml: marginals: found the number 3; a table is needed"):
        parse_spec("marginals = 3\n" + SPEC.replace("[marginals]", "[other]"), "wide.toml")
    with pytest.raises(SpecError, match=r"wide\.toml: marginals\.filled: unknown key; did you mean 'fill'"):
        _spec(("[marginals]", "[marginals]\nfilled = true"))


def test_anything_else_in_the_place_of_any_table_or_key_is_refused_or_read() -> None:
    """No other error comes out, whatever stands where: nothing, a number, a text, lists, tables."""
    whole = tomllib.loads(SPEC)
    places: list[tuple[str, ...]] = [(key,) for key in whole]
    places += [(key, inner) for key, table in whole.items() if isinstance(table, dict) for inner in table]
    refused = 0
    for place in places:
        for other in (None, 3, "x", [], [3], ["x"], [["x"]], {}, {"x": 3}, {"x": {"y": ["z"]}}):
            content = copy.deepcopy(whole)
            table = content if len(place) == 1 else content[place[0]]
            if other is None:
                del table[place[-1]]
            else:
                table[place[-1]] = other
            try:
                spec_of(content)
            except SpecError:
                refused += 1
    assert refused > 5 * len(places)


def test_what_a_run_states_of_the_division_is_for_published_specs_alone() -> None:
    """Else companions of one's own would be measured, with any budget and any records."""
    order = "attributes = ['age', 'sex', 'school', 'work', 'tenure', 'rooms', 'car']"
    for more in ("", "\n[companions.units]\nschema.attributes.a = ['1']"):
        with pytest.raises(SpecError) as error:
            _spec(("[marginals]", f"[marginals]\n{order}"), ("[publish]", f"{more}\n[publish]"))
        told = "wide.toml: marginals.attributes: is stated by a run, in what it publishes; leave it out"
        assert str(error.value) == told
    content = {**tomllib.loads(SPEC), "marginals": _spec().public_dict()["marginals"]}
    content["schema"] = _spec().public_dict()["schema"]
    with pytest.raises(SpecError, match=r"schema\.attributes: found a list; a table is needed"):
        spec_of(content)
    for nothing in ({}, {"attributes": 3}):
        with pytest.raises(SpecError):
            spec_of({**content, "schema": nothing})


@pytest.mark.parametrize(("framework", "key"), [("zcdp", "rho"), ("pure", "epsilon")])
def test_a_published_spec_with_another_budget_of_any_universe_is_refused(framework: str, key: str) -> None:
    """Also where some universes measure two cliques; the parts are those that the division itself makes."""
    changes = [('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "work"]]\nfill = true')]
    if framework == "pure":
        changes.append(('rho = "3"', 'framework = "pure"\nepsilon = "3"'))
    content = _spec(*changes).public_dict()
    assert ReleaseSpec.from_public_dict(content).public_dict() == content
    places = [content["privacy"], *(companion["privacy"] for _, companion in content["companions"])]
    assert sorted({Fraction(place[key]) for place in places}) == [Fraction(3, 5), Fraction(6, 5)]
    for place in places:
        kept = place[key]
        for other in ("100", "3/4"):
            place[key] = other
            with pytest.raises(SpecError, match=rf"privacy\.{key}: found .*each has the same part of the budget"):
                ReleaseSpec.from_public_dict(content)
        place[key] = kept
    assert ReleaseSpec.from_public_dict(content).public_dict() == content


def test_universes_of_other_records_are_refused() -> None:
    spec = _spec(('geocode = "block"', 'geocode = "block"\ncolumns = { age = "years" }\nvalues.sex = { 0 = "f" }'))
    spec.universes()
    name, last = list(spec.companions.items())[-1]
    assert last.input is not None
    for other in ({"file": Path("other.csv")}, {"geocode": "home"}, {"rows": {"a": ("1",)}}):
        companion = last.model_copy(update={"input": last.input.model_copy(update=other)})
        changed = spec.model_copy(update={"companions": {**spec.companions, name: companion}})
        with pytest.raises(SpecError, match=rf"companions\.{name}\.input: the records are the release's own"):
            changed.universes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda spec: spec["marginals"]["attributes"].remove("car"), "these are not the attributes of the universes"),
        (lambda spec: spec["marginals"]["cliques"].pop(), "marginals"),
        (lambda spec: spec["companions"].pop(), "marginals"),
        (lambda spec: spec["companions"].reverse(), "and not those of the cliques"),
        (lambda spec: spec["companions"][2][1]["schema"]["attributes"][0][1].pop(), "not the same values"),
        (lambda spec: spec["companions"][0][1]["strategy"]["levels"][0][1].update(queries=[["age", "1"]]), "measured"),
    ],
)  # fmt: skip
def test_a_published_spec_whose_universes_are_not_those_of_its_cliques_is_refused(change: object, told: str) -> None:
    content = _spec().public_dict()
    assert ReleaseSpec.from_public_dict(content).public_dict() == content
    change(content)  # type: ignore[operator]
    with pytest.raises(SpecError, match=told):
        ReleaseSpec.from_public_dict(content)


def test_the_section_is_a_key_of_the_feature() -> None:
    assert "marginals" not in slots().missing
