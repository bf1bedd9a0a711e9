"""Names and labels are public inputs: published, hashed, and without any influence on a number."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from releases.named import COUNTIES, TRACTS, write_named_town
from releases.small import write_town

from auditor.check.release import examine
from pipeline.published import open_finished, release_at
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import sha256_file


def hashes(root: Path) -> dict[str, str]:
    """Of all public files that are not words."""
    public = release_at(root).public
    files = {path.relative_to(public).as_posix(): path for path in public.rglob("*") if path.is_file()}
    words = ("manifest.json", "report.html", "datapackage.json")
    return {name: sha256_file(path) for name, path in files.items() if name not in words}


def test_no_published_count_depends_on_a_name(town: Path, named_town: Path) -> None:
    """Measurements (so noise), histograms, tables with margins (so seeds), microdata: the same to the last byte."""
    without, with_names = hashes(town), hashes(named_town)
    assert with_names.keys() - without.keys() == {"names/county.parquet", "names/tract.parquet"}
    assert {name: with_names[name] for name in without} == without
    assert len([name for name in without if name.startswith("measurements/")]) >= 6
    for field in ("privacy", "accounts", "joint", "solver", "public_seed"):
        one, other = (getattr(read_manifest(release_at(root).manifest), field) for root in (town, named_town))
        assert one == other, field


def test_names_are_published_in_the_order_of_the_spine(named_town: Path) -> None:
    opened = open_finished(named_town, check_hashes=True)
    county = pq.read_table(opened.run.names("county")).to_pydict()
    assert county == {
        "geocode": ["A", "B"],
        "name:en": [COUNTIES["A"][0], COUNTIES["B"][0]],
        "name:es": [COUNTIES["A"][1], COUNTIES["B"][1]],
    }
    tracts = opened.spine.level("tract").geocodes.tolist()
    assert opened.names["tract"].in_language("es") == [TRACTS[code] for code in tracts]
    assert opened.names["county"].in_language("es-MX") == [COUNTIES[code][1] for code in "AB"]
    assert opened.spec.labels("", "es").answers(opened.universes[0].tables[1].query)[:2] == (
        "young * Mujeres",
        "young * Hombres",
    )


def test_the_checker_wants_each_area_named_once_and_says_its_name(named_town: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(named_town, tmp_path / "town"))
    assert examine(root).problems == []
    opened = release_at(root)
    names, total = opened.names("tract"), opened.main.table("total", "tract")
    frame = pd.read_parquet(names)
    frame.assign(geocode=["A01", *frame["geocode"][:-1]], name=["", *frame["name"][1:]]).to_parquet(names, index=False)
    counts = pd.read_parquet(total)
    counts.assign(total=counts["total"] + 1).to_parquet(total, index=False)
    found = examine(root).problems
    assert "public/names/tract.parquet: tract 'A01' has 2 rows; each area has one" in found
    assert "public/names/tract.parquet: row 1 has no text in column 'name'" in found
    assert any("tract 'A02' (Springfield)" in line for line in found), found
    names.unlink()
    assert "public/names/tract.parquet is missing; by the spec it is published" in examine(root).problems


def test_other_names_are_another_run(tmp_path: Path) -> None:
    """The identity of a run with names has them; one without is as it was before there were names."""
    from pipeline.runs.open_public import open_listed

    spec_file = write_named_town(tmp_path / "town")
    spec = load_spec(spec_file)
    first = open_listed(spec, spec.universes()).identity()
    counties = spec_file.parent / "counties.csv"
    counties.write_text(counties.read_text().replace("Birch", "Beech"))
    second = open_listed(spec, spec.universes()).identity()
    assert [key for key in first if first[key] != second[key]] == ["the names"]
    plain = load_spec(write_town(tmp_path / "plain"))
    assert "the names" not in open_listed(plain, plain.universes()).identity()
