"""Every form in which an office writes a table, and every two of them: as they are stated right to the last cell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from oracles.table_corpus import FILES, NAMES, Case, cases, population, stated, stops

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

CASES = tuple(cases())
#: One form each.
ALONE = [case for case in CASES if len(case.forms) + (case.file != "csv") <= 1]


def truth(case: Case) -> np.ndarray:
    """The cells of each area, in the order of the areas' codes."""
    frame = population().copy()
    forms = dict(case.forms)
    if forms.get("form") == "microdata":
        frame["count"] = np.minimum(frame["count"] // 100, 30)
    by = [name for name in ("sex", "age") if not (name == "age" and forms.get("rows") == "few")]
    if forms.get("form") == "one":
        return np.array(frame.groupby("area")["count"].sum()).reshape(-1, 1)
    return frame.pivot_table(index="area", columns=by, values="count", aggfunc="sum", fill_value=0).to_numpy()


def alike(cells: np.ndarray) -> list[tuple[int, ...]]:
    """The columns in an order of their own, empty ones left out: values may have other names and another order."""
    return sorted(tuple(column) for column in cells.T.tolist() if any(column))


def outcome(case: Case, folder: Path, off: int = 0) -> tuple[str, str]:
    """What became of a file as it is stated: "right", "stopped" or "wrong", and the message or what is wrong.

    Args:
        off: by how much the stated number of people is wrong.
    """
    folder.mkdir()
    table = case.table()
    path = FILES[case.file](table, folder)
    expected = truth(case)
    people = int(expected.sum()) + off
    try:
        statement = Statement(str(path), **stated(table, case.file), expect_records=people, expect_areas=len(NAMES))
        spec = load_spec(import_table(statement, folder / "out").spec)
    except InputError as error:
        told = str(error)
        if (folder / "out").exists() or (str(path) not in told and "--" not in told) or "persons.parquet" in told:
            return "wrong", f"not told in the file's own terms: {told}"
        return "stopped", told
    universe = spec.universes()[0]
    spine = read_spine(spec.geography)
    cells = np.asarray(tabulate(universe.require_input(), universe.schema, spine).todense())
    codes = dict(zip(NAMES, population()["area"].unique(), strict=True))
    leaves = [codes.get(code, code) for code in spine.levels[-1].geocodes.tolist()]
    if sorted(leaves) != sorted(codes.values()):
        return "wrong", f"areas {leaves}"
    cells = cells[np.argsort(leaves)]
    if cells.sum() != expected.sum():
        return "wrong", f"{cells.sum():,} people instead of {expected.sum():,}"
    if alike(cells) != alike(expected):
        return "wrong", f"{cells.shape} cells are not the {expected.shape} of the truth"
    if len(spine.levels) < 2:
        return "wrong", "one level"
    return "right", ""


def judged(some: Sequence[Case], folder: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for number, case in enumerate(some):
        found[case.name] = outcome(case, folder / str(number))
        shutil.rmtree(folder / str(number))
    return found


def check(some: Sequence[Case], folder: Path) -> None:
    """Each is right; or stops, if it has cells or lines that are not to be read."""
    found = judged(some, folder)
    assert {name: told for name, (how, told) in found.items() if how == "wrong"} == {}
    stopped = {name: told for name, (how, told) in found.items() if how == "stopped"}
    expected = {case.name for case in some if stops(case.table())}
    assert stopped.keys() == expected, {name: told for name, told in stopped.items() if name not in expected}


def test_each_form_alone(tmp_path: Path) -> None:
    check(ALONE, tmp_path)


def test_a_sample_of_pairs(tmp_path: Path) -> None:
    """Every thirtieth pair; the slow suite has them all."""
    check([case for case in CASES if case not in ALONE][::30], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_every_pair_of_forms(part: int, tmp_path: Path) -> None:
    assert len(CASES) >= 400
    check(CASES[part::6], tmp_path)


@pytest.mark.parametrize("off", [1, -1])
def test_a_wrong_number_stops(off: int, tmp_path: Path) -> None:
    for number, case in enumerate(ALONE[::4]):
        how, told = outcome(case, tmp_path / str(number), off)
        assert how == "stopped", case.name
        assert stops(case.table()) or f"1 {'fewer' if off > 0 else 'more'} than --expect-records" in told, told
