"""The report of a finished release, made again in another language, and the text that a reader sees of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import cast
from unittest.mock import patch

from project.report_texts import wanted

from features.registry import part_of
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.published import open_finished

#: What stands around every text of the catalogue that shows what is not from it.
OPEN, CLOSE = "\u27e6", "\u27e7"


def marked_texts() -> Texts:
    """A language of which every text is the English between two signs."""
    return Texts("es", {text: f"{OPEN}{text}{CLOSE}" for text in wanted()})


@contextmanager
def everything_marked() -> Iterator[None]:
    """Whatever is said in Spanish in this process is the English between two signs."""
    messages = marked_texts().messages
    texts_in.cache_clear()
    try:
        with patch("pipeline.model.texts.catalogue._messages", lambda _: messages):
            yield
    finally:
        texts_in.cache_clear()


def report_in(root: Path, language: str, texts: Texts | None = None, **changes: object) -> str:
    """The report of a release in a language, with its texts or these, and with other sections of its spec."""
    release = open_finished(root, check_hashes=False)
    report = release.spec.report.model_copy(update={"language": language})
    spec = release.spec.model_copy(update={"report": report, **changes})
    job = Job(release.run, spec, release.universes, release.spine, Workers(1), Silent(), status=release.manifest.status)
    job.notes.update(cast("dict[str, dict[str, object]]", release.manifest.solver))
    written, page = (part_of("report", module) for module in ("written", "page"))
    with patch("pipeline.pages.templates.texts_in", lambda _: texts or texts_in(language)):
        return cast("str", page.report_page(written.report_sources(job)))


class _Visible(HTMLParser):
    """Collects text, and what attributes say aloud; not code, scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style", "code")
        said = dict(attributes)
        self.found += [said[name] or "" for name in ("aria-label", "placeholder", "title", "alt") if name in said]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "code")
        self.found.append("\n" if tag in ("p", "li", "td", "th", "caption", "h1", "h2", "h3", "dt", "dd") else "")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data)


def visible(page: str) -> str:
    """The text of a page, and what is said of its parts."""
    parser = _Visible()
    parser.feed(page)
    return "".join(parser.found)


def outside_of_signs(text: str) -> set[str]:
    """The words of a text that are not between signs."""
    while (inner := re.sub(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}", " ", text)) != text:
        text = inner
    return set(re.findall(r"[^\W\d_]{2,}", text))
