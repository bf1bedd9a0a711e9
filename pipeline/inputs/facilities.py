"""Counts of facilities that bound the persons in them, from the public file that a spec names."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from geography.codes import first_few
from geography.spine import Spine
from pipeline.errors import InputError, RecordsError
from pipeline.inputs.public_file import open_public
from pipeline.model.universe import Bound
from pipeline.records.columns import CountReader
from pipeline.records.geocodes import LeafReader
from pipeline.records.problems import MistakeLog

#: The most persons that all facilities of a bound can have together: sums of them stay far within 64 bits.
MOST_BOUNDED: Final = 10**15


def read_facilities(bound: Bound, spine: Spine) -> NDArray[np.int64]:
    """The number of facilities of each answer that the bound is on, `(n_geounits, n_columns)` int64.

    Columns are in the order of the answers' numbers.

    Raises:
        InputError: the file cannot be read, does not have one row for each geounit of the bound's level, or allows
            more than `MOST_BOUNDED` persons.
    """
    where = f"bound {bound.name!r}"
    upto = spine.down_to(bound.level)
    names = [bound.columns[answer] for answer in sorted(bound.columns)]
    file = open_public(bound.file, [bound.geocode, *names], f"the file of the {where}")
    reader = LeafReader(upto, bound.geocode, bound.file)
    log = MistakeLog(bound.file, file.find_lines)
    facilities = np.zeros((upto.n_leaves, len(names)), dtype=np.int64)
    rows_of = np.zeros(upto.n_leaves, dtype=np.int64)
    first_row = 0
    try:
        for chunk in file.chunks():
            geounits, _ = reader.read(chunk.column(bound.geocode), first_row, log)
            placed = geounits >= 0
            rows_of += np.bincount(geounits[placed], minlength=upto.n_leaves)
            for number, name in enumerate(names):
                counts = CountReader(name).read(chunk.column(name), first_row, log)
                facilities[geounits[placed], number] = counts[placed]
            first_row += chunk.num_rows
        log.raise_if_any()
    except RecordsError as error:
        raise InputError(f"{where}: {error}") from None
    for affected, problem in ((rows_of > 1, "several rows"), (rows_of == 0, "no row")):
        if affected.any():
            codes = upto.leaf_level.geocodes[affected]
            raise InputError(
                f"{where}: {bound.file}: {len(codes):,} geounits of level {bound.level!r} have {problem}: "
                f"{first_few(codes)}; each needs one"
            )
    most = sum(facilities.sum(axis=0).tolist()) * bound.upper
    if most > MOST_BOUNDED:
        raise InputError(
            f"{where}: upper: found {bound.upper:,} persons for each of the facilities of {bound.file}, {most:,} in "
            f"all; up to {MOST_BOUNDED:,} are allowed"
        )
    return facilities
