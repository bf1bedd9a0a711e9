"""Files as offices write them: separators, encodings, workbooks, databases; the same people from each."""

from __future__ import annotations

import datetime
import gzip
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.imported import open_problems
from typer.testing import CliRunner

from features.imports.tables.guess_format import AskedFormat, guess_format
from features.imports.tables.importer import TableRequest, TableSource, import_table
from flows.cli import app
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.public import encode
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def people() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    town = rng.integers(0, 6, 300)
    return pd.DataFrame(
        {
            "Kreis": [f"{t // 3 + 1:02d}" for t in town],
            "Gemeinde": [f"{t // 3 + 1:02d}{t:03d}" for t in town],
            "Geschlecht": rng.choice(["männlich", "weiblich"], 300),
        }
    )


def imported(out: Path, source: TableSource, **more: object) -> ReleaseSpec:
    spec = load_spec(import_table(TableRequest(source, **more), out).spec)  # type: ignore[arg-type]
    assert open_problems(None, out / "release.toml") == []
    return spec


def counts_of(spec: ReleaseSpec) -> list[list[int]]:
    universe = spec.universes()[0]
    return tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray().tolist()


def expected() -> list[list[int]]:
    return pd.crosstab(people()["Gemeinde"], people()["Geschlecht"]).to_numpy().tolist()


@pytest.mark.parametrize(
    ("separator", "encoding", "told"),
    [
        (",", "utf-8", ()),
        (";", "utf-8", ("semicolons",)),
        (";", "cp1252", ("cp1252", "semicolons")),
        ("\t", "utf-16", ("UTF-16", "tabs")),
        ("|", "utf-8-sig", ("bars",)),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".txt.gz"])
def test_text_files(separator: str, encoding: str, told: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    """What is guessed is said, stands in [input], and the run reads the file as it is."""
    text = people().to_csv(index=False, sep=separator).encode(encoding)
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    result = import_table(TableRequest(TableSource(str(path))), tmp_path / "out")
    assert sum(any(word in line for line in result.messages) for word in told) == len(told)
    spec = load_spec(result.spec)
    assert spec.input is not None
    assert spec.input.file == path
    assert counts_of(spec) == expected()
    assert spec.schema_section.attributes["Geschlecht"] == ("männlich", "weiblich")
    if not told:
        assert {"separator", "encoding", "decimal", "repeated"}.isdisjoint(encode(spec.input))


def test_an_encoding_that_is_said(tmp_path: Path) -> None:
    """Where the guess is wrong, the option makes it right; an encoding that the file is not in is refused."""
    frame = people().replace({"männlich": "muž", "weiblich": "žena"})
    frame.to_csv(tmp_path / "a.csv", index=False, encoding="cp1250", sep=";")
    arguments = ["import", "table", str(tmp_path / "a.csv"), "--out"]
    shown = CliRunner().invoke(app, [*arguments, str(tmp_path / "a"), "--encoding", "cp1250", "--separator", ";"])
    assert shown.exit_code == 0
    assert load_spec(tmp_path / "a" / "release.toml").schema_section.attributes["Geschlecht"] == ("muž", "žena")
    for option, value, says in (
        ("--encoding", "utf-8", "--encoding: the file is not in 'utf-8'"),
        ("--encoding", "klingon", "--encoding: found 'klingon'; the name of an encoding"),
        ("--separator", "::", "--separator: found '::'; one character is needed"),
    ):
        shown = CliRunner().invoke(app, [*arguments, str(tmp_path / "b"), option, value])
        assert isinstance(shown.exception, InputError)
        assert says in str(shown.exception)


def test_a_decimal_comma(tmp_path: Path) -> None:
    """12,0 people are 12; the spec says how the file is written."""
    frame = people().groupby(["Kreis", "Gemeinde", "Geschlecht"], as_index=False).size()
    frame["Anzahl"] = [f"{n},0" for n in frame.pop("size")]
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";")
    spec = imported(tmp_path / "out", TableSource(str(tmp_path / "a.csv")))
    assert spec.input is not None
    assert (spec.input.form, spec.input.decimal, spec.input.separator) == ("long", ",", ";")
    assert counts_of(spec) == expected()


def test_commas_within_fields_do_not_mislead(tmp_path: Path) -> None:
    """Semicolons stand between fields although commas stand in each of them."""
    path = tmp_path / "a.csv"
    path.write_text("town;what\n" + "".join(f"T{i};a,b,c\n" for i in range(9)))
    text, _ = guess_format(path, AskedFormat())
    assert text.separator == ";"


def test_a_workbook(tmp_path: Path) -> None:
    """Its first sheet, or the one that is named; numbers, dates and empty rows are text as a CSV file has it."""
    frame = people().assign(n=3, born=datetime.date(2001, 2, 3))
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame({"nothing": ["here"]}).to_excel(book, sheet_name="About", index=False)
        frame.to_excel(book, sheet_name="Data", index=False, startrow=2)
    source = TableSource(str(tmp_path / "a.xlsx"), sheet="Data")
    spec = imported(tmp_path / "out", source)
    assert counts_of(spec) == expected()
    written = tmp_path / "out" / "persons.parquet"
    assert written.stat().st_mode & 0o777 == 0o600
    assert pd.read_parquet(written).iloc[0].tolist() == [*people().iloc[0], "3", "2001-02-03 00:00:00"]
    with pytest.raises(InputError, match="no sheet 'None'; the sheets are About, Data"):
        import_table(TableRequest(TableSource(str(tmp_path / "a.xlsx"), sheet="None")), tmp_path / "b")
    alone = import_table(TableRequest(TableSource(str(tmp_path / "a.xlsx"))), tmp_path / "alone")
    assert counts_of(load_spec(alone.spec)) == expected(), "the only sheet with a table is taken"
    (tmp_path / "c.xlsx").write_text("no workbook")
    with pytest.raises(InputError, match=r"c.xlsx: not a readable workbook"):
        import_table(TableRequest(TableSource(str(tmp_path / "c.xlsx"))), tmp_path / "b")


@pytest.mark.parametrize("name", ["a.sqlite", "a.db", "sqlite:///{folder}/a.sqlite3"])
def test_sqlite(name: str, tmp_path: Path) -> None:
    """A file of SQLite by its ending or its content, or a URL; nothing is changed in it."""
    name = name.format(folder=tmp_path)
    path = Path(name.removeprefix("sqlite://")) if "://" in name else tmp_path / name
    with sqlite3.connect(path) as connection:
        people().to_sql("people", connection, index=False)
    before = path.read_bytes()
    source = name if "://" in name else str(path)
    spec = imported(tmp_path / "out", TableSource(source, "select * from people where Geschlecht like '%lich'"))
    assert counts_of(spec) == expected()
    for query in ("delete from people returning *", "drop table people"):
        with pytest.raises(InputError):
            import_table(TableRequest(TableSource(source, query)), tmp_path / "b")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("mysql+nodriver://u:secret@h/d", "a database \\(mysql\\): the URL is none that SQLAlchemy knows"),
        (
            "oracle+cx_oracle://u:secret@h/d",
            "a database \\(oracle\\): its driver is not installed: pip install cx_Oracle",
        ),
        ("nothing://u:secret@h/d", "a database \\(nothing\\): "),
        ("{folder}/none.sqlite", "no such file; a SQLite database is needed"),
    ],
)
def test_urls_that_cannot_be_asked(source: str, says: str, tmp_path: Path) -> None:
    """One message each, without the password."""
    with pytest.raises(InputError, match=says) as error:
        import_table(TableRequest(TableSource(source.format(folder=tmp_path), "select 1")), tmp_path / "out")
    assert "secret" not in str(error.value)


def test_a_geography_of_another_form(tmp_path: Path) -> None:
    """The list of areas may be written in its own way, which the spec says."""
    people().to_csv(tmp_path / "p.csv", index=False)
    spec_file = import_table(TableRequest(TableSource(str(tmp_path / "p.csv"))), tmp_path / "out").spec
    areas = people()[["Kreis", "Gemeinde"]].drop_duplicates()
    areas.to_csv(tmp_path / "out" / "areas.csv", index=False, sep=";", encoding="utf-16")
    text = spec_file.read_text().replace(
        'file = "areas.parquet"', 'file = "areas.csv"\nseparator = ";"\nencoding = "utf-16"'
    )
    spec_file.write_text(text)
    spec = load_spec(spec_file)
    assert counts_of(spec) == expected()
    assert encode(spec.geography)["separator"] == ";"
    spec_file.write_text(text.replace('encoding = "utf-16"', 'encoding = "klingon"').replace('";"', '"ab"'))
    with pytest.raises(InputError, match=r"geography.separator: found 'ab'; one character(.|\n)*geography.encoding"):
        load_spec(spec_file)
