"""Every text of pages, statements and exports has its translation, numbers as each language writes them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from project.report_texts import LANGUAGES, placeholders, update, wanted

from pipeline.model.texts.available import languages
from pipeline.model.texts.catalogue import Numerals, texts_in


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
