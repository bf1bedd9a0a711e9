"""What to expect of a universe, from the spec and the spine alone: no records are read, nothing is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from geography.spine import Spine
from pipeline.estimation.constraints import published_facilities
from pipeline.estimation.problem import invariants_of, sizes_in, unmeasured_problem
from pipeline.model.draw import Draw, Noise, by_level, everywhere
from pipeline.model.query import Query
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Universe
from pipeline.release.published_files import UniverseFiles
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.covariances import (
    ExpectedErrors,
    LevelClasses,
    LevelCovariances,
    answer_variances,
    area_variances,
    covariances,
    expected_errors,
    geounit_classes,
)
from postprocess.linear.information import fixed_answers
from postprocess.linear.upward import basis_of
from postprocess.marginal import Marginal

#: A level and a query, both by name.
Place = tuple[str, str]


#: What determines a number: its measurements; those drawn where the released area above is positive, too; the shares
#: of its children, which completion knows; nothing.
GivenBy = Literal["measurements", "positive", "completion", "nothing"]


@dataclass(frozen=True)
class ExpectedRow:
    """One query at one level.

    Attributes:
        geounits, numbers: of the level, and of the query in each geounit.
        share: of the universe's whole budget, as exact text; "" where the query is not measured at the level.
        sigma: standard deviation of the noise on each number, persons; None where it is not measured.
        per_number: expected absolute error of a number, mean over numbers and geounits; None where the measurements do
            not determine it. Persons, as the next three.
        rmse: root of the expected squared error of a number, mean over numbers and geounits.
        per_geounit: the sum over the query's numbers, mean over geounits.
        margin90: half the width of a 90 % interval, mean over numbers and geounits.
        given_by: "measurements"; "positive" where measurements that are drawn only where the released area above is
            positive give it as far as they are drawn; "completion" where they determine it only at a level above, and
            its numbers there are divided by what is known of the children; "nothing" where they do not, or are divided
            evenly.
    """

    level: str
    query: str
    geounits: int
    numbers: int
    share: str
    sigma: float | None
    per_number: float | None
    rmse: float | None
    per_geounit: float | None
    margin90: float | None
    given_by: GivenBy


@dataclass(frozen=True, eq=False)
class Expectation:
    """One universe's errors as a function of its budget and the division of it.

    Attributes:
        universe: with the queries that may be measured; all of them keep a part of the budget.
        spine: the geography.
        estimator: "full" or "topdown".
        basis, classes: of its geounits.
        sizes: `(n_leaves,)` how many records stand behind each leaf, where the noise depends on it and this is known.
    """

    universe: Universe
    spine: Spine
    estimator: str
    basis: Basis
    classes: tuple[LevelClasses, ...]
    sizes: IntArray | None = None

    @classmethod
    def of(
        cls,
        universe: Universe,
        spine: Spine,
        facilities: Iterable[IntArray],
        estimator: str,
        invariants: Mapping[Place, IntArray] | None = None,
    ) -> Expectation:
        """The expectation of a universe.

        Args:
            facilities: of each of its bounds, `(n_geounits, n_columns)`.
            estimator: "full" or "topdown".
            invariants: (level, query) -> published answers, of a finished release; what a count of 0 forces is then
                known as well.
        """
        problem = unmeasured_problem(universe, spine, facilities, estimator, invariants)
        basis = basis_of(problem)
        return cls(universe, spine, estimator, basis, geounit_classes(problem, basis), sizes_in(universe, invariants))

    @classmethod
    def of_published(cls, universe: Universe, files: UniverseFiles, spine: Spine, estimator: str) -> Expectation:
        """The expectation of a universe whose public inputs and invariants are published in `files`.

        Raises:
            ReleaseError: a file is missing or damaged, or is not what the spec says.
        """
        facilities = published_facilities(files, universe, spine)
        return cls.of(universe, spine, facilities, estimator, invariants_of(files, universe, spine))

    @cached_property
    def measured(self) -> tuple[Place, ...]:
        """Every measured (level, query), top level first; without those that are drawn where the parent is positive."""
        return tuple((draw.level, draw.query.name) for draw in self._draws)

    @cached_property
    def _draws(self) -> tuple[Draw, ...]:
        return tuple(draw for draw in everywhere(self.universe.draws()) if draw.own)

    @cached_property
    def unit_precisions(self) -> tuple[tuple[int, FloatArray], ...]:
        """For each of `measured`: the number of its level, and the precision that a variance of 1 gives."""
        return tuple(
            (
                self.spine.index_of(draw.level),
                self.basis.precision([(self.universe.source.measured(draw.query), 1.0)]),
            )
            for draw in self._draws
        )

    def noise(self, universe: Universe | None = None) -> Mapping[Place, Noise]:
        """The noise on every measured query; InputError where there is none for its part of the budget."""
        return {
            (draw.level, draw.query.name): draw.noises[0] for draw in (universe or self.universe).draws() if draw.own
        }

    def covariances(self, precisions: Sequence[float] | FloatArray) -> tuple[LevelCovariances, ...]:
        """The covariances of every level, for a precision (1 / variance) on each of `measured`."""
        own = [np.zeros((1, *self.basis.precision([]).shape)) for _ in self.spine.levels]
        for precision, (level, unit) in zip(precisions, self.unit_precisions, strict=True):
            own[level] = own[level] + precision * unit
        return covariances(self.classes, own, self.estimator)

    def planned(self, universe: Universe | None = None) -> tuple[LevelCovariances, ...]:
        """The covariances with the exact variances of the noise that `universe` (by default its own) puts."""
        measured = universe or self.universe
        own = []
        for level in by_level(everywhere(measured.draws(self.spine, self.sizes)), self.spine.level_names):
            pairs = [(measured.source.measured(draw.query), draw.noises) for draw in level]
            of_kinds = [
                self.basis.precision([(marginal, noises[kind].variance) for marginal, noises in pairs])
                for kind in range(max((len(draw.noises) for draw in level), default=1))
            ]
            own.append(np.stack(of_kinds))
        return covariances(self.classes, own, self.estimator)

    def errors(self, planned: Sequence[LevelCovariances], level: str, query: Query) -> ExpectedErrors:
        """The expected errors of a query at a level, by the covariances of every level."""
        number = self.spine.index_of(level)
        return expected_errors(self.basis, self.classes[number], planned[number], query)

    def variances(self, planned: Sequence[LevelCovariances], level: int, marginal: Marginal) -> FloatArray:
        """Variances `(n_geounits, size)` of a query's answers at a level; NaN where they are not determined."""
        classes = self.classes[level]
        return answer_variances(self.basis, classes, planned[level], marginal)[classes.downward]

    def area_variances(self, planned: Sequence[LevelCovariances], leaves: BoolArray, marginal: Marginal) -> FloatArray:
        """Variances `(size,)` of a query's answers for some leaves `(n_leaves,)` together; NaN as above."""
        return area_variances(self.spine, self.basis, self.classes, planned, leaves, marginal)

    def exact(self, level: int, marginal: Marginal) -> tuple[BoolArray, IntArray]:
        """Which answers zeros and invariants fix, `(n_classes, size)`, and the class of each geounit of a level."""
        classes = self.classes[level]
        return fixed_answers(self.basis, classes.fixed, marginal), classes.downward

    def divided(self, budget: Fraction, shares: Mapping[Place, Fraction]) -> Universe:
        """The universe with another budget, and other shares of it on `measured`; they add up to 1."""
        levels = []
        for level in self.universe.strategy.levels:
            parts = {query.query.name: shares[level.level, query.query.name] for query in level.queries}
            share = sum(parts.values(), Fraction(0))
            queries = tuple(MeasuredQuery(query.query, parts[query.query.name] / share) for query in level.queries)
            levels.append(LevelStrategy(level.level, share, queries))
        return replace(self.universe, budget=budget, strategy=Strategy(tuple(levels)))
