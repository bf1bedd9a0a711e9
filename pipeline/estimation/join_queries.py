"""What the joins of a spec ask of the estimation of a universe: queries that must be told apart, and the first pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.model.join import Join, joined_companions
from pipeline.model.universe import Universe
from postprocess.joins.bounds import joined_queries
from postprocess.joins.composition import Composition
from postprocess.joins.implied import counted_of
from postprocess.marginal import Marginal, detail_of, refines
from postprocess.problem import Problem


def composition_of(joins: Sequence[Join], companion: str) -> Composition | None:
    """Of the joins with a companion; None where there is none."""
    own = [join for join in joins if join.companion == companion]
    return Composition.of(own) if own else None


def further_queries(joins: Sequence[Join], universe: str) -> tuple[Marginal, ...]:
    """The queries of a universe that joins tell apart beside those that are measured."""
    found: list[Marginal] = []
    for companion in joined_companions(joins):
        composition = composition_of(joins, companion)
        assert composition is not None
        if not universe:
            found += joined_queries(composition)
        elif universe == companion:
            found.append(composition.households)
    return tuple(found)


def with_join_queries(problem: Problem, joins: Sequence[Join], universe: Universe) -> Problem:
    """The problem of a universe with the queries that joins tell apart.

    Joined households have the kinds of household fixed first, with their members; the passes that would come before are
    kept by rounding, within one of the solution.
    """
    if universe.measure.amounts:
        return replace(problem, further=(detail_of(problem.shape),))
    problem = replace(problem, further=further_queries(joins, universe.name))
    kinds = _kinds_with_members(joins, universe)
    if kinds is None:
        return problem
    finer = [own for own in problem.passes if own.size > kinds.size and refines(own, kinds)]
    coarser = [own for own in problem.passes if own.size < kinds.size and refines(kinds, own)]
    return replace(problem, passes=(kinds, *finer), rounding=(*coarser, *problem.rounding))


def _kinds_with_members(joins: Sequence[Join], universe: Universe) -> Marginal | None:
    """The query on households whose answers say how many members are to be expected; None where none does."""
    composition = composition_of(joins, universe.name) if universe.name else None
    counted = None if composition is None else counted_of(composition)
    return None if counted is None else counted.households
