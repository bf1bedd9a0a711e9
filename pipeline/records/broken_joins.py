"""Joins that the records themselves do not keep; the release keeps them all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.model.join import Join
from postprocess.membership import NO_MOST

#: Answers that are held at a time.
_MOST_HELD = 1 << 22


def broken_joins(
    joins: Sequence[Join],
    persons: sp.csr_array,
    households: sp.csr_array,
    level: str,
    geocodes: NDArray[np.str_],
) -> list[str]:
    """A sentence for each join that does not hold for the records in every geounit, with confidential counts.

    A join that holds in the leaves holds in all geounits above them, so the leaves are enough.

    Args:
        joins: of persons with the households of one companion.
        persons, households: the confidential histograms of a level, `(n_geounits, n_cells)` of either universe.
        level: its name.
        geocodes: `(n_geounits,)`.
    """
    sentences = (broken_join(join, _answers(join, persons, households), level, geocodes) for join in joins)
    return [sentence for sentence in sentences if sentence]


def broken_join(
    join: Join, answers: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], level: str, geocodes: NDArray[np.str_]
) -> str:
    """A sentence with confidential counts if the records break the join, else "".

    Args:
        join: of the spec.
        answers: the records' answers to the queries on persons and on households, `(n, persons.size)` and
            `(n, households.size)`, for the geounits of a level, some at a time.
        level: its name.
        geocodes: `(n_geounits,)`.
    """
    n_broken, first, start = 0, "", 0
    limited = join.most < NO_MOST
    for found, kinds in answers:
        least, most = kinds @ join.least.T, kinds @ np.where(limited, join.most, 0).T
        unlimited = (kinds @ (~limited).T.astype(np.int64) > 0) | join.others
        broken = join.inside & ((found < least) | ((found > most) & ~unlimited))
        if broken.any() and not n_broken:
            row, answer = (int(place[0]) for place in np.nonzero(broken))
            count = int(found[row, answer])
            allowed = f"{least[row, answer]:,} " + (
                "or more" if unlimited[row, answer] else f"to {most[row, answer]:,}"
            )
            first = (
                f"first in {geocodes[start + row]}: {count:,} person{'s' * (count != 1)} in "
                f"{join.persons.answer_labels()[answer]!r}, where its households imply {allowed}"
            )
        n_broken += int(broken.any(axis=1).sum())
        start += len(found)
    if not n_broken:
        return ""
    units = f"{n_broken:,} geounit{'s' * (n_broken != 1)}"
    return f"join {join.name!r}: the records break it in {units} of level {level!r}, {first}"


def _answers(
    join: Join, persons: sp.csr_array, households: sp.csr_array
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Of some geounits at a time."""
    step = max(1, _MOST_HELD // max(join.persons.size, join.households.size))
    for start in range(0, persons.shape[0], step):
        rows = slice(start, start + step)
        yield join.persons.answer_csr(persons[rows]), join.households.answer_csr(households[rows])
