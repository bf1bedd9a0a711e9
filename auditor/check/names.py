"""The published names of areas: each area of a level that has names has one in every language, and no other has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.reading.files import Files, numbers_of
from auditor.reading.findings import Check, Findings
from auditor.reading.places import Places
from auditor.reading.spec import PublicSpec
from auditor.reading.spine import Level


def with_names(
    files: Files, run: Places, spec: PublicSpec, levels: tuple[Level, ...], findings: Findings
) -> tuple[Level, ...]:
    """The levels with the names that are published; whatever is wrong with these is reported."""
    return tuple(
        _named(files, run, level, spec.names[level.name], findings) if level.name in spec.names else level
        for level in levels
    )


def _named(files: Files, run: Places, level: Level, languages: tuple[str, ...], findings: Findings) -> Level:
    path = run.names(level.name)
    name, columns = files.name(path), [f"name:{language}" if language else "name" for language in languages]
    with findings.noting_errors():
        table = pa.concat_tables(list(files.read(path, ["geocode", *columns], len(level.codes))))
        geounits = numbers_of(table, "geocode", level.codes, name)
        strange = findings.check(name, f"rows of no {level.name}")
        strange.add(geounits < 0, lambda row: f"row {row + 1:,} is of no {level.name} of the spine")
        times = np.bincount(geounits[geounits >= 0], minlength=len(level.codes))
        once = findings.check(name, f"{level.name}s that do not have one row")
        once.add(times != 1, lambda geounit: f"{level.label(geounit)} has {times[geounit]:,} rows; each area has one")
        named = findings.check(name, "names that are empty")
        for column in columns:
            texts = np.array([text or "" for text in table.column(column).to_pylist()], dtype=np.str_)
            _check_texts(named, texts == "", column)
        first = [""] * len(level.codes)
        for geounit, text in zip(geounits.tolist(), table.column(columns[0]).to_pylist(), strict=True):
            if geounit >= 0:
                first[geounit] = text or ""
        level = replace(level, names=tuple(first))
    return level


def _check_texts(check: Check, empty: NDArray[np.bool_], column: str) -> None:
    check.add(empty, lambda row: f"row {row + 1:,} has no text in column {column!r}")
