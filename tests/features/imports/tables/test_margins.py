"""Suppressed numbers are what the table's totals leave for them; where they leave several, the import stops."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from features.imports.tables.cells import parse_marks
from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.margins import determined
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

AREAS = [f"a{i:02}" for i in range(8)]
AGES = ("0-14", "15-64", "65+")
#: Of each area women and men by age.
PEOPLE = np.random.default_rng(8).integers(1, 900, (len(AREAS), 2, len(AGES)))
Place = tuple[str, str, str]


def with_totals(*, areas: bool) -> dict[Place, int]:
    """Every cell of area, sex and age with totals of sex and, where asked for, of areas."""
    cells = {(a, s, g): int(PEOPLE[i, j, k]) for (i, a), (j, s), (k, g) in
             itertools.product(enumerate(AREAS), enumerate("FM"), enumerate(AGES))}  # fmt: skip
    cells |= {(a, "Total", g): int(PEOPLE[i, :, k].sum()) for i, a in enumerate(AREAS) for k, g in enumerate(AGES)}
    if areas:
        cells |= {("Total", s, g): sum(cells[a, s, g] for a in AREAS) for s in ("F", "M", "Total") for g in AGES}
    return cells


def imported(cells: dict[Place, object], folder: Path, marks: str) -> tuple[np.ndarray, dict[str, object]]:
    """The cells of the table that is read, `(n_areas, n_cells)`, and what was decided."""
    lines = ["area,sex,age,persons", *(",".join(map(str, (*place, n))) for place, n in cells.items())]
    return of_file("\n".join(lines), folder, marks)


def of_file(text: str, folder: Path, marks: str) -> tuple[np.ndarray, dict[str, object]]:
    (folder / "table.csv").write_text(text + "\n")
    request = TableRequest(TableSource(str(folder / "table.csv")), marks=parse_marks(marks))
    spec = load_spec(import_table(request, folder / "out").spec)
    universe = spec.universes()[0]
    read = np.asarray(tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).todense())
    return read, json.loads((folder / "out" / "import.json").read_text())


def suppressed(cells: dict[Place, int], *places: Place, mark: str = "*") -> dict[Place, object]:
    return {place: mark if place in places else n for place, n in cells.items()}


@pytest.mark.parametrize(
    ("areas", "places"),
    [
        (False, [("a03", "F", "0-14")]),
        (False, [(a, "FM"[i % 2], AGES[i % 3]) for i, a in enumerate(AREAS)]),
        (False, [("a03", "Total", "0-14")]),
        # A rectangle but for one corner: neither sexes nor areas alone are enough.
        (True, [("a03", "F", "0-14"), ("a03", "M", "0-14"), ("a05", "F", "0-14")]),
        (True, [("a03", "F", "0-14"), ("a03", "M", "0-14"), ("a03", "Total", "0-14"), ("Total", "F", "0-14")]),
    ],
)
def test_suppressed_numbers_are_solved(areas: bool, places: list[Place], tmp_path: Path) -> None:
    cells, decided = imported(suppressed(with_totals(areas=areas), *places), tmp_path, "*=margins")
    assert np.array_equal(cells, PEOPLE.reshape(len(AREAS), -1))
    assert decided["marks"] == {"persons": {"margins": {"meaning": "margins", "rows": len(places)}}}
    messages = decided["messages"]
    assert isinstance(messages, list)
    assert any(f"{len(places)} suppressed number" in line and "determined" in line for line in messages)


def test_an_empty_field_and_two_marks(tmp_path: Path) -> None:
    """Another mark keeps its own meaning."""
    table = suppressed(with_totals(areas=False), ("a01", "F", "65+"), mark="")
    table["a02", "F", "65+"] = ".."
    table["a02", "Total", "65+"] = table["a02", "M", "65+"]
    cells, _ = imported(table, tmp_path, "empty=margins,..=0")
    right = PEOPLE.copy()
    right[2, 0, 2] = 0
    assert np.array_equal(cells, right.reshape(len(AREAS), -1))


def test_what_the_totals_leave_open_stops_with_its_rows(tmp_path: Path) -> None:
    """Both sexes of an area are suppressed and their total is known: of two numbers, one is never 0 by itself."""
    table = suppressed(with_totals(areas=False), ("a03", "F", "0-14"), ("a03", "M", "0-14"), ("a05", "F", "65+"))
    rows = [line for line, place in enumerate(table, 2) if place in {("a03", "F", "0-14"), ("a03", "M", "0-14")}]
    with pytest.raises(InputError, match=rf"2 of 3 suppressed numbers are not .*lines {rows[0]}, {rows[1]};"):
        imported(table, tmp_path, "*=margins")
    assert not (tmp_path / "out").exists()


def test_a_table_without_totals_stops(tmp_path: Path) -> None:
    cells = {place: n for place, n in with_totals(areas=False).items() if place[1] != "Total"}
    with pytest.raises(InputError, match="1 of 1 suppressed number are not determined"):
        imported(suppressed(cells, ("a03", "F", "0-14")), tmp_path, "*=margins")


def test_totals_that_contradict_each_other_stop(tmp_path: Path) -> None:
    """The other sex alone has more than both."""
    table = suppressed(with_totals(areas=False), ("a03", "F", "0-14"))
    table["a03", "M", "0-14"] = int(PEOPLE[3, :, 0].sum()) + 5
    with pytest.raises(InputError, match=r"contradict each other: column 'persons', line \d+ would have -5"):
        imported(table, tmp_path, "*=margins")


def test_columns_side_by_side(tmp_path: Path) -> None:
    """The sum of a row's columns gives a suppressed one, and a row of the whole a second in the same row."""
    by_sex = PEOPLE.sum(axis=2)
    rows: list[list[object]] = [[a, f + m, f, m] for a, (f, m) in zip(AREAS, by_sex.tolist(), strict=True)]
    rows.append(["Total", *(sum(row[i] for row in rows) for i in (1, 2, 3))])  # type: ignore[misc]
    rows[2][2], rows[4][2], rows[4][3] = "*", "*", "*"
    text = "\n".join(["area,persons,female,male", *(",".join(map(str, row)) for row in rows)])
    cells, _ = of_file(text, tmp_path, "*=margins")
    assert sorted(cells.T.tolist()) == sorted(by_sex.T.tolist())


def brute(equations: Sequence[tuple[dict[int, Fraction], Fraction]], n: int) -> dict[int, Fraction]:
    """By the null space of the dense matrix, in floating point."""
    matrix = np.zeros((len(equations), n))
    right = np.zeros(len(equations))
    for i, (terms, value) in enumerate(equations):
        right[i] = float(value)
        for unknown, coefficient in terms.items():
            matrix[i, unknown] = float(coefficient)
    _, sizes, rows = np.linalg.svd(matrix)
    free = rows[int((sizes > 1e-9).sum()) :]
    solution = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return {i: Fraction(round(solution[i])) for i in range(n) if (np.abs(free[:, i]) < 1e-9).all()}


@pytest.mark.parametrize("seed", range(30))
def test_what_is_determined_is_what_the_null_space_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    truth = rng.integers(0, 50, n)
    equations = []
    for _ in range(int(rng.integers(2, 9))):
        signs = rng.choice([-1, 0, 1], n, p=[0.2, 0.5, 0.3])
        if signs.any():
            terms = {i: Fraction(int(sign)) for i, sign in enumerate(signs) if sign}
            equations.append((terms, Fraction(int(signs @ truth))))
    found = determined(equations)
    assert found == brute(equations, n)
    assert all(truth[i] == value for i, value in found.items())


def test_marks_of_other_meanings_are_refused() -> None:
    """The sentence says which there are."""
    attempt: Callable[[], object] = lambda: parse_marks("*=solve")  # noqa: E731
    with pytest.raises(InputError, match="margins"):
        attempt()
