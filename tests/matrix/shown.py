"""What a page and each layout of an export show of a release, read without the program, against its files."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import openpyxl
import pandas as pd

#: Folders below public/ with a file for each table and level, which pages and exports show.
_SHOWN: Final = ("tables", "household_tables", "household_sizes", "amounts", "cumulative")
#: Layouts of tables that are read again here; noisy measurements are read by tests of exports.
SHOWN: Final = ("csv", "parquet", "xlsx", "duckdb", "sdmx")


def files_of_tables(root: Path) -> dict[tuple[str, ...], Path]:
    """Each file of a table by its place: folders without that of all tables, table and level."""
    found = {}
    for path in sorted((root / "public").rglob("*.parquet")):
        parts = path.relative_to(root / "public").with_suffix("").parts
        if set(parts[:-1]) & set(_SHOWN):
            found[tuple(part for part in parts if part != "tables")] = path
    return found


def content_of(page: str) -> dict[str, Any]:
    """What the page says of levels and tables, and which chunk has what."""
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def chunk_of(page: str, number: int) -> bytes:
    """A chunk of the page's data."""
    (text,) = re.findall(rf'id="chunk-{number}">([^<]*)</script>', page)
    return gzip.decompress(base64.b64decode(text))


def numbers_of(page: str, number: int) -> np.ndarray:
    """The whole numbers of a chunk: their width, then the least byte of each, the next byte of each ..."""
    data = np.frombuffer(chunk_of(page, number), dtype=np.uint8).astype(np.int64)
    planes = data[1:].reshape(data[0], -1)
    return (planes << 8 * np.arange(len(planes))[:, None]).sum(axis=0)


def codes_of(page: str) -> dict[str, list[str]]:
    """The geocodes of each level; those that begin with their parent's are without it in the page."""
    found: dict[str, list[str]] = {}
    above: list[str] = []
    for number, level in enumerate(content_of(page)["levels"]):
        lines = chunk_of(page, level["codes"]).decode().split("\n")
        if number and level["prefixed"]:
            parents = np.repeat(np.arange(len(above)), numbers_of(page, level["children"]))
            lines = [above[parent] + line for parent, line in zip(parents, lines, strict=True)]
        found[level["name"]] = above = lines
    return found


def page_shows_the_tables(root: Path) -> int:
    """How many files of tables were compared with the page: areas, counts and the ends of all intervals."""
    page = (root / "public" / "report.html").read_text("utf-8")
    codes, files, compared = codes_of(page), files_of_tables(root), 0
    for table in content_of(page)["tables"]:
        folder = ("companions", table["universe"]) if table["universe"] else ()
        for level, where in table["levels"].items():
            places = [(*folder, *kind, table["name"], level) for kind in ((), ("household_tables",), ("amounts",))]
            stored = pd.read_parquet(next(files[place] for place in places if place in files))
            assert stored["geocode"].tolist() == codes[level]
            stacked = numbers_of(page, where["numbers"]).reshape(3 if where["ends"] else 1, -1, len(stored))
            counts, *reaches = (part.T for part in stacked)
            assert np.array_equal(counts, stored[table["labels"]])
            if reaches:
                below, above = reaches
                lows, highs = (
                    stored[[f"{one}:{end}90" for one in table["labels"]]].to_numpy() for end in ("low", "high")
                )
                free = below >= 2
                assert np.array_equal((counts - below + 2)[free], lows[free])
                assert np.array_equal((counts + above)[free], highs[free])
                assert np.isnan(lows[below == 1]).all()
                certain = below == 0
                # The page knows more of some than their interval: nobody is in an area, or a cell, of nobody above.
                assert ((lows == counts) & ((highs == counts) | (counts == 0)) | np.isnan(lows))[certain].all()
            compared += 1
    return compared


def export_has_the_numbers(layout: str, out: Path, root: Path) -> int:
    """How many tables of levels an export has, all numbers of which are those of the release's files."""
    compared = 0
    for place, found in _exported(layout, out, root):
        wanted = wide(files_of_tables(root)[place])
        numbers = found.drop(columns=[name for name in found if str(name).endswith(":use")])
        numbers = numbers[[name for name in numbers if pd.api.types.is_numeric_dtype(numbers[name])]]
        assert numbers.shape == wanted.shape, place
        assert np.array_equal(numbers.to_numpy(float), wanted.to_numpy(float), equal_nan=True), place
        compared += 1
    return compared


def wide(path: Path) -> pd.DataFrame:
    """The numbers of a file of a table, without geocodes."""
    frame = pd.read_parquet(path)
    return frame[[name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]]


def _exported(layout: str, out: Path, root: Path) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The place of each table that an export has, and its numbers there."""
    files = files_of_tables(root)
    if layout in ("csv", "parquet"):
        for place in files:
            path = out.joinpath(*place).with_suffix(f".{layout}")
            yield place, pd.read_parquet(path) if layout == "parquet" else pd.read_csv(path, dtype={"geocode": str})
    elif layout == "xlsx":
        stated = json.loads((root / "public" / "manifest.json").read_bytes())["spec"]["geography"]["levels"]
        levels = [one if isinstance(one, str) else one[0] for one in stated]
        for path in sorted(out.rglob("*.xlsx")):
            table = path.relative_to(out).with_suffix("").parts
            at = [level for level in levels if (*table, level) in files]
            book = openpyxl.load_workbook(path, read_only=True)
            for level, sheet in zip(at, book.worksheets, strict=False):
                head, *rows = sheet.iter_rows(values_only=True)
                yield (*table, level), pd.DataFrame(rows, columns=list(head)).astype({"geocode": str})
    elif layout == "duckdb":
        with duckdb.connect(str(next(out.glob("*.duckdb"))), read_only=True) as opened:
            for place in files:
                view = "_".join(part for part in place if part != "companions")
                yield place, opened.sql(f'select * from "{view}"').df()
    elif layout == "sdmx":
        of_flow = {"_".join(part for part in place[:-1] if part != "companions"): place[:-1] for place in files}
        of_flow |= {name.replace("household_tables_", "household_"): place for name, place in of_flow.items()}
        of_flow = {name.replace(".", "_"): place for name, place in of_flow.items()}
        for path in sorted(out.glob("*.csv.gz")):
            frame = pd.read_csv(path, dtype={"REF_AREA": str})
            for level, rows in frame.groupby("LEVEL", sort=False):
                columns = [one for one in ("OBS_VALUE", "MOE90", "LOW90", "HIGH90") if one in rows]
                numbers = rows[columns].to_numpy(float).reshape(rows["REF_AREA"].nunique(), -1)
                yield (*of_flow[path.name.removesuffix(".csv.gz")], str(level)), pd.DataFrame(numbers)
