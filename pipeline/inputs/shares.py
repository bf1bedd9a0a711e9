"""Public numbers that areas are expected to share answers by, from the file that a spec names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geography.codes import first_few
from geography.spine import Spine
from pipeline.errors import InputError, RecordsError
from pipeline.inputs.public_file import open_public
from pipeline.model.public_share import PublicShare
from pipeline.records.geocodes import LeafReader
from pipeline.records.numbers import NumberReader
from pipeline.records.problems import MistakeLog


def read_shares(share: PublicShare, spine: Spine) -> NDArray[np.float64]:
    """The public numbers of the geounits of the file's level, `(n_geounits, n_columns)`: distinct columns, in order.

    Raises:
        InputError: the file cannot be read, or does not have one row with a number from 0 for each geounit.
    """
    where = f"postprocess.shares.{share.name}"
    upto = spine.down_to(share.level)
    names = share.distinct_columns
    try:
        file = open_public(share.file, [share.geocode, *names], "the public file")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    reader, log = LeafReader(upto, share.geocode, share.file), MistakeLog(share.file, file.find_lines)
    numbers = np.zeros((upto.n_leaves, len(names)))
    rows_of = np.zeros(upto.n_leaves, dtype=np.int64)
    first_row, last_of = 0, np.zeros(upto.n_leaves, dtype=np.int64)
    try:
        for chunk in file.chunks():
            codes = chunk.column(share.geocode)
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
                f"{where}: {share.file}: {len(codes_found):,} geounits of level {share.level!r} have {problem}: "
                f"{first_few(codes_found)}{last}; each needs one"
            )
    return numbers
