"""The texts of pages and exports: English stands in the code, every other language in a file of `languages/`.

A text is its own key, as in gettext: `languages/es.po` holds the Spanish of each. `tests/project/report_texts.py`
brings the files up to date with templates, scripts and modules; a test asserts that each text has its translation.

Numbers and days as text in the locale of a language, by the Unicode CLDR that Babel carries.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache

from babel import Locale, UnknownLocaleError
from babel.core import get_global
from babel.dates import format_date
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from markupsafe import Markup

from pipeline.model.texts.available import SOURCE, catalogue_file, languages
from pipeline.model.texts.message import Message

#: Digits that must stand before the first separator of thousands, where it is not 1 (CLDR's minimumGroupingDigits,
#: which Babel leaves out): 1234 is "1234" in Spain and "1,234" in Mexico. A locale has that of the nearest one here.
_MINIMUM_GROUPING = {
    "bg": 2, "es": 2, "es_419": 1, "et": 2, "hu": 2, "it": 2, "lv": 2, "pl": 2, "pt_PT": 2, "sl": 2,
}  # fmt: skip
_NUMERAL = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Numerals:
    """The numbers of one language.

    Attributes:
        language: a tag such as "es-MX"; one that CLDR does not have counts as its base language, or English.
    """

    language: str

    @property
    def locale(self) -> Locale:
        """The locale of the language."""
        for tag in (self.language, self.language.partition("-")[0]):
            try:
                return Locale.parse(tag, sep="-")
            except (UnknownLocaleError, ValueError):
                continue
        return Locale("en")

    def decimal(self, value: Decimal | float, places: int | None = None, *, sign: bool = False) -> str:
        """ "1,234.5"; with so many decimals, or those that a `Decimal` has; `sign`: also of what is positive."""
        text = f"{value:.{places}f}" if places is not None else f"{value:f}"
        exact = Decimal(text) or Decimal(text.lstrip("-"))  # what is rounded to 0 has no sign of its own
        fraction = "0" * len(text.partition(".")[2])
        minimum = _minimum_grouping(str(self.locale))
        grouped = abs(int(exact)) >= 1000 * 10 ** (minimum - 1)
        whole = self.locale.decimal_formats[None].pattern.partition(".")[0] if grouped else "0"
        pattern = whole + ("." + fraction if fraction else "")
        return ("+" if sign and exact >= 0 else "") + format_decimal(exact, pattern, locale=self.locale)

    def number(self, value: int) -> str:
        """ "1,234"."""
        return self.decimal(Decimal(int(value)))

    def digits(self, text: str) -> str:
        """A decimal of a statement, such as "2.56", digit by digit; other text, such as "1e-10", as it is."""
        return self.decimal(Decimal(text)) if _NUMERAL.fullmatch(text) else text

    def persons(self, value: float | None) -> str:
        """A margin for people: whole from 10 on, with one decimal below, "?" where it is not known."""
        if value is None:
            return "?"
        if value >= 10 or value == int(value):
            return self.number(-int(-value // 1))
        return self.decimal(value, 1)

    def average(self, value: float | None, decimals: int = 2) -> str:
        """An average, "?" where there is none."""
        return "?" if value is None else self.decimal(value, decimals)

    def fine_margin(self, value: float | None) -> str:
        """The margin of an average, rounded up to two decimals, or to the first digits of a smaller one."""
        if value is None:
            return "?"
        decimals = next((places for places in range(2, 9) if value >= 5 * 10.0 ** (-places - 1)), 2)
        return f"± {self.decimal(math.ceil(value * 10**decimals - 1e-9) / 10**decimals, decimals)}"

    def percent(self, value: float, places: int = 0) -> str:
        """ "12 %"; where it is rounded to whole ones, never 0 % or 100 % of what is neither."""
        if not places and 0 < value < 0.01:
            return "< 1 %"
        if not places and 0.99 < value < 1:
            return "> 99 %"
        return f"{self.decimal(100 * value, places)} %"

    def day(self, iso: str) -> str:
        """ "April 1, 2030" of "2030-04-01"."""
        return format_date(date.fromisoformat(iso), "long", locale=self.locale)


def _minimum_grouping(locale: str) -> int:
    while locale not in _MINIMUM_GROUPING:
        parent = get_global("parent_exceptions").get(locale, locale.rpartition("_")[0])
        if not parent or parent == "root":
            return 1
        locale = parent
    return _MINIMUM_GROUPING[locale]


_IN_SCRIPTS = re.compile(r'\btext\(\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts and numbers of a page.

    Attributes:
        language: tag of the page and of its numbers, such as "es-MX".
        messages: English -> the language.
    """

    language: str = SOURCE
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def numerals(self) -> Numerals:
        """The numbers of the language."""
        return Numerals(self.language)

    def __call__(self, message: str, **values: object) -> str:
        """A text, with whole numbers as the language writes them.

        Args:
            message: the English, with `{name}` for each value; blanks and ends of lines count as one blank.
            values: name -> text or whole number.
        """
        return self._found(message).format(**self._written(values))

    def markup(self, message: str, **values: object) -> Markup:
        """The same of a text that is HTML, whose values are escaped."""
        return Markup(self._found(message)).format(**self._written(values))

    def said(self, message: Message) -> str:
        """A message that was made elsewhere."""
        values = {name: self.said(one) if isinstance(one, Message) else one for name, one in message.values}
        return self(message.text, **values)

    def of_scripts(self, scripts: str) -> dict[str, str]:
        """English -> the language, of the texts that scripts ask for."""
        wanted = {json.loads(f'"{found}"') for found in _IN_SCRIPTS.findall(scripts)}
        return {message: self.messages[message] for message in sorted(wanted) if message in self.messages}

    def _found(self, message: str) -> str:
        key = collapsed(message)
        return self.messages.get(key, key)

    def _written(self, values: Mapping[str, object]) -> dict[str, object]:
        return {
            name: self.numerals.number(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for name, value in values.items()
        }


def collapsed(message: str) -> str:
    """A message as the catalogue has it: on one line."""
    return " ".join(message.split()) if "\n" in message else message


@cache
def texts_in(language: str | None) -> Texts:
    """The texts of a language, or of its base language; English, with English numbers, where there are none.

    Args:
        language: a tag; None for English.
    """
    wanted = language or SOURCE
    for tag in (wanted, wanted.partition("-")[0]):
        if tag == SOURCE:
            return Texts(wanted)
        if tag in languages():
            return Texts(wanted, _messages(tag))
    return Texts()


def _messages(tag: str) -> dict[str, str]:
    with catalogue_file(tag).open("rb") as file:
        catalogue = read_po(file, locale=tag.replace("-", "_"))
    return {str(one.id): str(one.string) for one in catalogue if one.id and one.string and not one.fuzzy}
