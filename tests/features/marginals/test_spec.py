"""The section [marginals] and its amounts: what they become, how they are read and drawn, and what is refused."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run
from releases.wide import (
    AMOUNTS,
    ATTRIBUTES,
    BINS,
    CLIQUES,
    DECLARED,
    SPEC,
    STATED,
    binned,
    with_amounts,
    write_amounts,
)
from scipy.stats import chi2, chisquare

from features.marginals.cliques import AttributeSizes
from features.marginals.records import WholeRecords, drawn_numbers
from features.marginals.section import Bins
from features.marginals.whole import Seed
from pipeline.errors import RefusedError, SpecError
from pipeline.inputs.geography import read_spine
from pipeline.privacy.budget import MOVED
from pipeline.privacy.ledger.dataset import cost_of
from pipeline.privacy.ledger.events import Group, Moved
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec, spec_of
from postprocess.arrays import IntArray

Change = tuple[str, str]
PURE = ('rho = "3"', 'framework = "pure"\nepsilon = "3"')
TWO_RECORDS = ('name = "wide"', 'name = "wide"\nrecords_per_person = 2')
RING = ('["tenure", "rooms"]]', '["tenure", "rooms"], ["rooms", "work"]]')
ADD_REMOVE = ('rho = "3"', 'rho = "3"\nneighbours = "add-remove"')
BINNED = (AMOUNTS, ("[strategy.levels]", f"{STATED}\n[strategy.levels]"))


def _spec(*changes: Change) -> ReleaseSpec:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return parse_spec(text, "wide.toml")


def _with(section: str) -> Change:
    """A section of its own."""
    return "[publish]", f"{section}\n[publish]"


def _zeros(stated: str) -> Change:
    return 'name = "wide"', f'name = "wide"\nstructural_zeros = {stated}'


def _exact(stated: str) -> Change:
    return _with(f"[invariants]\n{stated}")


def _in(stated: str) -> Change:
    """More in the section of cliques."""
    return "[marginals]", f"[marginals]\n{stated}"


def _choose(stated: str, share: str = "1/10") -> Change:
    return DECLARED, f'choose = {{ share = "{share}", attributes_share = "1/10"{stated} }}'


def _county(stated: str) -> Change:
    return 'county = "1/4"', f"county = {stated}"


def _input(stated: str) -> Change:
    return 'geocode = "block"', f'geocode = "block"\n{stated}'


def _at(stated: str) -> Change:
    return "[strategy.levels]", f"[marginals.parts_at]\n{stated}\n[strategy.levels]"


def _fingerprints(spec: ReleaseSpec) -> list[object]:
    return [one.privacy_fingerprint() for one in spec.universes()]


def test_parts_of_the_budget_are_those_that_are_stated_and_one_of_the_others() -> None:
    """Of 3: 3/6 of it, 1/6 each of the rest; where a universe measures two cliques, its queries share their parts."""
    parts = ("[marginals]", '[marginals]\nparts = { "rooms * tenure" = 3 }')
    budgets = {one.name: one.budget for one in _spec(parts).universes()}
    assert budgets == {"": Fraction(1, 2), **dict.fromkeys(["age-sex-school", "work-tenure-car"], Fraction(1, 2))} | {
        "tenure-rooms": Fraction(3, 2)
    }
    filled = _spec(parts, (RING[0], f"{RING[1]}\nfill = true")).universes()
    (wide,) = (one for one in filled if one.schema.names == ("work", "tenure", "rooms"))
    assert (wide.budget, sum(one.budget for one in filled)) == (Fraction(3) * 4 / 7, 3)
    assert [(one.query.name, one.share) for one in wide.strategy.levels[0].queries] == [
        ("tenure * rooms", Fraction(3, 4)),
        ("work * rooms", Fraction(1, 4)),
    ]
    pure = _spec(parts, PURE, TWO_RECORDS).universes()
    assert (pure[-1].budget, {one.unit.records for one in pure}) == (Fraction(3, 2), {2})
    # Parts at levels are those of all where they say the same, or nothing.
    same = _at('county = {}\ntract = { "tenure * rooms" = 3 }\nblock = { "tenure*rooms" = 3 }')
    assert _fingerprints(_spec(parts, same)) == _fingerprints(_spec(parts))
    assert _fingerprints(_spec(_in('parts = { "tenure * rooms" = 1 }'))) == _fingerprints(_spec())
    content = _spec(parts).public_dict()
    for key, other in (("tenure * rooms", 2), ("school * work", 2)):
        content["marginals"]["parts"] = [[key, other]]
        with pytest.raises(SpecError, match=r"privacy\.rho: found .*; see marginals\.parts"):
            ReleaseSpec.from_public_dict(content)


@pytest.mark.parametrize(("framework", "key"), [((), "rho"), ((PURE,), "epsilon")])
def test_parts_at_a_level_divide_its_share_and_add_up_to_the_budget(framework: Sequence[Change], key: str) -> None:
    """Of eight parts at the county five, at the tract one of four, and at the block nothing."""
    stated = 'county = { "rooms * tenure" = 5 }\nblock = { "tenure * rooms" = 0, "school * work" = 3 }'
    spec = _spec(_at(stated), *framework)
    spent = {
        (level.level, query.query.name): one.budget * level.share * query.share
        for one in spec.universes()
        for level in one.strategy.levels
        for query in level.queries
    }
    even = {" * ".join(clique): 1 for clique in CLIQUES}
    parts = {
        ("county", Fraction(1, 4)): {**even, "tenure * rooms": 5},
        ("tract", Fraction(1, 4)): even,
        ("block", Fraction(1, 2)): {"school * work": 3, "age * sex * school": 1, "work * tenure * car": 1},
    }
    assert spent == {
        (level, clique): 3 * share * Fraction(part, sum(of.values()))
        for (level, share), of in parts.items()
        for clique, part in of.items()
    }
    assert sum(spent.values()) == sum(one.budget for one in spec.universes()) == 3
    content = spec.public_dict()
    assert ReleaseSpec.from_public_dict(content).public_dict() == content
    for place in (content["privacy"], content["companions"][2][1]["privacy"]):
        kept, place[key] = place[key], "1"
        with pytest.raises(SpecError, match=rf"marginals\.parts_at\.county: .* another part of the {key} at county"):
            ReleaseSpec.from_public_dict(content)
        place[key] = kept
    content["marginals"]["parts_at"][1][1][0][1] = 1
    with pytest.raises(SpecError, match=r"marginals\.parts_at\.block: .* has another part of the"):
        ReleaseSpec.from_public_dict(content)


def test_what_a_choice_leaves_to_the_cliques_is_by_the_records_of_a_person() -> None:
    """By the ledger's prices; the epsilon of a choice is rounded for one record, so that for two it is another one."""
    universes = _spec(_choose(""), TWO_RECORDS).universes()
    (earlier,) = (one.earlier for one in universes if one.earlier is not None)
    prices = Fraction(0)
    for one in earlier.uses:
        moved, used = Moved.by(losses=max(1, one.weight * MOVED["change-one"]), records=2), one.mechanism
        prices += cost_of(
            Group(one.level, one.query, used.mechanism, used.scale, one.size, moved), "zcdp", "change-one"
        )
    assert sum(one.own_budget for one in universes) + prices == 3
    assert {one.unit.records for one in universes} == {2}


#: What does not go with cliques, as the key that is named; all that goes with no other table of its own.
_NOT_TOGETHER: list[tuple[str, Change]] = [
    ("publish.draws", ("[publish]", "[publish]\ndraws = 3")),
    ("publish.unbiased", ("[publish]", "[publish]\nunbiased = true")),
    ("geography.bypass", ('column = "block"', 'column = "block"\nbypass = true')),
    *(
        (place, _with(section))
        for place, section in (
            ("postprocess.passes", '[postprocess]\npasses = ["age"]'),
            ("postprocess.estimator", '[postprocess]\nestimator = "topdown"'),
            ("postprocess.solver", '[postprocess]\nsolver = "cvxpy"'),
            ("postprocess.complete", '[postprocess]\ncomplete = "even"'),
            ("postprocess.shares", '[postprocess.shares.x]\nlevel = "county"'),
            ("bounds", '[[bounds]]\nname = "x"'),
            ("select", "[select.x]\nlevel = 1"),
            ("join", "[[join]]\nx = 1"),
            ("companions", '[companions.units]\nschema.attributes.a = ["1"]'),
            ("series", "[series]\nx = 1"),
            ("collect", "[collect]\nx = 1"),
            ("schema.recodes", '[schema.recodes.x]\nattribute = "age"\ngroups = { a = ["old"] }'),
        )
    ),
]


@pytest.mark.parametrize(("place", "change"), _NOT_TOGETHER)
def test_what_does_not_go_with_cliques_is_refused_by_its_key(place: str, change: Change) -> None:
    """What the defaults are may be written out."""
    with pytest.raises(SpecError, match=rf"^wide\.toml: {re.escape(place)}.*: not together with"):
        _spec(change)
    stated = '[postprocess]\nestimator = "full"\nsolver = "auto"\ncomplete = "proportional"\npasses = ["total"]'
    assert _spec(_with(stated)).public_dict() == _spec().public_dict()


_LAST = '["tenure", "rooms"]]'
_SHARES, _CAR = "[strategy.levels]", 'car = ["no", "yes"]'
_EMPTY = [('county = "1/4"', 'county = "1/2"'), ('tract = "1/4"', 'tract = "0"')]
_HOURS = f"hours = {json.dumps(BINS['hours'])}"
_EVERY = '"tenure * rooms" = 0, "work*tenure*car" = 0, "work * school" = 0, "age * sex * school" = 0'
_NOWHERE = "\n".join(f'{level} = {{ "tenure * rooms" = 0 }}' for level in ("county", "tract", "block"))

#: The beginning of the one sentence after the file, what stands later in it, and the changes.
_REFUSED: list[tuple[str, str, Sequence[Change]]] = [
    ("marginals.cliques", "none has the attribute 'rooms'; ", [(_LAST, '["tenure", "car"]]')]),
    ("marginals.cliques", "found tenure x rooms", [(_LAST, f'{_LAST[:-1]}, ["rooms", "tenure"]]')]),
    ("marginals.cliques", "form no tree: ", [RING]),
    ("marginals.cliques", "found neither of cliques and choose", [(DECLARED, "")]),
    ("marginals.cliques", "found both of cliques and choose", [_in(_choose("")[1])]),
    ("marginals.cliques", "found the number 3; a list", [(DECLARED, "cliques = 3")]),
    ("marginals.budget", "is stated by a run", [_choose(""), _in('budget = "3"')]),
    ('marginals.parts."tenure * room"', "the schema has age, sex", [_in('parts = { "tenure * room" = 2 }')]),
    ('marginals.parts."rooms*tenure"', "twice", [_in('parts = { "tenure * rooms" = 2, "rooms*tenure" = 3 }')]),
    ('marginals.parts."tenure * rooms"', "at least 1 is needed", [_in('parts = { "tenure * rooms" = 0 }')]),
    ('marginals.parts."tenure * rooms"', "found ", [_in('parts = { "tenure * rooms" = "1/2" }')]),
    ("marginals.parts_at.blok", "did you mean 'block'?", [_at('blok = { "tenure * rooms" = 0 }')]),
    ('marginals.parts_at.block."tenure * car"', "which is no clique", [_at('block = { "tenure * car" = 0 }')]),
    ('marginals.parts_at.block."tenure * rooms"', "at least 0 is", [_at('block = { "tenure * rooms" = -1 }')]),
    ("marginals.parts_at.block", "no clique has a part at this level", [_at(f"block = {{ {_EVERY} }}")]),
    ("marginals.parts_at", "tenure x rooms would be measured at no level", [_at(_NOWHERE)]),
    ("marginals.parts_at.tract", "this level has no share", [*_EMPTY, _at('tract = { "tenure * rooms" = 2 }')]),
    ("marginals.choose.weights", "found 'age * colour'", [_choose(', weights = { "age * colour" = 2 }')]),
    ("marginals.choose.weights", "twice", [_choose(', weights = { "sex*age" = 2, "age * sex" = 2 }')]),
    ("marginals.choose.all_cells", "found without choose.further", [_choose(", all_cells = 99")]),
    ("marginals.choose.all_cells", "found 7; ", [_choose(", further = 3, all_cells = 7")]),
    ("marginals.choose", "the cliques need some", [_choose("", "9/10")]),
    ("marginals.choose", "at least 2^-43 is needed", [_choose("", "1/1000000000000000")]),
    ("tables.both", "which pairs are measured is chosen", [_choose(""), _with('[tables]\nboth = "age * sex"')]),
    ("tables.x", "age x car is no table of this release", [_with('[tables]\nx = "age * car"')]),
    ("privacy.rho", "missing; the whole budget", [('rho = "3"', "")]),
    ("privacy.rho", "missing; the whole budget", [_choose(""), ('rho = "3"', "")]),
    ("input.form", "found 'long'; with [marginals] records are", [('form = "microdata"', 'form = "long"')]),
    ("strategy", "with [marginals]", [(_SHARES, f'[strategy]\nqueries = {{ age = "1" }}\n{_SHARES}')]),
    ("strategy.levels.county", "with [marginals]", [_county('{ share = "1/4", queries = { age = "1" } }')]),
    ("strategy.levels", "the shares add up to 3/4", [_choose(""), _county('"0"')]),
    ("strategy.levels.region", "is not a level", [_county('"1/4"\nregion = "0"')]),
    ("strategy.levels.tract.share", "found 'x'", [_choose(""), ('tract = "1/4"', 'tract = "x"')]),
    ("schema.labels.values.age.kid", "not a value of age", [_with('[schema.labels]\nvalues.age = { kid = "0" }')]),
    ("schema.labels.tables.b", "allowed are a", [_with('[tables]\na = "age"\n[schema.labels]\ntables.b = "x"')]),
    ("input.values.age.1", "'kid' is not a value of age", [_input('values.age = { 1 = "kid" }')]),
    ("structural_zeros[0]", "age x car (8 cells) would be needed", [_zeros('"age == child and car == yes"')]),
    ("structural_zeros[0]", "'agee' is not an", [_zeros('"agee == child"')]),
    ("structural_zeros[0].age", "'kid' is not a value of age;", [_zeros('[{ age = "kid" }]')]),
    ("structural_zeros", "no record is possible", [_zeros('[{ sex = ["f", "m"] }]')]),
    ("structural_zeros[0]", "found age x sex; ", [_zeros('[{ age = "old", sex = "f" }]'), _choose("")]),
    ("invariants", "not together with [marginals.choose] yet", [_exact('block = ["total"]'), _choose("")]),
    ("invariants.county", 'state "age * sex" there', [_exact('county = ["age", "sex"]')]),
    ("invariants.county", "found sex of each block and age", [_exact('county = ["age"]\nblock = ["sex"]')]),
    ("invariants.county", "the clique age x car (8 cells) would be needed", [_exact('county = ["age * car"]')]),
    ("invariants.country", "did you mean 'county'", [_exact('country = ["age"]')]),
    ("invariants.county", "found 'detailed'; with [marginals]", [_exact('county = ["detailed"]')]),
    ("invariants.county", "is the same query as 'age'", [_exact('county = ["age", "age"]')]),
    ("invariants", 'with neighbours = "add-remove"', [_exact('county = ["total"]'), ADD_REMOVE]),
    *(
        ("marginals.amounts.hours", told, [*BINNED, (_HOURS, f"hours = {json.dumps(bins)}")])
        for bins, told in (
            (["0..0", "2..9"], "found '2..9' after '0..0', a gap: 1 would be in no bin"),
            (["0..5", "5..9"], "found '5..9' after '0..5', which overlap: 5 would be in both"),
            (["0..5", "-2..9"], "which overlap: 0 would be in both"),
            (["5..9", "0..4"], "found '0..4' after '5..9'; the lower bin comes first"),
            (["0..9", "10+"], "found '10+'; a range is \"FIRST..LAST\", two whole numbers of at most 15 digits"),
            ([], "found an empty list"),
        )
    ),
    ("marginals.amounts.hours", "found in [schema.attributes], too", [*BINNED, (_CAR, f'hours = ["few"]\n{_CAR}')]),
    ("marginals.amounts.wages", "'wages_drawn'", [*BINNED, (_CAR, f'wages_drawn = ["few"]\n{_CAR}')]),
    ("marginals.amounts", "not with coded = true", [*BINNED, _input("coded = true")]),
    ("marginals.cliques", "none has the attribute 'hours'", [*BINNED, (', ["wages", "hours"]', "")]),
    ('input.values.wages.""', "is not a value of wages", [*BINNED, _with('[input.values.wages]\n"" = "nothing"\n')]),
]  # fmt: skip


@pytest.mark.parametrize(("place", "told", "changes"), _REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence_with_its_place(
    place: str, told: str, changes: Sequence[Change]
) -> None:
    with pytest.raises(SpecError) as error:
        _spec(*changes)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"wide.toml: {place}: ")
    assert told in line


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


@pytest.mark.parametrize(("framework", "key"), [((), "rho"), ((PURE,), "epsilon")])
def test_a_published_spec_with_another_budget_of_any_universe_is_refused(framework: Sequence[Change], key: str) -> None:
    """Also where some universes measure two cliques; the parts are those that the division itself makes."""
    content = _spec((RING[0], f"{RING[1]}\nfill = true"), *framework).public_dict()
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


def test_an_amount_is_an_attribute_whose_values_are_its_bins() -> None:
    """As if attribute and ranges were stated by hand, so budget, noise and guarantee are those of any."""
    by_hand = SPEC.replace(*AMOUNTS).replace(
        'car = ["no", "yes"]\n',
        f'car = ["no", "yes"]\nwages = {json.dumps(BINS["wages"])}\nhours = {json.dumps(BINS["hours"])}\n',
    )
    for name, values in BINS.items():
        by_hand += f"\n[input.values.{name}]\n" + "\n".join(f'"{value}" = "{value}"' for value in values) + "\n"
    mine, theirs = _spec(*BINNED).universes(), parse_spec(by_hand, "wide.toml").universes()
    assert [one.privacy_fingerprint() for one in mine] == [one.privacy_fingerprint() for one in theirs]
    assert [one.input for one in mine] == [one.input for one in theirs]
    assert [one.name for one in mine[0].record_attributes] == [*ATTRIBUTES, "wages", "hours"]
    assert [one.name for one in mine[0].record_numbers] == ["wages_drawn", "hours_drawn"]
    assert theirs[0].record_numbers == () == mine[1].record_numbers
    assert Bins.of("wages", ["0 .. 0", " 1..9999"]).values == ("0..0", "1..9999")


def _wrong(column: str, wrong: Mapping[int, object]) -> pd.DataFrame:
    """The records with something else in some rows, numbered from 1."""
    table = with_amounts()
    found = [wrong.get(row, value) for row, value in enumerate(table[column], start=1)]
    return table.assign(**{column: pd.Series(found, dtype=object)})


def _write(folder: Path, table: pd.DataFrame, *changes: tuple[str, str]) -> Path:
    spec = write_amounts(folder, *BINNED, *changes)
    table.to_csv(folder / "persons.csv", index=False)
    return spec


def test_numbers_outside_of_all_bins_and_missing_ones_are_refused_and_never_clipped(tmp_path: Path) -> None:
    table = _wrong("wages", {3: "", 7: 1_000_000, 12: -1, 13: "12.5", 40: "many"})
    with pytest.raises(RefusedError):
        run(_write(tmp_path / "in", table), tmp_path / "out")
    said = (tmp_path / "out/wide/restricted/refused.txt").read_text("utf-8")
    assert "a value outside the schema in 4 rows (rows 7, 12, 13, 40; lines 8, 13, 14, 41): found '1000000'" in said
    assert "column 'wages': a missing value in 1 row (row 3; line 4); allowed are '0..0', '1..9999'" in said
    assert not list((tmp_path / "out").rglob("measurements"))


@pytest.mark.parametrize("form", ["missing ones have a bin", "whole numbers with a point", "texts of bins"])
def test_numbers_are_counted_in_their_bins_whatever_their_form(tmp_path: Path, form: str) -> None:
    """Whole numbers as 12.0 are what a program with missing values writes."""
    table, meant = with_amounts(), with_amounts()
    stated: tuple[tuple[str, str], ...] = ()
    if form.startswith("missing"):
        table = _wrong("wages", {3: "", 9: 2_000_000})
        meant.loc[[2, 8], "wages"] = [0, 50_000]
        values = '[input.values.wages]\n"" = "0..0"\n"1000000..9999999" = "50000..999999"\n\n[publish]'
        stated = (("[publish]", values),)
    else:
        table = table.astype({"wages": float}) if form.startswith("whole") else binned(table)
    spec = load_spec(_write(tmp_path / "in", table, *stated))
    (of_both,) = (one for one in spec.universes() if one.schema.names == ("wages", "hours"))
    counts = tabulate(of_both.require_input(), of_both.schema, read_spine(spec.geography))
    expected = pd.crosstab(binned(meant)["wages"], binned(meant)["hours"])
    expected = expected.reindex(index=BINS["wages"], columns=BINS["hours"], fill_value=0)
    np.testing.assert_array_equal(counts.sum(axis=0).reshape(4, 3), expected)


#: Bins with one number, few, many and more than a hash of 14 bits has.
DRAWN_BINS = Bins.of("a", ["-10..-1", "0..0", "1..7", "8..99999", "100000..999999999999999"])
SIZES = (10, 1, 7, 99992, 10**15 - 10**5)
N = 200_000


def _records(n_leaves: int = 400) -> WholeRecords:
    rng = np.random.default_rng(4)
    leaf = np.sort(rng.choice(n_leaves, N))
    return WholeRecords(leaf, np.stack([rng.choice(5, N), rng.choice(5, N)], axis=1))


DOMAIN = AttributeSizes(("a", "b"), (5, 5))
TWO = (DRAWN_BINS, Bins.of("b", DRAWN_BINS.values))


def _p_values(drawn: IntArray, people: WholeRecords) -> dict[str, float]:
    """Of several properties of what is drawn: chances, and independence of leaves, neighbours and amounts."""
    found: dict[str, float] = {}
    first, size = _lower_end(people), np.array(SIZES)[people.values]
    place = (drawn - first) / size
    for value, n in ((0, 10), (2, 7)):
        counts = np.bincount((drawn - first)[:, 0][people.values[:, 0] == value], minlength=n)
        found[f"each of {n} numbers"] = float(chisquare(counts).pvalue)
    for value in (3, 4):
        of_bin = people.values[:, 0] == value
        counts = np.bincount((place[of_bin, 0] * 64).astype(np.int64), minlength=64)
        found[f"64 parts of {SIZES[value]}"] = float(chisquare(counts).pvalue)
        last = np.bincount(drawn[of_bin, 0] % 50, minlength=50)
        found[f"remainders of {SIZES[value]}"] = float(chisquare(last).pvalue)
    wide = np.isin(people.values, (3, 4))

    def together(one: np.ndarray, other: np.ndarray) -> float:
        table = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])[0]
        expected = table.sum(1)[:, None] * table.sum(0) / table.sum()
        return float(chi2.sf((((table - expected) ** 2)[expected > 0] / expected[expected > 0]).sum(), 49))

    both = wide.all(axis=1)
    found["two amounts"] = together(place[both, 0], place[both, 1])
    next_one = wide[1:, 0] & wide[:-1, 0]
    found["neighbours"] = together(place[1:, 0][next_one], place[:-1, 0][next_one])
    starts = np.searchsorted(people.leaf, np.unique(people.leaf))
    rank = (np.arange(N) - starts[np.unique(people.leaf, return_inverse=True)[1]]) / 600
    found["place in the leaf"] = together(place[wide[:, 0], 0], np.minimum(rank[wide[:, 0]], 0.999))
    return found


@pytest.mark.parametrize("seed", [0, 2**62 + 3])
def test_every_number_of_a_bin_has_the_same_chance_whatever_else_a_record_has(seed: int) -> None:
    people = _records()
    drawn = drawn_numbers(people, TWO, DOMAIN, Seed(seed))
    last = np.array([one.last for one in DRAWN_BINS.ranges])[people.values]
    assert ((_lower_end(people) <= drawn) & (drawn <= last)).all()
    p_values = _p_values(drawn, people)
    assert min(p_values.values()) > 1e-5, p_values


def _lower_end(people: WholeRecords) -> IntArray:
    return np.array([one.first for one in DRAWN_BINS.ranges])[people.values]


def _few_bits(people: WholeRecords) -> IntArray:
    """Numbers of 14 bits, which are fewer than a wide bin has."""
    size = np.array(SIZES)[people.values]
    return _lower_end(people) + Seed(0).numbers(1, np.arange(N)[:, None], np.arange(2)) % size


def _same_for_both(people: WholeRecords) -> IntArray:
    hashed = Seed(0).bits(1, np.arange(N)[:, None])
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


def _by_place_alone(people: WholeRecords) -> IntArray:
    """The n-th record of every leaf has the same number."""
    place = np.arange(N) - np.searchsorted(people.leaf, people.leaf)
    hashed = Seed(0).bits(1, place[:, None], np.arange(2))
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (_lower_end, "each of 10 numbers"),
        (_few_bits, f"64 parts of {SIZES[3]}"),
        (_same_for_both, "two amounts"),
        (_by_place_alone, "place in the leaf"),
    ],
)
def test_faults_in_the_draw_would_be_seen(fault: Callable[[WholeRecords], IntArray], seen: str) -> None:
    people = _records()
    assert _p_values(fault(people), people)[seen] < 1e-9


def test_no_draw_depends_on_another_leaf() -> None:
    people = _records()
    whole = drawn_numbers(people, TWO, DOMAIN, Seed(5))
    part = people.leaf >= 100
    alone = drawn_numbers(WholeRecords(people.leaf[part], people.values[part]), TWO, DOMAIN, Seed(5))
    np.testing.assert_array_equal(whole[part], alone)
    assert (whole != drawn_numbers(people, TWO, DOMAIN, Seed(6))).mean() > 0.5
