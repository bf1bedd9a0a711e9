"""The spine: whether it is a tree, and whose child each geounit is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from auditor.reading.files import Files, numbers_of
from auditor.reading.findings import Check, FormError
from auditor.reading.values import IntArray


@dataclass(frozen=True, eq=False)
class Level:
    """The geounits of a level.

    Attributes:
        codes: `(n,)` of text.
        parents: `(n,)` the number of each one's parent in the level above; -1 at the top.
        names: `(n,)` of text for people; empty where the level has none.
    """

    name: str
    codes: pa.Array
    parents: IntArray
    names: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The codes as Python has them."""
        return tuple(self.codes.to_pylist())

    def label(self, geounit: int) -> str:
        """The geounit as sentences name it."""
        named = f" ({self.names[geounit]})" if self.names and self.names[geounit] else ""
        return f"{self.name} {self.codes[geounit].as_py()!r}{named}"


def read_spine(path: Path, names: Sequence[str]) -> tuple[Level, ...]:
    """The levels, top first, geounits in the order in which the rows first name them; FormError if it is no tree."""
    files = Files(path.parent, "")
    levels = read_levels(files, path, names, None)
    if files.findings.problems:
        raise FormError(files.findings.problems[0])
    return levels


def spine_fingerprint(levels: Sequence[Level]) -> str:
    """SHA-256 over names, codes and parents, as docs/mathematics.md states it; parents at the top are -1."""
    header = [["spine", 1], *([level.name, len(level.codes)] for level in levels)]
    digest = hashlib.sha256(json.dumps(header).encode())
    for level in levels:
        digest.update(np.array([len(code) for code in level.texts], dtype="<i8").tobytes())
        digest.update("".join(level.texts).encode())
        digest.update(level.parents.astype("<i8").tobytes())
    return digest.hexdigest()


def read_levels(files: Files, path: Path, names: Sequence[str], prefixes: Sequence[int] | None) -> tuple[Level, ...]:
    """The levels, top first; anything that is not a tree is reported.

    Args:
        files: reads the file.
        path: of the spine.
        names: of its levels.
        prefixes: length of each level's codes, of which each begins with its parent's; None where they are any text.

    Raises:
        FormError: the file is missing or damaged, or there is no geounit in it.
    """
    name = files.name(path)
    table = pa.concat_tables(list(files.read(path, names)))
    if table.num_rows == 0:
        raise FormError(f"{name} has no row; at least one leaf is required")
    levels: list[Level] = []
    above = np.full(table.num_rows, -1, dtype=np.int64)
    for number, level in enumerate(names):
        column = table.column(level)
        codes = pa.array([code for code in column.unique().to_pylist() if code], pa.string())
        geounits = numbers_of(table, level, codes, name)

        def nowhere(row: int, level: str = level) -> str:
            return f"row {row + 1:,} has no {level}; each leaf is in one"

        files.check(path, f"rows without a {level}").add(geounits < 0, nowhere)
        if (geounits < 0).any():
            raise FormError(f"{name}: the rest of the release is not checked, since the spine is incomplete")
        parents = np.full(len(codes), -1, dtype=np.int64)
        parents[geounits] = above
        levels.append(Level(level, codes, parents))
        if number:
            _check_one_parent(files.check(path, f"rows with another parent of a {level}"), levels, geounits, above)
        if prefixes is not None:
            check = files.check(path, f"codes of a {level} that do not match the spec")
            _check_prefixes(check, levels, prefixes[number])
        above = geounits
    rows = np.bincount(above)
    files.check(path, "leaves with several rows").add(
        rows != 1, lambda leaf: f"{levels[-1].label(leaf)} has {rows[leaf]:,} rows; each leaf has one"
    )
    return tuple(levels)


def _check_one_parent(check: Check, levels: list[Level], geounits: IntArray, above: IntArray) -> None:
    """Args: `geounits` and `above` are the numbers of each row's geounit and of the one above it, `(n_rows,)`."""
    upper, level = levels[-2:]
    check.add(
        level.parents[geounits] != above,
        lambda row: (
            f"row {row + 1:,} puts {level.label(geounits[row])} in {upper.label(above[row])}, and another row in "
            f"{upper.label(level.parents[geounits[row]])}; each geounit has one parent"
        ),
    )


def _check_prefixes(check: Check, levels: list[Level], length: int) -> None:
    level = levels[-1]
    begin = levels[-2].texts if len(levels) > 1 else ("",)
    strays = [
        len(code) != length or not code.startswith(begin[parent])
        for code, parent in zip(level.texts, level.parents.tolist(), strict=True)
    ]
    check.add(
        np.array(strays),
        lambda geounit: (
            f"{level.label(geounit)} must have {length} characters and begin with {begin[level.parents[geounit]]!r}"
        ),
    )
