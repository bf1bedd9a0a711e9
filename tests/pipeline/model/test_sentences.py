"""Whatever statements and accounts say is recognised, and said in the language of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from releases.command import needs
from releases.pages import marked_texts, outside_of_signs

from pipeline.model.texts.catalogue import texts_in
from pipeline.model.texts.sentences import sentence
from pipeline.model.universe import Universe
from pipeline.privacy.accounting import joint, statements
from pipeline.privacy.accounting.joint import household_statement, joint_statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.limits import beyond_limits
from pipeline.release.privacy_statement import privacy_statement
from pipeline.spec.release_spec import parse_spec

SPEC = """
name = "town"
structural_zeros = []
[privacy]
{framework}
neighbours = "{neighbours}"
population = 100
[geography]
file = "f.csv"
column = "block"
levels = {{ county = 1, tract = 3, block = 5 }}
[schema.attributes]
age = ["a", "b", "c", "d"]
sex = ["f", "m"]
[schema.recodes.half]
attribute = "age"
groups = {{ young = ["a", "b"], old = ["c", "d"] }}
[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"
[strategy.queries]
total = "1/2"
detailed = "1/2"
[invariants]
{invariants}
[input]
file = "p.csv"
form = "microdata"
geocode = "block"
[tables]
total = "total"
[companions.homes]
records_per_person = 2
structural_zeros = []
{budget}
schema.attributes.kind = ["x", "y"]
strategy.queries = {{ total = "1/2", kind = "1/2" }}
strategy.levels = {{ county = "1/4", tract = "1/4", block = "1/2" }}
invariants = {{}}
input = {{ file = "h.csv", form = "microdata", geocode = "block" }}
"""
SURVEY = """
name = "survey"
[privacy]
framework = "local"
[collect]
mechanism = "direct_encoding"
parameters = {{ epsilon = "12", memoised = "{memoised}" }}
{central}
[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 1, block = 5 }}
[schema.attributes]
age = ["young", "old", "older"]
"""
CENTRALS = (
    "",
    '[collect.central]\nrelease = "homes"\nrho = "1/7"\nlevels = { county = "1/3" }',
    '[collect.central]\nrelease = "homes"\nepsilon = "2"\nlevels = { county = "1" }',
)
KEPT = (
    "",
    'block = ["total"]',
    'county = ["half"]',
    'county = ["age"]\nblock = ["total"]',
    'county = ["age * sex"]\nblock = ["sex"]',
    'block = ["age * sex"]',
    'block = ["age"]\ntract = ["half"]',
)
ZCDP, PURE = 'rho = "7"\ndelta = "0.01"', 'framework = "pure"\nepsilon = "12"'
#: Names of the spec, and the author and number of the theorem.
DATA = {"age", "sex", "half", "homes", "county", "tract", "block"}


def universes(framework: str, neighbours: str, invariants: str) -> tuple[Universe, ...]:
    budget = 'privacy = { rho = "1" }' if framework == ZCDP else 'privacy = { epsilon = "1" }'
    text = SPEC.format(framework=framework, neighbours=neighbours, invariants=invariants, budget=budget)
    return parse_spec(text).universes()


def said(found: tuple[Universe, ...]) -> Iterator[str]:
    """Everything that statements, accounts and limits of universes say."""
    accounts = [privacy_statements(one, (4,)) for one in found]
    for one, account in zip(found, accounts, strict=True):
        stated = privacy_statement(one, made_elsewhere=True)
        yield from (stated.words, stated.conversion, account.record.words)
        yield from (each.words for each in (*account.attributes, *account.places, *account.groups))
    yield joint_statement(found, accounts).words
    yield joint_statement(found[:1], accounts[:1]).words
    if household := household_statement(found, accounts, "homes", 4):
        yield household.words
    yield from beyond_limits(found)


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("framework", [ZCDP, PURE], ids=["zcdp", "pure"])
def test_every_sentence_is_recognised(framework: str, neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, english = marked_texts(), texts_in("en")
    seen = set()
    for module in (statements, joint):  # distributions of losses take seconds, and are numbers, not words
        monkeypatch.setattr(module, "pld_epsilon", lambda *_: None)
    for invariants in KEPT if neighbours == "change-one" else KEPT[:1]:  # a spec with both is refused
        for words in said(universes(framework, neighbours, invariants)):
            shown = sentence(texts, words)
            assert outside_of_signs(shown) - DATA == set(), words
            assert sentence(english, words) == words.rsplit(": epsilon = ", 1)[0], "English pages say what is stored"
            seen.add(words.split(" epsilon = ")[0])
    assert len(seen) > 6


@needs("local")
@pytest.mark.parametrize("central", CENTRALS, ids=["reports alone", "zcdp above", "pure above"])
@pytest.mark.parametrize("memoised", ["yes", "no"])
def test_every_sentence_about_reports_is_recognised(memoised: str, central: str) -> None:
    texts = marked_texts()
    (survey,) = parse_spec(SURVEY.format(memoised=memoised, central=central)).universes()
    account = privacy_statements(survey)
    stated = privacy_statement(survey)
    found = [stated.words, stated.conversion, account.record.words, *(one.words for one in account.groups)]
    for words in (*found, *beyond_limits([survey])):
        assert outside_of_signs(sentence(texts, words)) - DATA == set(), words
    assert len(account.groups) == (0 if memoised == "yes" else 4) + bool(central)
