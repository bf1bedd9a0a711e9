"""The report in another language: no English is left in it, and numbers and days are as that language writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from releases.pages import english_in, marked_texts, outside_of_signs, report_in, visible

from pipeline.reading.release import open_release, reader_of

#: Words of the town's spec and its units: names of levels, tables, queries and attributes, and what is in the notes.
DATA = set(
    re.findall(
        r"\w+",
        "county tract block total sex detail detailed grown status units Adults Sexo Condado habitantes edad "
        "Office of Towns counts town example CC BY The town people The first note is too building students dorm "
        "abril de",
    )
)


@pytest.fixture(scope="module")
def spanish(named_town: Path) -> str:
    return report_in(named_town, "es")


def test_whatever_the_page_says_is_from_the_catalogue(named_town: Path) -> None:
    """Every text is between signs; what is not is a word of the spec."""
    page = report_in(named_town, "es", marked_texts())
    text = visible(page)
    assert text.count("\u27e6") > 150
    assert outside_of_signs(text) - DATA == set()


def test_no_english_is_left_in_the_spanish_page(named_town: Path, spanish: str) -> None:
    text = re.sub(r"\s+", " ", visible(spanish))
    assert english_in(text) == []
    assert len(english_in(visible(report_in(named_town, "en")))) > 80
    assert '<html lang="es">' in spanish
    assert "Los números" in text
    assert "Fecha de referencia: 1 de abril de 2030." in text


@pytest.mark.parametrize(
    ("records", "unit", "whom"),
    [
        (None, None, "any one person"),
        ({"en": "homes"}, None, "any one of the homes"),
        ({"en": "visits"}, "patient", "any one unit (“patient”)"),
    ],
)
def test_it_says_of_whom_little_can_be_learnt(
    named_town: Path, records: dict[str, str] | None, unit: str | None, whom: str
) -> None:
    """A person only where the spec names neither what a record is nor a column of units."""
    spec = reader_of(open_release(named_town)).spec
    assert spec.schema_section.labels is not None
    labels = spec.schema_section.labels.model_copy(update={"records": records})
    schema = spec.schema_section.model_copy(update={"labels": labels})
    privacy = spec.privacy.model_copy(update={"unit": unit, "at_most": unit and 2})
    text = visible(report_in(named_town, "en", schema_section=schema, privacy=privacy))
    assert f"there is a limit on what they can learn about {whom} from this release" in text
    assert f"makes a guess about {whom} can improve the odds" in text


def test_a_language_of_names_alone_leaves_the_texts_in_english(named_town: Path) -> None:
    page = report_in(named_town, "mi")
    assert '<html lang="en">' in page
    assert "Key facts" in visible(page)
