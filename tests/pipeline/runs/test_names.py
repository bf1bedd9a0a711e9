"""Names, labels and other public inputs: without influence on a number; refused or named if made from records."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.command import needs
from releases.small import request_of, run

from auditor.check.release import examine
from features.imports.tables.importer import import_table
from features.imports.tables.statement import TableStatement
from pipeline.errors import BudgetRefusedError, InputError
from pipeline.execution.steps import Silent
from pipeline.inputs.geography import read_spine
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import release_at
from pipeline.publishing.provenance import accepted_inputs
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.release.status import FROM_RECORDS, UNCHARGED
from pipeline.runs.verify import verify_release
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
    for field in ("privacy", "accounts", "joint", "solver"):
        one, other = (getattr(read_manifest(release_at(root).manifest), field) for root in (town, named_town))
        assert one == other, field


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
    assert "public/names/tract.parquet: tract 'A01' has 2 rows; each tract has one" in found
    assert "public/names/tract.parquet: row 1 has no text in column 'name'" in found
    assert any("tract 'A02' (Springfield)" in line for line in found), found
    names.unlink()
    assert "public/names/tract.parquet is missing; by the spec it is published" in examine(root).problems


def imported(folder: Path, *hermit: tuple[str, str, str]) -> Path:
    """The spec of an import of the records of three towns, and of somebody else."""
    folder.mkdir()
    rows = [("1", f"1{n % 3}", "ab"[n % 2]) for n in range(60)]
    pd.DataFrame([*rows, *hermit], columns=["county", "town", "kind"]).to_csv(folder / "persons.csv", index=False)
    stated = TableStatement(
        str(folder / "persons.csv"), geography="county,town", records=True, attributes="kind", name="towns",
        expect_records=60 + len(hermit), expect_areas=3 + len(hermit),
    )  # fmt: skip
    spec = import_table(stated, folder / "in").spec
    spec.write_text(spec.read_text() + "\n[publish]\nreplicates = 1\n")
    return spec


def test_one_person_in_an_empty_area_is_not_published_unasked(tmp_path: Path) -> None:
    """The attack: the spine of the import tells whether the hermit is there, whatever the noise."""
    without, there = imported(tmp_path / "a"), imported(tmp_path / "b", ("1", "17", "c"))
    spines = [read_spine(load_spec(spec).geography) for spec in (without, there)]
    assert [spine.n_leaves for spine in spines] == [3, 4]
    for spec in (without, there):
        with pytest.raises(InputError) as refusal:
            request_of(spec, tmp_path / "out")
        told = str(refusal.value)
        assert "provenance: made from the records" in told
        assert 'accept = ["geography", "schema"] under [provenance]' in told
        assert "--areas FILE --schema FILE" in told
        assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    spec_text = without.read_text()
    assert '# accept = ["geography", "schema"]' in spec_text
    without.write_text(spec_text.replace('# accept = ["geography", ', "accept = ["))
    with pytest.raises(
        InputError, match=r"which they would give away: geography \(.*persons\.csv, by spinewise import"
    ):
        request_of(without, tmp_path / "out")


@needs("report")
def test_what_was_accepted_is_named_in_status_manifest_report_and_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = imported(tmp_path / "a")
    spec.write_text(spec.read_text().replace("# accept", "accept"))
    assert accepted_inputs(load_spec(spec)) == ("geography", "schema")
    assert read_manifest(release_at(run(spec, tmp_path / "uncharged")).manifest).status == UNCHARGED
    spec.write_text(spec.read_text().replace("[privacy]\n", '[privacy]\ndataset = "people"\n'))
    monkeypatch.setenv("SPINEWISE_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    with Ledger.open(str(tmp_path / "ledger.sqlite"), create=True) as ledger:
        ledger.open_dataset("people", population="all", framework="zcdp", budget=Fraction(10), neighbours="change-one")
    with pytest.raises(BudgetRefusedError, match=r"publishes inputs:geography and inputs:schema|inputs:geography"):
        run(spec, tmp_path / "refused")
    with Ledger.open() as ledger:
        ledger.allow_exact("people", "inputs:geography", "inputs:schema")
    root = run(spec, tmp_path / "out")
    (receipt,) = read_manifest(release_at(root).manifest).receipts
    assert [one.what for one in receipt.exact] == ["inputs:geography", "inputs:schema"]
    opened = release_at(root)
    manifest = read_manifest(opened.manifest)
    assert manifest.status == FROM_RECORDS
    stated = {one.name: (one.source, one.accepted) for one in manifest.provenance}
    assert stated == {"geography": ("records", True), "schema": ("records", True)}
    assert manifest.provenance[0].sha256 == sha256_file(opened.spine)
    assert "persons.csv" in manifest.provenance[0].origin
    report = opened.report.read_text()
    assert "official, but public inputs were made from the records" in report
    assert "<code>geography</code>: made from the records, and reveals something about them" in report
    assert verify_release(opened, 1, Silent()) == []
    forged = manifest.provenance[0].model_copy(update={"source": "public", "accepted": False})
    forged_manifest = manifest.model_copy(update={"provenance": (forged, *manifest.provenance[1:])})
    write_manifest(opened, forged_manifest)
    assert "public/manifest.json: provenance is not what the spec gives" in verify_release(opened, 1, Silent())
