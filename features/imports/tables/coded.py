"""Columns of a table as numbers of their distinct texts: what sums over rows need, for ten million rows too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.cells import Cells
from features.imports.tables.table_file import TableFile
from pipeline.records.columns import Distinct

#: Columns of a file are kept up to this size.
_MOST_KEPT_BYTES = 400_000_000


@dataclass(frozen=True, eq=False)
class Coded:
    """Some columns.

    Attributes:
        codes: column -> `(n_rows,)` int32, the number of each row's text.
        texts: column -> its distinct texts; "" is a field without a value.
    """

    codes: Mapping[str, NDArray[np.int32]]
    texts: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, file: TableFile, names: Sequence[str]) -> Coded:
        """The columns of a file."""
        new = [name for name in dict.fromkeys(names) if name not in file.kept]
        numbers: dict[str, dict[str, int]] = {name: {} for name in new}
        parts: dict[str, list[NDArray[np.int32]]] = {name: [] for name in new}
        for chunk in file.chunks(new) if new else ():
            for name, known in numbers.items():
                distinct = Distinct.of(chunk.column(name))
                place = [known.setdefault(text, len(known)) for text in distinct.texts]
                if (distinct.index == len(place)).any():
                    place.append(known.setdefault("", len(known)))
                parts[name].append(np.array([*place, 0], dtype=np.int32)[distinct.index])
        read = {name: (np.concatenate(parts[name]), list(numbers[name])) for name in new}
        columns = {name: read[name] if name in read else file.kept[name] for name in names}
        for name, column in read.items():
            if sum(codes.nbytes for codes, _ in file.kept.values()) + column[0].nbytes <= _MOST_KEPT_BYTES:
                file.kept[name] = column
        return cls(
            {name: codes for name, (codes, _) in columns.items()}, {name: texts for name, (_, texts) in columns.items()}
        )

    def keys(self, names: Sequence[str], rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """A number for each combination of the columns' texts, `(n_rows,)`, the same in every call."""
        n_rows = len(next(iter(self.codes.values()))) if rows is None else int(rows.sum())
        keys = np.zeros(n_rows, dtype=np.int64)
        exact = math.prod(len(self.texts[name]) for name in names) < 1 << 62
        for name in names:
            codes = self.codes[name] if rows is None else self.codes[name][rows]
            # Beyond 62 bits it wraps around as a hash does, and an odd factor of 32 bits keeps combinations apart.
            keys = keys * np.int64(len(self.texts[name]) if exact else 2 * len(self.texts[name]) + 0x9E3779B1) + codes
        return keys

    def numbers(self, cells: Cells) -> NDArray[np.int64]:
        """The counts of a column of plain numbers, `(n_rows,)`; -1 where it has none."""
        values = [cells.number(text) if text else None for text in self.texts[cells.column]]
        table = np.array([-1 if value is None else value for value in values], dtype=np.int64)
        return table[self.codes[cells.column]]

    def has(self, name: str, wanted: Sequence[bool]) -> NDArray[np.bool_]:
        """Which rows have a text that is wanted, by the number of the text."""
        return np.array(wanted, dtype=bool)[self.codes[name]]


def group_sums(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys, sorted, and the sums of `counts` `(n_rows, n_columns)` for each, `(n_keys, n_columns)`."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    return found, np.add.reduceat(counts[order], starts, axis=0) if len(found) else counts[:0]
