"""Brings the catalogues up to date: each language's file has every text of all templates, scripts and modules.

`make texts` writes them; a text that is new has an empty translation, and one that is gone is left out. A new language
is begun by naming it: `python tests/project/report_texts.py fr`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Container, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from pipeline.model.texts.catalogue import collapsed

PROJECT = Path(__file__).parents[2]
#: Their texts come first in a catalogue.
_PAGES = (PROJECT / "features" / "report", PROJECT / "pipeline" / "pages")
LANGUAGES = PROJECT / "pipeline" / "model" / "texts" / "languages"
#: By which name each kind of file asks for a text; the first argument is the text, of `_ALL` each one.
_KEYWORDS = {".py": ("marked", "message", "texts", "_texts", "Message"), ".j2": ("_",), ".js": ("text",)}
_ALL = "all_marked"
_HEADER = "# The texts of pages and exports. English is the key; `make texts` brings the file up to date with the code."


def sources(*suffixes: str) -> list[Path]:
    """The templates, scripts and modules that can have texts, of these suffixes."""
    found = (
        path
        for room in ("pipeline", "features", "flows")
        for path in (PROJECT / room).rglob("*")
        if path.suffix in suffixes
    )
    texts = [path for path in found if path.name not in ("vega.js", "structure.xml.j2")]
    return sorted(texts, key=lambda path: (not {*_PAGES} & {*path.parents}, path))


def wanted() -> dict[str, list[str]]:
    """Every text -> the files that it is in."""
    found: dict[str, list[str]] = {}
    for path in sources(*_KEYWORDS):
        if path.suffix == ".py" and "texts" not in path.read_text("utf-8"):
            continue
        for message in _texts_of(path):
            places = found.setdefault(message, [])
            places += [path.name] if path.name not in places else []
    return found


def _texts_of(path: Path) -> Iterator[str]:
    keywords: dict[str, None] = dict.fromkeys(_KEYWORDS[path.suffix])
    file = BytesIO(path.read_bytes())
    found: Sequence[str | tuple[str | None, ...] | None]
    if path.suffix == ".j2":
        found = [message for _, _, message, _ in babel_extract(file, list(keywords), [], {})]
    elif path.suffix == ".js":
        found = [message for _, message, _, _ in extract("javascript", file, keywords, (), {"encoding": "utf-8"})]
    else:
        found = _texts_of_calls(ast.parse(file.getvalue()), keywords)
    for message in found:
        first = message if isinstance(message, str) or message is None else message[0]
        if first:  # others are looked up by a name, and stand elsewhere
            yield collapsed(first)


def _texts_of_calls(module: ast.Module, names: Container[str]) -> list[str]:
    """The first arguments of calls of these names, and all of `_ALL`, where they are texts, in the module's order."""
    found = []
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        asked = call.args if name == _ALL else call.args[: name in names]
        found += [
            (one.lineno, one.col_offset, one.value)
            for one in asked
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
    return [text for *_, text in sorted(found)]


def update(language: str) -> bytes:
    """The catalogue of a language as it is to be."""
    path = LANGUAGES / f"{language}.po"
    known: dict[str, str] = {}
    if path.exists():
        with path.open("rb") as file:
            known = {str(one.id): str(one.string) for one in read_po(file, locale=language) if one.id}
    catalogue = Catalog(locale=language, header_comment=_HEADER, fuzzy=False)
    for message, places in wanted().items():
        catalogue.add(message, known.get(message, ""), locations=[(name, 0) for name in places])
    written = BytesIO()
    write_po(written, catalogue, width=0, omit_header=True, include_lineno=False)  # where lines end is Babel's choice
    return f'{_HEADER}\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'.encode() + written.getvalue()


def placeholders(text: str) -> list[str]:
    """The names in braces and the tags of a text, sorted: a translation has the same."""
    return sorted(re.findall(r"\{\w+\}|</?\w+[^>]*>", text))


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in LANGUAGES.glob("*.po")):
        (LANGUAGES / f"{name}.po").write_bytes(update(name))
