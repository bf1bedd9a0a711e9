"""Where two public folders differ: which file, which level, which geounit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import MemoryShortError, ReleaseError
from pipeline.metadata.products import level_of, order_of
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import sha256_file
from pipeline.storage.guard import GuardedFile
from pipeline.storage.local_name import local_name

#: Parts of the manifest that are compared by themselves.
_APART = {"files", "manifest_sha256", "software"}


@dataclass(frozen=True)
class Difference:
    """One file that is not the same.

    Attributes:
        file: path from the run's directory.
        level, geounit: where it differs first; "" where that is not known, or it has none.
        what: a description of the difference.
    """

    file: str
    level: str
    geounit: str
    what: str

    def __str__(self) -> str:
        where = [f"level {self.level}"] if self.level else []
        where += [f"geounit {self.geounit}"] if self.geounit else []
        return f"{self.file}: {', '.join([*where, self.what])}"


def compare_public(release: RunDirectory, recomputed: RunDirectory, levels: Sequence[str]) -> list[Difference]:
    """The differences of `recomputed` from `release`, in the order in which a run writes files.

    Args:
        release: the published release.
        recomputed: the run that repeats it.
        levels: their names, top first.
    """
    names = {
        run.name_of(path)
        for run in (release, recomputed)
        for path in run.public.rglob("*")
        if path.is_file() and path != run.signature  # which has no key to be made again with
    }
    differences = []
    for name in sorted(names, key=lambda name: order_of(release, release.public / name, levels)):
        first, second = release.public / name, recomputed.public / name
        shown_path = f"public/{name}"
        if not first.is_file():
            differences.append(Difference(shown_path, "", "", "is recomputed and is not in the release"))
        elif not second.is_file():
            differences.append(Difference(shown_path, "", "", "is in the release and is not recomputed"))
        elif sha256_file(first) != sha256_file(second):
            if first == release.manifest:
                parts = _manifest_parts(first, second)
                differences += [Difference(shown_path, "", "", f"differs in {', '.join(parts)}")] if parts else []
            else:
                differences.append(_difference(shown_path, first, second, level_of(release, first, levels)))
    return differences


def _manifest_parts(first: Path, second: Path) -> list[str]:
    first_content, second_content = (json.loads(path.read_bytes()) for path in (first, second))
    return sorted(
        key
        for key in first_content.keys() | second_content.keys()
        if key not in _APART and first_content.get(key) != second_content.get(key)
    )


def _difference(file: str, first: Path, second: Path, level: str) -> Difference:
    """Where two files differ first; of those that are not Parquet, that they do."""
    if first.suffix != ".parquet":
        return Difference(file, level, "", "has other bytes")
    try:
        first_table, second_table = _both(first, second)
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(first)) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return Difference(file, level, "", "cannot be read")
    except ReleaseError as error:
        return Difference(file, level, "", str(error).removeprefix(str(first)).lstrip(": "))
    if first_table.column_names != second_table.column_names:
        return Difference(file, level, "", "has other columns")
    rows = [_first_row(a, b) for a, b in zip(first_table.columns, second_table.columns, strict=True)]
    differing = [row for row in rows if row is not None]
    if differing:
        row = min(differing)
        longer = first_table if row < first_table.num_rows else second_table
        names = [name for name, at in zip(first_table.column_names, rows, strict=True) if at == row]
        geounit = str(longer.column("geocode")[row].as_py()) if "geocode" in first_table.column_names else ""
        return Difference(file, level, geounit, f"row {row + 1} has another {names[0]}")
    return Difference(file, level, "", "has the same rows and other bytes")


def _both(first: Path, second: Path) -> tuple[pa.Table, pa.Table]:
    """Both files; ReleaseError where the published one, which may be anybody's, holds far more than the recomputed."""
    recomputed = pq.read_table(local_name(second))
    values = max((_most_values(group) for group in _groups(second)), default=1)
    with GuardedFile(first, recomputed.num_rows) as published:
        published.at_most(recomputed.num_rows, values)
        return published.read(), recomputed


def _most_values(group: pq.RowGroupMetaData) -> int:
    """Numbers for each row in the column that has most of them, rounded up."""
    return max(-(-group.column(index).num_values // max(group.num_rows, 1)) for index in range(group.num_columns))


def _groups(path: Path) -> list[pq.RowGroupMetaData]:
    metadata = pq.read_metadata(local_name(path))
    return [metadata.row_group(number) for number in range(metadata.num_row_groups)]


def _first_row(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """The first row in which two columns differ, by halving; None if they are equal."""
    if left.equals(right):
        return None
    low, high = 0, min(len(left), len(right))
    if left.slice(0, high).equals(right.slice(0, high)):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left.slice(low, middle - low).equals(right.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low
