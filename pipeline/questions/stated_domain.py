"""The part of its domain that a question looks at, as its answer publishes it: what its words stand for.

With it anybody can look the words of the question up again, and so compute all that follows from them: groups, grid,
sensitivity, noise, cost, and the fingerprint of the question. Nothing in it is from the records.
"""

from __future__ import annotations

from fractions import Fraction

from pydantic import model_validator

from pipeline.model.schema import AmountAttribute, Attribute, ClippedAttribute, ListedAttribute, Recode, Schema
from pipeline.questions.domain import Domain
from pipeline.questions.resolved import EVERYWHERE, Resolved, records_of_unit
from pipeline.questions.text import Asked
from pipeline.release.stated import Exact, Positive, Stated


class AttributeStated(Stated):
    """An attribute or further column, and its values in their order."""

    name: str
    values: tuple[str, ...]

    @property
    def attribute(self) -> Attribute:
        """The attribute."""
        return Attribute(self.name, self.values)


class GroupStated(Stated):
    """A group of a recode; without a label are all values of groups that no condition names."""

    label: str
    values: tuple[str, ...]


class RecodeStated(Stated):
    """A recode that the question names."""

    name: str
    attribute: str
    groups: tuple[GroupStated, ...]


class GridStated(Stated):
    """An amount that the question names, as far as it looks at it.

    Attributes:
        low, high: the ends; None where only listed ends are looked at.
        unit: of the grid; None where only the ends are looked at.
        missing: the amount of a record without one; None where each must have one.
        total: whether the ends are those of a unit's total, where it is summed.
    """

    name: str
    low: Exact | None
    high: Exact | None
    unit: Positive | None
    missing: Exact | None
    total: bool

    @model_validator(mode="after")
    def _check(self) -> GridStated:
        if (self.low is None) != (self.high is None) or (self.low is None and self.unit is not None):
            raise ValueError("both ends are needed, or neither and no unit")
        if self.unit is None and self.total:
            raise ValueError("a total needs a grid")
        return self

    @property
    def attribute(self) -> AmountAttribute:
        """The amount; with any grid where it is not looked at."""
        low, high = (Fraction(0), Fraction(1)) if self.low is None else (Fraction(self.low), Fraction(self.high or 0))
        missing = None if self.missing is None else Fraction(self.missing)
        if self.unit is None:
            return AmountAttribute(self.name, ("",), low, high, high - low, missing)
        return AmountAttribute.of(self.name, low, high, Fraction(self.unit), missing, total=self.total)


class DomainStated(Stated):
    """What the words of a question stand for.

    Attributes:
        attributes: of the schema, in its order, that the question looks at.
        recodes: that it names.
        columns: further columns that it looks at and amounts that it names, in the order of the spec.
        taken: columns of the spec that have the names which would be given to what the question makes of an amount.
    """

    attributes: tuple[AttributeStated, ...]
    recodes: tuple[RecodeStated, ...] = ()
    columns: tuple[AttributeStated | GridStated, ...] = ()
    taken: tuple[str, ...] = ()

    def domain(self, place: str, records: int) -> Domain:
        """The domain of a question.

        Args:
            place: the level that it asks by, or `EVERYWHERE`.
            records: of one person that are counted together.

        Raises:
            SpecError: names or values are given twice, or a recode is no partition.
        """
        recodes = tuple(
            Recode(one.name, one.attribute, tuple((group.label, group.values) for group in one.groups))
            for one in self.recodes
        )
        # A schema has at least one attribute; the question names none that stands in for it.
        attributes = tuple(one.attribute for one in self.attributes) or (Attribute("_", ("",)),)
        columns: dict[str, Attribute] = {one.name: one.attribute for one in self.columns}
        columns |= {name: Attribute(name, ("",)) for name in self.taken}
        levels = () if place == EVERYWHERE else (place,)
        return Domain(levels, Schema(attributes, recodes), columns, units=records_of_unit(max(records, 1)))


def stated_domain(asked: Asked, question: Resolved, domain: Domain) -> DomainStated:
    """What an answer states of the domain that its question was looked up in: no more than the question looks at."""
    looked_at = {axis.attribute.name: axis.attribute for axis in question.axes}
    words = [*asked.by, *(one.name for one in asked.where), *([] if asked.amount is None else [asked.amount])]
    named = {word.text for word in words}
    attributes = [one for one in domain.schema.attributes if one.name in looked_at]
    recodes = [one for one in domain.schema.recodes if one.name in named and one.attribute in looked_at]
    columns: list[AttributeStated | GridStated] = []
    taken: list[str] = []
    for name, column in domain.columns.items():
        if isinstance(column, AmountAttribute):
            if name in named:
                columns.append(
                    _grid(column, looked_at, domain, total=question.of == "total" and question.amount == column)
                )
                taken += [
                    other for kind in ("clipped", "ends") for other in _taken(domain, f"{name}_{kind}", looked_at)
                ]
        elif name in looked_at:
            columns.append(AttributeStated(name=name, values=column.values))
    return DomainStated(
        attributes=tuple(AttributeStated(name=one.name, values=one.values) for one in attributes),
        recodes=tuple(_recode(one, looked_at[one.attribute], asked) for one in recodes),
        columns=tuple(columns),
        taken=tuple(taken),
    )


def compared_by_order(asked: Asked) -> set[str]:
    """What a question compares with a number."""
    return {one.name.text for one in asked.where if one.operator not in ("=", "!=", "in")}


def _recode(recode: Recode, attribute: Attribute, asked: Asked) -> RecodeStated:
    """A recode in one form: values as the attribute has them, and groups too where their order says nothing."""
    number = {value: n for n, value in enumerate(attribute.values)}
    distinguished = recode.name in {word.text for word in asked.by}
    all_named = distinguished or recode.name in compared_by_order(asked)
    named = {word.text for one in asked.where if one.name.text == recode.name for word in one.values}
    groups: dict[str, list[str]] = {}
    for label, values in recode.groups:
        groups.setdefault(label if all_named or label in named else "", []).extend(values)
    stated = [
        GroupStated(label=label, values=tuple(sorted(values, key=number.__getitem__)))
        for label, values in groups.items()
    ]
    if not distinguished:
        stated.sort(key=lambda group: [number[value] for value in group.values])
    return RecodeStated(name=recode.name, attribute=recode.attribute, groups=tuple(stated))


def _taken(domain: Domain, name: str, looked_at: dict[str, Attribute]) -> list[str]:
    """The names before the one that was free for an attribute made of an amount; none where it is not looked at."""
    before = []
    while name in domain.columns or name in domain.schema.names:
        before.append(name)
        name += "_"
    made = isinstance(looked_at.get(name), ClippedAttribute | ListedAttribute)
    return [one for one in before if one not in looked_at] if made else []


def _grid(amount: AmountAttribute, looked_at: dict[str, Attribute], domain: Domain, *, total: bool) -> GridStated:
    on_grid = amount.name in looked_at
    beyond = isinstance(looked_at.get(domain.clip(amount).name), ClippedAttribute)
    low, high = (str(amount.low), str(amount.high)) if on_grid or beyond else (None, None)
    return GridStated(
        name=amount.name,
        low=low,
        high=high,
        unit=str(amount.unit) if on_grid else None,
        missing=None if amount.missing is None else str(amount.missing),
        total=total,
    )
