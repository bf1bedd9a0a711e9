"""What public numbers of a feature say of a universe, as a value; no noise depends on it.

What is made of a fact is asked by protocols of those who make it: `pipeline.estimation.knowledge.Knowing`,
`pipeline.pages.facts.Shown`.
"""

from __future__ import annotations

from pipeline.model.query import Query


class PublicFact:
    """A fact of one universe; it is pickled, and holds no numbers."""

    def told_apart(self) -> tuple[Query, ...]:
        """The queries, beside the measured ones, that estimates must tell apart."""
        return ()
