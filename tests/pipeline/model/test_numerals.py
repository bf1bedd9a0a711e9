"""Numbers and days as the Unicode CLDR has them for each language."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pipeline.model.texts.catalogue import Numerals

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
