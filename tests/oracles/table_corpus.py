"""One population, written as offices write tables: every form, and every two forms together, from fixed seeds."""

from __future__ import annotations

import gzip
import io
import itertools
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

REGIONS = ("North", "South", "West")
NAMES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel", "Ivy")
AGES, SEXES = ("0-14", "15-64", "65+"), ("female", "male")
#: (area, region) as codes: three municipalities in each region.
MUNICIPALITIES = tuple((f"GM{i:04d}", f"PV{i // 3 + 21}") for i in range(9))


@cache
def population() -> Any:
    """The truth: area, region, their names, sex, age, count; counts on both sides of 1,000, and one of 0."""
    rng = np.random.default_rng(35)
    rows = []
    for i, (area, region) in enumerate(MUNICIPALITIES):
        for sex, age in itertools.product(SEXES, AGES):
            rows.append((area, NAMES[i], region, REGIONS[i // 3], sex, age, int(rng.integers(40, 4000))))
    frame = pd.DataFrame(rows, columns=["area", "name", "region", "region_name", "sex", "age", "count"])
    frame.loc[7, "count"] = 0
    return frame


@dataclass
class Table:
    """A table on its way to a file: rows of text with a header, what stands around them, and what has to come of it."""

    frame: Any  # a pandas.DataFrame, of texts and numbers in the same columns
    labels: list[str]
    counts: list[str]
    header: list[list[str]] | None = None
    above: list[list[str]] = field(default_factory=list)
    below: list[list[str]] = field(default_factory=list)
    form: str = "long"
    #: Column -> the rows of it that are left out, since they are sums or something else.
    left_out: dict[str, list[str]] = field(default_factory=dict)
    #: Columns of cells that are no whole numbers as such, or whether the file has lines that are no rows.
    unread: set[str] = field(default_factory=set)
    no_rows: bool = False


Step = Callable[[Table], None]


def base() -> Table:
    """A row for each cell, codes of areas, a column that is called count."""
    frame = population()[["area", "sex", "age", "count"]].copy()
    return Table(frame, ["area", "sex", "age"], ["count"])


# How rows stand for people


def wide(table: Table) -> None:
    table.frame["cell"] = table.frame["sex"] + "_" + table.frame["age"]
    spread(table, "cell", [name for name in table.labels if name not in ("sex", "age")])
    table.form = "wide"


def spread(table: Table, by: str, keys: list[str]) -> None:
    order = list(dict.fromkeys(table.frame[by]))
    first = table.frame[keys].drop_duplicates()
    values = table.frame.pivot_table(index=keys, columns=by, values="count", aggfunc="sum", sort=False, dropna=False)
    table.frame = first.merge(values[order].reset_index(), on=keys, how="left").astype(dict.fromkeys(order, int))
    table.labels, table.counts = keys, order


def hybrid(table: Table) -> None:
    spread(table, "sex", [name for name in table.labels if name not in ("sex", "sex_label")])
    table.form = "hybrid"


def hybrid_with_sum(table: Table) -> None:
    hybrid(table)
    table.frame["persons"] = table.frame[table.counts].sum(axis=1)
    table.counts.append("persons")


def wide_with_sums(table: Table) -> None:
    wide(table)
    for sex in dict.fromkeys(name.split("_")[0] for name in list(table.counts)):
        parts = [name for name in table.counts if name.startswith(f"{sex}_")]
        table.frame[f"{sex}_all"] = table.frame[parts].sum(axis=1)
    sums = [f"{sex}_all" for sex in SEXES]
    table.frame["everybody"] = table.frame[sums].sum(axis=1)
    table.counts += [*sums, "everybody"]


def two_header_rows(table: Table) -> None:
    wide(table)
    upper, last = [""] * len(table.labels), ""
    for name in table.counts:
        sex = name.split("_")[0]
        upper.append(sex if sex != last else "")
        last = sex
    table.header = [upper, [*table.labels, *(name.split("_", 1)[1] for name in table.counts)]]


def microdata(table: Table) -> None:
    table.frame["count"] = np.minimum(table.frame["count"] // 100, 30)
    table.frame = table.frame.loc[table.frame.index.repeat(table.frame["count"])][table.labels].reset_index(drop=True)
    table.counts = []
    table.form = "microdata"


def few_rows(table: Table) -> None:
    """Areas by sex only: 18 rows, nearly all counts different."""
    table.frame = table.frame.groupby([n for n in table.labels if n != "age"], as_index=False, sort=False)[
        "count"
    ].sum()
    table.labels.remove("age")


def one_column(table: Table) -> None:
    """Areas with their people."""
    table.frame = table.frame.groupby(["area"], as_index=False, sort=False)["count"].sum()
    table.labels = ["area"]
    table.form = "one"


# What a column of counts is called


def called(name: str) -> Step:
    def step(table: Table) -> None:
        if table.counts == ["count"]:
            table.frame = table.frame.rename(columns={"count": name})
            table.counts = [name]

    return step


# How cells are written


def thousands(separator: str) -> Step:
    def step(table: Table) -> None:
        for name in table.counts:
            written = [_number(value, lambda n: f"{n:,}".replace(",", separator)) for value in table.frame[name]]
            if any(str(value) != str(number) for value, number in zip(written, table.frame[name], strict=True)):
                table.unread.add(name)
            table.frame[name] = written

    return step


def decimals(table: Table) -> None:
    for name in table.counts:
        table.frame[name] = [_number(value, lambda n: f"{n}.0") for value in table.frame[name]]
        table.frame[name] = [str(v).replace(".0", "") + ".0" if "," in str(v) else v for v in table.frame[name]]
        table.unread.add(name)


def _spoil(table: Table, name: str, row: int) -> None:
    """A cell cannot be read; that is no matter in a row that is left out."""
    cells = table.frame.iloc[row]
    if not any(cells[column] in texts for column, texts in table.left_out.items()):
        table.unread.add(name)


def footnote(table: Table) -> None:
    if table.counts:
        name = table.counts[0]
        table.frame[name] = table.frame[name].astype(object)
        table.frame.loc[2, name] = f"{table.frame.loc[2, name]} (1)"
        _spoil(table, name, 2)


def flags_behind(table: Table) -> None:
    for name in table.counts[:1]:
        table.frame[name] = [
            f"{value} {'bp'[i % 2] if i % 4 == 0 else ''}".rstrip() for i, value in enumerate(table.frame[name])
        ]
        table.unread.add(name)


def mark(text: str) -> Step:
    def step(table: Table) -> None:
        if table.counts:
            name = table.counts[-1] if table.form != "hybrid" else table.counts[0]
            table.frame[name] = table.frame[name].astype(object)
            table.frame.loc[table.frame.index[3], name] = text
            _spoil(table, name, 3)

    return step


def _number(value: object, write: Callable[[int], str]) -> object:
    return write(int(value)) if isinstance(value, int | np.integer) else value


# Totals among rows


def total_of(column: str, text: str) -> Step:
    def step(table: Table) -> None:
        if column in table.frame:
            keys = [name for name in table.labels if name not in (column, f"{column}_label")]
            sums = table.frame.groupby(keys, as_index=False, sort=False)["count"].sum() if keys else None
            if sums is not None:
                sums[column] = text
                if f"{column}_label" in table.frame:
                    sums[f"{column}_label"] = text
                table.frame = pd.concat([table.frame, sums], ignore_index=True)[[*table.labels, "count"]]
                table.left_out[column] = [text]

    return step


def country(first: bool, off: int = 0, code: str = "NL00") -> Step:
    def step(table: Table) -> None:
        keys = [name for name in table.labels if name in ("sex", "age", "sex_label")]
        whole = table.frame.groupby(keys, as_index=False, sort=False)["count"].sum()
        whole.loc[0, "count"] += off
        for name in table.labels:
            if name not in keys:
                whole[name] = {"name": "The whole", "region": "NL", "region_name": "The whole"}.get(name, code)
        parts = [whole, table.frame] if first else [table.frame, whole]
        table.frame = pd.concat(parts, ignore_index=True)[[*table.labels, "count"]]
        table.left_out.setdefault("area", []).append(code)

    return step


def regions(interleaved: bool, with_country: bool = False, off: int = 0) -> Step:
    def step(table: Table) -> None:
        of = dict(MUNICIPALITIES)
        keys = [name for name in table.labels if name in ("sex", "age", "sex_label")]
        region_of = table.frame["area"].map(of)
        parts = []
        blocks: list[Any] = []
        for code in dict.fromkeys(of.values()):
            sums = table.frame[region_of == code].groupby(keys, as_index=False, sort=False)["count"].sum()
            for name in table.labels:
                if name not in keys:
                    sums[name] = REGIONS[int(code[2:]) - 21] if name in ("name", "region_name") else code
            if off and not blocks:
                sums.loc[1, "count"] += off
            blocks.append(sums)
            table.left_out.setdefault("area", []).append(code)
            parts += [sums, table.frame[region_of == code]]
        ordered = parts if interleaved else [*blocks, table.frame]
        whole = table.frame
        table.frame = pd.concat(ordered, ignore_index=True)[[*table.labels, "count"]]
        if with_country:
            top = Table(whole.copy(), table.labels, table.counts, left_out=table.left_out)
            country(True)(top)
            n = len(top.frame) - len(whole)
            table.frame = pd.concat([top.frame.iloc[:n], table.frame], ignore_index=True)

    return step


# Areas


def with_names(table: Table) -> None:
    table.frame.insert(
        1, "name", table.frame["area"].map(dict(zip(population()["area"], population()["name"], strict=True)))
    )
    table.labels.insert(1, "name")
    renamed = {"area": "area_code", "name": "area_name"}
    del renamed


def geography_and_code(table: Table) -> None:
    """Two columns whose names differ by "code" only; the first holds the names."""
    with_names(table)
    table.frame = table.frame.rename(columns={"name": "Geography", "area": "Geography code"})
    table.labels = [{"name": "Geography", "area": "Geography code"}.get(name, name) for name in table.labels]


def names_only(table: Table) -> None:
    table.frame["area"] = table.frame["area"].map(dict(zip(population()["area"], population()["name"], strict=True)))
    table.frame = table.frame.rename(columns={"area": "municipality"})
    table.labels[0] = "municipality"


def with_regions(table: Table) -> None:
    table.frame.insert(0, "region", table.frame["area"].map(dict(MUNICIPALITIES)))
    table.labels.insert(0, "region")


def lsoa_names(table: Table) -> None:
    with_names(table)
    table.frame = table.frame.rename(columns={"name": "lad23nm", "area": "lad23cd"})
    table.labels = [{"name": "lad23nm", "area": "lad23cd"}.get(name, name) for name in table.labels]


def geo_time(table: Table) -> None:
    table.frame = table.frame.rename(columns={"area": "geo\\time"})
    table.labels = ["geo\\time" if name == "area" else name for name in table.labels]


# More columns


def more(name: str, values: Callable[[int], Sequence[object]]) -> Step:
    def step(table: Table) -> None:
        table.frame[name] = values(len(table.frame))

    return step


def sex_label(table: Table) -> None:
    if "sex" in table.frame and "sex" in table.labels:
        table.frame.insert(
            list(table.frame).index("sex") + 1, "sex_label", table.frame["sex"].map({"female": "F", "male": "M"})
        )
        table.labels.insert(table.labels.index("sex") + 1, "sex_label")


def percentages(table: Table) -> None:
    """Rows of percentages among the rows of people."""
    share = table.frame.copy()
    share["count"] = [f"{n / 100:.2f}" for n in range(1, len(share) + 1)]
    table.frame = pd.concat([table.frame.assign(measure="Number"), share.assign(measure="Percent")], ignore_index=True)
    table.labels.append("measure")
    table.left_out["measure"] = ["Percent"]


def two_years(table: Table) -> None:
    second = table.frame.copy()
    second["count"] = second["count"] + 3
    table.frame = pd.concat([table.frame.assign(year="2011"), second.assign(year="2021")], ignore_index=True)
    table.labels.append("year")
    table.left_out["year"] = ["2021"]


def weights(table: Table) -> None:
    if table.form == "microdata":
        table.frame["pweight"] = [(1.75, 2.5, 3.25)[i % 3] for i in range(len(table.frame))]


# What stands around the table


def titles(table: Table) -> None:
    table.above = [["Population by sex and age, 1 January 2024"], [], ["Source: the statistical office"], []]


def notes(table: Table) -> None:
    table.below = [
        [],
        ["Source: the statistical office, table 4."],
        ["(1) Estimated from the register."],
        ["* suppressed"],
    ]
    table.no_rows = True


def padded_notes(table: Table) -> None:
    width = len(table.frame.columns)
    table.below = [["Source: the statistical office, table 4.", *[""] * (width - 1)]]
    table.no_rows = True


def unit_row(table: Table) -> None:
    table.header = [
        list(table.frame.columns),
        ["persons" if name in table.counts else "" for name in table.frame.columns],
    ]


# What is typed


def stated(table: Table, file: str) -> dict[str, Any]:
    """The statement of how the table is to be read: what a person who knows it types."""
    places = {
        "area": "area", "geo\\time": "geo\\time", "municipality": "municipality", "lad23cd": "lad23cd=lad23nm",
        "Geography code": "Geography code=Geography",
    }  # fmt: skip
    area = next(name for name in table.frame.columns if name in places)
    leaf = "area=name" if area == "area" and "name" in table.labels else places[area]
    given: dict[str, Any] = {"geography": ",".join([*(["region"] if "region" in table.labels else []), leaf])}
    attributes = [name for name in ("sex", "age") if name in table.labels]
    given["attributes"] = ",".join(attributes) or None
    units = " persons" if _has_units(table) else ""
    if table.form == "microdata":
        given["records"] = True
    elif table.form == "hybrid":
        given["wide"] = f"{{sex:{'|'.join(SEXES)}}}{units}"
    elif table.form == "wide":
        between = " " if table.header and not _has_units(table) else "_"
        given["wide"] = f"{{sex:{'|'.join(SEXES)}}}{between}{{age:{'|'.join(AGES)}}}{units}"
    else:
        given["count"] = table.counts[0] + units
    given["only"] = tuple(
        f"{column} != {texts[0] or repr('')}" if len(texts) == 1 else f"{column} not in {', '.join(texts)}"
        for column, texts in table.left_out.items()
    )
    first, n = len(table.above) + 1, len(table.header or [1])
    if (first, n) != (1, 1):
        given["header"] = f"{first}:{first + n - 1}"
    if file == "xlsx":
        given["sheet"] = "Data"
    return given


def _has_units(table: Table) -> bool:
    return table.header is not None and "persons" in table.header[-1]


def stops(table: Table) -> bool:
    """Whether it has cells or lines that cannot be read as such, whatever is stated."""
    read = [name for name in table.counts if name not in ("persons", "everybody") and not name.endswith("_all")]
    return table.no_rows or any(name in table.unread for name in (read or table.counts))


# Files


def rows_of(table: Table) -> list[list[str]]:
    frame = table.frame.astype(object).where(table.frame.notna(), "")
    body = [[str(value) for value in row] for row in frame.itertuples(index=False)]
    return [*table.above, *(table.header or [[str(name) for name in frame.columns]]), *body, *table.below]


def write_csv(separator: str = ",", encoding: str = "utf-8", ending: str = ".csv") -> Callable[[Table, Path], Path]:
    def write(table: Table, folder: Path) -> Path:
        text = io.StringIO()
        import csv

        csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows_of(table))
        data = text.getvalue().encode(encoding, errors="replace")
        path = folder / f"table{ending}"
        if ending.endswith(".gz"):
            data = gzip.compress(data)
        if ending == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("table.csv", data)
        else:
            path.write_bytes(data)
        return path

    return write


def write_xlsx(table: Table, folder: Path) -> Path:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "About"
    book.active.append(["This workbook has one table"])
    sheet = book.create_sheet("Data")
    for row in rows_of(table):
        sheet.append([int(cell) if cell.isdigit() and len(cell) < 6 else (cell or None) for cell in row])
    book.save(folder / "table.xlsx")
    return folder / "table.xlsx"


def write_ods(table: Table, folder: Path) -> Path:
    """By hand, as OpenDocument 1.2 (part 1, section 9) has it."""
    rows = []
    for row in rows_of(table):
        cells = []
        for cell in row:
            if cell.isdigit() and len(cell) < 6:
                cells.append(
                    f'<table:table-cell office:value-type="float" office:value="{cell}">'
                    f"<text:p>{cell}</text:p></table:table-cell>"
                )
            elif cell:
                cells.append(
                    f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
                )
            else:
                cells.append('<table:table-cell table:number-columns-repeated="1"/>')
        rows.append(
            f"<table:table-row>{''.join(cells)}"
            '<table:table-cell table:number-columns-repeated="1000"/></table:table-row>'
        )
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    content = (
        f"<?xml version='1.0' encoding='UTF-8'?><office:document-content{names}><office:body><office:spreadsheet>"
        f'<table:table table:name="Data">{"".join(rows)}<table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="1000"/></table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(folder / "table.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", _MANIFEST)
    return folder / "table.ods"


_MANIFEST = """<?xml version="1.0" encoding="UTF-8"?>
<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" manifest:version="1.2">
<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/>
<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>
</manifest:manifest>"""


def write_parquet(table: Table, folder: Path) -> Path:
    table.frame.astype(str).to_parquet(folder / "table.parquet")
    return folder / "table.parquet"


#: Dimension -> its forms; a file has at most one form of each, and steps are taken in this order.
FORMS: Mapping[str, Mapping[str, Step]] = {
    "labels": {"sex_label": sex_label},
    "areas": {
        "names": with_names, "geography": geography_and_code, "names_only": names_only, "regions": with_regions,
        "lsoa": lsoa_names, "geo_time": geo_time,
    },
    "rows": {"few": few_rows},
    "totals": {
        "sex": total_of("sex", "Total"), "age": total_of("age", "Insgesamt"), "sex_empty": total_of("sex", ""),
    },
    "area_totals": {
        "country_first": country(True), "country_last": country(False, code="ZZ"), "country_off": country(True, off=3),
        "regions_first": regions(False), "regions_between": regions(True), "all_levels": regions(True, True),
        "region_off": regions(True, off=2), "all_blocks": regions(False, True),
    },
    "mixed": {"percent": percentages, "years": two_years},
    "form": {
        "wide": wide, "hybrid": hybrid, "hybrid_sum": hybrid_with_sum, "wide_sums": wide_with_sums,
        "two_headers": two_header_rows, "microdata": microdata, "one": one_column,
    },
    "name": {
        name: called(name)
        for name in ("Observation", "population", "value", "n", "persons", "Anzahl", "OBS_VALUE", "residents", "zz")
    },
    "thousands": {
        "comma": thousands(","), "point": thousands("."), "space": thousands(" "), "nbsp": thousands("\u00a0"),
        "thin": thousands("\u2009"), "apostrophe": thousands("'"),
    },
    "cells": {"decimals": decimals, "footnote": footnote, "flags": flags_behind},
    "marks": {text or "empty": mark(text) for text in ("*", "..", "c", "-", "(D)", "", ":", "<5", "NA")},
    "more": {
        "share": more("share", lambda n: [f"{i / 7:.3f}" for i in range(n)]),
        "year": more("year", lambda n: ["2024"] * n),
        "flag": more("status", lambda n: ["", "E", "", ""] * (n // 4) + [""] * (n % 4)),
        "row": more("row_id", lambda n: list(range(1, n + 1))),
        "moe": more("margin of error", lambda n: [i % 9 for i in range(n)]),
        "nothing": more("remarks", lambda n: [""] * n),
        "weights": weights,
    },
    "around": {"titles": titles, "notes": notes, "padded": padded_notes, "units": unit_row},
}  # fmt: skip
FILES: Mapping[str, Callable[[Table, Path], Path]] = {
    "csv": write_csv(),
    "semicolon": write_csv(";"),
    "tab": write_csv("\t"),
    "cp1252": write_csv(";", "cp1252"),
    "utf16": write_csv("\t", "utf-16"),
    "gz": write_csv(",", "utf-8", ".csv.gz"),
    "zip": write_csv(",", "utf-8", ".zip"),
    "xlsx": write_xlsx,
    "ods": write_ods,
    "parquet": write_parquet,
}


@dataclass(frozen=True)
class Case:
    """A file of the corpus: dimension -> form, and the format."""

    forms: tuple[tuple[str, str], ...]
    file: str = "csv"

    @property
    def name(self) -> str:
        return "+".join([*(f"{a}.{b}" for a, b in self.forms), *([self.file] if self.file != "csv" else [])]) or "base"

    def table(self) -> Table:
        table = base()
        chosen = dict(self.forms)
        for dimension, steps in FORMS.items():
            if dimension in chosen:
                steps[chosen[dimension]](table)
        return table


#: Forms that cannot be together: they need a column or rows that the other has taken away, or say the same twice.
_APART = (
    ({"form.microdata", "form.one"}, {"totals", "area_totals", "mixed", "name", "rows", "labels"}),
    ({"form.one"}, {"areas"}),
    ({"form.wide", "form.wide_sums", "form.two_headers"}, {"labels", "name", "mixed", "totals", "rows"}),
    ({"form.hybrid", "form.hybrid_sum"}, {"labels", "name", "mixed", "totals.sex", "totals.sex_empty"}),
    ({"rows.few"}, {"totals.age", "form", "mixed"}),
    ({"areas.names_only", "areas.geo_time", "areas.geography", "areas.lsoa"}, {"area_totals", "form.one"}),
    ({"around"}, {"parquet"}),
    ({"form.microdata"}, {"more.flag", "more.moe"}),
    ({"form.two_headers"}, {"parquet", "around.units", "more"}),
    ({"cells.decimals"}, {"thousands", "marks"}),
    ({"around.units"}, {"more", "form.microdata"}),
    ({"thousands.thin", "thousands.nbsp"}, {"cp1252"}),
    ({"areas.names", "areas.regions"}, {"around.padded"}),
)


#: Forms that differ from another one in a sign or a word only: they are tried alone, the other one in pairs.
_LIKE_OTHERS = frozenset(
    [f"name.{name}" for name in ("population", "value", "n", "persons", "Anzahl", "OBS_VALUE", "residents")]
    + [f"thousands.{name}" for name in ("nbsp", "thin", "apostrophe", "space")]
    + [f"marks.{name}" for name in ("..", "c", "(D)", ":", "<5", "NA")]
    + ["areas.lsoa", "areas.geo_time", "totals.age", "area_totals.country_last", "area_totals.all_blocks"]
    + [
        "name.zz",
        "marks.-",
        "cp1252",
        "zip",
        "more.row",
        "more.year",
        "more.nothing",
        "form.hybrid",
        "around.padded",
        "tab",
        "gz",
        "utf16",
        "parquet",
        "csv",
    ]
)


def _fit(keys: tuple[str, ...]) -> bool:
    def has(some: set[str], key: str) -> bool:
        return key in some or key.split(".")[0] in some

    return not any(has(left, a) and has(right, b) for left, right in _APART for a, b in itertools.permutations(keys, 2))


def cases() -> Iterator[Case]:
    """The plain table, each form alone, and every two forms of different dimensions that can be together."""
    keys = [f"{dimension}.{form}" for dimension, forms in FORMS.items() for form in forms]
    yield Case(())
    for key in [*keys, *FILES]:
        yield _case((key,))
    for pair in itertools.combinations([key for key in (*keys, *FILES) if key not in _LIKE_OTHERS], 2):
        same = pair[0].split(".")[0] == pair[1].split(".")[0] or (pair[0] in FILES and pair[1] in FILES)
        if not same and _fit(pair):
            yield _case(pair)


def _case(keys: tuple[str, ...]) -> Case:
    forms = tuple((key.split(".", 1)[0], key.split(".", 1)[1]) for key in keys if key not in FILES)
    return Case(forms, next((key for key in keys if key in FILES), "csv"))
