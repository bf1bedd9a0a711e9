"""Noisy answers that were drawn only where the released area above is positive: which these are, and the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.reading.cells import Query
from auditor.reading.counts import Counts, LevelFile
from auditor.reading.errors import FormError
from auditor.reading.files import Files
from auditor.reading.findings import Findings
from auditor.reading.spine import Level


def due_answers(above: Counts, query: Query, level: Level) -> NDArray[np.int64]:
    """Which answers are to be drawn of a level: geounit * size + answer, increasing, `(m,)`.

    Args:
        above: the released cells of the level above.
        query: whose answers are drawn.
        level: of the geounits.
    """
    released = above.answers(query)
    positive = released.keys[released.counts > 0]
    starts = np.searchsorted(positive, np.arange(int(level.parents.max(initial=-1)) + 2) * query.size)
    parts = [
        geounit * query.size + positive[starts[parent] : starts[parent + 1]] % query.size
        for geounit, parent in enumerate(level.parents.tolist())
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def read_positive(
    files: Files, path: Path, level: Level, query: Query, most: int, findings: Findings
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What was drawn: geounit * size + answer in the file's order, and the noisy answers, both `(m,)`.

    Args:
        most: answers of one geounit at most.

    Raises:
        FormError: the file is missing or damaged, or holds something else.
    """
    file = LevelFile(files, path, level, findings, once=True, values=most)
    keys, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part, geounits in file.parts(["answer", "value", "variance"]):
        answers, drawn = (_lists(part.column(name), name, file.name) for name in ("answer", "value"))
        if not np.array_equal(answers[0], drawn[0]):
            raise FormError(f"{file.name}: a row has another number of answers than of values")
        if len(answers[1]) and not 0 <= int(answers[1].min()) <= int(answers[1].max()) < query.size:
            raise FormError(f"{file.name}: has an answer that the query {query.name!r} has not")
        keys.append(np.repeat(geounits, answers[0]) * query.size + answers[1])
        values.append(drawn[1])
    return np.concatenate(keys), np.concatenate(values)


def _lists(column: pa.ChunkedArray, name: str, file: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of a column's lists, and all their numbers."""
    if not pa.types.is_list(column.type) or not pa.types.is_integer(column.type.value_type) or column.null_count:
        raise FormError(f"{file}: column {name!r} holds {column.type}; lists of whole numbers are required")
    flat = pc.list_flatten(column)
    if flat.null_count:
        raise FormError(f"{file}: column {name!r} has a number that is missing")
    return pc.list_value_length(column).to_numpy().astype(np.int64), flat.to_numpy().astype(np.int64)


def wrong_answers(keys: NDArray[np.int64], due: NDArray[np.int64], query: Query, level: Level) -> Sequence[str]:
    """A sentence for what was drawn beside what was due, and for what was not; none if both are the same, in order."""
    if np.array_equal(keys, due):
        return []
    beyond, lacking = np.setdiff1d(keys, due), np.setdiff1d(due, keys)
    sentences = []
    for some, what in ((beyond, "was drawn, and is 0 in the area above"), (lacking, "was not drawn, and is positive")):
        if len(some):
            geounit, answer = divmod(int(some[0]), query.size)
            sentences.append(
                f"{len(some):,} answers, first {level.label(geounit)}, {query.labels[answer]!r}, "
                f"{what.replace('was', 'were', 1) if len(some) > 1 else what}"
            )
    return sentences or ["the answers of a geounit are not in ascending order, or one stands twice"]
