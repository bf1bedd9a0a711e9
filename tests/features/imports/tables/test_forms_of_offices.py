"""Forms that were once read as other people or other areas without a word: read right, or stopped with the cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from features.imports.tables.importer import TableRequest, TableSource, import_table
from features.imports.tables.sums import find_sums, sums_of_smaller
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import load_spec

N = 24
#: Of each area men and women by three ages.
PEOPLE = np.random.default_rng(6).integers(300, 3_000, (N, 2, 3))
AREAS = [f"E0600{i:04d}" for i in range(N)]
TOTAL = int(PEOPLE.sum())
Rows = Sequence[Sequence[object]]


def read(rows: Rows, folder: Path, **more: object) -> tuple[list[list[int]], tuple[str, ...]]:
    """The people of each area of each level of the spine that is written, and the messages."""
    (folder / "table.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    request = TableRequest(TableSource(str(folder / "table.csv")), **more)  # type: ignore[arg-type]
    made = import_table(request, folder / "out")
    spec = load_spec(made.spec)
    spine, universe = read_spine(spec.geography), spec.universes()[0]
    levels = roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
    return [np.asarray(level.sum(axis=1)).ravel().tolist() for level in levels], made.summary


def long(*more: Sequence[object]) -> list[Sequence[object]]:
    """A row for each area, sex and age."""
    cells = [(a, "FM"[s], ("0-14", "15-64", "65+")[g], PEOPLE[i, s, g]) for i, a in enumerate(AREAS)
             for s in range(2) for g in range(3)]  # fmt: skip
    return [("area code", "sex", "age", "count"), *cells, *more]


def nested() -> Rows:
    """T = M + F, M = M1 + M2, F = F1 + F2 side by side, the total first."""
    one = PEOPLE[:, :, :2]
    head = ("county", "T", "M", "F", "M1", "M2", "F1", "F2")
    return [head, *((a, c.sum(), *c.sum(axis=1), *c.ravel()) for a, c in zip(AREAS, one, strict=True))]


def crossed() -> Rows:
    """Sum, sums by age, and each sex with its sum and ages."""
    head = ("CODGEO", "POP", "POP1", "POP2", "POP3", "POPH", "H1", "H2", "H3", "POPF", "F1", "F2", "F3")
    return [head, *((a, c.sum(), *c.sum(axis=0), *(n for sex in c for n in (sex.sum(), *sex)))
                    for a, c in zip(AREAS, PEOPLE, strict=True))]  # fmt: skip


@pytest.mark.parametrize(("rows", "people"), [(nested(), int(PEOPLE[:, :, :2].sum())), (crossed(), TOTAL)])
def test_nested_and_crossed_sums_are_all_left_out(rows: Rows, people: int, tmp_path: Path) -> None:
    (whole, _), _ = read(rows, tmp_path)
    assert whole == [people]


def test_sums_of_smaller_columns() -> None:
    """Every sum is of columns that are none; equal columns and accidents of few numbers are no sums."""
    cells = PEOPLE.reshape(N, 6)
    columns = np.column_stack([cells.sum(axis=1), cells[:, :3].sum(axis=1), cells, cells[:, 3:].sum(axis=1)])
    found = sums_of_smaller([*"TA123456B"], columns)
    assert found == {"A": tuple("123"), "B": tuple("456"), "T": tuple("123456")}
    assert sums_of_smaller([*"abc"], np.array([[1, 1, 2]])) == {}
    assert sorted(find_sums([*"TA123456B"], columns).groups[0].partitions) == [tuple("123456")]


def with_numbers(rows: Rows) -> Rows:
    """A first column that numbers the rows: v1, v2, ..."""
    return [("id", *rows[0]), *((f"v{i}", *row) for i, row in enumerate(rows[1:], 1))]


def test_a_column_that_numbers_the_rows_does_not_hide_the_country(tmp_path: Path) -> None:
    whole = [("K04000001", "FM"[s], age, PEOPLE[:, s, g].sum()) for s in range(2)
             for g, age in enumerate(("0-14", "15-64", "65+"))]  # fmt: skip
    head, *cells = long()
    (top, leaves), _ = read(with_numbers([head, *whole, *cells]), tmp_path)
    assert top == [TOTAL]
    assert leaves == PEOPLE.sum(axis=(1, 2)).tolist()


def test_county_000_is_the_row_of_the_state(tmp_path: Path) -> None:
    sizes = PEOPLE.sum(axis=(1, 2)).reshape(4, 6)
    rows: list[Sequence[object]] = [("SUMLEV", "STATE", "COUNTY", "POP")]
    for state, counties in enumerate(sizes, 1):
        rows += [("040", f"{state:02}", "000", counties.sum())]
        rows += [("050", f"{state:02}", f"{2 * i + 1:03}", n) for i, n in enumerate(counties)]
    (top, leaves), said = read(rows, tmp_path)
    assert (top, leaves) == (sizes.sum(axis=1).tolist(), sizes.ravel().tolist())
    assert any("4 rows with '000' left out" in line for line in said)


def merged(*, broken: bool = False) -> Rows:
    """The region and the area in the first of their rows only, as merged cells of a workbook are read."""
    rows: list[Sequence[object]] = [("region", "area", "age", "men", "women")]
    for i, area in enumerate(AREAS):
        for g, age in enumerate(("0-14", "15-64", "65+")):
            if not (broken and i == 5 and g == 2):
                rows.append(("" if i % 6 or g else f"R{i // 6}", "" if g else area, age, *PEOPLE[i, ::-1, g]))
    return rows


def test_names_that_are_written_once_are_carried_down(tmp_path: Path) -> None:
    """Each area has the same ages below it, and each region begins with an area; both are said."""
    (regions, leaves), said = read(merged(), tmp_path)
    assert leaves == PEOPLE.sum(axis=(1, 2)).tolist()
    assert regions == PEOPLE.sum(axis=(1, 2)).reshape(4, 6).sum(axis=1).tolist()
    assert sum("a name stands for the rows below it" in line for line in said) == 2


def test_names_are_not_carried_where_the_rows_do_not_prove_it(tmp_path: Path) -> None:
    """One area has no row of its last age: it stops, with the column and the rows."""
    with pytest.raises(InputError, match=r"column '(area|region)'.* (line|row)s? "):
        read(merged(broken=True), tmp_path)


def overlapping() -> Rows:
    return long(*((a, "FM"[s], "15 and over", PEOPLE[i, s, 1:].sum()) for i, a in enumerate(AREAS) for s in range(2)))


def rounded() -> Rows:
    def near(n: int) -> int:
        return round(n / 3) * 3

    head, *cells = long()
    rows = [(a, s, g, near(n)) for a, s, g, n in cells]  # type: ignore[arg-type]
    rows += [(a, "Total people", ("0-14", "15-64", "65+")[g], near(PEOPLE[i, :, g].sum()))
             for i, a in enumerate(AREAS) for g in range(3)]  # fmt: skip
    return [head, *rows]


def of_which() -> Rows:
    return [("code", "area", "men", "women"), *((f"R{i}", f"Region {i}", *PEOPLE[i, :, 0]) for i in range(12)),
            *((f"R{i}1", f"of which: Town {i}", *PEOPLE[i, :, 0] // 2) for i in range(12))]  # fmt: skip


def estimates(*names: str) -> Rows:
    by_sex = PEOPLE.sum(axis=2)
    return [("GEO_ID", *names), *((a, m, m // 20, f, f // 20) for a, (m, f) in zip(AREAS, by_sex, strict=True))]


def with_limits() -> Rows:
    return [("county_code", "sex", "estimate", "lower_95", "upper_95"),
            *((a, "FM"[s], n, n - 40, n + 45) for i, a in enumerate(AREAS)
              for s, n in enumerate(PEOPLE[i].sum(axis=1)))]  # fmt: skip


def several_things() -> Rows:
    return [("county", "indicator", "value"), *((a, what, n // by)
            for a, n in zip(AREAS, PEOPLE.sum(axis=(1, 2)), strict=True)
            for what, by in (("Population", 1), ("Households", 2), ("Dwellings", 3)))]  # fmt: skip


def with_title(*rows: Sequence[object]) -> Rows:
    return [*rows, *((a, *n) for a, n in zip(AREAS, PEOPLE.sum(axis=2) // 100, strict=True))]


@pytest.mark.parametrize(
    ("rows", "causes"),
    [
        (overlapping, ("'15 and over'", "'15-64', '65+'", "counted twice")),
        (rounded, ("'Total people' is called a total", "not the sum")),
        (of_which, ("of which: Town 0",)),
        (lambda: estimates("A_002E", "A_002M", "A_026E", "A_026M"), ("'A_002M' is the margin of error of 'A_002E'",)),
        (lambda: estimates("Male", "Male SE", "Female", "Female SE"), ("'Male SE' is the margin of error",)),
        (with_limits, ("'lower_95' is the margin of error of 'estimate'",)),
        (several_things, ("'indicator'", "'Population', 'Households', 'Dwellings'")),
        (lambda: with_title(("Population (in thousands)",), ("county", "Male", "Female")), ("row 1", "in thousands")),
        (lambda: with_title(("county", "Male", "Female"), ("", "'000", "'000")), ("row 2 says \"'000\"",)),
        (lambda: [("LocID", "Location", "Age", "PopMale", "PopFemale"),
                  *((i, f"Country {i}", age, f"{i}.548", f"{i}.506") for i in range(30) for age in ("0-14", "15+"))],
         ("fraction",)),
        (lambda: [("CODGEO", "LIBGEO", "SEXE", "CS1"), *((f"{i:05}", f"Lieu {i}", s, c) for i in range(1, 25)
                  for s in (1, 2) for c in (1, 2, 3))], ("no column holds counts",)),
    ],
)  # fmt: skip
def test_what_would_be_counted_wrong_stops(rows: Callable[[], Rows], causes: Sequence[str], tmp_path: Path) -> None:
    extra = {"geography": ("LocID",)} if rows()[0][0] == "LocID" else {}
    with pytest.raises(InputError) as stop:
        read(rows(), tmp_path, **extra)
    assert [cause for cause in causes if cause not in str(stop.value)] == []
    assert not (tmp_path / "out").exists()


def test_a_row_that_numbers_the_columns_is_none_of_the_table(tmp_path: Path) -> None:
    head, *cells = long()
    (whole, _), said = read([head, (1, 2, 3, 4), *cells], tmp_path)
    assert whole == [TOTAL]
    assert any("numbers the columns" in line for line in said)


@pytest.mark.parametrize("codes", [("Urban", "Rural"), (1, 2)])
def test_kinds_of_areas_are_an_attribute(codes: Sequence[object], tmp_path: Path) -> None:
    """A column called AREA that says urban or rural, beside the codes of communes."""
    rows: list[Sequence[object]] = [("REGION", "COMUNA", "AREA", "sex", "count")]
    for i in range(N):
        rows += [(i // 6 + 1, 11000 + i, codes[g % 2], "FM"[s], PEOPLE[i, s, g]) for s in range(2) for g in range(2)]
    levels, said = read(rows, tmp_path)
    assert levels[-1] == PEOPLE[:, :, :2].sum(axis=(1, 2)).tolist()
    assert len(levels[-2]) == 4
    assert any(line.startswith("attributes: AREA (2 values)") for line in said)


def with_sums(*, off: int = 0) -> Rows:
    """Ages and sexes with a sum of another name, crossed; in one cell the sum is off."""
    head, *cells = long()
    sums = [(a, "FM"[s], "999", PEOPLE[i, s].sum()) for i, a in enumerate(AREAS) for s in range(2)]
    cells = [*cells, *sums]
    both = [(a, "9", g, sum(n for b, _, h, n in cells if (b, h) == (a, g)))  # type: ignore[misc]
            for a in AREAS for g in ("0-14", "15-64", "65+", "999")]  # fmt: skip
    both[0] = (*both[0][:3], both[0][3] + off)
    return [head, *cells, *both]


def test_sums_of_another_name_are_left_out(tmp_path: Path) -> None:
    """In every cell each is the sum of all others of its column; both are said."""
    (whole, leaves), said = read(with_sums(), tmp_path)
    assert (whole, leaves) == ([TOTAL], PEOPLE.sum(axis=(1, 2)).tolist())
    assert any("sums left out" in line and "'999'" in line and "'9'" in line for line in said)


def test_what_is_no_sum_in_one_cell_stops_with_the_difference(tmp_path: Path) -> None:
    """One person more in one cell of one area; --attribute counts it as a value."""
    with pytest.raises(InputError, match=r"'9' looks like a total, and in 1 cell of .* \(1 less\).*--attribute sex"):
        read(with_sums(off=1), tmp_path)


def test_rounded_sums_of_another_name_stop(tmp_path: Path) -> None:
    head, *cells = rounded()
    rows = [(a, "9" if s == "Total people" else s, g, n) for a, s, g, n in cells]
    with pytest.raises(InputError, match="'9' looks like a total"):
        read([head, *rows], tmp_path)


def test_two_sexes_of_about_the_same_size_are_no_sums(tmp_path: Path) -> None:
    """Women, men and a few others: half of all people are women by accident, and never stop an import."""
    rng = np.random.default_rng(5)
    women = rng.integers(50, 3_000, (N, 3))
    men = rng.poisson(women)
    rows = [(a, s, g, int(n)) for i, a in enumerate(AREAS) for k, g in enumerate(("0-14", "15-64", "65+"))
            for s, n in (("1", women[i, k]), ("2", men[i, k]), ("3", i % 4))]  # fmt: skip
    (whole, _), _ = read([("area code", "sex", "age", "count"), *rows], tmp_path)
    assert whole == [int(women.sum() + men.sum()) + 3 * sum(i % 4 for i in range(N))]
