"""The page of a release's fitness in another language: whatever it says is from the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.command import printed
from releases.pages import (
    OPEN,
    data_of,
    english_in,
    english_words,
    marked_texts,
    outside_of_signs,
    visible,
)

from features.fitness.confidential import _judged
from features.fitness.other_estimator import estimated_otherwise
from pipeline.execution.progress import Silent
from pipeline.model.texts.catalogue import texts_in
from pipeline.reading.reader import open_reader


@pytest.mark.usefixtures("marked")
def test_the_fitness_from_public_files(spanish_town: Path, tmp_path: Path) -> None:
    page = tmp_path / "fitness.html"
    printed("fitness", spanish_town, "--threshold", "60", "--html", page)
    text = visible(page.read_text("utf-8"))
    assert text.count(OPEN) > 80
    assert outside_of_signs(text) - data_of(spanish_town) == set()


def test_the_fitness_against_the_truth(spanish_town: Path) -> None:
    release = open_reader(spanish_town)
    releases = [release, release.companion("units")]
    others = estimated_otherwise(release.run, 1, Silent())
    found = _judged(releases, (60,), ("tract",), others)
    text = visible(found.page(marked_texts()))
    assert outside_of_signs(text) - data_of(spanish_town) == set()
    spanish = visible(found.page(texts_in("es")))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    assert "Intercambio de registros: el 10 % de los registros" in spanish
