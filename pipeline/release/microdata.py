"""The microdata: the released histogram as one row for each person.

Columns: geocode of the leaf, one for each attribute; all are dictionaries, which pandas reads as categories. Rows are
in the order of leaves, then of cells, so that the file reveals no more than the histogram does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.model.schema import Schema
from pipeline.release.form import WHOLE, Form
from pipeline.release.histograms import LabelColumns, geounit_batches, label_columns
from postprocess.arrays import IntArray


def write_microdata(
    target: Path,
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    schema: Schema,
    counts: sp.csr_array | Iterable[sp.csr_array],
) -> int:
    """Write one row for each person of the leaf level; memory is that of one row group beside the counts.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        level: name of the leaf level.
        geocodes: of all leaves, `(n_leaves,)`.
        schema: whose cells are the columns of `counts`.
        counts: `(n_leaves, n_cells)` int64, or batches of successive rows of it; not negative. The bytes written do
            not depend on the batches.

    Returns:
        The number of persons.

    Raises:
        ReleaseError: the file cannot be written.
        InputError: an attribute is called geocode.
    """
    form, labels = microdata_form(schema, level), LabelColumns(geocodes, schema)
    with form.writer(target, staging, labels.arrays) as out:
        for first, batch in geounit_batches(counts, len(geocodes), schema):
            for leaves, cells in _persons(batch, form.rows):
                out.add(leaves + first, cells)
    return out.written


def microdata_form(schema: Schema, level: str, numbers: Sequence[str] = (), *, nullable: bool = False) -> Form:
    """The form of microdata of a level, with columns of whole numbers behind the labels.

    Raises:
        InputError: an attribute is called geocode, or as one of the numbers.
    """
    columns = label_columns(schema, ("geocode", *numbers)) | dict.fromkeys(numbers, WHOLE)
    header = {"kind": "microdata", "level": level, "schema": schema.fingerprint()}
    return Form("microdata", header, columns, numbers if nullable else ())


def _persons(counts: sp.csr_array, rows: int) -> Iterator[tuple[IntArray, NDArray[np.integer]]]:
    """Leaf (from 0) and cell of each person, `(n,)`, in pieces of at most `rows` persons."""
    # ends[k] persons are in the first k + 1 entries of the matrix, and starts the entries of a leaf.
    ends = np.cumsum(counts.data)
    n_persons = int(ends[-1]) if len(ends) else 0
    for start in range(0, n_persons, rows):
        stop = min(start + rows, n_persons)
        low, high = np.searchsorted(ends, start, side="right"), np.searchsorted(ends, stop, side="left") + 1
        upto = np.minimum(ends[low:high], stop)
        repeats = np.diff(upto, prepend=start)
        leaves = np.searchsorted(counts.indptr, np.arange(low, high), side="right") - 1
        yield np.repeat(leaves, repeats), np.repeat(counts.indices[low:high], repeats)
