"""What restricted/ of an answer keeps for an independent redraw: the question by numbers, the areas, the true counts.

With the master key, these files and docs/mathematics.md ("The streams of a question") another program computes the true
numbers, draws noise and choices, and compares all of it with what was published. No records and no spec are needed. The
files are written before the ledger is charged, mode 0600, and only this folder has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from features.questions.work import QuestionWork
from pipeline.storage.files import write_json, write_parquet
from postprocess.arrays import IntArray

#: Files in restricted/ of an answer.
QUESTION: Final = "question.json"
AREAS: Final = "areas.parquet"
COUNTS: Final = "counts.parquet"
UNITS: Final = "units.parquet"
#: In `units.parquet`, of a record that is not counted.
NOT_COUNTED: Final = -1


def keep_question(work: QuestionWork) -> None:
    """Write the question by numbers, as JSON, and the areas.

    `content` is `Resolved.content`, of which with `reading`, how the records are read (`RecordSource.reading`), and
    `context` (dataset, framework, budget, neighbours, records of one person, and what a choice is made with) streams
    are bound to the hash; `amount` is the number of the axis that a sum or a choice is of, null for a count. The areas
    have the form of a release's spine.parquet: a row for each leaf, a column for each level.
    """
    restricted, staging, question = work.run.restricted, work.run.staging, work.question
    of = question.ends or question.amount
    amount = None if of is None else question.schema.names.index(of.name)
    content = {"content": question.content(), "amount": amount, "reading": work.reading, "context": work.plan.context}
    write_json(restricted / QUESTION, content, staging, private=True)
    write_parquet(restricted / AREAS, work.spine.to_table(), staging, {"kind": "spine"}, private=True)


@dataclass(frozen=True, eq=False)
class UnitsCounted:
    """Which records of units with several are counted, and as what. Confidential.

    Attributes:
        units: `(n,)` number of each record's unit.
        records: `(n,)` leaf * n_cells + cell of `Resolved.read`.
        counted: `(n,)` leaf * n_cells + cell of `Resolved.schema` as which it is counted, or `NOT_COUNTED`.
    """

    units: IntArray
    records: IntArray
    counted: IntArray


def keep_counts(restricted: Path, staging: Path, counts: sp.csr_array[np.int64], units: UnitsCounted | None) -> None:
    """Write what is counted: `leaf` and `cell` (numbers from 0), `count` (above 0), in this order. Confidential.

    And of units with several records, which are counted, and as what; without the units' names.

    Args:
        restricted, staging: folders of the answer.
        counts: `(n_leaves, n_cells)` records by leaf and cell of the question's schema, canonical.
        units: None where records have none.
    """
    leaves = np.repeat(np.arange(counts.shape[0], dtype=np.int64), np.diff(counts.indptr))
    columns = {"leaf": leaves, "cell": counts.indices.astype(np.int64), "count": counts.data.astype(np.int64)}
    header = {"kind": "counts of a question", "leaves": int(counts.shape[0]), "cells": int(counts.shape[1])}
    write_parquet(restricted / COUNTS, _table(columns), staging, header, private=True)
    if units is not None:
        order = np.lexsort((units.counted, units.records, units.units))
        columns = {"unit": units.units[order], "record": units.records[order], "counted": units.counted[order]}
        write_parquet(restricted / UNITS, _table(columns), staging, {"kind": "units of a question"}, private=True)


def _table(columns: dict[str, IntArray]) -> pa.Table:
    fields = [pa.field(name, pa.int64(), nullable=False) for name in columns]
    return pa.table([pa.array(values) for values in columns.values()], pa.schema(fields))
