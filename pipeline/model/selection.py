"""A table whose detail is chosen privately in each geounit of a level: what is chosen among, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipeline.model.promise import Promise
from pipeline.model.query import Query
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.privacy.noise.choices import Select, affordable_epsilon
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for


@dataclass(frozen=True, eq=False)
class StatedSelection:
    """A private choice of a version for each geounit of a level, as a spec states it, for whatever budget.

    Attributes:
        name: of the selection.
        level: whose geounits choose.
        versions: the queries, coarse to fine, each a refinement of the one before.
        thresholds: the population from which on each version is meant.
        share: of the universe's whole budget, for choice and measurement together.
        choice_share: the part of it that the choice may cost.
    """

    name: str
    level: str
    versions: tuple[Query, ...]
    thresholds: tuple[int, ...]
    share: Fraction
    choice_share: Fraction

    def bought(self, framework: Framework, budget: Fraction, neighbours: Neighbours) -> Selection:
        """The selection that its share of the universe's `budget`, rho or epsilon, pays for, exactly.

        The choice gets at most its share (see `affordable_epsilon`), the measurement all that is left.

        Raises:
            InputError: the name, the thresholds or the shares give no such selection.
        """
        amount = budget * self.share
        epsilon = affordable_epsilon(framework, amount * self.choice_share, neighbours)
        names = (query.name for query in self.versions)
        select = Select(self.name, tuple(zip(names, self.thresholds, strict=True)), epsilon)
        left = amount - Promise(framework, neighbours, budget).cost(select.mechanism)
        noise = noise_for(framework, left, Fraction(1), Fraction(1), neighbours)
        return Selection(select, self.level, self.versions, self.share, noise)


@dataclass(frozen=True, eq=False)
class Selection:
    """The same with what a budget buys: the choice, and the measurement of the version chosen.

    Attributes:
        select: the choice; its versions are the queries' names.
        noise: on every answer of the version chosen.
    """

    select: Select
    level: str
    versions: tuple[Query, ...]
    share: Fraction
    noise: NoiseSpec

    @property
    def name(self) -> str:
        """The name of the selection."""
        return self.select.name

    @property
    def size(self) -> int:
        """Answers of the most detailed version."""
        return self.versions[-1].size
