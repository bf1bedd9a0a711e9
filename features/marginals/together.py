"""The universes of a release of marginals together: their tree, their records, and where a table is at home."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from features.marginals.bins import Bins
from features.marginals.cliques import JunctionTree
from features.marginals.guess import needed
from features.marginals.section import MarginalsSection
from features.marginals.terms import Terms, terms_of_universes
from features.marginals.tree import attributes_of, tree_of_universes
from pipeline.errors import InputError
from pipeline.model.schema import Attribute, NumberColumn
from pipeline.model.strategy import Earlier
from pipeline.model.together import Together
from pipeline.model.universe import Universe

if TYPE_CHECKING:
    from features.marginals.estimation import CliqueEstimation
    from pipeline.execution.job import Job

_DRAWN_WORDS: Final = (
    "Any number inside the bin of an amount is drawn at random from the public seed: it depends on the records by "
    "their released bin alone, and carries no information beyond it."
)


@dataclass(frozen=True, eq=False)
class Cliques(Together):
    """What the universes have in common.

    Attributes:
        tree: of the cliques, a universe for each bag.
        universes: their names, in the tree's order.
        attributes: all, in the tree's order.
        alike: whether the parts of an area are expected to be alike.
        amounts: the attributes whose values are bins.
        terms: on which the cliques are chosen privately; None where they are declared.
        chosen_from: published fingerprint of the records that they were chosen from; "" before they are chosen.
    """

    tree: JunctionTree
    universes: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    alike: bool
    amounts: tuple[Bins, ...] = ()
    terms: Terms | None = None
    chosen_from: str = ""

    @classmethod
    def of(cls, stated: MarginalsSection, universes: Sequence[Universe]) -> Cliques:
        """Of the universes of a spec that was found to be of cliques (`division_check`)."""
        attributes, own = attributes_of(stated, universes), universes[0]
        tree, _ = tree_of_universes(stated, attributes, own)
        names, terms = tuple(universe.name for universe in universes), terms_of_universes(stated, attributes, own)
        amounts = tuple(Bins.of(name, texts) for name, texts in (stated.amounts or {}).items())
        chosen_from = "" if stated.chosen is None else stated.chosen.records
        return cls(tree, names, attributes, stated.alike, amounts, terms, chosen_from)

    @property
    def earlier(self) -> Earlier | None:
        """See `Together.earlier`: the private choice of the cliques."""
        return None if self.terms is None else replace(self.terms.earlier, records=self.chosen_from)

    @property
    def undecided(self) -> str:
        """See `Together.undecided`."""
        if self.terms is None or self.chosen_from:
            return ""
        if self.terms.pairs.further:
            return (
                f"Which {self.terms.rounds} pairs of attributes are measured, at most, is chosen privately when it is "
                f"run; the pairs named here have the noise of any, and further ones are chosen while all tables have "
                f"together at most {self.terms.pairs.all_cells:,} cells."
            )
        return (
            f"Which {self.terms.rounds} pairs of attributes are measured is chosen privately when it is run; the "
            "pairs named here have the most cells of those that could be, and the noise of any."
        )

    def record_attributes(self, universe: str) -> tuple[Attribute, ...]:
        """See `Together.record_attributes`: whole records, with the release's own universe."""
        return () if universe else self.attributes

    def record_numbers(self, universe: str) -> tuple[NumberColumn, ...]:
        """See `Together.record_numbers`: numbers drawn inside the bins of amounts."""
        return () if universe else tuple(one.column for one in self.amounts)

    @property
    def words(self) -> str:
        """See `Together.words`."""
        return _DRAWN_WORDS if self.amounts else ""

    def remark(self, terms: Collection[str]) -> str:
        """See `Together.remark`."""
        named = [one for one in self.amounts if one.name in terms]
        if not named:
            return ""
        columns = " and ".join(one.column.name for one in named)
        return (
            f"{' and '.join(one.name for one in named)}: counted by bins; {columns} in the microdata is drawn at "
            "random inside the bin and says nothing beyond it."
        )

    def home(self, terms: Collection[str]) -> str:
        """See `Together.home`."""
        domain = self.tree.domain
        if strange := [term for term in terms if term not in domain.names]:
            raise InputError(f"{strange[0]!r} is not an attribute of the release; it has {', '.join(domain.names)}")
        clique = domain.clique(list(terms)) if terms else ()
        number = self.tree.bag_of(clique)
        if number is None:
            lacking = needed(self.tree, clique)
            raise InputError(domain.text(clique) if lacking is None else lacking.text)
        return self.universes[number]

    def estimation(self, job: Job) -> CliqueEstimation:
        """See `pipeline.estimation.together.EstimatesTogether`."""
        from features.marginals.estimation import CliqueEstimation  # with scipy

        return CliqueEstimation(self.tree, self.universes, self.attributes, job, self.amounts, alike=self.alike)
