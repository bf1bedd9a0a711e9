"""A table whose detail is chosen privately in each geounit of a level: what is chosen among, and what it may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline.privacy.budget import Framework, Neighbours, NoiseSpec, noise_for
from pipeline.privacy.mechanisms import MOVED
from pipeline.privacy.select import Select, affordable_epsilon
from pipeline.query import Query


@dataclass(frozen=True, eq=False)
class Selection:
    """A private choice of a version for each geounit of a level, and the measurement of the version chosen.

    Attributes:
        select: the choice; its versions are the queries' names.
        level: whose geounits choose.
        versions: the queries, coarse to fine, each a refinement of the one before.
        share: of the universe's whole budget, for choice and measurement together, exactly.
        choice_share: the part of it that is meant for the choice.
        noise: on every answer of the version chosen.
    """

    select: Select
    level: str
    versions: tuple[Query, ...]
    share: Fraction
    choice_share: Fraction
    noise: NoiseSpec

    @classmethod
    def of(
        cls,
        name: str,
        level: str,
        versions: Sequence[Query],
        thresholds: Sequence[int],
        shares: tuple[Fraction, Fraction],
        framework: Framework,
        budget: Fraction,
        neighbours: Neighbours,
    ) -> Selection:
        """The selection that these shares of the budget pay for.

        The choice gets at most its share (see `affordable_epsilon`), the measurement all that is left.

        Args:
            shares: `share` and `choice_share`.
            budget: the universe's, rho or epsilon.

        Raises:
            InputError: the name, the thresholds or the shares give no such selection.
        """
        share, choice_share = shares
        amount = budget * share
        epsilon = affordable_epsilon(framework, amount * choice_share, neighbours)
        select = Select(name, tuple(zip((query.name for query in versions), thresholds, strict=True)), epsilon)
        left = amount - choice_cost(select, framework, neighbours)
        noise = noise_for(framework, left, Fraction(1), Fraction(1), neighbours)
        return cls(select, level, tuple(versions), share, choice_share, noise)

    @property
    def name(self) -> str:
        return self.select.name

    @property
    def size(self) -> int:
        """Answers of the most detailed version."""
        return self.versions[-1].size

    def choice_part(self, framework: Framework, budget: Fraction, neighbours: Neighbours) -> Fraction:
        """What the choice costs, as a part of the whole budget, exact."""
        return choice_cost(self.select, framework, neighbours) / budget


def choice_cost(select: Select, framework: Framework, neighbours: Neighbours) -> Fraction:
    """rho or epsilon of a choice."""
    used, moved = select.mechanism, MOVED[neighbours]
    return used.rho(moved) if framework == "zcdp" else used.epsilon(moved)


def refines(fine: Query, coarse: Query) -> bool:
    """Whether every answer of `fine` lies in one answer of `coarse`, and some answer of `coarse` is divided."""
    for few, many in zip(coarse.groups, fine.groups, strict=True):
        pairs = set(zip(many.tolist(), few.tolist(), strict=True))
        if len(pairs) > len({group for group, _ in pairs}):
            return False
    return fine.size > coarse.size
