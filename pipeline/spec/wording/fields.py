"""The kinds of fields that hold words for people, in one language or in several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from pipeline.spec.fields import Misfit, describe, is_public, pairs_of

#: The key of a text whose language is not stated.
UNSTATED = ""
#: Characters of a name or label.
LONGEST = 300
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")
#: Characters that turn the text after them around, so that it reads otherwise than it is.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_language(tag: str) -> str:
    """`tag` if it is a language tag such as "es"; ValueError otherwise."""
    if not _LANGUAGE.fullmatch(tag):
        raise ValueError(f'found {describe(tag)}; a language is a tag such as "en", "es", "pt-BR" or "zh-Hant"')
    return tag


def unfit(text: str, *, lines: bool = False) -> str:
    """Why a text cannot be shown to people, "" if it can; `lines`: it may have several."""
    if not text.strip():
        return "is empty"
    if len(text) > LONGEST and not lines:
        return f"has {len(text):,} characters; at most {LONGEST} are allowed"
    for character in text:
        if lines and character == "\n":
            continue
        if character in _TURNING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            return f"has the control character U+{ord(character):04X}; letters, digits, signs and blanks are allowed"
    return ""


def _line(value: object, *, lines: bool = False) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {describe(value)}; text in quotes is needed")
    text = value.replace("\r\n", "\n").strip() if lines else value
    if problem := unfit(text, lines=lines):
        raise ValueError(f"found {describe(value)}, which {problem}")
    return text.strip()


def _texts(value: object, info: ValidationInfo) -> dict[str, str]:
    """Language -> text, from one text or a table of languages."""
    if is_public(info) and isinstance(value, list):
        value = pairs_of(value, "pairs of a language and a text are needed", "each language stands once")
    if isinstance(value, str):
        return {UNSTATED: _line(value)}
    if not isinstance(value, Mapping) or not value:
        raise ValueError(
            f'found {describe(value)}; text is needed, or a table of languages, {{ en = "...", es = "..." }}'
        )
    problems, texts = [], {}
    for language, text in value.items():
        try:
            texts[language if language == UNSTATED and is_public(info) else check_language(language)] = _line(text)
        except ValueError as error:
            problems.append((str(language), str(error)))
    if problems:
        raise Misfit(*problems)
    return texts


def _date(value: object) -> str:
    """An ISO date, of text or of TOML's own dates."""
    if isinstance(value, date):
        return value.isoformat()[:10]
    try:
        return date.fromisoformat(str(value)).isoformat() if isinstance(value, str) and len(value) == 10 else _no(value)
    except ValueError:
        return _no(value)


def _no(value: object) -> str:
    raise ValueError(f"found {describe(value)}; a date is needed, such as 2030-04-01")


#: A line of text.
Line = Annotated[str, BeforeValidator(_line)]
#: A text that may have several lines.
Paragraph = Annotated[str, BeforeValidator(partial(_line, lines=True))]
#: A text in one language, or in several: language -> text, "" for the language that is not stated.
Texts = Annotated[dict[str, str], BeforeValidator(_texts, json_schema_input_type=str | dict[str, str])]
#: A language tag.
Language = Annotated[str, AfterValidator(check_language)]
#: A day, as ISO text.
Day = Annotated[str, BeforeValidator(_date)]
