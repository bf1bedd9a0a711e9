"""Summary files of the Census Bureau: every line where it belongs, both layouts alike, and every mismatch told."""

from __future__ import annotations

import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from oracles.summary_files import State, made_up_state, write_2010, write_2020

from features.imports.pl94171.check import check_summary
from features.imports.pl94171.importer import import_pl94171, persons_of
from features.imports.pl94171.spec_text import divide
from features.imports.pl94171.summary_file import GEO_LEVELS, find_files, read_summary
from pipeline.errors import InputError
from pipeline.spec.preset import load_preset


@pytest.fixture(scope="module")
def state() -> State:
    return made_up_state(1)


@pytest.fixture(scope="module")
def files_2020(state: State, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_2020(state, tmp_path_factory.mktemp("2020") / "zz2020.pl")


def histogram_of(folder: Path, state: State, file: str, shape: tuple[int, ...]) -> np.ndarray:
    """The counts in an imported file as `(n_blocks, *shape)`, in the order of the state's blocks."""
    table = pd.read_parquet(folder / file)
    number = {block.code: i for i, block in enumerate(state.blocks)}
    counts = np.zeros((len(number), *shape), dtype=np.int64)
    places = [table["block"].map(number), *(table[name] for name in table.columns[1:-1])]
    np.add.at(counts, tuple(np.asarray(place) for place in places), table["count"])
    return counts


@pytest.mark.parametrize("write", [write_2020, write_2010])
def test_every_person_comes_back(write: object, state: State, tmp_path: Path) -> None:
    """The tables of known persons, in both layouts, give these persons, units and persons in group quarters again."""
    imported = import_pl94171(write(state, tmp_path / "zz.pl"), tmp_path / "out")  # type: ignore[operator]
    assert imported.mismatches == ()
    found = histogram_of(tmp_path / "out", state, "persons.parquet", (2, 2, 63))
    assert np.array_equal(found, np.stack([block.persons for block in state.blocks]))
    units = histogram_of(tmp_path / "out", state, "units.parquet", (2,))
    assert np.array_equal(units, [block.units for block in state.blocks])
    assert sorted(pd.read_parquet(tmp_path / "out" / "blocks.parquet")["block"]) == sorted(b.code for b in state.blocks)
    if write is write_2020:
        quarters = histogram_of(tmp_path / "out", state, "quarters.parquet", (7,))
        assert np.array_equal(quarters, [block.quarters for block in state.blocks])
    else:
        assert not (tmp_path / "out" / "quarters.parquet").exists()


def test_areas_off_the_spine(state: State, files_2020: Path, tmp_path: Path) -> None:
    """Each place and area lists its blocks, with the state's code and the name in its own letters."""
    import_pl94171(files_2020, tmp_path / "out")
    listed = pd.read_parquet(tmp_path / "out" / "off_spine.parquet")
    assert list(listed.columns) == ["kind", "code", "name", "geocode"]
    for kind, attribute, code in (("place", "place", "12345"), ("aian", "area", "0042")):
        of_kind = listed[listed["kind"] == kind]
        assert set(of_kind["code"]) == {f"99{code}"}
        assert set(of_kind["name"]) == {state.names[code]}
        assert sorted(of_kind["geocode"]) == sorted(b.code for b in state.blocks if getattr(b, attribute) == code)


def test_a_zip_is_read_as_a_folder(files_2020: Path, tmp_path: Path) -> None:
    """The published zips hold the same files; the import is the same to the byte."""
    with zipfile.ZipFile(tmp_path / "zz2020.pl.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files_2020.iterdir():
            archive.write(file, file.name)
    import_pl94171(files_2020, tmp_path / "a")
    import_pl94171(tmp_path / "zz2020.pl.zip", tmp_path / "b")
    names = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


def test_the_real_sample(shared_data: Path) -> None:
    """Every line of every table is where another reader of the same files found it."""
    summary = read_summary(find_files(shared_data / "ri2018.pl"))
    oracle = pd.read_parquet(shared_data / "ri_2018_e2e_pl94_sample.parquet")
    assert summary.level.tolist() == oracle["sumlev"].tolist()
    assert summary.geocode.tolist() == oracle["geoid"].tolist()
    compared = 0
    for table, counts in summary.tables.items():
        columns = [f"{table.lower()}_{line + 1:03d}" for line in range(counts.shape[1])]
        assert np.array_equal(counts, oracle[columns].to_numpy())
        compared += len(columns)
    assert compared == 301
    assert int(persons_of(summary, summary.rows("750")).sum()) == 29_225
    county = summary.rows("050")
    assert summary.tables["P1"][county, 0].tolist() == [614_053]
    assert summary.tables["H1"][county, 0].tolist() == [271_073]


def test_what_does_not_fit_in_the_real_sample(shared_data: Path) -> None:
    """It has blocks of seven tracts only: state and county are not their sums, tracts and block groups are.

    The header's housing units differ from H1 in some areas; within and between the tables all is right.
    """
    summary = read_summary(find_files(shared_data / "ri2018.pl"))
    found = check_summary(summary)
    assert {(one.kind, one.level) for one in found} == {
        ("blocks", "040"), ("blocks", "050"), *(("header", level) for level in ("040", "050", "140", "150", "750")),
    }  # fmt: skip
    assert {one.rule for one in found if one.kind == "header"} == {"HU100 = H1_001"}
    assert not any(one.fatal for one in found)


@pytest.mark.parametrize("preset", ["pl94-2020-us", "pl94-2020-pr"])
def test_the_strategy_is_the_production_without_group_quarters(preset: str) -> None:
    """Every query keeps its exact rho at every level, and the two budgets are the production's at these levels."""
    levels = ("state", "county", "tract", "block_group", "block")
    persons_part, quarters_part = divide(preset, levels)
    loaded = load_preset(preset)
    whole = Fraction(0)
    for level, of_preset in loaded.match_levels(levels).items():
        rho = loaded.rho * of_preset.share
        whole += rho
        expected = {query: rho * one.share for query, one in of_preset.queries.items()}
        finest = expected.pop("votingage * hispanic * cenrace", Fraction(0)) + expected.pop("detailed", Fraction(0))
        for part in (persons_part, quarters_part):
            found = {q: part.rho * part.levels[level] * share for q, share in part.queries[level].items()}
            for query, own in found.items():
                assert own == (finest if query == "detailed" else expected.pop(query))
            assert sum(part.queries[level].values()) == 1
        assert not expected
    assert persons_part.rho + quarters_part.rho == whole


def set_field(folder: Path, to: Path, file: str, line: int, field: int, value: str) -> Path:
    """A copy of the files with one field (from 0) of a pipe-delimited file replaced."""
    to.mkdir()
    for part in folder.iterdir():
        (to / part.name).write_bytes(part.read_bytes())
    lines = (to / file).read_text("latin-1").split("\n")
    fields = lines[line - 1].split("|")
    fields[field] = value
    lines[line - 1] = "|".join(fields)
    (to / file).write_text("\n".join(lines), "latin-1")
    return to


@pytest.mark.parametrize(
    ("segment", "column", "rule"),
    [
        (1, 5, "P1_001 = P1_002 + P1_009"),
        (1, 5 + 71 + 1, "P2_001 = P2_002 + P2_003"),
        (1, 5 + 71, "P2_001 = P1_001"),
        (1, 5 + 9, "P1_010 = P1_011 + ... + P1_025"),
        (2, 5 + 71 + 1, "P4_001 = P4_002 + P4_003"),
        (2, 5 + 71 + 73, "H1_001 = H1_002 + H1_003"),
        (3, 5 + 6, "P5_007 = P5_008 + P5_009 + P5_010"),
        (2, 5 + 40, "P3_041 <= P1_041"),
        (1, 5 + 71 + 50, "P2_051 <= P1_049"),
    ],
)
def test_each_mismatch_is_found(segment: int, column: int, rule: str, files_2020: Path, tmp_path: Path) -> None:
    """One number too many is told with its rule, at its level alone."""
    name = f"zz{segment:05d}2020.pl"
    lines = (files_2020 / name).read_text().splitlines()
    for line, level in ((3, "050"), (len(lines), "750")):
        value = str(int(lines[line - 1].split("|")[column]) + 100_000)
        folder = set_field(files_2020, tmp_path / f"bad{line}", name, line, column, value)
        found = [one for one in check_summary(read_summary(find_files(folder))) if one.kind not in ("blocks", "header")]
        assert rule in {one.rule for one in found}
        assert {one.level for one in found} == {level}
        assert {one.fatal for one in found} == {level == "750"}


def test_a_mismatch_stops_in_a_block_and_is_told_above_it(files_2020: Path, tmp_path: Path) -> None:
    name = "zz000012020.pl"
    lines = (files_2020 / name).read_text().splitlines()
    above, block = (
        set_field(files_2020, tmp_path / f"bad{line}", name, line, 5, str(int(lines[line - 1].split("|")[5]) + 1))
        for line in (3, len(lines))
    )
    imported = import_pl94171(above, tmp_path / "above")
    assert set(pd.read_csv(tmp_path / "above" / "mismatches.csv", dtype=str)["level"]) == {"county"}
    assert any("sums over their blocks" in text for text in imported.mismatches)
    for folder, strict in ((above, True), (block, False)):
        with pytest.raises(InputError, match="tables contradict each other"):
            import_pl94171(folder, tmp_path / "out", strict=strict)
        assert not (tmp_path / "out").exists()


def test_sums_over_blocks_are_checked_at_every_level(files_2020: Path, tmp_path: Path) -> None:
    """A consistent area that has a person less than its blocks is found at that level alone."""
    geo = (files_2020 / "zzgeo2020.pl").read_text("latin-1").splitlines()
    for level in ("040", "050", "140", "150", "160"):
        line = next(i for i, record in enumerate(geo, 1) if record.split("|")[2] == level)
        folder = set_field(files_2020, tmp_path / level, "zz000022020.pl", line, 5 + 71 + 73 + 1, "1000")
        folder = set_field(folder, tmp_path / f"{level}b", "zz000022020.pl", line, 5 + 71 + 73 + 2, "0")
        folder = set_field(folder, tmp_path / f"{level}c", "zz000022020.pl", line, 5 + 71 + 73, "1000")
        found = [one for one in check_summary(read_summary(find_files(folder))) if one.kind == "blocks"]
        assert {GEO_LEVELS[one.level].name for one in found} == {GEO_LEVELS[level].name}
        assert {one.rule.split(" ")[0] for one in found} <= {"H1_001", "H1_002", "H1_003"}


def fails(folder: Path, out: Path) -> str:
    with pytest.raises(InputError) as caught:
        import_pl94171(folder, out)
    assert not out.exists()
    return str(caught.value).replace(f"{folder}/", "")


_ONE = "zz000012020.pl"


@pytest.mark.parametrize(
    ("file", "line", "field", "value", "says"),
    [
        ("zzgeo2020.pl", -1, 34, "20x1", "BLOCK of a record of summary level 750 (block) is '20x1'; "),
        ("zzgeo2020.pl", 2, 7, "x", "LOGRECNO is 'x'; at most 9 digits are needed"),
        ("zzgeo2020.pl", 2, 7, "1", "LOGRECNO 1 occurs twice; each record has its own"),
        ("zzgeo2020.pl", 2, 3, "0|0", "the number of fields is 98; a geographic header of the 2020 layout has 97"),
        ("zzgeo2020.pl", -1, 29, "1", "PLACE is '1'; a code of 5 digits is needed"),
        (_ONE, 2, 8, "", "P1_004 is ''; a whole number from 0 to 999,999,999"),
        (_ONE, 2, 8, "-1", "P1_004 is -1; a whole number"),
        (_ONE, 2, 8, "1.5", "P1_004 is '1.5'; a whole number"),
        (_ONE, 2, 8, "1|2", "the number of fields is 150; a record of this segment has 149"),
        (_ONE, 3, 4, "2", "LOGRECNO 2 occurs twice; each record has its own"),
        (_ONE, 2, 4, "9999", "LOGRECNO 9999 has no record in zzgeo2020.pl"),
    ],
)
def test_files_that_are_not_of_the_layout(
    file: str, line: int, field: int, value: str, says: str, files_2020: Path, tmp_path: Path
) -> None:
    """Each message names the file, the line and the field, what was found and what is needed."""
    line = line if line > 0 else len((files_2020 / file).read_bytes().splitlines())
    folder = set_field(files_2020, tmp_path / "changed", file, line, field, value)
    assert fails(folder, tmp_path / "out").startswith(f"{file}, line {line}: {says}")


def test_blocks_and_records_that_are_missing(files_2020: Path, tmp_path: Path) -> None:
    """A segment that lacks an area, and a header without blocks, are told."""
    folder = set_field(files_2020, tmp_path / "a", "zz000032020.pl", 1, 0, "PLST")
    lines = (folder / "zz000032020.pl").read_text().splitlines()
    (folder / "zz000032020.pl").write_text("\n".join(lines[:-2]) + "\n")
    assert "zz000032020.pl: no record for 2 of the" in fails(folder, tmp_path / "out")
    geo = (folder / "zzgeo2020.pl").read_bytes().splitlines()
    (folder / "zzgeo2020.pl").write_bytes(b"\n".join(geo[:3]) + b"\n")
    assert fails(folder, tmp_path / "out").startswith("zzgeo2020.pl: no record of summary level 750 (block)")


def test_folders_without_the_files(files_2020: Path, tmp_path: Path) -> None:
    """What is missing, or too much, is named."""
    folder = set_field(files_2020, tmp_path / "a", "zz000032020.pl", 1, 0, "PLST")
    (folder / "yygeo2020.pl").write_bytes(b"")
    assert "files of several summary files were found (yy 2020, zz 2020)" in fails(folder, tmp_path / "out")
    (folder / "yygeo2020.pl").unlink()
    (folder / "zz000022020.pl").unlink()
    assert "zz000022020.pl is missing" in fails(folder, tmp_path / "out")
    assert "does not exist" in fails(tmp_path / "nowhere", tmp_path / "out")


def test_nothing_is_written_over(files_2020: Path, tmp_path: Path) -> None:
    """A folder with something in it is left alone; what holds counts is for its owner only."""
    import_pl94171(files_2020, tmp_path / "out")
    with pytest.raises(InputError, match=r"holds \.gitignore already; give one that is new or empty"):
        import_pl94171(files_2020, tmp_path / "out")
    closed = {file.name for file in (tmp_path / "out").iterdir() if file.stat().st_mode & 0o777 == 0o600}
    assert closed == {"persons.parquet", "units.parquet", "quarters.parquet", "mismatches.csv"}
