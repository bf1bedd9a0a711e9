"""Tables in the layouts of statistical offices: as they are stated, each is read right to the last cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from features.imports.tables.description import describe_table
from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import SpinewiseError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

#: (6 areas, 2 sexes, 3 ages); three areas in each of two regions. Sums of any two of them differ.
PEOPLE = np.random.default_rng(2021).integers(30, 400, (6, 2, 3))
REGION = np.repeat([0, 1], 3)
NAMES = ("Alder", "Birch, City of", "Çédar", "Dog's Wood", "Elm (1)", 'Fir "Old"')
AGES = ("0-14", "15-64", "65+")
Row = Sequence[object]


@dataclass(frozen=True)
class Layout:
    """A file, how it is stated, and what is right.

    Attributes:
        content: a text, or the sheets of a workbook.
        stated: by the options' names.
        codes: of the six areas, in the release.
        axes: words of the sexes, and of the ages where the file has them.
        merged: spans of cells of the first sheet.
    """

    content: bytes | Mapping[str, Iterable[Row]]
    stated: Mapping[str, Any]
    codes: Sequence[str]
    axes: tuple[Sequence[str], Sequence[str]] = (("Male", "Female"), ())
    merged: Sequence[str] = ()
    right: dict[tuple[str, frozenset[str]], int] = field(init=False)

    def __post_init__(self) -> None:
        sexes, ages = self.axes
        counts = PEOPLE if ages else PEOPLE.sum(2, keepdims=True)
        right = {
            (code, frozenset((sex, *ages[a : a + 1]))): int(counts[i, s, a])
            for i, code in enumerate(self.codes)
            for s, sex in enumerate(sexes)
            for a in range(len(ages) or 1)
        }
        object.__setattr__(self, "right", right)

    def write(self, folder: Path) -> Path:
        """The file."""
        if isinstance(self.content, bytes):
            path = folder / "table.csv"
            path.write_bytes(self.content)
            return path
        book = openpyxl.Workbook()
        book.remove(book.worksheets[0])
        for title, rows in self.content.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(list(row))
        for span in self.merged:
            book.worksheets[0].merge_cells(span)
        book.save(folder / "table.xlsx")
        return folder / "table.xlsx"


def text(rows: Iterable[Row], separator: str = ",", encoding: str = "utf-8") -> bytes:
    """A text file."""
    written = io.StringIO()
    csv.writer(written, delimiter=separator).writerows(rows)
    return written.getvalue().encode(encoding)


def nested(nation: str, regions: Sequence[str], areas: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """The nation, each region and its areas behind it, with their people."""
    yield nation, PEOPLE.sum(0)
    for number, region in enumerate(regions):
        yield region, PEOPLE[number == REGION].sum(0)
        yield from zip(areas[3 * number : 3 * number + 3], PEOPLE[3 * number : 3 * number + 3], strict=True)


def by_sex(people: np.ndarray, *, total: bool = True) -> list[int]:
    """Everybody, men, women."""
    return [*([int(people.sum())] if total else []), *people.sum(1).tolist()]


def numbered(*starts: str) -> list[str]:
    """Codes of six areas, of which three begin with the first and three with the second."""
    return [f"{start}{number}" for start in starts for number in (1, 2, 3)]


def regional_database() -> Layout:
    """Columns without names under titles, regions among the areas, notes; in Latin 1."""
    codes = numbered("0100", "0300")
    above: list[Row] = [["Tabelle: 12411"], ["Bevölkerung"], ["", "", "Anzahl", "Anzahl", "Anzahl"]]
    head = ["", "", "Insgesamt", "männlich", "weiblich"]
    rows = [[code, f"  {code} Stadt", *by_sex(people)] for code, people in nested("DG", ["01", "03"], codes)]
    notes = [["__________"], ["(C)opyright Statistische Ämter"]]
    stated = {
        "geography": "column_1=column_2", "header": "4", "last": 13, "levels": "land=2,kreis=5",
        "wide": "{sex:männlich|weiblich}", "only": ("column_1 not in DG, 01, 03",),
    }  # fmt: skip
    content = text([*above, head, *rows, *notes], ";", "cp1252")
    return Layout(content, stated, codes, (("männlich", "weiblich"), ()))


def merged_sex_over_age() -> Layout:
    heads: list[Row] = [["Population"], [], ["County", "Total", "Male", *[None] * 3, "Female", *[None] * 3]]
    heads.append([None, None, "Total", *AGES, "Total", *AGES])
    rows = [
        [name, people.sum(), *(n for sex in people for n in (int(sex.sum()), *sex.tolist()))]
        for name, people in zip(NAMES, PEOPLE, strict=True)
    ]
    stated = {"geography": "County", "header": "3:4", "wide": "{sex:Male|Female} {age:0-14|15-64|65+}"}
    merged = ["A3:A4", "B3:B4", "C3:F3", "G3:J3"]
    return Layout({"T05": [*heads, *rows]}, stated, NAMES, (("Male", "Female"), AGES), merged)


def blank_rows_and_formulas() -> Layout:
    """Regions with their areas below, a blank row before each; sums are formulas whose value nobody stored."""
    rows: list[Row] = [["Table 3"], [], ["County", "Male", "Female", "Persons"]]
    for number, region in enumerate(("North", "South")):
        here = range(3 * number, 3 * number + 3)
        rows += [[], [region, *by_sex(PEOPLE[here].sum(0), total=False), "=B5+C5"]]
        rows += [[NAMES[i], *by_sex(PEOPLE[i], total=False), "=B6+C6"] for i in here]
    rows += [[], ["Source: the office"]]
    stated = {"geography": "County", "header": "3", "last": 13, "wide": "{sex:Male|Female}"}
    return Layout({"T3": rows}, {**stated, "only": ("County not in North, South",)}, NAMES)


LAYOUTS: Sequence[Callable[[], Layout]] = (regional_database, merged_sex_over_age, blank_rows_and_formulas)


def stated_for(layout: Layout, path: Path, *, off: int = 0) -> Statement:
    """How it is read; `off` is by how much the stated number of people is wrong."""
    return Statement(str(path), **layout.stated, expect_records=int(PEOPLE.sum()) + off, expect_areas=6)


def counted(spec: Path) -> dict[tuple[str, frozenset[str]], int]:
    """Area and values -> people, as a run of the spec counts them."""
    read = load_spec(spec)
    universe = read.universes()[0]
    spine = read_spine(read.geography)
    cells = tabulate(universe.require_input(), universe.schema, spine).toarray()
    values = [attribute.values for attribute in universe.schema.attributes]
    found = {}
    for leaf, code in enumerate(spine.levels[-1].geocodes.tolist()):
        for cell in np.flatnonzero(cells[leaf]).tolist():
            words = np.unravel_index(cell, universe.schema.shape)
            found[code, frozenset(of[int(k)] for of, k in zip(values, words, strict=True))] = int(cells[leaf, cell])
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda make: make.__name__)
def test_a_layout_is_read_right(layout: Callable[[], Layout], tmp_path: Path) -> None:
    """To the last cell; with one person more or fewer than stated it stops; described, it is not touched."""
    made = layout()
    path = made.write(tmp_path)
    for off, says in ((1, "1 fewer than --expect-records"), (-1, "1 more than --expect-records")):
        with pytest.raises(SpinewiseError, match=says):
            import_table(stated_for(made, path, off=off), tmp_path / "out")
        assert not (tmp_path / "out").exists()
    command = describe_table(Statement(str(path)))[-1]
    assert command.startswith("spinewise import table ")
    assert "--expect-records N --expect-areas M" in command
    assert list(tmp_path.iterdir()) == [path]
    found = counted(import_table(stated_for(made, path), tmp_path / "out").spec)
    assert found == made.right
    swapped = replace(made, codes=[made.codes[1], made.codes[0], *made.codes[2:]])
    assert found != swapped.right
