"""Where two public folders differ: which file, which level, which geounit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import MemoryShortError
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import sha256_file

#: Parts of the manifest that are compared by themselves.
_APART = {"files", "manifest_sha256", "software"}


@dataclass(frozen=True)
class Difference:
    """One file that is not the same.

    Attributes:
        file: path from the run's directory.
        level, geounit: where it differs first; "" where that is not known, or it has none.
        what: in words.
    """

    file: str
    level: str
    geounit: str
    what: str

    def __str__(self) -> str:
        where = [f"level {self.level}"] if self.level else []
        where += [f"geounit {self.geounit}"] if self.geounit else []
        return f"{self.file}: {', '.join([*where, self.what])}"


def compare_public(one: RunDirectory, two: RunDirectory, levels: Sequence[str]) -> list[Difference]:
    """What differs in `two`, which was computed again, from `one`; the first in the order of a run comes first.

    Args:
        levels: their names, top first.
    """
    names = {run.name_of(path) for run in (one, two) for path in run.public.rglob("*") if path.is_file()}
    found = []
    for name in sorted(names, key=lambda name: one.order_of(one.public / name, levels)):
        first, second = one.public / name, two.public / name
        shown = f"public/{name}"
        if not first.is_file():
            found.append(Difference(shown, "", "", "is not in the release and is computed again"))
        elif not second.is_file():
            found.append(Difference(shown, "", "", "is in the release and is not computed again"))
        elif sha256_file(first) != sha256_file(second):
            if first == one.manifest:
                parts = _manifest_parts(first, second)
                found += [Difference(shown, "", "", f"differs in {', '.join(parts)}")] if parts else []
            else:
                found.append(_difference(shown, first, second, one.level_of(first, levels)))
    return found


def _manifest_parts(first: Path, second: Path) -> list[str]:
    one, two = (json.loads(path.read_bytes()) for path in (first, second))
    return sorted(key for key in one.keys() | two.keys() if key not in _APART and one.get(key) != two.get(key))


def _difference(shown: str, first: Path, second: Path, level: str) -> Difference:
    """Where two files differ first; of those that are not Parquet, that they do."""
    if first.suffix != ".parquet":
        return Difference(shown, level, "", "has other bytes")
    try:
        one, two = pq.read_table(first), pq.read_table(second)
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(first)) from None
    except (OSError, pa.ArrowException):
        return Difference(shown, level, "", "cannot be read")
    if one.column_names != two.column_names:
        return Difference(shown, level, "", "has other columns")
    rows = [_first_row(a, b) for a, b in zip(one.columns, two.columns, strict=True)]
    differing = [row for row in rows if row is not None]
    if differing:
        row = min(differing)
        longer = one if row < one.num_rows else two
        names = [name for name, at in zip(one.column_names, rows, strict=True) if at == row]
        geounit = str(longer.column("geocode")[row].as_py()) if "geocode" in one.column_names else ""
        return Difference(shown, level, geounit, f"row {row + 1} has another {names[0]}")
    return Difference(shown, level, "", "has the same rows and other bytes")


def _first_row(one: pa.ChunkedArray, two: pa.ChunkedArray) -> int | None:
    """The first row in which two columns differ, by halving; None if they are equal."""
    if one.equals(two):
        return None
    low, high = 0, min(len(one), len(two))
    if one.slice(0, high).equals(two.slice(0, high)):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one.slice(low, middle - low).equals(two.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low
