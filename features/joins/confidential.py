"""Joins that the records themselves do not keep; the release keeps them all the same."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from features.joins.knowledge import check_top
from features.joins.link import Households, Join
from features.joins.mathematics.membership import NO_MOST
from geography.spine import Level
from pipeline.confidential.measure import AnswerPairs, LinkChecks
from pipeline.model.query import Query
from postprocess.arrays import IntArray
from postprocess.problem import Constraints


class JoinChecks(LinkChecks):
    """What the records of persons do not keep of their households."""

    def queries(self, link: Households, universe: str) -> tuple[Query, ...]:
        """See `LinkChecks.queries`: those of the joins on the persons or on the households."""
        return link.queries(universe)

    def broken(self, link: Households, answers: AnswerPairs, level: str, geocodes: NDArray[np.str_]) -> list[str]:
        """See `LinkChecks.broken`: a sentence for each join.

        A join that holds in the leaves holds in all geounits above them, so the leaves are enough.
        """
        sentences = (broken_join(join, answers(join.persons, join.households), level, geocodes) for join in link.joins)
        return [sentence for sentence in sentences if sentence]

    def check_top(self, link: Households, top: Level, of: Constraints, by: Constraints) -> None:
        """See `LinkChecks.check_top`."""
        check_top(top, link, of, by)


def broken_join(
    join: Join, answers: Iterable[tuple[IntArray, IntArray]], level: str, geocodes: NDArray[np.str_]
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
