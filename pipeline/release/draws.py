"""The Parquet form of draws: for one table at one level, one row for each draw and geounit.

Columns: geocode, draw (int32, from 1), then the answers (float64, persons) under their labels, as in the table. The
rows are draw by draw, and within a draw all geounits of the level in the spine's order. Every number is a multiple of
1/256, so that sums of them are exact; it may be negative, and is NaN where the measurements do not determine it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.universe import Table
from pipeline.release.form import REAL, TEXT, Form, FormWriter, Values, open_form
from pipeline.storage.files import texts
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

#: Column with the number of the draw, from 1.
DRAW = "draw"
_ABOUT = (
    "Joint draws of what the truth may be given the noisy measurements, for multiple imputation and intervals: linear, "
    "may be negative, no release of counts. Numbers of one draw belong together, in all tables and at all levels."
)


def check_drawn_labels(table: str, labels: Sequence[str]) -> None:
    """Refuse a label that cannot stand beside the number of the draw.

    Raises:
        InputError: an answer is called "draw".
    """
    if DRAW in labels:
        raise InputError(
            f"tables.{table}: {DRAW!r} cannot be the label of an answer where publish.draws is not 0: the column with "
            "the number of the draw is called so; rename the value"
        )


class DrawsFile:
    """An open file of draws, which takes one draw at a time."""

    def __init__(self, out: FormWriter, geocodes: NDArray[np.str_]) -> None:
        self._out = out
        self._geocodes = geocodes

    def add(self, number: int, answers: FloatArray, first: int = 0) -> None:
        """The answers `(n, size)` of the draw `number`, from 0, for the geounits from `first` on; all in order."""
        draw = np.full(len(answers), number + 1, dtype=np.int32)
        self._out.add(self._geocodes[first : first + len(answers)], draw, answers)


def _form(table: Table, level: str, count: int) -> Form:
    header = {
        "kind": "draws", "name": table.name, "level": level, "query": table.query.name, "draws": count, "about": _ABOUT,
    }  # fmt: skip
    columns = {"geocode": TEXT, DRAW: pa.int32(), **dict.fromkeys(table.query.answer_labels(), REAL)}
    return Form("a file of draws", header, columns)


def _by_label(geocodes: NDArray[np.str_], draw: IntArray, answers: FloatArray) -> tuple[Values, ...]:
    return geocodes, draw, *np.ascontiguousarray(answers.T)


@contextmanager
def draws_file(
    target: Path, staging: Path, table: Table, level: str, geocodes: NDArray[np.str_], count: int
) -> Iterator[DrawsFile]:
    """A file of draws, whole or not at all.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        table: whose answers are drawn.
        level: name of the level.
        geocodes: `(n_geounits,)` of the level.
        count: draws.

    Raises:
        ReleaseError: the file cannot be written.
    """
    with _form(table, level, count).writer(target, staging, _by_label) as out:
        yield DrawsFile(out, geocodes)


def read_draws(path: Readable, table: Table, level: str, geocodes: NDArray[np.str_], count: int) -> pd.DataFrame:
    """The draws of a file, with the index (draw, geocode) and a column for each label.

    Args:
        path: of the file.
        table: of the release.
        level: its name.
        geocodes: `(n_geounits,)` of the level.
        count: draws that the release has.

    Raises:
        ReleaseError: it is missing, damaged, or not of this table, level and number of draws.
    """
    with open_form(path, _form(table, level, count), len(geocodes) * count) as file:
        rows = file.whole()
        draw, codes = rows.column(DRAW).to_numpy(), texts(rows.column("geocode"))
        expected = np.repeat(np.arange(1, count + 1), len(geocodes)), np.tile(geocodes, count)
        if not (np.array_equal(draw, expected[0]) and np.array_equal(codes, expected[1])):
            raise file.damaged(f"it does not have {count} draws of the level's geounits, in order")
    import pandas as pd  # only who reads draws loads it

    index = pd.MultiIndex.from_arrays([draw, codes.astype(object)], names=[DRAW, "geocode"])
    return pd.DataFrame({label: rows.column(label).to_numpy() for label in table.query.answer_labels()}, index=index)
