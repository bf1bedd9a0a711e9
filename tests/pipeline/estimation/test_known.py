"""All knowledge of a universe goes one way into the problems that are solved, whichever kind it is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from geography.spine import Level, Spine
from pipeline.estimation.constraints import BoundedByFacilities, Known
from pipeline.estimation.knowledge import Knowledge, Results
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.link import Link
from postprocess.marginal import detail_of
from postprocess.problem import Constraints, GroupBounds, Problem


class Least(Knowledge):
    """A made-up kind: each cell is at least the number of its geounit, and the release says so."""

    def __init__(self, source: str = "", *, simulated: bool = True) -> None:
        self.source, self.simulated = source, simulated

    def stated(self, problem: Problem) -> Problem:
        return replace(problem, further=(*problem.further, detail_of(problem.shape)))

    def bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        least = np.repeat(np.arange(2**level)[rows, None], 3, axis=1)
        return (GroupBounds(f"level {level}", detail_of((3,)), least, least + 10),)

    def origin(self, level: int) -> sp.csr_array:
        return sp.csr_array(np.full((1, 3), -level))

    def at_top(self, problem: Problem, released: sp.csr_array) -> sp.csr_array:  # noqa: ARG002
        return sp.csr_array(released.toarray() + 1)

    def notes(self, level: int) -> Notes:
        return cast("Notes", {f"least of {self.source}": level})


class Above(Link):
    """A made-up link: a companion is known by the release's own, and the other way round."""

    of, by = "later", ""

    def knowledge_after(self, job: Job) -> Least:  # noqa: ARG002
        return Least(self.of)

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> Least:  # noqa: ARG002
        return Least(f"{self.by}, {results()}")


#: Three levels of 1, 2 and 4 geounits with three cells.
_LEVELS = [("top", ["1"], [-1]), ("half", ["1", "2"], [0, 0]), ("leaf", ["11", "12", "21", "22"], [0, 0, 1, 1])]
_NOTHING = Constraints(np.zeros(3, dtype=np.bool_), ((), (), ()))
_SPINE = Spine(tuple(Level(name, np.array(codes), np.array(parents)) for name, codes, parents in _LEVELS))
PROBLEM = Problem(_SPINE, (3,), ((), (), ()), _NOTHING, ())


def told(problem: Problem) -> list[list[list[int]]]:
    """Per level, the least of the first cell by each bound."""
    return [[bound.lower[:, 0].tolist() for bound in level] for level in problem.joined]


def test_what_is_known_is_put_where_it_is_needed_and_nowhere_else() -> None:
    known, unsaid = Known((Knowledge(), Least("one"), Least("two"))), Known((Least(simulated=False),))
    assert told(known.at_level(PROBLEM, 1)) == [[], [[0, 1], [0, 1]], []]
    assert told(known.simulated(PROBLEM)) == [[[*range(2**level)]] * 2 for level in range(3)]
    assert told(known.of_part(PROBLEM, 1, [slice(1, 2), slice(2, 4)])) == [[[1]] * 2, [[2, 3]] * 2]
    assert (told(unsaid.at_level(PROBLEM, 0)), told(unsaid.simulated(PROBLEM))) == ([[[0]], [], []], [])
    assert [query.size for query in known.stated(PROBLEM).further] == [3, 3]
    top = sp.csr_array(np.ones((1, 3)))
    assert known.at_top(PROBLEM, top).toarray().tolist() == [[3, 3, 3]]
    assert (origin := known.origin(2)) is not None
    assert origin.toarray().tolist() == [[-2, -2, -2]]
    assert known.notes(2) == {"least of one": 2, "least of two": 2}
    nothing = Known((Knowledge(),))
    for found in (nothing.stated(PROBLEM), nothing.at_level(PROBLEM, 1), nothing.simulated(PROBLEM)):
        assert (found.joined, found.implied, found.shares, found.further) == ((), (), (), ())
    assert (nothing.at_top(PROBLEM, top), nothing.origin(1), nothing.notes(1)) == (top, None, {})


def test_facilities_facts_and_both_ends_of_a_link_are_asked() -> None:
    """A public fact that says nothing of estimation is left out."""
    results = cast("Any", lambda name: f"those of {name}")
    fact, silent = SimpleNamespace(knowledge=lambda _job, universe, own: Least(f"{universe.name}, {own}")), object()
    for name, expected in (("later", ["later, own", "later"]), ("", [", own", ", those of later"]), ("x", ["x, own"])):
        job, universe = SimpleNamespace(links=(Above(),)), SimpleNamespace(name=name, facts=(silent, fact))
        found = Known.of(cast("Any", job), cast("Any", universe), cast("Any", "own"), results)
        assert isinstance(found.knowledge[0], BoundedByFacilities)
        assert [one.source for one in found.knowledge[1:] if isinstance(one, Least)] == expected
        assert len(found.knowledge) == 1 + len(expected)
