"""What a plan calls levels and queries: by their labels in pictures, and beside their names where names are needed."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.model.labels import Labels, beside
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec


@dataclass(frozen=True, eq=False)
class Called:
    """The words of one universe.

    Attributes:
        labels: that the spec states.
        schema: what queries are about.
        texts: of the report's language.
    """

    labels: Labels
    schema: Schema
    texts: Texts

    @classmethod
    def of(cls, spec: ReleaseSpec, universe: Universe) -> Called:
        """The words of a universe of a spec."""
        return cls(spec.labels(universe.name), universe.schema, texts_in(spec.report.language))

    def level(self, name: str) -> str:
        """The label of a level."""
        return self.labels.level(name)

    def query(self, name: str) -> str:
        """The labels of what a query is by; that without any is the total."""
        terms = Query.parse(name, self.schema).terms
        return " * ".join(self.labels.attribute(term) for term in terms) or self.texts("total")

    def beside_query(self, name: str) -> str:
        """The name of a query, with labels where any is stated of what it is by."""
        stated = any(term in self.labels.attributes for term in Query.parse(name, self.schema).terms)
        return beside(name, self.query(name)) if stated else name
