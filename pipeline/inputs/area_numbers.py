"""Public numbers of areas, from a file that a spec names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geography.codes import first_few
from geography.spine import Spine
from pipeline.errors import InputError, RecordsError
from pipeline.inputs.public_file import open_public
from pipeline.records.geocodes import LeafReader
from pipeline.records.numbers import NumberReader
from pipeline.records.problems import MistakeLog


def read_area_numbers(where: str, path: Path, geocode: str, names: Sequence[str], upto: Spine) -> NDArray[np.float64]:
    """The public numbers of the geounits of the lowest level of a spine, `(n_geounits, n_columns)`.

    Args:
        where: the key of the spec that names the file, for messages.
        path: CSV or Parquet with one row a geounit.
        geocode: the file's column of geocodes.
        names: its columns of numbers.
        upto: down to the level that the file has numbers for.

    Raises:
        InputError: the file cannot be read, or does not have one row with a number from 0 for each geounit.
    """
    try:
        file = open_public(path, [geocode, *names], "the public file")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    reader, log = LeafReader(upto, geocode, path), MistakeLog(path, file.find_lines)
    numbers = np.zeros((upto.n_leaves, len(names)))
    rows_of = np.zeros(upto.n_leaves, dtype=np.int64)
    first_row, last_of = 0, np.zeros(upto.n_leaves, dtype=np.int64)
    try:
        for chunk in file.chunks():
            codes = chunk.column(geocode)
            geounits, _ = reader.read(codes, first_row, log)
            placed = geounits >= 0
            rows_of += np.bincount(geounits[placed], minlength=upto.n_leaves)
            last_of[geounits[placed]] = first_row + np.flatnonzero(placed) + 1
            for number, name in enumerate(names):
                read = NumberReader(name).read(chunk.column(name), codes, first_row, log)
                numbers[geounits[placed], number] = read[placed]
            first_row += chunk.num_rows
        log.raise_if_any()
    except RecordsError as error:
        raise InputError(f"{where}: {error}") from None
    for affected, problem in ((rows_of > 1, "several rows"), (rows_of == 0, "no row")):
        if affected.any():
            codes_found = upto.leaf_level.geocodes[affected]
            last = f" (the last is row {last_of[affected][0]:,})" if problem == "several rows" else ""
            raise InputError(
                f"{where}: {path}: {len(codes_found):,} geounits of level {upto.level_names[-1]!r} have {problem}: "
                f"{first_few(codes_found)}{last}; each needs one"
            )
    return numbers
