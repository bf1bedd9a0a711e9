"""Whatever reads a finished release refuses each file of it that was changed by one bit, or is not there.

The files are those that a reader opens, as the interpreter sees it: none is listed here, so that a new reader that
compares nothing is found.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from releases.changed import not_refused
from releases.command import feature_module, needs, printed
from releases.series_town import YEARS, write_series_town
from releases.small import run, run_period
from releases.surveyed import write_surveyed

from pipeline.execution.steps import Silent
from pipeline.published import open_finished
from pipeline.reading.release import open_release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.runs.open_public import open_published


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names, labels, polygons, a publisher, and persons in households; its files are changed."""
    return run(write_surveyed(tmp_path_factory.mktemp("surveyed")), tmp_path_factory.mktemp("out"))


def _rerun(root: Path) -> None:
    release = open_finished(root, check_hashes=False)
    open_published(release, release.universes)


def _python(root: Path) -> None:
    release = open_release(root)
    for universe in (release, *map(release.companion, release.companions)):
        for table in reader_of(universe).universe.tables:
            universe.table(table.name, table.levels[-1])
        assert reader_of(universe).margins
    for name in release.household_tables:
        release.household_table(name, release.levels[0])
    release.names(reader_of(release).named_levels[0])


def _picture(root: Path) -> None:
    pytest.importorskip("altair")
    from spinewise.pictures import plot

    release = open_release(root)
    level = next(iter(reader_of(release).spec.report.polygons))
    table = next(table for table in reader_of(release).universe.tables if level in table.levels)
    plot(root, table.name, level, number=table.query.answer_labels()[0], kind="map")


def _other_estimator(root: Path) -> None:
    feature_module("features.fitness.other_estimator").estimated_otherwise(RunDirectory(root), 1, Silent())


@pytest.mark.parametrize(
    ("read", "parts"),
    [
        (lambda root: printed("query", root, "total", "--at", "block"), {"spine"}),
        (lambda root: printed("compare", root, root), {"spine"}),
        (_rerun, {"spine", "names", "polygons"}),
        (_python, {"spine", "names", "tables", "companions"}),
        (_picture, {"polygons"}),
        pytest.param(_other_estimator, {"measurements"}, marks=needs("fitness")),
    ],
)
def test_readers_refuse_what_was_changed(surveyed: Path, read, parts: set[str]) -> None:  # type: ignore[no-untyped-def]
    """Each opens files of some parts of the release at least."""
    files, wrong = not_refused(surveyed / "public", lambda: read(surveyed))
    assert {name.split("/")[0].split(".")[0] for name in files} >= parts
    assert len(files) >= 2
    assert wrong == []


@pytest.mark.slow
@needs("exports")
@pytest.mark.parametrize("layout", ["csv", "xlsx", "nmf", "duckdb", "gpkg", "dp-registry"])
def test_exports(surveyed: Path, tmp_path: Path, layout: str) -> None:
    records, numbers = ["--microdata", "--measurements"] if layout == "csv" else [], count()

    def export() -> None:
        printed("export", surveyed, "--format", layout, "--out", tmp_path / str(next(numbers)), *records)

    files, wrong = not_refused(surveyed / "public", export)
    assert len(files) >= (1 if layout == "dp-registry" else 2), files
    assert wrong == []


@needs("years")
def test_a_history(tmp_path: Path) -> None:
    """Of either release of it."""
    spec, out, numbers = write_series_town(tmp_path / "in"), tmp_path / "out", count()
    releases = [run_period(spec, out, year, spec.parent / f"persons-{year}.csv") for year in YEARS[:2]]

    def revise() -> None:
        printed("series", "revise", out, "--out", tmp_path / str(next(numbers)))

    for release in releases:
        files, wrong = not_refused(release / "public", revise)
        assert len(files) > 2
        assert wrong == []
