"""A query: a product of attributes and recodes, whose answer has one number per combination."""

from __future__ import annotations

import itertools
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import SpecError
from pipeline.model.schema import Schema
from postprocess.arrays import IntArray
from postprocess.marginal import Marginal


def terms_of(text: str) -> list[str]:
    """The attributes and recodes that a query names; none of "total" and "detailed", which go with any schema."""
    terms = [term.strip() for term in text.split("*")]
    return [] if terms in (["total"], ["detailed"]) else terms


@dataclass(frozen=True, eq=False)
class Query(Marginal):
    """A query with names. Every cell falls in one answer, so one person moves one answer by one.

    Attributes:
        name: as the spec calls it.
        groups, answered: see `Marginal`. Of a question, values that a condition leaves out have the number after the
            last group, which was not measured.
        terms: names of the attributes and recodes multiplied, in the schema's order of attributes.
        labels: one tuple per attribute, the labels of its groups that were measured; empty where summed out.
    """

    _: KW_ONLY
    terms: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str, schema: Schema, *, where: str = "query") -> Query:
        """The query that `text` ("votingage * hispanic", "total", "detailed") states over `schema`.

        Its name is the text with single blanks around each *.

        Args:
            text: names of attributes and recodes, joined by *; "total" or "detailed".
            schema: the attributes and recodes that it may name.
            where: what messages call the location of the text, such as a key of the spec.

        Raises:
            SpecError: a term is not an attribute or recode, or an attribute is named twice.
        """
        name = " * ".join(term.strip() for term in text.split("*")).strip()
        terms = list(schema.names) if name == "detailed" else terms_of(name)
        by_attribute: dict[str, str] = {}
        for term in terms:
            recode = schema.recode(term)
            attribute = recode.attribute if recode is not None else term
            if attribute not in schema.names:
                allowed = [*schema.terms, "total", "detailed"]
                raise SpecError(
                    f"{where}: {term!r} in the query {name!r} is not an attribute or recode; allowed are "
                    f"{', '.join(allowed)}, joined by *"
                )
            if attribute in by_attribute:
                raise SpecError(
                    f"{where}: the query {name!r} names the attribute {attribute!r} twice "
                    f"({by_attribute[attribute]!r} and {term!r}); once is allowed"
                )
            by_attribute[attribute] = term
        groups: list[IntArray] = []
        labels: list[tuple[str, ...]] = []
        for attr in schema.attributes:
            factor = by_attribute.get(attr.name)
            recode = schema.recode(factor) if factor is not None else None
            if factor is None:
                groups.append(np.zeros(len(attr.values), dtype=np.int64))
                labels.append(())
            elif recode is not None:
                groups.append(recode.group_of_value(attr))
                labels.append(recode.labels)
            else:
                groups.append(np.arange(len(attr.values), dtype=np.int64))
                labels.append(attr.values)
        ordered = tuple(
            by_attribute[name_of_attribute] for name_of_attribute in schema.names if name_of_attribute in by_attribute
        )
        return cls(name=name, terms=ordered, groups=tuple(groups), labels=tuple(labels))

    def answer_labels(self) -> tuple[str, ...]:
        """A label for each answer that was measured, the values joined by " * "."""
        labelled = [labels for labels in self.labels if labels]
        return (
            tuple(" * ".join(combination) for combination in itertools.product(*labelled)) if labelled else ("total",)
        )

    def labels_of(self, term: str) -> NDArray[np.str_]:
        """The label that a term has in each answer, `(size,)`; KeyError unless it is one of `terms`."""
        axes = [axis for axis, labels in enumerate(self.labels) if labels]
        axis = dict(zip(self.terms, axes, strict=True))[term]
        return np.array(self.labels[axis])[np.unravel_index(np.arange(self.size), self.sizes)[axis]]
