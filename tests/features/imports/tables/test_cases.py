"""Tables that importers lost or multiplied: exact under the right statement, stopped under others; at random."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import SpinewiseError

_COUNTS = {"geography": "area", "count": "count", "attributes": "sex"}
#: Case -> file, statement, people, areas.
_EXACT: dict[str, tuple[str, Mapping[str, Any], int, int]] = {
    "age-999": (
        "persons.csv", {"geography": "county", "records": True, "attributes": "sex,age=ages five-year",
        "missing": "999"}, 1200, 12,
    ),
    "country-three-more": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Country, Norfield, Sufford, Wesham",)}, 589_782, 12,
    ),
    "town-begins-like-its-county": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Land, Nord, Sued, Stadtkreis",)}, 28_987, 9,
    ),
    "town-begins-like-its-county-2": (
        "areas.csv", {"geography": "area", "count": "population",
        "only": ("area not in Land, Nord, Sued, Stadtkreis",)}, 49_667, 9,
    ),
    "two-small-towns-alike": (
        "areas.csv", {"geography": "area", "count": "population", "attributes": "sex"}, 8724, 7,
    ),
    "household-minus-one": (
        "persons.csv", {"geography": "region", "records": True, "attributes": "sex", "key": "household_id",
        "missing": "-1"}, 287, 6,
    ),
    "invisible-spaces": ("counts.csv", _COUNTS, 3360, 12),
    "level-column-one-name-twice": (
        "towns.csv", {"geography": "area", "count": "population", "level": "level", "drop_level": "state,county"},
        97_262, 9,
    ),
    "one-district-name-in-two-states": (
        "districts.csv", {"geography": "State,District", "count": "Persons", "attributes": "Sex"}, 18_112, 8,
    ),
    "zeros-lost-everywhere": (
        "kreise.csv", {"geography": "AGS", "levels": "land=2,kreis=5", "zeros": 5, "count": "Einwohner",
        "attributes": "Geschlecht"}, 4711, 7,
    ),
    "zeros-lost-in-some-rows": (
        "kreise.csv", {"geography": "ags", "zeros": 5, "count": "anzahl", "attributes": "geschlecht"}, 7406, 7,
    ),
}  # fmt: skip
_POPULATION = {"geography": "area", "count": "population"}
#: Case -> file, a statement that a hurried user would make, people, areas, and what the message says.
_STOPPED: dict[str, tuple[str, Mapping[str, Any], int, int, str]] = {
    "ages-turned-into-dates": (
        "ages.csv", {"geography": "area", "count": "count", "attributes": "age"}, 2310, 12, "'05-Sep', a date",
    ),
    "invisible-spaces": ("counts.csv", _COUNTS, 3360, 14, "expect-areas|differ only by"),
    "header-one-name-short": ("counts.csv", _COUNTS, 57057, 12, "line 2: the number of fields"),
    "stray-quotes-counts": ("counts.csv", _COUNTS, 57057, 12, "line|fewer than"),
    "stray-quotes-in-a-note": (
        "persons.csv", {"geography": "area", "records": True, "attributes": "sex"}, 600, 3, "line|60 fewer than",
    ),
    "country-three-more": ("areas.csv", _POPULATION, 589785, 15, "more than --expect-records"),
    "town-begins-like-its-county": ("areas.csv", _POPULATION, 28987, 9, "more than --expect-records"),
    "town-begins-like-its-county-2": ("areas.csv", _POPULATION, 49667, 9, "more than --expect-records"),
    "two-small-towns-alike": (
        "areas.csv", {**_POPULATION, "attributes": "sex"}, 8724, 4, "more than --expect-records|two rows|sum|expect",
    ),
    "level-column-one-name-twice": (
        "towns.csv", {**_POPULATION, "level": "level", "drop_level": "state"}, 97262, 9, "several levels",
    ),
    "one-name-in-capitals": ("counts.csv", _COUNTS, 3384, 13, "differ only by case"),
    "zeros-lost-in-some-rows": (
        "kreise.csv", {"geography": "ags", "count": "anzahl", "attributes": "geschlecht"}, 7406, 11, "--zeros",
    ),
    "zeros-lost-everywhere": (
        "kreise.csv",
        {"geography": "AGS", "levels": "land=2,kreis=5", "count": "Einwohner", "attributes": "Geschlecht"},
        4711, 7, "line 2.*'1001'.*--zeros",
    ),
    "household-minus-one": (
        "persons.csv",
        {"geography": "region", "records": True, "attributes": "sex", "key": "household_id"},
        287, 6, "found '-1'.*--missing",
    ),
    "age-999": (
        "persons.csv",
        {"geography": "county", "records": True, "attributes": "sex,age=ages five-year"},
        1200, 12, "line 2, column 'age': found '999'.*--missing 999",
    ),
}  # fmt: skip


def _stated(folder: Path, file: str, statement: Mapping[str, Any], n: int | None, m: int | None) -> Statement:
    return Statement(str(folder / file), **statement, expect_records=n, expect_areas=m)


def _people(out: Path) -> int:
    table = pq.read_table(out / "persons.parquet")
    return pc.sum(table["count"]).as_py() if "count" in table.column_names else table.num_rows


@pytest.mark.parametrize("case", _EXACT)
def test_right_statement_is_exact_and_a_miss_by_one_stops(case: str, shared_data: Path, tmp_path: Path) -> None:
    file, statement, n, m = _EXACT[case]
    folder, out = shared_data / "import_cases" / case, tmp_path / "out"
    for wrong in ((n + 1, m), (n - 1, m), (n, m + 1), (None, None)):
        with pytest.raises(SpinewiseError, match="expect"):
            import_table(_stated(folder, file, statement, *wrong), out)
        assert not out.exists()
    import_table(_stated(folder, file, statement, n, m), out)
    assert _people(out) == n
    assert pq.read_metadata(out / "areas.parquet").num_rows == m


@pytest.mark.parametrize("case", _STOPPED)
def test_wrong_statement_stops(case: str, shared_data: Path, tmp_path: Path) -> None:
    file, statement, n, m, said = _STOPPED[case]
    with pytest.raises(SpinewiseError, match=said):
        import_table(_stated(shared_data / "import_cases" / case, file, statement, n, m), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sum_rows_are_named_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("area,sex,n\nA,f,10\nA,m,20\nA,x,30\nB,f,40\nB,m,50\nB,x,90\n", encoding="utf-8")
    statement = {"geography": "area", "count": "n", "attributes": "sex"}
    with pytest.raises(SpinewiseError, match="--only 'sex != x'"):
        import_table(_stated(tmp_path, "t.csv", statement, 240, 2), tmp_path / "out")
    with pytest.raises(SpinewiseError, match=r"120 more than.*leave out the rows with sex == x: --only 'sex != x'"):
        import_table(_stated(tmp_path, "t.csv", statement, 120, 2), tmp_path / "out")
    right = {**statement, "only": ("sex != x",)}
    import_table(_stated(tmp_path, "t.csv", right, 120, 2), tmp_path / "out")
    assert _people(tmp_path / "out") == 120


@pytest.mark.parametrize(
    "cell",
    ["<5", "1-4", "*", "3.967", "", "12.5", "2020-01-01", "-3", "(3)", "1e3", "007", "1,234", "1\u00a0234", "1'234",
     "5 (1)", "5\u00b9", "5 p", "12 %", "..C", "\uff11\uff12", "'5", "NA"],
)  # fmt: skip
def test_a_count_is_a_whole_number(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"area;sex;n\nA;f;1\nA;m;{cell}\n", encoding="utf-8")
    with pytest.raises(SpinewiseError, match=r"t\.csv, line 3, column 'n': found"):
        import_table(
            _stated(tmp_path, "t.csv", {"geography": "area", "count": "n", "attributes": "sex"}, 1, 1), tmp_path / "out"
        )


_SEX = {"geography": "area", "count": "n", "attributes": "sex"}
_WIDE = {"geography": "area", "wide": "{sex:f|m}"}
_TWO_WAYS = {"geography": "area", "wide": "{sex}_{age}"}


@pytest.mark.parametrize(
    ("text", "statement", "said"),
    [
        ("area,sex,n\nA,f,10\n,m,20\n", _SEX, "line 3, column 'area': found nothing"),
        ("area,sex,n\nA,f,10\nA,f,20\n", _SEX, "line 2 and line 3: two rows"),
        ("area,sex,n\nA,f,10\narea,sex,n\nA,m,20\n", _SEX, "line 3, column 'n': found 'n'"),
        ("area,sex,n\nA,f,10\nA,m,20\n\nSource: the office\n", _SEX, "line 5"),
        ("area,sex,n\nA,f,10\nA,m,20\nSource,,\n", _SEX, "line 4, column 'n': found nothing"),
        ("area,sex,n,size\nA,f,10,12\nA,m,15,18\n", _SEX, "--count 'size'"),
        ("area,f,area,m\nA,10,A,20\n", _WIDE, "several columns are named 'area'"),
        ("age,A,B\n0,10,5\n1,8,7\n", {"geography": "age", "wide": "{area}"}, "more than --expect-areas"),
        ("area,m_65_over\nA,30\n", _TWO_WAYS, "can be read as m, 65_over and as m_65, over"),
        ("title\n\narea,f,m\nA,10,20\n", _WIDE, "no column|number of fields"),
        ("freq,sex,geo\\TIME\t2021\nA,f,A\t10\n", {"geography": "geo", "count": "2021"}, "no column 'geo'"),
    ],
)
def test_what_no_statement_makes_right_stops(
    text: str, statement: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    """Areas written once, heads again in the middle, notes, tables side by side, several columns in one."""
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SpinewiseError, match=said):
        import_table(_stated(tmp_path, "t.csv", statement, 30, 1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_values_of_few_records_reach_no_public_file(tmp_path: Path) -> None:
    rows = ["A,f"] * 30 + ["B,m"] * 30 + ["B,Jane Secret of Ashby"]
    (tmp_path / "p.csv").write_text("area,sex\n" + "\n".join(rows) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    import_table(_stated(tmp_path, "p.csv", {"geography": "area", "records": True, "attributes": "sex"}, 61, 2), out)
    assert "Jane" not in (out / "release.toml").read_text(encoding="utf-8")
    assert "1 value of the records" in (out / "release.toml").read_text(encoding="utf-8")
    private = [path for path in out.iterdir() if b"Jane" in path.read_bytes()]
    assert (out / "values.txt") in private
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)


def _table(rng: np.random.Generator) -> tuple[str, int, int]:
    """A table with rows of all levels and sums, the people in it, and its lowest areas."""
    rows, people, towns = [], 0, 0
    off = int(rng.integers(0, 3))
    for county in range(rng.integers(1, 4)):
        of_county = np.zeros(2, dtype=int)
        for town in range(rng.integers(1, 4)):
            counts = rng.integers(20, 60, 2)
            name = f"C{county}" if town == 0 and rng.random() < 0.3 else f"T{county}{town}"
            rows += [("town", name, sex, n) for sex, n in zip("fm", counts, strict=True)]
            if rng.random() < 0.5:
                rows.append(("town", name, "t", counts.sum()))
            of_county += counts
            towns += 1
        rows += [("county", f"C{county}", sex, n) for sex, n in zip("fm", of_county, strict=True)]
        people += int(of_county.sum())
    rows += [("land", "L", "f", people // 2), ("land", "L", "m", people - people // 2 + off)]
    return "level,area,sex,n\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), people, towns


def _check(numbers: range, folder: Path) -> None:
    """Of random hierarchies under random statements some are read, each with all of its people."""
    n_read = 0
    for number in numbers:
        rng = np.random.default_rng([52, number])
        text, people, towns = _table(rng)
        path = folder / f"{number}.csv"
        path.write_text(text, encoding="utf-8")
        stated: dict[str, Any] = {"geography": "area", "count": "n", "attributes": "sex"}
        if rng.random() < 0.7:
            stated |= {"level": "level", "drop_level": str(rng.choice(["county,land", "land", "county", "town,land"]))}
        if rng.random() < 0.7:
            stated["only"] = (str(rng.choice(["sex != t", "sex in f, m", "level == town and sex != t"])),)
        out = folder / f"out{number}"
        try:
            import_table(Statement(str(path), **stated, expect_records=people, expect_areas=towns), out)
        except SpinewiseError:
            assert not out.exists()
            continue
        n_read += 1
        assert pc.sum(pq.read_table(out / "persons.parquet")["count"]).as_py() == people
        shutil.rmtree(out)
    assert n_read > len(numbers) // 20


def test_everybody_or_nothing(tmp_path: Path) -> None:
    _check(range(100), tmp_path)


@pytest.mark.slow
def test_everybody_or_nothing_in_two_thousand_hierarchies(tmp_path: Path) -> None:
    _check(range(100, 2_100), tmp_path)
