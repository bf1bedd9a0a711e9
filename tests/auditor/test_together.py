"""The second program's figures for one person, a unit and a household: those of the first, and no smaller ones."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auditor.form import Form, read_form
from auditor.program import main
from auditor.statements import account_problems, changes_alone, household_problems, noise_problems, person_problems
from pipeline.model.measure import ProtectedUnit
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import household_statement, joint_statement, privacy_statements
from pipeline.release.privacy_statement import privacy_statement
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

SPEC = """
name = "x"
MAIN
[privacy]
BUDGET
UNIT
[geography]
file = "f.csv"
column = "b"
levels = { town = 1, block = 2 }
BYPASS
[schema.attributes]
sex = ["f", "m"]
home = ["in", "out"]
[strategy]
queries = { total = "1/2", detailed = "1/2" }
levels = { town = "1/2", block = "1/2" }
INVARIANTS
[companions.visits]
privacy = { BUDGET, unit = "patient", at_most = 3 }
schema.attributes.reason = ["fall", "fever"]
strategy = { queries = { reason = "1" }, levels = { town = "1/2", block = "1/2" } }
[companions.households]
HOMES
privacy = { BUDGET }
schema.attributes.size = ["1", "2", "3+"]
strategy = { queries = { size = "1" }, levels = { town = "1/2", block = "1/2" } }
[[join]]
companion = "households"
where = { home = "in" }
size = "size"
most = 5
"""


WORDS = ("MAIN", "BUDGET", "UNIT", "BYPASS", "INVARIANTS", "HOMES")
UNITS = 'unit = "id"\nat_most = 4'
RHO, EPSILON = 'rho = "1"', 'epsilon = "1"'


def spec(budget: str = RHO, **words: str) -> ReleaseSpec:
    text = SPEC.replace("privacy = { BUDGET", f"privacy = {{ {budget}")
    if "INVARIANTS" in words:
        text, _, _ = text.partition("[[join]]")  # below the top these cannot be kept with joins
    given = {"BUDGET": ('framework = "pure"\n' if budget == EPSILON else "") + budget, **words}
    for word in WORDS:
        text = text.replace(word, given.get(word, ""))
    return parse_spec(text)


def manifest_of(found: ReleaseSpec, universes: Sequence[Universe] | None = None) -> dict[str, Any]:
    """What a manifest states of universes, those of the spec or others, as JSON has it."""
    own = found.universes() if universes is None else universes
    accounts = [privacy_statements(one) for one in own]
    households = household_statement(own, accounts, "households", 5)
    return {
        "privacy": [privacy_statement(one).model_dump(mode="json") for one in own],
        "accounts": [account.model_dump(mode="json") for account in accounts],
        "joint": joint_statement(own, accounts).model_dump(mode="json"),
        "households": [] if households is None or not found.links() else [households.model_dump(mode="json")],
    }


def problems(form: Form, manifest: dict[str, Any]) -> list[str]:
    """All but the accounts, whose losses take half a second each."""
    found = person_problems(form, manifest) + household_problems(form, manifest)
    for universe, stated in zip(form.universes, manifest["privacy"], strict=True):
        found += noise_problems(universe, stated)
    return found


SPECS = {
    "zcdp": spec(),
    "pure": spec(EPSILON),
    "two households a person": spec(EPSILON, HOMES="records_per_person = 2"),
    "two of everything": spec(EPSILON, MAIN="records_per_person = 2", HOMES="records_per_person = 2"),
    "two households and rho": spec(HOMES="records_per_person = 2"),
    "units": spec(EPSILON, UNIT=UNITS),
    "add-remove": spec(EPSILON, UNIT='neighbours = "add-remove"'),
    "bypass": spec(BYPASS="bypass = true"),
    "swaps": spec(INVARIANTS='[invariants]\ntown = ["sex"]\nblock = ["total", "home"]'),
    "swaps of units": spec(UNIT=UNITS, INVARIANTS='[invariants]\nblock = ["total", "sex", "home"]'),
    "some values": spec(INVARIANTS='[invariants]\ntown = ["sex"]\nblock = ["total"]'),
    "nothing": spec(EPSILON, INVARIANTS='[invariants]\nblock = ["detailed"]'),
}


@pytest.mark.parametrize("name", SPECS)
def test_both_programs_state_the_same(name: str) -> None:
    found = SPECS[name]
    form, manifest = read_form(found.public_dict()), manifest_of(found)
    assert problems(form, manifest) == []
    assert account_problems(form.universes[0], manifest["accounts"][0]) == []
    assert form.households == ({"households": 5} if found.links() else {})
    again = ReleaseSpec.from_public_dict(found.public_dict()).universes()
    assert [one.unit.records for one in again] == [one.together for one in form.universes]
    assert manifest_of(found, again) == manifest


def test_the_figures_are_those_of_the_argument() -> None:
    """Persons with 4 records, visits of 3, two households: rho 3 for a person, 5^2 + 5^2 + 1/4 for a household of 5."""
    found = spec(UNIT=UNITS, HOMES="records_per_person = 2")
    manifest = manifest_of(found)
    assert manifest["joint"]["budget"] == "3"
    assert Fraction(manifest["households"][0]["budget"]) == 25 + 25 + Fraction(1, 4)
    assert [one.together for one in read_form(found.public_dict()).universes] == [4, 3, 2]


def lowered(statement: dict[str, Any], **figures: str) -> None:
    """Other figures, in words as well."""
    words = statement["words"].replace(statement["epsilon"], figures.get("epsilon", statement["epsilon"]))
    statement.update(figures, words=words)


def smaller(found: ReleaseSpec, number: int) -> dict[str, Any]:
    """What is stated where a universe's records of one person are taken for one."""
    universes = list(found.universes())
    universes[number] = replace(universes[number], unit=ProtectedUnit(1))
    return manifest_of(found, universes)


def of_two_members(found: ReleaseSpec) -> list[dict[str, Any]]:
    universes = found.universes()
    stated = household_statement(universes, [privacy_statements(one) for one in universes], "households", 2)
    assert stated is not None
    return [stated.model_dump(mode="json")]


@pytest.mark.parametrize(
    ("zeros", "varies"),
    [
        ('{ sex = "m" }', {"home"}),
        ('{ sex = "m", home = "out" }, { sex = "f", home = "in" }', set()),
        ('{ sex = "m", home = "out" }', {"sex", "home"}),
    ],
)
def test_of_an_attribute_that_impossible_cells_leave_one_value_nothing_is_stated(zeros: str, varies: set[str]) -> None:
    """The rest of a record being known; and of any other something has to be."""
    found = spec(MAIN=f"structural_zeros = [{zeros}]", INVARIANTS="")
    own = read_form(found.public_dict()).universes[0]
    account = manifest_of(found)["accounts"][0]
    assert {one["of"] for one in account["attributes"]} == varies
    assert account_problems(own, account) == []
    lacking = account_problems(own, {**account, "attributes": []})
    assert lacking == [f"has no statement about ('attribute', {name!r})" for name in sorted(varies)]


@pytest.mark.parametrize("name", ["swaps", "swaps of units"])
def test_what_two_must_change_together_is_not_stated_of_one(name: str) -> None:
    """The figures of the same spec without its invariants, which are half of what it takes, or a quarter."""
    found, plain = SPECS[name], spec(UNIT=UNITS if "units" in name else "", INVARIANTS="")
    own, stated, wrong = read_form(found.public_dict()).universes[0], manifest_of(found), manifest_of(plain)
    told = account_problems(own, {**stated["accounts"][0], "record": wrong["accounts"][0]["record"]})
    assert told == ["record : is about 1 records; one cannot change alone by the invariants"]
    assert noise_problems(own, stated["privacy"][0]) == []
    told_of_noise = noise_problems(own, {**stated["privacy"][0], "words": wrong["privacy"][0]["words"]})
    assert told_of_noise[0] == f"its words do not state {2 * own.record_budget}, which is spent"


def test_who_can_change_alone_is_as_enumeration_says() -> None:
    """All pairs of cells and places of two towns, of random exact tables and impossible cells."""
    rng = np.random.default_rng(3)
    queries, seen = ["total", "sex", "home", "detailed"], Counter[tuple[str, bool]]()
    for _ in range(40):
        exact = {level: [q for q in queries if rng.random() < 0.3] for level in ("town", "block")}
        zeros = [{"sex": s, "home": h} for s in "fm" for h in ("in", "out") if rng.random() < 0.25]
        stated = "".join(f"{level} = {json.dumps(those)}\n" for level, those in exact.items())
        main = (
            "structural_zeros = [" + ", ".join(f'{{ sex = "{z["sex"]}", home = "{z["home"]}" }}' for z in zeros) + "]"
        )
        if len(zeros) == 4:
            continue
        own = read_form(spec(MAIN=main, INVARIANTS=f"[invariants]\n{stated}").public_dict()).universes[0]
        records = [
            (sex, home, block)
            for sex in "fm"
            for home in ("in", "out")
            for block in ("11", "12", "21")
            if {"sex": sex, "home": home} not in zeros
        ]

        def answers(record: tuple[str, str, str], exact: dict[str, list[str]] = exact) -> list[object]:
            by_name = {"total": (), "sex": record[:1], "home": record[1:2], "detailed": record[:2]}
            places = {"town": record[2][0], "block": record[2]}
            return [(places[level], by_name[query]) for level, those in exact.items() for query in those]

        pairs = [pair for pair in combinations(records, 2) if answers(pair[0]) == answers(pair[1])]
        differ = [{i for i in range(3) if one[i] != other[i]} for one, other in pairs]
        same_town = [one[2][0] == other[2][0] for one, other in pairs]
        expected = {
            ("record", ""): bool(pairs),
            ("attribute", "sex"): {0} in differ,
            ("attribute", "home"): {1} in differ,
            ("place", "town"): any(d == {2} and same for d, same in zip(differ, same_town, strict=True)),
        }
        for (about, of), alone in expected.items():
            assert changes_alone(own, about, of) == alone
            seen[about, alone] += 1
    assert min(seen[about, alone] for about in ("record", "attribute", "place") for alone in (True, False)) > 2


def test_an_epsilon_from_losses_that_nothing_gives_is_refused() -> None:
    """The group statements are from rho alone."""
    form, manifest = read_form(TWO_HOMES.public_dict()), deepcopy(stated_of_two_homes())
    lowered(manifest["accounts"][2]["groups"][3], **LOW)
    (told,) = account_problems(form.universes[2], manifest["accounts"][2])
    assert told.startswith("group of 5: states 9.0000 from the losses")


Manifest = dict[str, Any]
TWO_HOMES = SPECS["two households and rho"]


@cache
def stated_of_two_homes() -> Manifest:
    """In which both programs find nothing, as of each of SPECS."""
    return manifest_of(TWO_HOMES)


LOW = {"losses": "9.0000", "epsilon": "9.0000"}


#: What is changed of a sound manifest, and what is said of it.
FAULTS: dict[str, tuple[Callable[[ReleaseSpec, Manifest], object], str]] = {
    "a universe left out": (
        lambda found, m: m.update(joint=manifest_of(found, found.universes()[:2])["joint"]),
        "states the budget 2, it is 3",
    ),
    "two households counted once": (
        lambda found, m: m.update(smaller(found, 2)),
        "record : states the budget 1, it is 1/4",
    ),
    "three visits counted once": (
        lambda found, m: m.update(smaller(found, 1)),
        "record : states the budget 1, it is 1/9",
    ),
    "a household that is a person": (
        lambda _, m: lowered(m["households"][0], budget="3"),
        "households: states the budget 3, it is 201/4",
    ),
    "a small household": (
        lambda found, m: m.update(households=of_two_members(found)),
        "households: is about 2 members, joins allow 5",
    ),
    "no household": (lambda _, m: m.update(households=[]), "has no statement about a household of households"),
    "two households": (lambda _, m: m["households"].extend(m["households"]), "two statements about one companion"),
    "a household of no join": (
        lambda _, m: m["households"][0].update(of="visits"),
        "has a statement about visits, which no join names",
    ),
    "no person": (lambda _, m: m.pop("joint"), "no statement about one person"),
    "nobody": (lambda _, m: m["joint"].update(records=0, epsilon="infinity"), "is about 0 persons"),
    "a swap": (lambda _, m: m["joint"].update(records=2), "is about 2 persons, the account of the release about 1"),
    "less from rho": (
        lambda _, m: lowered(m["joint"], zcdp="9.0000", epsilon="9.0000"),
        "states 9.0000 from rho, it is 18.8",
    ),
    "less from losses": (lambda _, m: lowered(m["joint"], **LOW), "states 9.0000 from the losses"),
    "less of a household": (
        lambda _, m: lowered(m["households"][0], **LOW),
        "households: states 9.0000 from the losses",
    ),
    "a secret in words": (
        lambda _, m: m["joint"].update(words=m["joint"]["words"] + " 1234 persons live here"),
        "its words hold the number 1234",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_statement_that_is_too_small_is_refused(fault: str) -> None:
    form, manifest = read_form(TWO_HOMES.public_dict()), deepcopy(stated_of_two_homes())
    change, said = FAULTS[fault]
    change(TWO_HOMES, manifest)
    told = problems(form, manifest)
    if said.startswith("record : "):
        told += [p for one in zip(form.universes, manifest["accounts"], strict=True) for p in account_problems(*one)]
    assert any(said in problem for problem in told), told


def test_losses_of_all_universes_are_recomputed() -> None:
    """With one record each the epsilon is that of the losses: of half the noise it is another."""
    text = SPEC.replace(', unit = "patient", at_most = 3', "")
    for word in WORDS:
        text = text.replace(word, RHO if word == "BUDGET" else "")
    found = parse_spec(text)
    form, manifest = read_form(found.public_dict()), manifest_of(found)
    assert manifest["joint"]["losses"] is not None
    assert problems(form, manifest) == []
    lowered(manifest["joint"], losses="16.0000", epsilon="16.0000")
    (told,) = person_problems(form, manifest)
    assert told.startswith("states 16.0000 from the losses, they give 18.")


@pytest.mark.parametrize(("figure", "spoilt"), [("epsilon", "x"), ("zcdp", ""), ("losses", "NaN"), ("epsilon", "1,5")])
def test_a_figure_that_is_none(
    town: Path, tmp_path: Path, figure: str, spoilt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(town, tmp_path / "town"))
    manifest = root / "public" / "manifest.json"
    content = json.loads(manifest.read_text("utf-8"))
    assert content["accounts"][0]["record"][figure] is not None
    content["accounts"][0]["record"][figure] = spoilt
    manifest.write_text(json.dumps(content), encoding="utf-8")
    assert main([str(root)]) in (1, 2)
    said = capsys.readouterr()
    assert f"found {spoilt!r} among the figures" in said.out + said.err
