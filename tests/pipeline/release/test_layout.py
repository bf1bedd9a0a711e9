"""Every file of a run has one place, and no name can lead out of the run's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory, file_name, query_file_name

ROOT = Path("/out/release")
RUN = RunDirectory(ROOT)


def test_the_paths_are_those_of_the_design() -> None:
    found = [
        RUN.manifest,
        RUN.spine,
        RUN.report,
        RUN.main.histogram("tract"),
        RUN.main.table("race", "tract"),
        RUN.main.microdata,
        RUN.main.measurement("block", "votingage * hispanic"),
        RUN.main.invariant("state", "total"),
        RUN.main.estimates("tract"),
        RUN.universe("units").table("tenure", "tract"),
        RUN.universe("units").measurement("block", "tenure"),
        RUN.key,
        RUN.record,
        RUN.main.true_histogram("block"),
        RUN.universe("units").true_histogram("block"),
        RUN.staging,
        RUN.lock,
        RUN.log,
    ]
    assert [str(path.relative_to(ROOT)) for path in found] == [
        "public/manifest.json",
        "public/spine.parquet",
        "public/report.html",
        "public/histograms/tract.parquet",
        "public/tables/race/tract.parquet",
        "public/microdata.parquet",
        "public/measurements/block/votingage.hispanic.parquet",
        "public/invariants/state/total.parquet",
        "public/estimates/tract.parquet",
        "public/companions/units/tables/tenure/tract.parquet",
        "public/companions/units/measurements/block/tenure.parquet",
        "restricted/key",
        "restricted/run.json",
        "restricted/histograms/block.parquet",
        "restricted/companions/units/histograms/block.parquet",
        "restricted/staging",
        "restricted/lock",
        "restricted/run.log",
    ]
    assert RUN.universe("") == RUN.main


@pytest.mark.parametrize(
    ("query", "name"), [("total", "total"), ("votingage * hispanic", "votingage.hispanic"), ("a*b * c", "a.b.c")]
)
def test_a_query_names_its_file_however_it_is_spaced(query: str, name: str) -> None:
    assert query_file_name(query) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-x", "a b", "x.", "a\0", "a\n", "x" * 201]
)
def test_a_name_that_cannot_be_a_file_is_refused_by_its_kind(name: str) -> None:
    with pytest.raises(InputError, match=r"level .* is to name a file"):
        file_name("level", name)
    for use in (RUN.main.histogram, lambda text: RUN.main.table(text, "x"), lambda text: RUN.main.table("x", text)):
        with pytest.raises(InputError):
            use(name)
    if name:
        with pytest.raises(InputError):
            RUN.universe(name)


@pytest.mark.parametrize("name", ["block_group", "Gemeinde-2020", "Größe", "a.b", "x" * 200])
def test_common_names_are_allowed(name: str) -> None:
    assert file_name("level", name) == name
