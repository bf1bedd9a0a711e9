"""Whether any persons and households keep what is exact at the top of the spine, and the joins between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flows.estimation.joins import composition_of
from geography.spine import Level
from pipeline.model.join import Join, joined_companions
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.errors import InfeasibleError
from postprocess.joins.top import TopLevel, fitting_households
from postprocess.problem import Constraints, GroupBounds

#: Numbers of a bound that a message shows.
_SHOWN = 6


def check_top(level: Level, joins: Sequence[Join], constraints: Mapping[str, Constraints]) -> None:
    """Refuse what is exact where no persons can be the members of the households.

    Args:
        level: the top of the spine.
        joins: of the release.
        constraints: universe -> what it keeps, carried up the spine; "" is the release's own.

    Raises:
        InfeasibleError: the message names a geounit, and shows invariants, which are confidential until they are
            published.
    """
    persons = TopLevel.of(constraints[""])
    for companion in joined_companions(joins):
        composition = composition_of(joins, companion)
        households = TopLevel.of(constraints[companion])
        if composition is None or not persons.binding:
            continue
        for row, code in enumerate(level.geocodes):
            nobody = np.zeros(composition.households.cell_answer.size, dtype=np.int64)
            if fitting_households(composition, nobody, row, households, persons) is None:
                raise InfeasibleError(
                    f"{level.name} {code}: the joins with {companion!r} cannot be kept: of persons, "
                    f"{_stated(persons.bounds, row)}; of {companion}, {_stated(households.bounds, row)}"
                )


def _stated(bounds: Sequence[GroupBounds], row: int) -> str:
    """What is known of a geounit, in words."""
    parts = []
    for bound in bounds:
        ends = zip(bound.lower[row].tolist(), bound.upper[row].tolist(), strict=True)
        numbers = [
            f"{low:,}" if low == high else f"{low:,} to {high:,}" if high < UNBOUNDED else f"{low:,} or more"
            for low, high in ends
        ]
        more = ", ..." if len(numbers) > _SHOWN else ""
        parts.append(f'"{bound.name}" is {", ".join(numbers[:_SHOWN])}{more}')
    return " and ".join(parts) or "nothing is exact"
