"""Pivot tables as spreadsheets write them, in any language: subtotals of blocks are left out, or stop the import."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from oracles.office_forms import delimited, workbook

from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.readings import Asked
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

COUNTIES = ["Ely", "Rye", "Bath", "Ware", "Bath Spa", "Hove"]
REGIONS = ["North", "South"]
PEOPLE = np.random.default_rng(7).integers(300, 9000, (6, 2))
#: What a subtotal, and what the whole is called, by spreadsheets of some languages; and a word that nobody knows.
WORDS = [
    ("{} Total", "Grand Total"),
    ("Total {}", "Total general"),
    ("{} Ergebnis", "Gesamtergebnis"),
    ("{} Result", "Total Result"),
    ("Totaal {}", "Eindtotaal"),
    ("{} Zusamm", "Total"),
]
Rows = list[list[object]]


def pivot(names: tuple[str, str], *, above: bool, again: bool, present: np.ndarray | None = None) -> Rows:
    """Rows by region, county and sex, with subtotals of counties and regions; those of `present` only."""
    word, whole = names
    there = np.ones(PEOPLE.shape, dtype=bool) if present is None else present
    body: Rows = []
    for r, region in enumerate(REGIONS):
        block: Rows = []
        for i in range(3 * r, 3 * r + 3):
            own: Rows = [[region, COUNTIES[i], "FM"[s], int(PEOPLE[i, s])] for s in range(2) if there[i, s]]
            total: list[object] = [region, word.format(COUNTIES[i]), "", int(PEOPLE[i][there[i]].sum())]
            block += [total, *own] if above else [*own, total]
        here = slice(3 * r, 3 * r + 3)
        total = [word.format(region), "", "", int(PEOPLE[here][there[here]].sum())]
        body += [total, *block] if above else [*block, total]
    if not again:  # a name in the first row of its block only
        for i in (0, 1):
            last = ""
            for row in body:
                name = str(row[i])
                row[i] = "" if name == last else name
                last = name or last
    return [["Region", "County", "Sex", "Sum of persons"], *body, [whole, "", "", int(PEOPLE[there].sum())]]


def imported(rows: Sequence[Sequence[object]], folder: Path, **more: object) -> tuple[np.ndarray, list[str]]:
    """The people of each county (in the order of codes) and cell of the written spec, and the messages."""
    (folder / "pivot.xlsx").write_bytes(workbook({"Sheet1": rows}))
    return _read(folder / "pivot.xlsx", folder, **more)


def _read(file: Path, folder: Path, **more: object) -> tuple[np.ndarray, list[str]]:
    made = import_table(TableRequest(TableSource(str(file)), **more), folder / "out")  # type: ignore[arg-type]
    spec = load_spec(made.spec)
    spine, universe = read_spine(spec.geography), spec.universes()[0]
    counts = tabulate(universe.require_input(), universe.schema, spine)
    return np.asarray(counts.todense() if hasattr(counts, "todense") else counts), list(made.messages)


IN_ORDER = PEOPLE[np.argsort(COUNTIES)]
#: The same, within each region.
NESTED = sorted(range(6), key=lambda i: (i // 3, COUNTIES[i]))


@pytest.mark.parametrize("names", WORDS)
@pytest.mark.parametrize(("above", "again"), [*itertools.product([False, True], repeat=2)])
def test_subtotals_of_any_name_and_place_are_left_out(
    names: tuple[str, str], above: bool, again: bool, tmp_path: Path
) -> None:
    counts, said = imported(pivot(names, above=above, again=again), tmp_path)
    assert np.array_equal(counts.reshape(6, 2), PEOPLE[NESTED])
    assert any(f"2 subtotals ('{names[0].format('North')}', " in line for line in said)


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_other_lengths_are_proven_by_their_sums(seed: int, tmp_path: Path) -> None:
    """A pivot table has no rows for what nobody is in."""
    present = np.random.default_rng(seed).random(PEOPLE.shape) < 0.7
    present[:, 0] |= ~present.any(axis=1)
    present[0] = True
    counts, _ = imported(pivot(WORDS[0], above=False, again=False, present=present), tmp_path)
    assert np.array_equal(counts.reshape(6, 2), np.where(present, PEOPLE, 0)[NESTED])


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("by", [1, -30, 4000])
def test_a_subtotal_that_is_no_sum_stops_with_its_row_and_the_difference(above: bool, by: int, tmp_path: Path) -> None:
    rows = pivot(WORDS[0], above=above, again=False)
    at = next(i for i, row in enumerate(rows) if row[1] == "Bath Total")
    rows[at][3] = int(str(rows[at][3])) + by
    with pytest.raises(InputError, match=f"'Bath Total' is called a total.* row {at + 1} has .*{abs(by):,} ") as error:
        imported(rows, tmp_path)
    assert "--attribute County" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("caption", "field", "sexes"),
    [
        ("Sum of persons", "Sex", ("F", "M", "Grand Total")),
        ("Summe von Personen", "Geschlecht", ("w", "m", "Gesamtergebnis")),
        ("Sum - persons", "sex", ("F", "M", "Total Result")),
        ("Somme de population", "Sexe", ("Femmes", "Hommes", "Total général")),
    ],
)
def test_two_rows_of_heads_of_a_pivot_table(
    caption: str, field: str, sexes: tuple[str, str, str], tmp_path: Path
) -> None:
    body: Rows = [[name, *map(int, n), int(n.sum())] for name, n in zip(COUNTIES, PEOPLE, strict=True)]
    whole = [sexes[2], *map(int, PEOPLE.sum(0)), int(PEOPLE.sum())]
    counts, said = imported([[caption, field], ["County", *sexes], *body, whole], tmp_path)
    assert np.array_equal(counts.reshape(6, 2), IN_ORDER)
    assert any("levels: County" in line for line in said)


@pytest.mark.parametrize(
    "rows",
    [
        [["", "2021", "2021"]],
        [["", "[person]", "[person]"]],
        [["", "2021", "2021"], ["", "[person]", "[person]"]],
    ],
)
def test_years_and_units_below_the_names_belong_to_the_header(rows: Rows, tmp_path: Path) -> None:
    body: Rows = [[name, *map(int, n)] for name, n in zip(COUNTIES, PEOPLE, strict=True)]
    (tmp_path / "table.csv").write_bytes(delimited([["County", "women", "men"], *rows, *body], ";"))
    counts, _ = _read(tmp_path / "table.csv", tmp_path)
    assert np.array_equal(counts.reshape(6, 2), IN_ORDER)


@pytest.mark.parametrize(
    "names",
    [
        ("M_2011", "F_2011", "M_2021", "F_2021"),
        ("2011 M", "2011 F", "2021 M", "2021 F"),
        ("31.12.2011 M", "31.12.2011 F", "31.12.2021 M", "31.12.2021 F"),
        ("M_11", "F_11", "M_21", "F_21"),
        ("Census_M", "Census_F", "Estimate_M", "Estimate_F"),
        ("before_M", "before_F", "after_M", "after_F"),
    ],
)
def test_the_same_people_twice_are_not_added_up(names: tuple[str, ...], tmp_path: Path) -> None:
    """Two years, or two counts, of about as many people: the import asks, and `--people` takes the one that fits."""
    rows = [["County", *names]]
    rows += [[name, *map(int, n + 3), *map(int, n)] for name, n in zip(COUNTIES, PEOPLE, strict=True)]  # type: ignore[list-item]
    with pytest.raises(InputError, match="in several ways") as error:
        imported(rows, tmp_path)
    assert f"{int(PEOPLE.sum()):,} people" in str(error.value)
    counts, _ = imported(rows, tmp_path, reading=Asked(people=int(PEOPLE.sum())))
    assert np.array_equal(counts.reshape(6, 2), IN_ORDER)
