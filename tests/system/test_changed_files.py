"""Whatever reads a finished release refuses each file of it that was changed by one bit, or is not there.

The files are those that a reader opens, as the interpreter sees it: none is listed here, so that a new reader that
compares nothing is found.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from oracles.how_many import turns
from releases.changed import not_refused
from releases.command import feature_module, needs, printed
from releases.series_town import YEARS, write_series_town
from releases.small import run, run_period
from releases.surveyed import write_surveyed

from pipeline.execution.progress import Silent
from pipeline.published import open_finished
from pipeline.reading.release import open_release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.runs.open_public import open_published


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households; its files are changed."""
    return run(write_surveyed(tmp_path_factory.mktemp("surveyed")), tmp_path_factory.mktemp("out"))


def _fresh(folder: Path) -> Callable[[], Path]:
    numbers = count()
    return lambda: folder / str(next(numbers))


_EXPORTS = ("csv", "xlsx", "parquet", "sdmx", "nmf", "duckdb", "gpkg", "geoparquet", "dp-registry")
#: Commands on a release, with how many of its files each opens at least.
_COMMANDS: dict[str, tuple[int, list[str]]] = {
    "query a table": (2, ["query", "RELEASE", "--table", "detailed", "--at", "tract"]),
    "query sums": (3, ["query", "RELEASE", "total", "--at", "block"]),
    "compare": (5, ["compare", "RELEASE", "RELEASE"]),
}


def _check(release: Path, least: int, words: list[str], tmp_path: Path) -> None:
    new = _fresh(tmp_path)

    def read() -> None:
        printed(*(release if word == "RELEASE" else new() if word == "NEW" else word for word in words))

    files, wrong = not_refused(release / "public", read)
    assert len(files) >= least, files
    assert wrong == []


@pytest.mark.parametrize("name", _COMMANDS)
def test_commands(surveyed: Path, tmp_path: Path, name: str) -> None:
    _check(surveyed, *_COMMANDS[name], tmp_path)


@pytest.mark.slow
@needs("exports")
@pytest.mark.parametrize("layout", turns(_EXPORTS, 3))
def test_exports(surveyed: Path, tmp_path: Path, layout: str) -> None:
    records = ["--microdata", "--measurements"] if layout in ("csv", "parquet") else []
    words = ["export", "RELEASE", "--format", layout, "--out", "NEW", *records]
    _check(surveyed, 1 if layout == "dp-registry" else 2, words, tmp_path)


@needs("fitness")
def test_fitness(surveyed: Path, tmp_path: Path) -> None:
    _check(surveyed, 3, ["fitness", "RELEASE", "--json"], tmp_path)


@needs("fitness")
def test_the_other_estimator(surveyed: Path) -> None:
    estimated_otherwise = feature_module("features.fitness.other_estimator").estimated_otherwise
    files, wrong = not_refused(surveyed / "public", lambda: estimated_otherwise(RunDirectory(surveyed), 1, Silent()))
    assert any(name.startswith("measurements/") for name in files)
    assert wrong == []


def test_what_a_rerun_reads_of_a_release(surveyed: Path) -> None:
    def read() -> None:
        release = open_finished(surveyed, check_hashes=False)
        open_published(release, release.universes)

    files, wrong = not_refused(surveyed / "public", read)
    assert {name.split("/")[0].split(".")[0] for name in files} >= {"spine", "names", "polygons"}
    assert wrong == []


def test_the_reader(surveyed: Path) -> None:
    def read() -> None:
        release = open_release(surveyed)
        for universe in (release, *map(release.companion, release.companions)):
            for table in reader_of(universe).universe.tables:
                universe.table(table.name, table.levels[-1])
            assert reader_of(universe).half_widths
        for name in release.household_tables:
            release.household_table(name, release.levels[0])
        release.names(reader_of(release).named_levels[0])

    files, wrong = not_refused(surveyed / "public", read)
    assert {name.split("/")[0].split(".")[0] for name in files} >= {"spine", "names", "tables", "companions"}
    assert wrong == []


def test_pictures(surveyed: Path) -> None:
    pytest.importorskip("altair")
    from spinewise.pictures import plot

    release = open_release(surveyed)
    level = next(iter(reader_of(release).spec.report.polygons))
    table = next(table for table in reader_of(release).universe.tables if level in table.levels)
    number = table.query.answer_labels()[0]
    files, wrong = not_refused(
        surveyed / "public", lambda: plot(surveyed, table.name, level, number=number, kind="map")
    )
    assert any(name.startswith("polygons/") for name in files)
    assert wrong == []


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a series of two releases, whose files are changed."""
    spec, out = write_series_town(tmp_path_factory.mktemp("series")), tmp_path_factory.mktemp("out")
    for year in YEARS[:2]:
        run_period(spec, out, year, spec.parent / f"persons-{year}.csv")
    return out


@needs("years")
@pytest.mark.parametrize("number", [0, 1])
def test_a_history(series: Path, tmp_path: Path, number: int) -> None:
    """Of either release of it."""
    release, new = sorted(series.iterdir())[number], _fresh(tmp_path)
    files, wrong = not_refused(release / "public", lambda: printed("series", "revise", series, "--out", new()))
    assert len(files) > 2
    assert wrong == []
