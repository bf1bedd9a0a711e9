"""Every text of pages, statements and exports has its translation, numbers as each language writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from project.report_texts import LANGUAGES, placeholders, sources, update, wanted
from releases.command import needs
from releases.pages import marked_texts, outside_of_signs
from releases.small import SPEC

from pipeline.model.texts.available import languages
from pipeline.model.texts.catalogue import Numerals, texts_in
from pipeline.model.texts.sentences import sentence
from pipeline.model.universe import Universe
from pipeline.privacy.accounting import joint, statements
from pipeline.privacy.accounting.joint import household_statement, joint_statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.limits import beyond_limits
from pipeline.release.privacy_statement import privacy_statement
from pipeline.spec.release_spec import parse_spec


@pytest.fixture(scope="module")
def texts() -> Mapping[str, list[str]]:
    return wanted()


@pytest.mark.parametrize("language", [tag for tag in languages() if tag != "en"])
def test_each_text_is_translated_with_its_placeholders_and_tags(language: str, texts: Mapping[str, list[str]]) -> None:
    messages = texts_in(language).messages
    assert len(texts) > 600
    assert [text for text in texts if not messages.get(text, "").strip()] == [], "run `make texts`, and translate these"
    assert [text for text in messages if text not in texts] == [], "run `make texts`"
    assert {text: messages[text] for text in texts if placeholders(text) != placeholders(messages[text])} == {}


@pytest.mark.parametrize("path", sorted(LANGUAGES.glob("*.po")), ids=lambda path: path.stem)
def test_a_catalogue_is_as_make_texts_writes_it(path: Path) -> None:
    """What it says, in its order: how its lines are broken is the library's."""
    assert entries(path.read_bytes()) == entries(update(path.stem))


def entries(catalogue: bytes) -> list[tuple[object, ...]]:
    """But for the head, in which Babel puts the minute in which it is read where there is none."""
    return [(one.id, one.string, one.locations) for one in read_po(BytesIO(catalogue)) if one.id]


@pytest.mark.parametrize("path", sources(".js"), ids=lambda path: path.name)
def test_a_script_writes_no_text_past_the_catalogue(path: Path) -> None:
    """Strings with words apart stand in text(...); selectors, policies and errors for programmers do not."""
    script = re.sub(r"(?m)^\s*//.*$", "", path.read_text("utf-8"))
    script = re.sub(r'\btext\("(?:[^"\\]|\\.)*"', "", script)
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`', script)
    words = [re.sub(r"\$\{[^}]*\}", "", first or second) for first, second in strings]
    allowed = (
        "use strict",
        "this page loads nothing",
        "format(datum.value",
        "abs(datum.value)",
        "datum.",
        "prefers-",
        "tbody",
        "iframe",
    )
    spoken = [one for one in words if re.search(r"[A-Za-z]{2,} [a-z(]{2,}", one)]
    assert [one for one in spoken if not any(known in one for known in allowed)] == []


#: Language -> 1234, 12345, 1234.5, 9999999.75 as CLDR 45 writes them.
WRITTEN = {
    "en": ("1,234", "12,345", "1,234.5", "9,999,999.75"),
    "es": ("1234", "12.345", "1234,5", "9.999.999,75"),
    "es-MX": ("1,234", "12,345", "1,234.5", "9,999,999.75"),
    "es-AR": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "pl": ("1234", "12\u00a0345", "1234,5", "9\u00a0999\u00a0999,75"),
    "de": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "pt-PT": ("1234", "12\u00a0345", "1234,5", "9\u00a0999\u00a0999,75"),
    "pt-BR": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "hi": ("1,234", "12,345", "1,234.5", "99,99,999.75"),
}


@pytest.mark.parametrize("language", WRITTEN)
def test_numbers_are_as_the_language_writes_them(language: str) -> None:
    numerals = Numerals(language)
    numbers = (Decimal(1234), Decimal(12345), Decimal("1234.5"), Decimal("9999999.75"))
    assert tuple(map(numerals.decimal, numbers)) == WRITTEN[language]


def test_margins_shares_and_days() -> None:
    spanish = Numerals("es")
    assert [spanish.persons(value) for value in (None, 0.0, 0.4, 12.2, 12345.0)] == ["?", "0", "0,4", "13", "12.345"]
    assert [spanish.percent(value) for value in (0.004, 0.25, 0.996)] == ["< 1 %", "25 %", "> 99 %"]
    assert spanish.percent(0.1234, 1) == "12,3 %"
    assert spanish.fine_margin(0.0123) == "± 0,02"
    assert spanish.decimal(-3.14159, 2, sign=True) == "-3,14"
    assert spanish.decimal(0.0, 1, sign=True) == "+0,0"
    assert spanish.day("2030-04-01") == "1 de abril de 2030"
    assert Numerals("en").day("2030-04-01") == "April 1, 2030"
    assert Numerals("xx-YY").number(12345) == "12,345"


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
    'county = ["grown"]',
    'county = ["age"]\nblock = ["total"]',
    'county = ["age * sex"]\nblock = ["sex"]',
    'block = ["age * sex"]',
    'block = ["age"]\ntract = ["grown"]',
)
ZCDP, PURE = 'rho = "7"\ndelta = "0.01"', 'framework = "pure"\nepsilon = "12"'
#: Names of the spec, and the author and number of the theorem.
DATA = {"age", "sex", "grown", "quarters", "status", "units", "homes", "county", "tract", "block"}


def universes(framework: str, neighbours: str, invariants: str) -> tuple[Universe, ...]:
    """Of the town, with two records of a unit a person."""
    budget = 'privacy = { rho = "1" }' if framework == ZCDP else 'privacy = { epsilon = "1" }'
    text = SPEC
    for old, new in (
        ('rho = "2"', f'{framework}\nneighbours = "{neighbours}"\npopulation = 100'),
        ('county = ["total"]', invariants),
        ('privacy = { rho = "1" }', f"records_per_person = 2\n{budget}"),
        ('invariants = { block = ["total"] }', "invariants = {}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
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
    if household := household_statement(found, accounts, "units", 4):
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
