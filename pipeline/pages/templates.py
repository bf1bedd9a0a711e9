"""Pages in the language of their texts: templates, scripts with the policy that allows them, and the style of all."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.sentences import sentence

#: The package of the scripts that pages share.
_SHARED = "pipeline.pages"
_NUMERALS = ("number", "decimal", "digits", "persons", "percent", "average", "fine_margin", "day")


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


# -- pages with scripts -----------------------------------------------------------------------------------------------


def render(
    package: str, template: str, scripts: Sequence[str], words: Texts, *, loads: bool = False, **context: object
) -> str:
    """A page of a package's templates, with its scripts and the policy that allows these scripts and nothing else.

    Args:
        package: that the template is in.
        template: file of its `assets/`.
        scripts: files of its `assets/`, or of those that pages share, in their order.
        words: of the page's language; templates have them as `_(...)`, scripts as `text(...)`.
        loads: its scripts may load others, which hold data.
        context: what the template names.
    """
    texts = [asset(name, package) for name in scripts]
    spoken = script_json(words.of_scripts("\n".join(texts)))
    page = page_template(package, template, words)
    return page.render(
        policy=content_policy(texts, loads=loads),
        scripts=texts,
        script_texts=spoken,
        loads=loads,
        **context,
    )


@cache
def asset(name: str, package: str = _SHARED) -> str:
    """The text of a file of a package's pages; of one that it does not have, of those that pages share."""
    own = resources.files(package).joinpath("assets", name)
    found = own if own.is_file() else resources.files(_SHARED).joinpath("assets", name)
    return found.read_text(encoding="utf-8")


def script_json(content: object) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# -- the style of every page ------------------------------------------------------------------------------------------


@cache
def page_style() -> str:
    """The CSS, which stands in each page itself: a page needs no other file."""
    return resources.files(_SHARED).joinpath("assets", "style.css").read_text(encoding="utf-8")
