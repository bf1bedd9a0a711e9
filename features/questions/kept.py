"""What restricted/ of an answer keeps for an independent redraw: the question by numbers, the areas, the true counts.

With the master key, these files and docs/mathematics.md ("The streams of a question") another program computes the true
numbers, draws noise and choices, and compares all of it with what was published. No records and no spec are needed. The
files are written before the ledger is charged, mode 0600, and only this folder has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.questions.resolved import Resolved
from pipeline.storage.files import write_json, write_parquet

__all__ = [
    "AREAS",
    "COUNTS",
    "NOT_COUNTED",
    "QUESTION",
    "UNITS",
    "keep_areas",
    "keep_counts",
    "keep_question",
    "keep_units",
]

#: Files in restricted/ of an answer.
QUESTION: Final = "question.json"
AREAS: Final = "areas.parquet"
COUNTS: Final = "counts.parquet"
UNITS: Final = "units.parquet"
#: In `units.parquet`, of a record that is not counted.
NOT_COUNTED: Final = -1


def keep_question(
    restricted: Path, staging: Path, question: Resolved, reading: list[object], context: tuple[str, ...]
) -> None:
    """Write the question by numbers, as JSON.

    `content` is `Resolved.content`, of which with `reading`, how the records are read (`RecordSource.reading`), and
    `context` (dataset, framework, budget, neighbours, records of one person, and what a choice is made with) streams
    are bound to the hash; `amount` is the number of the axis that a sum or a choice is of, null for a count.
    """
    of = question.ends or question.amount
    amount = None if of is None else question.schema.names.index(of.name)
    content = {"content": question.content(), "amount": amount, "reading": reading, "context": context}
    write_json(restricted / QUESTION, content, staging, private=True)


def keep_areas(restricted: Path, staging: Path, spine: Spine) -> None:
    """Write the areas in the form of a release's spine.parquet: a row for each leaf, a column for each level."""
    write_parquet(restricted / AREAS, spine.to_table(), staging, {"kind": "spine"}, private=True)


def keep_counts(restricted: Path, staging: Path, counts: sp.csr_array[np.int64]) -> None:
    """Write what is counted: `leaf` and `cell` (numbers from 0), `count` (above 0), in this order. Confidential.

    Args:
        restricted, staging: folders of the answer.
        counts: `(n_leaves, n_cells)` records by leaf and cell of the question's schema, canonical.
    """
    leaves = np.repeat(np.arange(counts.shape[0], dtype=np.int64), np.diff(counts.indptr))
    columns = {"leaf": leaves, "cell": counts.indices.astype(np.int64), "count": counts.data.astype(np.int64)}
    header = {"kind": "counts of a question", "leaves": int(counts.shape[0]), "cells": int(counts.shape[1])}
    write_parquet(restricted / COUNTS, _table(columns), staging, header, private=True)


def keep_units(
    restricted: Path, staging: Path, units: NDArray[np.int64], cells: NDArray[np.int64], counted: NDArray[np.int64]
) -> None:
    """Write which records of units with several are counted, and as what. Confidential; without the units' names.

    Args:
        restricted, staging: folders of the answer.
        units: `(n,)` number of each record's unit.
        cells: `(n,)` leaf times number of cells, plus cell, of the attributes that records have.
        counted: `(n,)` the same of the question's attributes, as the record is counted; or `NOT_COUNTED`.
    """
    order = np.lexsort((counted, cells, units))
    columns = {"unit": units[order], "record": cells[order], "counted": counted[order]}
    write_parquet(restricted / UNITS, _table(columns), staging, {"kind": "units of a question"}, private=True)


def _table(columns: dict[str, NDArray[np.int64]]) -> pa.Table:
    fields = [pa.field(name, pa.int64(), nullable=False) for name in columns]
    return pa.table([pa.array(values) for values in columns.values()], pa.schema(fields))
