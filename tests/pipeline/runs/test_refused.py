"""What a run refuses: other columns or records than stated, budgets beyond limits, inputs made from records."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.command import needs
from releases.small import QUICK, request_of, run, write_town

from auditor.check.release import examine
from features.imports.tables.importer import import_table
from features.imports.tables.statement import TableStatement
from pipeline.errors import BudgetRefusedError, InputError, RecordsError, RefusedError, SpecError
from pipeline.execution.steps import Silent
from pipeline.inputs.geography import read_spine
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.limits import beyond_limits
from pipeline.published import release_at
from pipeline.publishing.provenance import accepted_inputs
from pipeline.records.tabulate import tabulate
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.release.status import FROM_RECORDS, UNCHARGED
from pipeline.runs.request import check_request
from pipeline.runs.run_here import measuring_process
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec, parse_spec
from pipeline.storage.files import sha256_file


def refusal(spec: Path) -> str:
    with pytest.raises(InputError) as told, measuring_process(request_of(spec, spec.parent / "out")):
        pass
    assert not isinstance(told.value, RefusedError)
    assert not (spec.parent / "out").exists()
    return str(told.value)


def test_the_columns_of_a_file_are_named_and_no_record(tmp_path: Path) -> None:
    """Of a CSV file its first line, which may be a record, is not shown; of a Parquet file its columns are."""
    spec = write_town(tmp_path, *QUICK)
    persons, text = tmp_path / "persons.csv", spec.read_text("utf-8")
    lines = persons.read_text().splitlines(keepends=True)
    persons.write_text("".join(lines[1:]))
    told = refusal(spec)
    assert "no column 'block', 'age', 'sex', 'quarters'; the first line" in told
    assert not any(f"'{value}'" in told for value in lines[1].strip().split(","))
    persons.write_text("".join(lines))
    pd.read_csv(persons, dtype=str).rename(columns={"block": "blok"}).to_parquet(tmp_path / "persons.parquet")
    spec.write_text(text.replace("persons.csv", "persons.parquet"), "utf-8")
    assert "no column 'block'; the file's columns are 'blok', 'age', 'sex', 'quarters'" in refusal(spec)


FORM = 'file = "persons.csv"\nform = "microdata"'


def expecting(folder: Path, what: str) -> Path:
    return write_town(folder, *QUICK, (FORM, f"{FORM}\nexpect = {what}"))


def held(folder: Path) -> tuple[int, int]:
    persons = pd.read_csv(folder / "persons.csv")
    return len(persons), persons["block"].nunique()


@pytest.mark.parametrize(("more_records", "more_areas"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_another_number_stops_before_anything_is_drawn(tmp_path: Path, more_records: int, more_areas: int) -> None:
    write_town(tmp_path)
    records, areas = held(tmp_path)
    spec = expecting(tmp_path, f"{{ records = {records + more_records}, areas = {areas + more_areas} }}")
    with pytest.raises(RefusedError) as refused:
        run(spec, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("measurements/**/*.parquet"))
    told = refused.value.details.read_text("utf-8")
    assert f"{records:,} records in {areas:,} areas were counted" in told
    assert ("too few" in told) == (more_records + more_areas > 0)


def test_wide_and_long_records(tmp_path: Path) -> None:
    """They hold what their counts add up to, in the areas that their rows name."""
    spec = expecting(tmp_path, '"unproved"')
    counts = pd.read_csv(tmp_path / "units.csv")
    total, areas = int(counts["count"].sum()), counts["block"].nunique()
    wide = counts.pivot_table(index="block", columns="status", values="count", aggfunc="sum").reset_index()
    wide.to_csv(tmp_path / "wide.csv", index=False)
    form = 'file = "units.csv", form = "long", geocode = "block"'
    cells = 'file = "wide.csv", form = "wide", geocode = "block", cells = [{ counts = "{status}" }]'
    text = spec.read_text("utf-8")
    for stated in (form, cells):
        for more in (0, 1):
            expect = f"{stated}, expect = {{ records = {total + more}, areas = {areas} }}"
            spec.write_text(text.replace(form, expect), "utf-8")
            loaded = load_spec(spec)
            universe, spine = loaded.universes()[1], read_spine(loaded.geography)
            if more:
                with pytest.raises(RecordsError, match="1 too few records, as many areas"):
                    tabulate(universe.require_input(), universe.schema, spine)
            else:
                assert tabulate(universe.require_input(), universe.schema, spine).sum() == total


def test_other_records_bring_their_own(tmp_path: Path) -> None:
    """With --data, a file beside them says it; where it is not there, or says something else, nothing is run."""
    with pytest.raises(InputError, match=r"release\.toml.*input\.expect: unproved; say how many records and areas"):
        run(expecting(tmp_path / "in", '"unproved"'), tmp_path / "out")
    records, areas = held(tmp_path / "in")
    spec = expecting(tmp_path / "in", f"{{ records = {records}, areas = {areas} }}")
    other = tmp_path / "chunk.csv"
    pd.read_csv(tmp_path / "in" / "persons.csv").iloc[1:].to_csv(other, index=False)
    with pytest.raises(InputError, match=r"chunk\.csv: how many records .* to chunk\.csv\.expect\.toml"):
        run(spec, tmp_path / "out", data=other)
    beside = tmp_path / "chunk.csv.expect.toml"
    beside.write_text("records = 'many'\n", "utf-8")
    with pytest.raises(InputError, match=r"chunk\.csv\.expect\.toml: two lines are needed"):
        run(spec, tmp_path / "out", data=other)
    beside.write_text(f"records = {records}\nareas = {areas}\n", "utf-8")
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "out", data=other)
    assert "1 too few records" in next((tmp_path / "out").rglob("refused.txt")).read_text("utf-8")
    beside.write_text(f"records = {records - 1}\nareas = {areas}\n", "utf-8")
    assert run(spec, tmp_path / "out", data=other).is_dir()


SECRET = ('key = "insecure-test:1"', "")
UNITS_RHO = 'privacy = { rho = "1" }'

BEYOND = [
    ([('rho = "2"', 'rho = "4.1"')], "privacy.rho: found 5.1 over all universes; at most 5 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-4"')], "privacy.delta: found 0.0001; at most 1e-05 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-6"\npopulation = 1000000')], r"privacy.delta: .* less than 1 / 1,000,000"),
    (
        [('rho = "2"', 'framework = "pure"\nepsilon = "10"'), (UNITS_RHO, 'privacy = { epsilon = "1" }')],
        "privacy.epsilon: found 11 over all universes; at most 10 is usual",
    ),
    ([('block = ["total"]', 'block = ["status"]')], "companions.units.invariants: no record can change"),
]


@pytest.mark.parametrize(("changes", "says"), BEYOND)
def test_it_is_refused_before_anything_is_read_unless_it_is_meant(
    tmp_path: Path, changes: list[tuple[str, str]], says: str
) -> None:
    spec = write_town(tmp_path, SECRET, *changes)
    with pytest.raises(SpecError, match=rf"release\.toml: {says}.*--i-know"):
        request_of(spec, tmp_path)
    request = request_of(write_town(tmp_path / "usual", SECRET), tmp_path).request
    assert check_request(replace(request, spec=spec, i_know=True)).spec.name == "town"
    assert beyond_limits(load_spec(spec).universes())
    assert request_of(write_town(tmp_path / "test", *changes), tmp_path).universes, "a test key protects nobody"


@pytest.mark.parametrize("companion", [False, True])
def test_adding_and_removing_with_invariants_is_no_spec(tmp_path: Path, companion: bool) -> None:
    """No two neighbours agree on an invariant: whatever the noise, the guarantee compares nothing."""
    text = write_town(tmp_path, ('rho = "2"', 'rho = "2"\nneighbours = "add-remove"')).read_text()
    gone = '[invariants]\ncounty = ["total"]\n' if companion else 'invariants = { block = ["total"] }'
    key = "companions.units.invariants" if companion else "invariants"
    with pytest.raises(SpecError, match=rf"^town\.toml: {key}: with neighbours = \"add-remove\".*compare nothing"):
        parse_spec(text.replace(gone, ""), "town.toml")


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
