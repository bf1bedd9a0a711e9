"""Releases whose areas share persons as public numbers do: run, verified, run again, cut, and refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.again import computed_again
from releases.command import needs
from releases.mutant import resealed
from releases.shared_town import SHARES, write_shared_town
from releases.small import public_bytes, request_of, run

from auditor.check.release import check_release
from auditor.program import audit
from pipeline.errors import InputError, SpecError
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.publishing.provenance import check_provenance
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec

#: In place of SHARES.
_WITHOUT = '[postprocess]\nsolver = "batched"\n\n[companions.units]'


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    return run(write_shared_town(folder), folder / "out")


def test_the_blocks_are_nearer_to_the_truth_and_the_counties_the_same(shared: Path, tmp_path: Path) -> None:
    plain = run(write_shared_town(tmp_path, (SHARES, _WITHOUT)), tmp_path / "out")
    errors = []
    for root in (shared, plain):
        released = pq.read_table(root / "public/tables/total/block.parquet").to_pandas()
        truth = pd.read_csv(tmp_path / "persons.csv").groupby("block").size().reindex(released.geocode, fill_value=0)
        errors.append(abs(released["total"].to_numpy() - truth.to_numpy()).sum())
    assert errors[0] < 0.7 * errors[1]
    county = [pq.read_table(root / "public/tables/total/county.parquet") for root in (shared, plain)]
    assert county[0].column("total").equals(county[1].column("total"))
    for name in ("block/total", "tract/detailed"):
        measured = [(root / f"public/measurements/{name}.parquet").read_bytes() for root in (shared, plain)]
        assert measured[0] == measured[1]
    assert not (plain / "public" / "shares").exists()
    assert "shares" not in str(read_manifest(RunDirectory(plain).manifest).solver)


def test_an_independent_check_knows_the_public_numbers(shared: Path, tmp_path: Path) -> None:
    assert check_release(shared) == []
    root = shutil.copytree(shared, tmp_path / "town")
    path = root / "public/shares/beds.parquet"
    table = pd.read_parquet(path)
    table.loc[3, "number_1"] = -1.0
    table.iloc[:-1].to_parquet(path, index=False)
    found = "\n".join(check_release(root))
    assert "public/shares/beds.parquet: row 4 has -1.0; numbers from 0 are allowed" in found
    assert "has 0 rows; each area has one" in found


@pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.slow), 250])
def test_the_public_files_do_not_show_the_cut(shared: Path, tmp_path: Path, part: int) -> None:
    with computed_again(shared, tmp_path / "town", 1, part) as job:
        assert isinstance(estimation_of(job, job.universes[0]), SubtreeEstimation)
        told = perform_public_steps(job)
    expected = public_bytes(shared)
    assert public_bytes(tmp_path / "town") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}
    assert told == read_manifest(RunDirectory(shared).manifest).solver


def test_the_manifest_states_the_spread_of_each_level_and_the_hash_of_the_file(shared: Path) -> None:
    manifest = read_manifest(RunDirectory(shared).manifest)
    note = manifest.solver["estimate block"]
    assert isinstance(note, dict)
    found = note["shares"]
    assert isinstance(found, dict)
    assert list(found) == ["beds", "quarters"]
    assert found["beds"]["total"]["tau2"] > 0  # type: ignore[index,call-overload,operator]
    assert "shares/beds.parquet" in manifest.files
    provenance = {one.name: one for one in manifest.provenance}
    assert provenance["shares"].source == "public"
    assert len(provenance["shares"].sha256) == 64


@needs("report")
def test_the_report_says_that_areas_are_drawn_towards_their_neighbours(shared: Path, town: Path) -> None:
    page = (shared / "public" / "report.html").read_text()
    assert "Areas unlike their neighbours are drawn towards them" in page
    assert '<th scope="row">beds</th><td>beds</td><td>block</td><td>total</td>' in page
    assert "drawn towards them" not in (town / "public" / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("A0101,", "X0101,", 1), "a geocode that is not a leaf of the spine in 1 row"),
        (lambda text: "\n".join(text.splitlines()[:-1]), r"1 geounits of level 'block' have no row: 'B0304'"),
        (lambda text: text + text.splitlines()[-1] + "\n", r"have several rows: 'B0304' \(the last is row \d+\)"),
        (lambda text: text.replace("A0101,", "A0101,-", 1), r"geounit A0101: a negative number in 1 row \(row 1; line"),
        (lambda text: text.replace("A0102,", "A0102,nan", 1), "geounit A0102: .* number in 1 row"),
        (lambda text: text.replace("A0102,", "A0102,many", 1), "geounit A0102: something that is not a number"),
        (lambda text: text.replace("A0102,", "A0102,inf", 1), "geounit A0102: something that is not a number"),
        (lambda text: text.replace("beds", "sofas", 1), "no column 'beds'"),
    ],
)
def test_a_wrong_public_file_is_refused_before_anything_is_written(tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    spec = write_shared_town(tmp_path)
    beds = tmp_path / "beds.csv"
    beds.write_text(change(beds.read_text()))
    checked = request_of(spec, tmp_path / "out")
    with pytest.raises(InputError, match=message) as error:
        open_listed(checked.spec, checked.universes)
    assert "beds.csv" in str(error.value)
    assert "postprocess.shares.beds" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_counts_of_the_records_are_no_public_numbers(tmp_path: Path) -> None:
    """They would be published exactly; no acceptance makes up for that, and nothing is read."""
    text = '[provenance.inputs]\nshares = { source = "records" }\n[provenance]\naccept = ["shares"]\n\n[publish]'
    spec = write_shared_town(tmp_path, ("[publish]", text))
    with pytest.raises(SpecError, match=r"provenance\.inputs\.shares: made from the records"):
        check_provenance(load_spec(spec))


def test_the_second_program_takes_the_notes_on_shares_for_what_they_are_and_nothing_else(
    shared: Path, tmp_path: Path
) -> None:
    assert [found.check for found in audit(shared) if not found.passed] == []
    for key, value in (("people", 123), ("geounits", 10_000), ("tau2", -1.0), ("factors", [["3", 1.5]])):
        copy = Path(shutil.copytree(shared, tmp_path / key / shared.name))

        def change(manifest: dict[str, Any], key: str = key, value: object = value) -> None:
            manifest["solver"]["estimate block"]["shares"]["beds"]["total"][key] = value

        resealed(copy, change)
        assert "solver notes" in {found.check for found in audit(copy) if not found.passed}, key
