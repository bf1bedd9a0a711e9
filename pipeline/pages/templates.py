"""Pages about a release: what they are made from, in the language of their texts, by templates and scripts.

What pages about a release are made from, and what of a universe they show: all of it public, no table read yet.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from geography.spine import Spine
from pipeline.model.area_names import AreaNames
from pipeline.model.labels import Labels
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.texts.sentences import sentence
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.paths import Readable, unchecked


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseFacts:
    """The public facts of a release.

    Attributes:
        run: whose public/ holds tables and polygons.
        notes: step -> what its solvers report, as the manifest has it.
        receipts: of the run's charges.
        names: of areas, of each level that has some.
        origins: public input, by its name in [provenance] -> where it is from.
    """

    run: RunDirectory
    spec: ReleaseSpec
    status: Status
    universes: tuple[Universe, ...]
    spine: Spine
    notes: Mapping[str, Mapping[str, object]]
    receipts: tuple[Receipt, ...]
    names: AreaNames = field(default_factory=dict)
    origins: Mapping[str, OriginSection] = field(default_factory=dict)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What its universes have in common."""
        return self.spec.links(self.universes)

    @property
    def texts(self) -> Texts:
        """The texts and numbers of the page."""
        return texts_in(self.spec.report.language)

    def words(self, universe: str) -> Words:
        """What its levels and tables are called in the page."""
        return Words(self.spec.labels(universe))

    def readable(self, path: Path) -> Readable:
        """A public file of the run whose report it is, to be read: see `Job.readable`."""
        return unchecked(path)


@dataclass(frozen=True)
class Words:
    """The words of one universe.

    Attributes:
        labels: that the spec states.
    """

    labels: Labels

    def level(self, name: str) -> str:
        """A level."""
        return self.labels.levels.get(name, _spoken(name))

    def table(self, name: str) -> str:
        """A table."""
        return self.labels.tables.get(name, _spoken(name))

    def answers(self, query: Query) -> list[str]:
        """The answers of a query, in their order."""
        labels = self.labels.columns(query)
        return [labels.get(name, _spoken(name)) for name in query.answer_labels()]


def _spoken(name: str) -> str:
    return name.replace("_", " ")


@dataclass(frozen=True)
class Called:
    """What a table at a level, its numbers and its areas are called for people; what is not stated has its own name.

    Attributes:
        table, level: titles, "" where none is stated.
        labels: column -> label.
        names: geocode -> name.
    """

    table: str = ""
    level: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def area(self, geocode: str) -> str:
        """The geocode, with its name if it has one."""
        return f"{self.names[geocode]} ({geocode})" if self.names.get(geocode) else geocode

    def number(self, column: str) -> str:
        """The label of a number of the table."""
        return self.labels.get(column, column)


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
        "style": asset("style.css"),
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
