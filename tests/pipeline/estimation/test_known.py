"""All knowledge of a universe goes one way into the problems that are solved, whichever kind it is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp

from geography.spine import Level, Spine
from pipeline.estimation.constraints import Known
from pipeline.estimation.knowledge import Knowledge, Results
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.link import Link
from postprocess.marginal import detail_of
from postprocess.problem import Constraints, GroupBounds, Problem


class Least(Knowledge):
    """A made-up kind: each cell is at least the number of its geounit, and the release says so."""

    def __init__(self, of_universe: str = "", *, simulated: bool = True) -> None:
        self.of_universe = of_universe
        self.simulated = simulated

    def stated(self, problem: Problem) -> Problem:
        return replace(problem, further=(*problem.further, detail_of(problem.shape)))

    def bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        least = np.repeat(np.arange(2**level)[rows, None], 3, axis=1)
        return (GroupBounds(f"level {level}", detail_of((3,)), least, least + 10),)

    def origin(self, level: int) -> sp.csr_array:
        return sp.csr_array(np.full((1, 3), -level))

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:  # noqa: ARG002
        return sp.csr_array(released + 1.0 * sp.csr_array(np.ones(released.shape)))

    def notes(self, level: int) -> Notes:
        return cast("Notes", {"least": level})


class Above(Link):
    """A made-up link: a companion is known by the release's own."""

    of, by = "later", ""

    def knowledge_after(self, job: Job) -> Least:  # noqa: ARG002
        return Least(self.of)

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> Least:  # noqa: ARG002
        return Least(f"{self.by}, {results()}")


@pytest.fixture
def problem() -> Problem:
    """Three levels of 1, 2 and 4 geounits with three cells."""
    names = [("top", ["1"], [-1]), ("half", ["1", "2"], [0, 0]), ("leaf", ["11", "12", "21", "22"], [0, 0, 1, 1])]
    levels = tuple(Level(name, np.array(codes), np.array(parents)) for name, codes, parents in names)
    nothing = Constraints(np.zeros(3, dtype=np.bool_), ((), (), ()))
    return Problem(Spine(levels), (3,), ((), (), ()), nothing, ())


def told(problem: Problem) -> list[list[tuple[str, list[int]]]]:
    """Per level, each bound's name and the least of its first cell."""
    return [[(bound.name, bound.lower[:, 0].tolist()) for bound in level] for level in problem.joined]


def test_bounds_are_put_where_they_are_needed_and_nowhere_else(problem: Problem) -> None:
    everything = Known((Knowledge(), Least()))
    assert told(everything.at_level(problem, 1)) == [[], [("level 1", [0, 1])], []]
    assert told(everything.simulated(problem)) == [
        [("level 0", [0])],
        [("level 1", [0, 1])],
        [("level 2", [0, 1, 2, 3])],
    ]
    assert told(everything.of_part(problem, 1, [slice(1, 2), slice(2, 4)])) == [
        [("level 1", [1])],
        [("level 2", [2, 3])],
    ]


def test_what_simulated_runs_do_not_know_is_left_out_of_them(problem: Problem) -> None:
    everything = Known((Least(simulated=False),))
    assert told(everything.simulated(problem)) == []
    assert told(everything.at_level(problem, 0)) == [[("level 0", [0])], [], []]


def test_all_that_is_known_adds_up(problem: Problem) -> None:
    twice = Known((Least(), Knowledge(), Least()))
    assert [query.size for query in twice.stated(problem).further] == [3, 3]
    assert [name for name, _ in told(twice.at_level(problem, 2))[2]] == ["level 2", "level 2"]
    assert twice.at_top(problem, sp.csr_array(np.zeros((1, 3)))).toarray().tolist() == [[2, 2, 2]]
    assert twice.origin(2).toarray().tolist() == [[-2, -2, -2]]  # type: ignore[union-attr]
    assert twice.notes(2) == {"least": 2}


def test_another_kind_of_link_needs_its_own_class_only() -> None:
    job = cast("Any", SimpleNamespace(links=(Above(),)))
    results = cast("Results", None)
    for name, expected in (("later", ["later"]), ("", [", those of later"]), ("else", [])):
        universe = cast("Any", SimpleNamespace(name=name, facts=()))
        found = Known.of(job, universe, results, lambda name: cast("Results", f"those of {name}"))
        assert [one.of_universe for one in found.knowledge if isinstance(one, Least)] == expected
