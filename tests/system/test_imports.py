"""From files as they come to a verified release: the generated spec runs as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import run

from auditor.check.release import examine
from features.imports.pl94171.importer import import_pl94171
from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.execution.progress import Silent
from pipeline.published import release_at
from pipeline.release.manifest import read_manifest
from pipeline.runs.verify import verify_release


def released_and_verified(spec: Path, out: Path, publish: str = "") -> Path:
    """The release of a generated spec, verified and checked; `publish` is added to the spec to save time."""
    text = spec.read_text()
    spec.write_text(text.replace("# accept = ", "accept = "))
    if publish:
        spec.write_text(f"{spec.read_text()}\n[publish]\n{publish}\n")
    root = run(spec, out, workers=2)
    assert verify_release(release_at(root), 2, Silent()) == []
    assert examine(root).problems == []
    return root


@pytest.mark.slow
def test_the_real_summary_file(shared_data: Path, tmp_path: Path) -> None:
    """Nothing in the spec is changed; three histograms are released."""
    imported = import_pl94171(shared_data / "ri2018.pl", tmp_path / "in")
    root = released_and_verified(imported.spec, tmp_path / "out")
    statements = read_manifest(root / "public" / "manifest.json").privacy
    assert [statement.universe for statement in statements] == ["", "quarters", "units"]


@pytest.mark.slow
def test_a_hierarchy_of_zones(shared_data: Path, tmp_path: Path) -> None:
    """Persons and households of SEMCOG."""
    stated = Statement(
        str(shared_data / "semcog_synthetic_persons.parquet"), geography="county,district,taz,maz", records=True,
        attributes="age=ages five-year,sex=sex,race_id", key="household_id", household_attributes="hh_type",
        expect_records=35_769, expect_areas=157,
    )  # fmt: skip
    spec = import_table(stated, tmp_path / "in").spec
    root = released_and_verified(spec, tmp_path / "out", "replicates = 1")
    assert (root / "public" / "companions" / "households" / "histograms").is_dir()


@pytest.mark.slow
def test_the_nation(shared_data: Path, tmp_path: Path) -> None:
    """308,745,538 persons in 187,023 leaves."""
    stated = Statement(
        str(shared_data / "us_2010_national_leaves.parquet"),
        geography="region,division,state,county,leaf",
        wide="pop_{race}",
        expect_records=308_745_538,
        expect_areas=187_023,
    )
    spec = import_table(stated, tmp_path / "in").spec
    released_and_verified(spec, tmp_path / "out", "margins = false\nmicrodata = false")
