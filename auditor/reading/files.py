"""The files of a release as a stranger reads them, with pyarrow, trusting nothing about them; and where they are.

What is read is bounded by a guard: it decides whether a file is read, and about no number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.reading.findings import Check, Findings, FormError
from auditor.reading.guard import GuardedFile
from auditor.reading.values import BoolArray, IntArray, zeros

#: Numbers beyond these bounds are not counts of persons; sums of those within cannot overflow unnoticed.
LARGEST = 2**62
#: Whole numbers are exact in floating point up to here.
_LARGEST_FLOAT = 2.0**53
_NAMED_COLUMNS = 5


class Files:
    """Reads Parquet files of a folder.

    Args:
        folder: of a release.
        label: how sentences name it; "" for its whole path.

    Attributes:
        findings: what is wrong with them.
    """

    def __init__(self, folder: Path, label: str = "public") -> None:
        self.folder = folder
        self._label = label or folder.as_posix()
        self.findings = Findings()

    def again(self) -> Files:
        """The same, for what is read a second time: what is wrong with it is not found twice."""
        other = copy(self)
        other.findings = Findings()
        return other

    def check(self, path: Path, kind: str) -> Check:
        """Begin a check of a file; see `Check`."""
        return self.findings.check(self.name(path), kind)

    def name(self, path: Path) -> str:
        """The file as sentences name it."""
        return f"{self._label}/{path.relative_to(self.folder).as_posix()}"

    def read(
        self, path: Path, columns: Sequence[str], rows: int | None = None, values: int | None = None
    ) -> Iterator[pa.Table]:
        """The file's rows, part by part.

        Args:
            path: of the file.
            columns: which it is to have.
            rows: that it can have at most; None where nothing else says so.
            values: numbers that one row has at most, where it has lists.

        Raises:
            FormError: the file is missing or damaged, holds more than it can, or has other columns than these.
        """
        name = self.name(path)
        with _reading(name):
            file = GuardedFile(path, rows)
        with file:
            _check_columns(name, file.schema_arrow.names, columns)
            if rows is None:
                file.check_whole()
            elif values is not None:
                file.at_most(rows, values)
            if file.num_row_groups == 0:
                with _reading(name):
                    empty = file.schema_arrow.empty_table()
                yield empty
            for group in range(file.num_row_groups):
                with _reading(name):
                    part = file.read_row_group(group, use_threads=False)
                    part.validate(full=True)
                yield part


def sha256(path: Path) -> str:
    """Of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FormError(f"{name} is missing; by the spec it is published") from None
    except MemoryError:  # of Arrow, too: the file may be right
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise FormError(f"{name} cannot be read as a Parquet file: {(str(error).splitlines() or ['?'])[0]}") from error


def _check_columns(name: str, actual: Sequence[str], required: Sequence[str]) -> None:
    if sorted(actual) == sorted(required):
        return
    missing = [column for column in required if column not in actual]
    others = [column for column in actual if column not in required]
    complaints = [
        f"{problem} {', '.join(map(repr, some[:_NAMED_COLUMNS]))}{', ...' if len(some) > _NAMED_COLUMNS else ''}"
        for problem, some in (("it lacks", missing), ("the spec does not give it", others))
        if some
    ]
    raise FormError(f"{name} has other columns than the spec gives: {'; '.join(complaints) or 'one occurs twice'}")


def numbers_of(table: pa.Table, column: str, labels: pa.Array, name: str) -> IntArray:
    """The number of each row's label among `labels`, `(n_rows,)`; -1 where it is missing or another.

    Raises:
        FormError: the column of the file `name` does not hold text.
    """
    values = table.column(column)
    value_type = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(value_type) or pa.types.is_large_string(value_type)):
        raise FormError(f"{name}: column {column!r} holds {values.type}; text is required")
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    parts = [zeros(0)]
    for chunk in encoded.chunks:
        label_index = pc.index_in(chunk.dictionary.cast(pa.string()), value_set=labels)
        # A row without a label has the index -1, which is the last of these.
        number_of = np.append(label_index.fill_null(-1).to_numpy(zero_copy_only=False), -1).astype(np.int64)
        parts.append(number_of[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts)


def whole_numbers(values: pa.Array | pa.ChunkedArray, column: str, name: str) -> tuple[IntArray, BoolArray]:
    """The numbers, `(n,)` int64, and which of them are whole; 0 stands for those that are not, and for missing ones.

    Raises:
        FormError: the column of the file `name` does not hold numbers.
    """
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise FormError(f"{name}: column {column!r} holds {values.type}; whole numbers are required")
    whole = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else np.ones(len(values), np.bool_)
    numbers = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        numbers = numbers.astype(np.float64)
        with np.errstate(invalid="ignore"):
            whole &= (np.abs(numbers) <= _LARGEST_FLOAT) & (np.floor(numbers) == numbers)
    elif numbers.dtype == np.uint64:
        whole &= numbers <= LARGEST
    else:
        whole &= (numbers >= -LARGEST) & (numbers <= LARGEST)
    return np.where(whole, numbers, 0).astype(np.int64), whole


def value_text(values: pa.Array | pa.ChunkedArray, row: int) -> str:
    """The value in a row, as sentences show it."""
    value = values[row].as_py()
    return "nothing" if value is None else repr(value)


_SAFE_NAME: Final = re.compile(r"[\w][\w.+-]*", re.UNICODE)
#: Bytes.
_LONGEST_NAME: Final = 200


def file_name(kind: str, name: str) -> str:
    """`name` if it can name a file or folder of a release; FormError, which says what is called so, if it cannot."""
    if len(name.encode(errors="replace")) > _LONGEST_NAME or name.endswith(".") or not _SAFE_NAME.fullmatch(name):
        raise FormError(
            f"{kind} {name!r} is to name a file of the release and cannot: allowed are letters, digits "
            f"and _ (up to {_LONGEST_NAME} bytes), and after the first also . + and -, but no . at the end"
        )
    return name


@dataclass(frozen=True)
class Places:
    """Files of a release in the directory `root`."""

    root: Path

    @property
    def public(self) -> Path:
        """What everybody may see."""
        return self.root / "public"

    @property
    def restricted(self) -> Path:
        """What only the agency may see."""
        return self.root / "restricted"

    @property
    def manifest(self) -> Path:
        """What a release states of itself."""
        return self.public / "manifest.json"

    @property
    def spine(self) -> Path:
        """One row a leaf, one column a level."""
        return self.public / "spine.parquet"

    def folder(self, universe: str, *, secret: bool = False) -> Path:
        """Of what is published of a universe, "" for the release's own; or, below restricted/, of its true counts."""
        folder = self.restricted if secret else self.public
        return folder / "companions" / file_name("companion", universe) if universe else folder

    def of(self, universe: str, kind: str, *names: str, secret: bool = False) -> Path:
        """A file of a universe: of its kind, in folders called so, with the last name; of microdata without names."""
        *folders, name = (kind, *(file_name(f"{kind}:", name) for name in names))
        return self.folder(universe, secret=secret).joinpath(*folders, f"{name}.parquet")

    def answers(self, universe: str, kind: str, level: str, query: str) -> Path:
        """Answers: noisy "measurements", noisy ones where the released area above is "positive", exact "invariants"."""
        return self.of(universe, kind, level, ".".join(term.strip() for term in query.split("*")))
