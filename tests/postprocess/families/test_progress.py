"""A long solution is gone on with after any stop, to the same bytes, and says how far it is to whoever listens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest
from oracles.families import as_large, measured_family, random_area
from oracles.sums_world import solved

from postprocess.arrays import Arrays
from postprocess.families import progress
from postprocess.families.large import guesses
from postprocess.families.progress import Watch, kept_in, listening
from postprocess.families.projected import solve_by_projection
from postprocess.families.wide import positive_cells
from postprocess.sums.solution import solve_on_sums

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


LARGE = measured_family(9, 4, kinds=3, held=1)
FEW_SUMS = measured_family(8, 5, kinds=2, held=1, form="few sums")
AREA = random_area(5, (4, 3, 9, 2), held=True, ranges=True, zeros=True)


def of_large() -> bytes:
    *_, last = guesses(LARGE)
    return last.x.tobytes() + last.pull.tobytes()


def of_projection() -> bytes:
    exact = solve_by_projection(FEW_SUMS)
    assert exact is not None
    return exact.x.tobytes() + bytes([exact.rounds])


def of_sums() -> bytes:
    exact = solve_on_sums(ON_SUMS)
    assert exact is not None
    return exact.x.tobytes() + bytes([exact.rounds])


ON_SUMS = max((family for family, _ in solved(2) if family.parent is not None), key=lambda one: one.n_cells)


@pytest.mark.parametrize("solve", [of_large, of_projection, lambda: positive_cells(AREA).tobytes(), of_sums])
def test_whoever_goes_on_has_the_same_bytes_and_rounds(solve: Callable[[], bytes]) -> None:
    expected = solve()
    for again in after_each_stop(solve):
        assert again == expected


def test_steps_and_rounds_are_told_in_order_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    heard: list[tuple[str, str]] = []
    alone, cells = as_large(LARGE), positive_cells(AREA)
    with listening(lambda what, where: heard.append((what, where))):
        watched = as_large(LARGE)
    assert np.array_equal(alone.x, watched.x)
    assert {what for what, _ in heard} == {LARGE.name}
    steps = [re.fullmatch(r"step ([\d,]+), (\S+) persons off", where) for _, where in heard]
    found = [(int(step[1]), float(step[2])) for step in steps if step is not None]
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert found[-1][1] < found[0][1]
    assert [where for _, where in heard if where.startswith("round 1, ")]
    heard.clear()
    as_large(LARGE)
    assert not heard, "nobody listens after the block"
    with listening(lambda what, where: heard.append((what, where))):
        assert np.array_equal(positive_cells(AREA), cells)
    assert heard[0][1].startswith("step 1, ")
    assert any(where.startswith("round 1, ") for _, where in heard)


def test_a_short_solution_says_nothing_and_a_long_one_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, heard, asked = [100.0], list[float](), list[float]()
    monkeypatch.setattr("postprocess.families.progress.time.monotonic", lambda: now[0])

    def where() -> str:
        asked.append(now[0])
        return "here"

    with listening(lambda *_: heard.append(now[0])):
        watch = Watch("family")
        while now[0] < 106.0:
            watch.at(where)
            now[0] += 0.25
    watch.at(where)
    assert heard == asked == [103.0, 104.0, 105.0]
