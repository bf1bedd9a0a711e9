"""Every text of pages and exports has its translation, and nothing is written past the catalogue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from project.report_texts import LANGUAGES, placeholders, sources, update, wanted

from pipeline.model.texts.available import languages
from pipeline.model.texts.catalogue import texts_in

#: Words that are the same in every language.
FORMATS = {"PNG", "SVG", "CSV", "RMSE", "MAE", "MAPE", "MALPE", "CV", "TAES"}


@pytest.fixture(scope="module")
def texts() -> Mapping[str, list[str]]:
    return wanted()


@pytest.mark.parametrize("language", [tag for tag in languages() if tag != "en"])
def test_each_text_is_translated_with_its_placeholders_and_tags(language: str, texts: Mapping[str, list[str]]) -> None:
    messages = texts_in(language).messages
    assert len(texts) > 600
    assert [text for text in texts if not messages.get(text, "").strip()] == [], "run `make texts`, and translate these"
    assert [text for text in messages if text not in texts] == [], "run `make texts`"
    assert {text: messages[text] for text in texts if placeholders(text) != placeholders(messages[text])} == {}


@pytest.mark.parametrize("path", sorted(LANGUAGES.glob("*.po")), ids=lambda path: path.stem)
def test_a_catalogue_is_as_make_texts_writes_it(path: Path) -> None:
    """What it says, in its order: how its lines are broken is the library's."""
    assert entries(path.read_bytes()) == entries(update(path.stem))


def entries(catalogue: bytes) -> list[tuple[object, ...]]:
    """But for the head, in which Babel puts the minute in which it is read where there is none."""
    return [(one.id, one.string, one.locations) for one in read_po(BytesIO(catalogue)) if one.id]


@pytest.mark.parametrize("path", sources(".j2"), ids=lambda path: path.name)
def test_a_template_writes_no_text_past_the_catalogue(path: Path) -> None:
    """What is left of a template without its expressions, tags and attributes that are not read has no words."""
    template = path.read_text("utf-8")
    template = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|<code>[^<]*</code>|\{#.*?#\}", "", template, flags=re.S)
    read = re.findall(r'(?:aria-label|placeholder|title|alt)="([^"]*)"', template)
    shown = re.sub(r"<[^>]*>", "\n", template)
    shown = shown.replace("spinewise verify RELEASE_DIR", "")
    shown = shown.replace("spinewise verify RELEASE_DIR --constraints", "")
    assert [line for line in [*shown.splitlines(), *read] if set(re.findall(r"[A-Za-z]{2,}", line)) - FORMATS] == []


@pytest.mark.parametrize("path", sources(".js"), ids=lambda path: path.name)
def test_a_script_writes_no_text_past_the_catalogue(path: Path) -> None:
    """Strings with words apart stand in text(...); selectors, policies and errors for programmers do not."""
    script = re.sub(r"(?m)^\s*//.*$", "", path.read_text("utf-8"))
    script = re.sub(r'\btext\("(?:[^"\\]|\\.)*"', "", script)
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`', script)
    words = [re.sub(r"\$\{[^}]*\}", "", first or second) for first, second in strings]
    allowed = (
        "use strict",
        "this page loads nothing",
        "format(datum.value",
        "abs(datum.value)",
        "datum.",
        "prefers-",
        "tbody",
        "iframe",
    )
    spoken = [one for one in words if re.search(r"[A-Za-z]{2,} [a-z(]{2,}", one)]
    assert [one for one in spoken if not any(known in one for known in allowed)] == []
