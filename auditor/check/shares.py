"""The published numbers by which answers are shared: one row for each geounit of a level, numbers from 0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.reading.errors import FormError
from auditor.reading.files import Files, numbers_of
from auditor.reading.findings import Check, Findings
from auditor.reading.places import Places
from auditor.reading.spec import PublicSpec
from auditor.reading.spine import Level


def check_shares(files: Files, run: Places, spec: PublicSpec, levels: tuple[Level, ...], findings: Findings) -> None:
    """Check the file of each share that the spec uses."""
    by_name = {level.name: level for level in levels}
    for share, (of_level, n_columns) in spec.shares.items():
        files.seen.add(run.universe("").shares(share))
        if of_level in by_name:
            with findings.noting_errors():
                _check(files, run, share, by_name[of_level], n_columns, findings)


def _check(files: Files, run: Places, share: str, level: Level, n_columns: int, findings: Findings) -> None:
    path = run.universe("").shares(share)
    name, columns = files.name(path), [f"number_{number + 1}" for number in range(n_columns)]
    table = pa.concat_tables(list(files.read(path, ["geocode", *columns], len(level.codes))))
    geounits = numbers_of(table, "geocode", level.codes, name)
    times = np.bincount(geounits[geounits >= 0], minlength=len(level.codes))
    once = findings.check(name, f"{level.name}s that do not have one row")
    once.add(times != 1, lambda geounit: f"{level.label(geounit)} has {times[geounit]:,} rows; each area has one")
    counted = findings.check(name, "numbers that are none, or negative")
    for column in columns:
        values = table.column(column)
        if not pa.types.is_float64(values.type):
            raise FormError(f"{name}: column {column!r} holds {values.type}; numbers are required")
        numbers = values.fill_null(np.nan).to_numpy()
        _check_numbers(counted, numbers)


def _check_numbers(counted: Check, numbers: NDArray[np.float64]) -> None:
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    counted.add(wrong, lambda row: f"row {row + 1:,} has {numbers[row]}; numbers from 0 are allowed")
