"""Templates of pages in the language of their texts."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pipeline.model.pages.style import page_style
from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.sentences import sentence

_NUMERALS = ("number", "decimal", "digits", "rounded_up", "persons", "percent", "average", "fine_margin", "day")


def page_template(package: str, name: str, words: Texts, folder: str = "assets") -> Template:
    """A template that escapes all it is given.

    It has `_("...")` for texts of the catalogue, `said` for sentences of statements and messages, the style of all
    pages, their language, and numbers as filters.
    """
    return _environment(package, folder, words).get_template(name)


@cache
def _environment(package: str, folder: str, words: Texts) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "_": words.markup,
        "said": lambda text: words.said(text) if not isinstance(text, str) else sentence(words, text),
        "style": page_style(),
        "language": words.language,
    }
    environment.filters |= {name: getattr(words.numerals, name) for name in _NUMERALS}
    return environment
