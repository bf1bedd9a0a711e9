"""A long solution is gone on with after any stop, to the same bytes, and says how far it is to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from oracles.families import measured_family, random_area
from oracles.sums_world import solved

from postprocess.arrays import Arrays
from postprocess.families import progress
from postprocess.families.family import Family
from postprocess.families.progress import kept_in
from postprocess.families.projected import solve_by_projection

Result = TypeVar("Result")
#: Stops that are tried of one solution.
STOPS = 6


class Memory:
    """A store that remembers all that was ever put."""

    def __init__(self, kept: dict[str, Arrays]) -> None:
        self.kept = kept
        self.put_so_far: list[tuple[str, Arrays]] = []

    def get(self, step: str, batch: str) -> Arrays | None:
        """What it was made with."""
        assert step == progress.STEP
        return self.kept.get(batch)

    def put(self, step: str, batch: str, arrays: Arrays) -> None:
        """Remember copies."""
        assert step == progress.STEP
        self.put_so_far.append((batch, {name: array.copy() for name, array in arrays.items()}))


def after_each_stop(solve: Callable[[], Result]) -> Iterator[Result]:
    """Results of `solve`, each gone on with after a stop at another of its steps, from the first to the last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "WHILE", 0.0)
        with kept_in(whole := Memory({})):
            solve()
    stops = whole.put_so_far
    assert len(stops) > 1
    for number in sorted({round(i * (len(stops) - 1) / (STOPS - 1)) for i in range(STOPS)}):
        store = Memory(dict([stops[number]]))
        with kept_in(store):
            yield solve()
        assert not store.put_so_far


FAMILIES = {
    "few sums": measured_family(8, 5, kinds=2, held=1, form="few sums"),
    "in blocks": measured_family(9, 4, kinds=3, held=1, form="in blocks"),
    "an area": random_area(5, (4, 3, 9, 2), held=True, ranges=False, zeros=True),
    "sums": max((family for family, _ in solved(2) if family.parent is not None), key=lambda one: one.n_cells),
    "an area on sums": next(family for family, _ in solved(2) if family.parent is None),
}


def bytes_of(family: Family) -> bytes:
    exact = solve_by_projection(family)
    assert exact is not None
    return exact.x.tobytes() + bytes([exact.rounds])


@pytest.mark.parametrize("name", FAMILIES)
def test_whoever_goes_on_has_the_same_bytes_and_rounds(name: str) -> None:
    expected = bytes_of(FAMILIES[name])
    for again in after_each_stop(lambda: bytes_of(FAMILIES[name])):
        assert again == expected
