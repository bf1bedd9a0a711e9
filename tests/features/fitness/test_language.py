"""The page of a release's fitness in another language: whatever it says is from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from releases.command import printed
from releases.named import write_named_town
from releases.pages import (
    OPEN,
    data_of,
    english_in,
    english_words,
    everything_marked,
    marked_texts,
    outside_of_signs,
    visible,
)
from releases.small import run

from features.fitness.confidential import _judged
from features.fitness.other_estimator import estimated_otherwise
from pipeline.execution.progress import Silent
from pipeline.model.texts.catalogue import texts_in
from pipeline.published import open_finished
from pipeline.reading.release import open_release


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spanish")
    return write_named_town(folder / "town", ('title = "The', 'language = "es"\ntitle = "The'))


@pytest.fixture(scope="module")
def town(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(spec, tmp_path_factory.mktemp("released"))


@pytest.fixture
def marked() -> Iterator[None]:
    with everything_marked():
        yield


def plan_of(root: Path, path: Path) -> Path:
    codes = open_finished(root, check_hashes=False).spine.leaf_level.geocodes.tolist()
    path.write_text("block,district\n" + "".join(f"{code},{number % 3}\n" for number, code in enumerate(codes)))
    return path


@pytest.mark.usefixtures("marked")
def test_the_fitness_from_public_files(town: Path, tmp_path: Path) -> None:
    page, plan = tmp_path / "fitness.html", plan_of(town, tmp_path / "plan.csv")
    choices = ("--plan", plan, "--minority", "sex=f", "--threshold", "60", "--html", page)
    printed("fitness", town, *choices)
    text = visible(page.read_text("utf-8"))
    assert text.count(OPEN) > 100
    assert outside_of_signs(text) - data_of(town) == set()


def test_the_fitness_against_the_truth(town: Path) -> None:
    release = open_release(town)
    releases = [release, release.companion("units")]
    others = estimated_otherwise(release.run, 1, Silent())
    found = _judged(releases, (60,), ("tract",), None, (), others)
    text = visible(found.page(marked_texts()))
    assert outside_of_signs(text) - data_of(town) == set()
    spanish = visible(found.page(texts_in("es")))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    assert "Intercambio de registros: el 10 % de los registros" in spanish
