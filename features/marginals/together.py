"""The universes of a release of marginals together: their tree, their records, and where a table is at home."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.marginals.cliques import JunctionTree
from features.marginals.guess import needed
from features.marginals.section import MarginalsSection
from features.marginals.universes import tree_of
from pipeline.errors import InputError
from pipeline.model.schema import Attribute
from pipeline.model.together import Together
from pipeline.model.universe import Universe

if TYPE_CHECKING:
    from features.marginals.estimation import CliqueEstimation
    from pipeline.execution.job import Job


@dataclass(frozen=True, eq=False)
class Cliques(Together):
    """What the universes have in common.

    Attributes:
        tree: of the cliques, a universe for each bag.
        universes: their names, in the tree's order.
        attributes: all, in the tree's order.
        alike: whether the parts of an area are expected to be alike.
    """

    tree: JunctionTree
    universes: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    alike: bool

    @classmethod
    def of(cls, stated: MarginalsSection, universes: Sequence[Universe]) -> Cliques:
        """Of the universes of a spec that was found to be of cliques (`universes.note_untried`)."""
        found = {one.name: one for universe in universes for one in universe.schema.attributes}
        attributes = tuple(found[name] for name in stated.attributes or ())
        tree, _ = tree_of(stated, {one.name: len(one.values) for one in attributes})
        return cls(tree, tuple(universe.name for universe in universes), attributes, stated.alike)

    def record_attributes(self, universe: str) -> tuple[Attribute, ...]:
        """See `Together.record_attributes`: whole records, with the release's own universe."""
        return () if universe else self.attributes

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

        return CliqueEstimation(self.tree, self.universes, self.attributes, job, alike=self.alike)
