"""The kinds of households that joins tell apart, and those of which no household can have members that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.joins.join import Join
from features.joins.mathematics.membership import NO_MOST
from pipeline.model.query import Query


@dataclass(frozen=True, eq=False)
class Unfit:
    """A kind of household that no members fit.

    Attributes:
        kind: its number.
        join: whose limits cannot be kept, with those of joins on queries that refine its own.
        answer: of the join's query on persons.
        least, most: what the joins demand of a household's members with this answer; most is the lower.
    """

    kind: int
    join: Join
    answer: int
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class JoinKinds:
    """The kinds of households of one companion, by the answers to all its joins' queries.

    Attributes:
        joins: all with the same companion; of any two persons' queries one refines the other.
        answers: `(n_kinds, n_joins)` the answer to each join's query on households.
        empty: `(n_cells,)` persons' cells that are structural zeros.
    """

    joins: tuple[Join, ...]
    answers: NDArray[np.int64]
    empty: NDArray[np.bool_]

    @classmethod
    def of(cls, joins: Sequence[Join], empty: NDArray[np.bool_], no_household: NDArray[np.bool_]) -> JoinKinds:
        """Those that some possible cell of households falls in.

        Args:
            joins: with one companion.
            empty: `(n_cells,)` structural zeros of persons.
            no_household: `(n_cells,)` structural zeros of households.
        """
        number = np.zeros(len(no_household), dtype=np.int64)
        for join in joins:  # renumbered each time, so that numbers stay below those of cells
            number = np.unique(number * join.households.size + join.households.cell_answer, return_inverse=True)[1]
        cells = np.flatnonzero(~no_household)
        first = cells[np.unique(number[cells], return_index=True)[1]]
        return cls(tuple(joins), np.stack([j.households.cell_answer[first] for j in joins], axis=1), empty)

    @cached_property
    def labels(self) -> Mapping[str, NDArray[np.str_]]:
        """Attribute or recode of households -> its label for each kind, `(n_kinds,)`."""
        return {
            term: join.households.labels_of(term)[self.answers[:, number]]
            for number, join in enumerate(self.joins)
            for term in join.households.terms
        }

    def unfit(self) -> tuple[Unfit, ...]:
        """The kinds that no members fit, each with the first limits found that contradict each other.

        The answers of nested queries lie within each other like the nodes of a tree, so whole numbers that keep all
        limits exist where the sums of the lower and upper ones, from the finest answers up, leave a range at each node.
        """
        chain = sorted(range(len(self.joins)), key=lambda number: -self.joins[number].persons.size)
        query = self.joins[chain[0]].persons
        groups = np.flatnonzero(self._inside(query))
        possible = np.bincount(query.cell_answer[~self.empty], minlength=query.size) > 0
        n = len(self.answers)
        least = np.zeros((n, len(groups)), dtype=np.int64)
        most = np.tile(np.where(possible[groups], NO_MOST, 0), (n, 1))
        found: dict[int, Unfit] = {}
        for number in chain:
            join = self.joins[number]
            if join.persons is not query:
                above = query.answers_in(join.persons)[groups]
                query, (groups, part) = join.persons, np.unique(above, return_inverse=True)
                least, most = _summed(least, part, len(groups)), np.minimum(_summed(most, part, len(groups)), NO_MOST)
            kind = self.answers[:, number]
            stated = join.inside[groups]
            least[:, stated] = np.maximum(least[:, stated], join.least[groups[stated]][:, kind].T)
            most[:, stated] = np.minimum(most[:, stated], join.most[groups[stated]][:, kind].T)
            for row, column in np.argwhere(least > most):
                limits = int(least[row, column]), int(most[row, column])
                found.setdefault(int(row), Unfit(int(row), join, int(groups[column]), *limits))
            least = np.minimum(least, most)
        return tuple(found[kind] for kind in sorted(found))

    def _inside(self, finest: Query) -> NDArray[np.bool_]:
        """`(finest.size,)`: the answers of which some join says something."""
        inside = np.zeros(finest.size, dtype=np.bool_)
        for join in self.joins:
            inside |= join.inside[finest.answers_in(join.persons)]
        return inside

    def boxes(self, kinds: Sequence[int]) -> Iterator[tuple[dict[str, tuple[str, ...]], int]]:
        """Products of labels that together hold these kinds and no others, each with the number of a kind in it.

        A term whose labels make no difference is left out.
        """
        wanted = np.zeros(len(self.answers), dtype=np.bool_)
        wanted[list(kinds)] = True
        left = wanted.copy()
        while left.any():
            first = int(np.flatnonzero(left)[0])
            box = {term: {str(labels[first])} for term, labels in self.labels.items()}
            for term, labels in self.labels.items():
                others = self._in_box({t: chosen for t, chosen in box.items() if t != term})
                fits = {str(x) for x in labels[others]} - {str(x) for x in labels[others & ~wanted]}
                box[term] |= fits
                if not (others & ~wanted).any():
                    del box[term]
            left &= ~self._in_box(box)
            order = {t: list(dict.fromkeys(self._values(t))) for t in box}
            yield {t: tuple(v for v in order[t] if v in chosen) for t, chosen in box.items()}, first

    def _values(self, term: str) -> tuple[str, ...]:
        """All labels of a term, in their order."""
        join = next(join for join in self.joins if term in join.households.terms)
        return tuple(map(str, join.households.labels_of(term)))

    def _in_box(self, box: Mapping[str, set[str]]) -> NDArray[np.bool_]:
        inside = np.ones(len(self.answers), dtype=np.bool_)
        for term, labels in box.items():
            inside &= np.isin(self.labels[term], sorted(labels))
        return inside


def _summed(values: NDArray[np.int64], part: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Columns `(rows, m)` added up within each part, `(rows, n)`."""
    out = np.zeros((len(values), n), dtype=np.int64)
    np.add.at(out.T, part, values.T)
    return out
