"""The texts of pages and exports: English stands in the code, every other language in a file of `languages/`.

A text is its own key, as in gettext: `languages/es.po` holds the Spanish of each. `tests/project/report_texts.py`
brings the files up to date with templates, scripts and modules; a test asserts that each text has its translation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from babel.messages.pofile import read_po
from markupsafe import Markup

from pipeline.model.texts.available import SOURCE, catalogue_file, languages
from pipeline.model.texts.message import Message
from pipeline.model.texts.numerals import Numerals

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
