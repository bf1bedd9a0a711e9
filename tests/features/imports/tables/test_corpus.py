"""Every form in which an office writes a table, and every two of them: read right to the last cell, or stopped."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles.table_corpus import FILES, NAMES, Case, cases, population

from features.imports.tables.importer import TableRequest, TableSource, import_table
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

CASES = tuple(cases())
#: Forms that are read right by themselves, without an option.
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


def outcome(case: Case, folder: Path) -> tuple[str, str]:
    """What became of a file: "right", "stopped" or "wrong", and the message or what is wrong."""
    folder.mkdir()
    table = case.table()
    path = FILES[case.file](table, folder)
    try:
        spec = load_spec(import_table(TableRequest(TableSource(str(path))), folder / "out").spec)
    except InputError as error:
        told = str(error)
        if (folder / "out").exists() or str(path) not in told or "persons.parquet" in told:
            return "wrong", f"not told in the file's own terms: {told}"
        return "stopped", told
    universe = spec.universes()[0]
    spine = read_spine(spec.geography)
    cells = np.asarray(tabulate(universe.require_input(), universe.schema, spine).todense())
    codes = dict(zip(NAMES, population()["area"].unique(), strict=True))
    leaves = [codes.get(code, code) for code in spine.levels[-1].geocodes.tolist()]
    if table.must_stop:
        return "wrong", f"read, {cells.sum():,} people, instead of stopped"
    if leaves != sorted(codes.values()) and sorted(leaves) != sorted(codes.values()):
        return "wrong", f"areas {leaves}"
    cells, expected = cells[np.argsort(leaves)], truth(case)
    if cells.sum() != expected.sum():
        return "wrong", f"{cells.sum():,} people instead of {expected.sum():,}"
    if alike(cells) != alike(expected):
        return "wrong", f"{cells.shape} cells are not the {expected.shape} of the truth"
    if len(spine.levels) < 2:
        return "wrong", "one level"
    return "right", ""


def judged(some: list[Case], folder: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for number, case in enumerate(some):
        found[case.name] = outcome(case, folder / str(number))
        shutil.rmtree(folder / str(number))
    return found


def test_each_form_alone(tmp_path: Path) -> None:
    """Right, but for those that mix something with counts or are nearly sums: these stop, and say where."""
    found = judged(ALONE, tmp_path)
    must_stop = {case.name for case in ALONE if case.table().must_stop}
    may_stop = {case.name for case in ALONE if case.table().may_stop}
    assert {name: told for name, (how, told) in found.items() if how == "wrong"} == {}
    assert {name for name, (how, _) in found.items() if how == "stopped"} <= must_stop | may_stop
    assert must_stop <= {name for name, (how, _) in found.items() if how == "stopped"}


def test_a_sample_of_pairs(tmp_path: Path) -> None:
    """Every thirtieth pair; the slow suite has them all."""
    pairs = [case for case in CASES if case not in ALONE][::30]
    assert {name: told for name, (how, told) in judged(pairs, tmp_path).items() if how == "wrong"} == {}


@pytest.mark.slow
def test_every_pair_of_forms(tmp_path: Path) -> None:
    """None is wrong, and most are read."""
    assert len(CASES) >= 400
    found = judged(list(CASES), tmp_path)
    assert {name: told for name, (how, told) in found.items() if how == "wrong"} == {}
    may = {case.name for case in CASES if case.table().must_stop}
    assert Counter(how for name, (how, _) in found.items() if name not in may)["right"] > 0.9 * (len(CASES) - len(may))
