"""Which cells of the matrix there are, and when they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
from oracles.how_many import OF_A_VERSION

from features.registry import is_installed
from matrix.cases import CASES

#: Ways to make a case that must not show in any number, two at once: none of them may; and a way of `matrix.altered`.
WAYS: Final = {
    "two workers, records in another order": "small batches",
    "four workers, records as Parquet": "small batches",
    "Prefect, cut": "cut",
    "killed again and again": "killed",
}
#: What is done with the release of each case in every run of the tests.
JUDGES: Final = ("verify", "second program")
_LAYOUTS: Final = ("csv", "xlsx", "parquet", "sdmx", "duckdb", "nmf", "dp-registry")
#: What is done with the release of a full case.
USES: Final = (
    "verify --constraints",
    "verify --records",
    *(("audit",) if is_installed("audit") else ()),
    *((f"export --format {layout}" for layout in _LAYOUTS) if is_installed("exports") else ()),
    "query",
    "correct its texts",
)
COLUMNS: Final = (*WAYS, *JUDGES, *USES)


def cells(columns: Iterable[str], *, all_cases: bool = False) -> list[Any]:
    """The cells of columns: those of full cases; of a version, or if they are asked for, those of all."""
    chosen = [case for case in CASES if case.full or all_cases or OF_A_VERSION]
    return [pytest.param(case, column, id=f"{case.name}: {column}") for column in columns for case in chosen]


def of_cases(*, full: bool = False) -> pytest.MarkDecorator:
    """A test of all cases, or of the full ones, those of all in a version."""
    chosen = [case for case in CASES if case.full or not full or OF_A_VERSION]
    return pytest.mark.parametrize("made", chosen, ids=lambda case: case.name, indirect=True)
