"""The strategy: which queries are measured at which level, with what share of the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipeline.errors import SpecError
from pipeline.model.exact import sum_text
from pipeline.model.promise import MechanismUse
from pipeline.model.query import Query
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for

#: What one person's change is in both: another answer. With add-remove the two promises would be about other changes.
_NEIGHBOURS: Neighbours = "change-one"


@dataclass(frozen=True)
class MeasuredQuery:
    """A query and its share of its level's budget, greater than 0.

    Attributes:
        where_positive: its noisy answers are drawn, and published, only where the released parent's answer is positive.
            The budget is charged as if all were.
    """

    query: Query
    share: Fraction
    where_positive: bool = False

    def __post_init__(self) -> None:
        if self.share <= 0:
            raise SpecError(
                f"strategy: the query {self.query.name!r} has the share {self.share}; it must be more than 0"
            )


@dataclass(frozen=True)
class LevelStrategy:
    """What is measured at one level. A level with share 0 and no queries is not measured.

    Attributes:
        level: the level's name.
        share: of the whole budget, 0 to 1.
        queries: their shares of the level's budget add up to 1; no query occurs twice.

    Raises:
        SpecError: the shares do not fit, or two entries are the same query.
    """

    level: str
    share: Fraction
    queries: tuple[MeasuredQuery, ...]

    def __post_init__(self) -> None:
        where = f"strategy.levels.{self.level}"
        if not 0 <= self.share <= 1:
            raise SpecError(f"{where}.share: found {self.share}; allowed is 0 to 1")
        if not self.queries:
            if self.share:
                raise SpecError(f"{where}: has the share {self.share} and no queries; give it queries, or the share 0")
            return
        if not self.share:
            raise SpecError(f"{where}: has queries and the share 0; give it a share, or no queries")
        names: dict[tuple[str, ...], str] = {}
        for query in (measured.query for measured in self.queries):
            if query.terms in names:
                raise SpecError(
                    f"{where}.queries: {names[query.terms]!r} and {query.name!r} are the same query; measure it once"
                )
            names[query.terms] = query.name
        shares = {measured.query.name: measured.share for measured in self.queries}
        if sum(shares.values()) != 1:
            raise SpecError(f"{where}.queries: the shares add up to {sum_text(shares)}; they must add up to 1")

    @property
    def where_positive(self) -> tuple[MeasuredQuery, ...]:
        """The queries of which those answers are drawn that are positive in the released parent."""
        return tuple(one for one in self.queries if one.where_positive)


@dataclass(frozen=True)
class Strategy:
    """A strategy for each level of the spine, top first; nothing at any of them where there is no budget.

    Raises:
        SpecError: the levels' shares do not add up to 1, or to 0 where nothing is measured.
    """

    levels: tuple[LevelStrategy, ...]

    def __post_init__(self) -> None:
        shares = {level.level: level.share for level in self.levels}
        if sum(shares.values()) not in (0, 1):
            raise SpecError(f"strategy.levels: the shares add up to {sum_text(shares)}; they must add up to 1")

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, top first."""
        return tuple(level.level for level in self.levels)

    def level(self, name: str) -> LevelStrategy:
        """The strategy of the level called `name`; SpecError where there is none."""
        for level in self.levels:
            if level.level == name:
                return level
        raise SpecError(f"level {name!r} is not in the strategy; its levels are {', '.join(self.level_names)}")

    @property
    def where_positive(self) -> tuple[str, ...]:
        """The levels with queries that are drawn only where the released parent is positive, top first."""
        return tuple(level.level for level in self.levels if level.where_positive)

    def distinct_queries(self) -> tuple[Query, ...]:
        """Each measured query once, in order of first appearance from the top level down."""
        queries: dict[tuple[str, ...], Query] = {}
        for level in self.levels:
            for measured in level.queries:
                queries.setdefault(measured.query.terms, measured.query)
        return tuple(queries.values())


@dataclass(frozen=True, eq=False)
class AddedAnswer:
    """The answer of a question that was asked apart, whose noisy counts are used beside those of the strategy.

    Attributes:
        level: whose geounits it counts, all of them.
        query: what it counts there, called as the answer; cells beyond its condition are in no number of it.
        noise: on each number.
        cost: rho or epsilon of one person's change, exact; charged when it was asked.
        question: canonical text.
        sha256: of its manifest, hexadecimal.
    """

    level: str
    query: Query
    noise: NoiseSpec
    cost: Fraction
    question: str
    sha256: str


@dataclass(frozen=True)
class Earlier:
    """What was drawn from the same records before a release was measured; something in its spec is from it.

    It is charged when it is drawn, and part of what the release promises.

    Attributes:
        uses: of all of it.
        words: what the statement says of it; without numbers.
        records: published fingerprint of the records that it was drawn from; "" before it is drawn.
    """

    uses: tuple[MechanismUse, ...]
    words: str
    records: str = ""

    @property
    def cost(self) -> Fraction:
        """Rho or epsilon of one person's change, exact."""
        return sum((one.cost for one in self.uses), Fraction(0))


@dataclass(frozen=True)
class Central:
    """A release of the true answers of those who sent reports, whose measurements are used above the leaves.

    Attributes:
        release: its directory.
        framework: "zcdp" or "pure".
        budget: its whole rho or epsilon, exact.
        shares: level -> the part of the budget that its measurement of all cells has there.
    """

    release: Path
    framework: Framework
    budget: Fraction
    shares: Mapping[str, Fraction]

    def noise(self, level: str) -> NoiseSpec:
        """The noise on the counts of a level; InputError where there is none of the size."""
        return noise_for(self.framework, self.budget, self.shares[level], Fraction(1), _NEIGHBOURS)
