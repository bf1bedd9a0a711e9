"""Files and layouts as offices write them: the same people from each; what is no table stops."""

from __future__ import annotations

import gzip
import sqlite3
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from releases.imported import open_problems

from features.imports.tables.description import describe_table
from features.imports.tables.importer import import_table
from features.imports.tables.statement import TableStatement
from pipeline.errors import InputError, SpinewiseError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

N = 300


def people() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    town = rng.integers(0, 6, N)
    return pd.DataFrame(
        {
            "Kreis": [f"{t // 3 + 1:02d}" for t in town],
            "Gemeinde": [f"{t // 3 + 1:02d}{t:03d}" for t in town],
            "Geschlecht": rng.choice(["männlich", "weiblich"], N),
        }
    )


def imported(out: Path, source: object, **more: Any) -> ReleaseSpec:
    """The spec of the people above as they are stated, found valid for its own records."""
    stated: dict[str, Any] = {
        "geography": "Kreis,Gemeinde", "records": True, "attributes": "Geschlecht", "expect_records": N,
        "expect_areas": 6,
    }  # fmt: skip
    spec = import_table(TableStatement(str(source), **(stated | more)), out).spec
    assert open_problems(None, spec) == []
    return load_spec(spec)


def counts_of(spec: ReleaseSpec) -> list[list[int]]:
    universe = spec.universes()[0]
    return tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).toarray().tolist()


def expected() -> list[list[int]]:
    return pd.crosstab(people()["Gemeinde"], people()["Geschlecht"]).to_numpy().tolist()


@pytest.mark.parametrize(
    ("separator", "encoding", "ending"),
    [(",", "utf-8", ".csv"), (";", "cp1252", ".txt.gz"), ("\t", "utf-16", ".zip"), ("|", "utf-8-sig", ".tsv")],
)
def test_text_files(separator: str, encoding: str, ending: str, tmp_path: Path) -> None:
    """How a file is written is seen by its first bytes, and held to by the strict reader."""
    text = people().to_csv(index=False, sep=separator).encode(encoding)
    path = tmp_path / f"a{ending}"
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", text)
    else:
        path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    spec = imported(tmp_path / "out", path)
    assert counts_of(spec) == expected()
    assert spec.schema_section.attributes["Geschlecht"] == ("männlich", "weiblich")
    assert (tmp_path / "out" / "persons.parquet").stat().st_mode & 0o777 == 0o600


def test_a_parquet_file_and_an_open_document(tmp_path: Path) -> None:
    """The latter with empty cells and rows that are repeated to the sheet's end."""
    people().to_parquet(tmp_path / "a.parquet")
    assert counts_of(imported(tmp_path / "parquet", tmp_path / "a.parquet")) == expected()
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rest = '<table:table-cell table:number-columns-repeated="1000"/>'
    rows = [people().columns.tolist(), *people().to_numpy().tolist()]
    texts = [f"<table:table-row>{''.join(map(cell.format, row))}{rest}</table:table-row>" for row in rows]
    texts.append(f'<table:table-row table:number-rows-repeated="1000000">{rest}</table:table-row>')
    assert counts_of(imported(tmp_path / "ods", _ods(tmp_path / "a.ods", "".join(texts)))) == expected()


def test_a_workbook(tmp_path: Path) -> None:
    """The sheet that is named, below its titles; messages name the user's sheet and row."""
    path = tmp_path / "a.xlsx"
    frame = people().assign(n=1)
    frame.loc[3, "n"] = -1
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"nothing": ["here"]}).to_excel(book, sheet_name="About", index=False)
        frame.to_excel(book, sheet_name="Data", index=False, startrow=2)
    assert counts_of(imported(tmp_path / "out", path, sheet="Data", header="3")) == expected()
    for wrong, says in (
        ({}, "the workbook has the sheets 'About', 'Data'; name one with --sheet"),
        ({"sheet": "None", "header": "3"}, "not a readable workbook: .*None"),
        (
            {"sheet": "Data", "header": "3", "records": False, "count": "n"},
            r"sheet 'Data', row 7, column 'n': found '-1'",
        ),
    ):
        with pytest.raises(InputError, match=says):
            imported(tmp_path / "b", path, **wrong)


def _packed(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _content(rows: str) -> str:
    """Of an OpenDocument spreadsheet."""
    names = "".join(f' xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for n in ("office", "table", "text"))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{names}><office:body><office:spreadsheet>'
        f'<table:table table:name="D">{rows}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )


_MANIFEST = """<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
 manifest:version="1.2"><manifest:file-entry manifest:full-path="/"
 manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>"""


def _ods(path: Path, rows: str) -> Path:
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return _packed(path, {"mimetype": kind, "META-INF/manifest.xml": _MANIFEST, "content.xml": _content(rows)})


def _xlsx(path: Path, sheet: str) -> Path:
    pd.DataFrame({"Gemeinde": ["a"]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    return _packed(path, files | {"xl/worksheets/sheet1.xml": sheet})


_SHEET = """<?xml version="1.0"?>DOCTYPE<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>TEXT</t></is></c></row></sheetData></worksheet>"""
_LAUGHS = "<!DOCTYPE z [<!ENTITY a0 'lol'>" + "".join(
    f"<!ENTITY a{i + 1} '{f'&a{i};' * 10}'>" for i in range(9)
) + "]>"  # fmt: skip
_CELL = '<table:table-cell office:value-type="string"REPEATED><text:p>x</text:p></table:table-cell>'
_HEAD = f"<table:table-row>{_CELL.replace('REPEATED', '').replace('>x<', '>Gemeinde<')}</table:table-row>"


def _hostile(kind: str, folder: Path) -> Path:
    if kind in ("entities", "external entity", "a long cell"):
        document, text = {
            "entities": (_LAUGHS, "&a9;"),
            "external entity": ("<!DOCTYPE z [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>", "&e;"),
            "a long cell": ("", "A"),
        }[kind]
        text *= 600_000_000 if kind == "a long cell" else 1
        return _xlsx(folder / "a.xlsx", _SHEET.replace("DOCTYPE", document).replace("TEXT", text))
    value = 'office:value-type="float" office:value="1,5"'
    rows, cell = {
        "rows repeated 1e3": ("1e3", _CELL.replace("REPEATED", "")),
        "value 1,5": ("1", f"<table:table-cell {value}><text:p>1,5</text:p></table:table-cell>"),
        "a row repeated": ("100000000", _CELL.replace("REPEATED", "")),
        "a cell repeated": ("1000", _CELL.replace("REPEATED", ' table:number-columns-repeated="100000"')),
    }[kind]
    repeated = f'<table:table-row table:number-rows-repeated="{rows}">{cell}</table:table-row>'
    return _ods(folder / "a.ods", _HEAD + repeated)


@pytest.mark.parametrize(
    "kind",
    [
        "entities", "external entity", "rows repeated 1e3", "value 1,5", "a cell repeated",
        pytest.param("a row repeated", marks=pytest.mark.slow),
        pytest.param("a long cell", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_workbooks_that_are_no_end_stop(kind: str, tmp_path: Path) -> None:
    """In a process of limited time and memory; with a message, and nothing written."""
    path = _hostile(kind, tmp_path)
    began = time.monotonic()
    with pytest.raises(SpinewiseError) as stop:
        imported(tmp_path / "out", path, geography="Gemeinde", attributes=None, records=False, count="Gemeinde")
    assert str(path) in str(stop.value)
    assert "root:" not in str(stop.value)
    assert time.monotonic() - began < 60  # 8 seconds of CPU at most, on a busy machine
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", ["dta", "sav", "xpt"])
def test_files_of_statistics_programs(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / f"table.{ending}"
    frame = people().rename(columns={"Geschlecht": "sex"})
    write = getattr(pyreadstat, "write_xport" if ending == "xpt" else f"write_{ending}")
    write(frame.replace({"männlich": "m", "weiblich": "w"}), str(path))
    assert counts_of(imported(tmp_path / "out", path, attributes="sex")) == expected()
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(InputError, match=r'pip install "pyreadstat>=1.2"'):
        imported(tmp_path / "b", path)


def test_labels_of_codes(tmp_path: Path) -> None:
    """Codes stay codes in the records; the schema has their labels, also those of codes that no record has."""
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = people().replace({"männlich": 1, "weiblich": 2})
    labels = {"Geschlecht": {1: "Männer", 2: "Frauen", 9: "divers"}}
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"), variable_value_labels=labels)
    spec = imported(tmp_path / "out", tmp_path / "a.sav")
    assert spec.schema_section.attributes["Geschlecht"] == ("Männer", "Frauen", "divers")
    assert [row[:2] for row in counts_of(spec)] == expected()


@pytest.mark.parametrize("name", ["a.sqlite", "a.db", "sqlite:///{folder}/a.sqlite3"])
def test_sqlite(name: str, tmp_path: Path) -> None:
    """A file of SQLite by its ending or its content, or a URL; nothing is changed in it."""
    name = name.format(folder=tmp_path)
    path = Path(name.removeprefix("sqlite://")) if "://" in name else tmp_path / name
    with sqlite3.connect(path) as connection:
        people().to_sql("people", connection, index=False)
    before = path.read_bytes()
    source = name if "://" in name else str(path)
    spec = imported(tmp_path / "out", source, query="select * from people where Geschlecht like '%lich'")
    assert counts_of(spec) == expected()
    for query in ("delete from people returning *", "drop table people"):
        with pytest.raises(InputError):
            imported(tmp_path / "b", source, query=query)
    assert path.read_bytes() == before


def test_a_duckdb_query(tmp_path: Path) -> None:
    """A query of a database, or over files, is the table that it gives."""
    duckdb = pytest.importorskip("duckdb")
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", frame)
        connection.execute("create table people as select * from given")
    grouped = "select Kreis, Gemeinde, Geschlecht, sum(1) as n from people group by all order by all"
    over_files = f"select * from read_csv('{tmp_path / 'people.csv'}', all_varchar = true)"
    tables: tuple[tuple[object, dict[str, Any]], ...] = (
        (tmp_path / "people.duckdb", {"query": "select * from people"}),
        ("duckdb:", {"query": over_files}),
        (tmp_path / "people.duckdb", {"query": grouped, "records": False, "count": "n"}),
    )
    for number, (source, more) in enumerate(tables):
        assert counts_of(imported(tmp_path / str(number), source, **more)) == expected()
    assert "# The query:" in (tmp_path / "2" / "release.toml").read_text()


@pytest.mark.parametrize(
    ("source", "query", "says"),
    [
        ("{folder}/a.duckdb", None, "a database needs a query"),
        ("{folder}/a.csv", "select 1", "a query needs a database"),
        ("{folder}/none.duckdb", "select 1", "no such file; a DuckDB database is needed"),
        ("{folder}/none.sqlite", "select 1", "no such file; a SQLite database is needed"),
        ("duckdb:", "select * from nothing", "DuckDB: Catalog Error"),
        ("duckdb:", "select 1 as a where false", "the query has no rows"),
        ("duckdb:", "create table t (a int)", "the query (gives|has) no rows"),
        ("postgresql://nobody@127.0.0.1:1/none", "select 1", "a PostgreSQL database: "),
        ("mysql+nodriver://u:secret@h/d", "select 1", r"a database \(mysql\): the URL is none that SQLAlchemy knows"),
        ("oracle+cx_oracle://u:secret@h/d", "select 1", "its driver is not installed: pip install cx_Oracle"),
    ],
)
def test_databases_that_cannot_be_asked(source: str, query: str | None, says: str, tmp_path: Path) -> None:
    """One clear message each, without the password, and no folder left."""
    pytest.importorskip("duckdb")
    with pytest.raises(InputError, match=says) as stop:
        imported(tmp_path / "out", source.format(folder=tmp_path), query=query)
    assert "secret" not in str(stop.value)
    assert list(tmp_path.iterdir()) == []


def test_a_postgresql_query(tmp_path: Path) -> None:
    """A real server: the same histograms as from the file; the password is nowhere; nothing can be written by it."""
    import sqlalchemy as sa
    from oracles.postgresql import NoServerError, server

    try:
        with server() as url:
            engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
            people().to_sql("people", engine, index=False)
            engine.dispose()
            secret = sa.make_url(url).set(drivername="postgresql", password="hunter2")
            text = secret.render_as_string(hide_password=False)
            spec = imported(tmp_path / "a", text, query="select * from people")
            taking = "with gone as (delete from people returning *) select * from gone"
            for query in (taking, "delete from people returning *", "drop table people"):
                with pytest.raises(InputError, match="a PostgreSQL database: "):
                    imported(tmp_path / "b", text, query=query)
            again = imported(tmp_path / "c", text, query="select * from people where \"Geschlecht\" like '%'")
    except NoServerError as error:
        pytest.skip(str(error))
    assert counts_of(spec) == counts_of(again) == expected()
    assert "hunter2" not in (tmp_path / "a" / "release.toml").read_text()


def _latin_1(folder: Path, rows: list[list[object]]) -> tuple[Path, dict[str, Any]]:
    """Columns without names under titles, the sum of all areas among these, and notes."""
    above: list[list[object]] = [
        ["Tabelle 12411"],
        ["", "Anzahl", "Anzahl"],
        ["", "männlich", "weiblich"],
        ["DG", 9, 9],
    ]
    text = "\n".join(";".join(map(str, row)) for row in [*above, *rows])
    (folder / "a.csv").write_bytes(f"{text}\n_____\n(C)opyright Ämter\n".encode("cp1252"))
    return folder / "a.csv", {
        "geography": "column_1", "levels": "land=2,kreis=5", "header": "3", "last": 10, "only": ("column_1 != DG",),
        "wide": "{Geschlecht:männlich|weiblich}",
    }  # fmt: skip


def _workbook(folder: Path, rows: list[list[object]], merged: Sequence[str]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    for span in merged:
        book.worksheets[0].merge_cells(span)
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


def _merged_heads(folder: Path, rows: list[list[object]]) -> tuple[Path, dict[str, Any]]:
    heads: list[list[object]] = [["Bevölkerung"], ["Gemeinde", "Personen", None], [None, "männlich", "weiblich"]]
    path = _workbook(folder, [*heads, *rows], ["A2:A3", "B2:C2"])
    return path, {"geography": "Gemeinde", "header": "2:3", "wide": "Personen {Geschlecht:männlich|weiblich}"}


def _blank_rows_and_formulas(folder: Path, rows: list[list[object]]) -> tuple[Path, dict[str, Any]]:
    """Sums are formulas whose value nobody stored; a blank row and a sum before each three areas."""
    parts: list[list[object]] = []
    for number, region in enumerate(("Nord", "Süd")):
        parts += [[], [region, 9, 9, "=B5+C5"], *([*row, "=B6+C6"] for row in rows[3 * number : 3 * number + 3])]
    path = _workbook(folder, [["Tabelle"], ["Gemeinde", "männlich", "weiblich", "alle"], *parts, [], ["Quelle"]], [])
    stated = {"geography": "Gemeinde", "header": "2", "last": 12, "only": ("Gemeinde not in Nord, Süd",)}
    return path, {**stated, "wide": "{Geschlecht:männlich|weiblich}"}


@pytest.mark.parametrize("write", [_latin_1, _merged_heads, _blank_rows_and_formulas])
def test_layouts_of_offices_are_read_right(write: Callable[..., tuple[Path, dict[str, Any]]], tmp_path: Path) -> None:
    """To the last cell; with one person more or fewer than stated it stops; described, it is not touched."""
    codes = sorted(people()["Gemeinde"].unique())
    path, stated = write(tmp_path, [[code, *row] for code, row in zip(codes, expected(), strict=True)])
    stated |= {"records": False, "attributes": None}
    assert describe_table(TableStatement(str(path)))[-1].startswith("spinewise import table ")
    for off, says in ((1, "1 fewer than --expect-records"), (-1, "1 more than --expect-records")):
        with pytest.raises(SpinewiseError, match=says):
            imported(tmp_path / "out", path, **stated, expect_records=N + off)
    assert list(tmp_path.iterdir()) == [path]
    assert counts_of(imported(tmp_path / "out", path, **stated)) == expected()
