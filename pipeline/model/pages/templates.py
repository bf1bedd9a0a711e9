"""Templates of pages in the language of their texts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.sentences import sentence

_NUMERALS = ("number", "decimal", "digits", "rounded_up", "persons", "percent", "average", "fine_margin", "day")


def content_policy(scripts: Sequence[str] = (), *, loads: bool = False) -> str:
    """The Content-Security-Policy of a page: its own scripts, by their hashes, and nothing else, from nowhere.

    Args:
        scripts: texts of the script elements that run.
        loads: they may load others, which hold data.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    allowed = (hashes or "'none'") + (" 'strict-dynamic'" if loads else "")
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def page_template(package: str, name: str, words: Texts, folder: str = "assets") -> Template:
    """A template that escapes all it is given.

    It has `_("...")` for texts of the catalogue, `said` for sentences of statements and messages, the style of all
    pages, their language, the policy of a page without scripts, and numbers as filters.
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
        "policy": content_policy(),
    }
    environment.filters |= {name: getattr(words.numerals, name) for name in _NUMERALS}
    return environment


# -- the style of every page ------------------------------------------------------------------------------------------


@cache
def page_style() -> str:
    """The CSS, which stands in each page itself: a page needs no other file."""
    return resources.files("pipeline.model.pages").joinpath("assets", "style.css").read_text(encoding="utf-8")
