"""The variances of the numbers in tables: at once, or below a cut part by part.

Those of joined households are what the persons leave of them: less where it is known how many members they have, and
not less where many are of an open size. Simulated errors in such standard errors are alike in all geounits of a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from pipeline.estimation.linear_parts import LinearParts
from postprocess.arrays import IntArray
from postprocess.downward.simulated_margins import PublishedTable
from postprocess.downward.tasks import members_expected
from postprocess.linear.downward import (
    AnswerVariances,
    Asked,
    LevelVariances,
    SumCovariances,
    answer_variances_of,
    variances_of,
)
from postprocess.marginal import Marginal
from postprocess.members import Implied

if TYPE_CHECKING:
    from pipeline.estimation.by_subtree import ComputedBySubtree
    from pipeline.estimation.whole_spine import Estimation


class TableVariances:
    """The variances of one universe's tables.

    Args:
        estimation: of the universe.
        tables: each table at each of its levels.
        step: the name under which those of parts are kept.
    """

    def __init__(self, estimation: Estimation, tables: Sequence[PublishedTable], step: str) -> None:
        self._estimation = estimation
        self._cut = estimation.cut
        self._step = f"{step} variances"
        self._tables: tuple[tuple[Marginal, ...], ...] = tuple(
            tuple({table.marginal.key: table.marginal for table in tables if table.level == level}.values())
            for level in range(estimation.job.spine.n_levels)
        )
        self._last: tuple[tuple[int, int], AnswerVariances] | None = None
        self._implied: tuple[int, Implied] | None = None

    @cached_property
    def _queries(self) -> tuple[tuple[Asked, ...], ...]:
        """Per level the queries of its tables; and of joined households, how they vary with the members to expect."""
        implied = self._estimation.known.implied(0)
        if implied is None or not len(implied.counted.expected):
            return self._tables
        kinds, expected = implied.counted.households, implied.counted.expected
        return tuple(
            (*own, kinds, *(SumCovariances(query, expected) for query in (*own, kinds))) if own else ()
            for own in self._tables
        )

    def _given_persons(self, level: int, rows: slice, found: AnswerVariances) -> AnswerVariances:
        """The tables' variances of some geounits, once the persons are a measurement of the households."""
        tables, queries = self._tables[level], self._queries[level]
        if queries == tables:
            return found
        implied = self._members_of(level).of_rows(rows)
        pairs, first, classes = np.unique(
            np.stack([found.classes, implied.kinds[1]]), axis=1, return_index=True, return_inverse=True
        )
        values = [found.by_query[query.key][pairs[0]] for query in queries]
        n, kinds = len(first), values[len(tables)]
        *covariances, of_kinds = (
            each.reshape(n, query.query.size, -1)
            for each, query in zip(values, queries, strict=True)
            if isinstance(query, SumCovariances)
        )
        determined = ~np.isnan(kinds).any(axis=1, keepdims=True)
        by_query = {
            query.key: np.where(determined, implied.variances_given(first, own, each, of_kinds), own)
            for query, own, each in zip(tables, values, covariances, strict=False)
        }
        return AnswerVariances(classes.ravel(), by_query)

    def _members_of(self, level: int) -> Implied:
        """The members that households of a level were to have when they were released; those of the last are kept."""
        if self._implied is None or self._implied[0] != level:
            (_, upward), problem = self._estimation.combined(), self._estimation.simulated
            parents = self._estimation.released(level - 1) if level else None
            own = upward[min(level, len(upward) - 1)]
            implied = members_expected(problem, self._estimation.basis, level, own, parents)
            assert implied is not None
            self._implied = level, implied
        return self._implied[1]

    @cached_property
    def _held(self) -> tuple[tuple[AnswerVariances, ...], LevelVariances | None]:
        """Those of the levels that are held at once, and all covariances at the cut, which its parts begin with."""
        (problem, upward), basis = self._estimation.combined(), self._estimation.basis
        if self._cut is None:
            found = answer_variances_of(problem, basis, upward, self._queries)
            return tuple(self._given_persons(level, slice(None), own) for level, own in enumerate(found)), None
        answers, at_cut = [], None
        for level, (variances, queries) in enumerate(zip(variances_of(problem, upward), self._queries, strict=False)):
            answers.append(self._given_persons(level, slice(None), variances.of_queries(basis, queries)))
            at_cut = variances
        return tuple(answers), at_cut

    @cached_property
    def _below(self) -> LinearParts:
        """Those of the levels below the cut, which are computed at first use."""
        computed, at_cut = cast("ComputedBySubtree", self._estimation.computed), self._held[1]
        assert at_cut is not None
        parts = LinearParts(computed, at_cut, self._queries[computed.cut.level + 1 :], self._step)
        parts.compute()
        return parts

    def stretches(self, level: int) -> Iterator[tuple[slice, AnswerVariances]]:
        """The variances of a level, some successive geounits at a time."""
        if self._cut is None or level <= self._cut.level:
            variances = self._held[0][level]
            yield slice(0, len(variances.classes)), variances
            return
        for number in range(len(self._cut.parts)):
            yield self._below.rows(level, number), self._of_part(level, number)

    def _of_part(self, level: int, number: int) -> AnswerVariances:
        if self._last is None or self._last[0] != (level, number):
            found = self._below.level(level, number).variances
            self._last = (level, number), self._given_persons(level, self._below.rows(level, number), found)
        return self._last[1]

    def largest(self, level: int) -> AnswerVariances:
        """Of each answer the largest variance of the level, as one class without geounits."""
        parts = [variances.largest() for _, variances in self.stretches(level)]
        return AnswerVariances.joined(parts).largest()

    def of_rows(self, level: int, rows: slice) -> tuple[AnswerVariances, slice]:
        """Variances that hold some geounits' own, and which rows of them these are."""
        if self._cut is None or level <= self._cut.level:
            return self._held[0][level], rows
        own = [self._below.rows(level, number) for number in range(len(self._cut.parts))]
        numbers = [n for n, part in enumerate(own) if part.start < rows.stop and rows.start < part.stop]
        first = own[numbers[0]].start
        joined = AnswerVariances.joined([self._of_part(level, number) for number in numbers])
        return joined, slice(rows.start - first, rows.stop - first)

    def of_groups(self, level: int, groups: Sequence[IntArray]) -> list[AnswerVariances]:
        """The variances of several groups of geounits, whose rows increase, with the scale of the level."""
        pieces: list[list[AnswerVariances]] = [[] for _ in groups]
        largest: list[AnswerVariances] = []
        for part, variances in self.stretches(level):
            largest.append(variances.largest())
            for rows, found in zip(groups, pieces, strict=True):
                own = rows[np.searchsorted(rows, part.start) : np.searchsorted(rows, part.stop)]
                if len(own):
                    found.append(variances.of_rows(own - part.start))
        scale = AnswerVariances.joined(largest).largest()
        return [AnswerVariances.joined(found).with_classes(scale) for found in pieces]

    def has_tables(self, level: int) -> bool:
        """Whether tables are published of a level."""
        return bool(self._tables[level])
