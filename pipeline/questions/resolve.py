"""Looks up the names of a question in its domain, and the order of values in their names: 65, 0-4, under 18."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from pipeline.model.exact import parse_exact
from pipeline.model.schema import AmountAttribute, Attribute, Recode
from pipeline.questions.domain import Domain
from pipeline.questions.quantiles import CLIP, RANKS
from pipeline.questions.resolved import RECORDS, QuestionAxis, Resolved
from pipeline.questions.text import Asked, Condition, QuestionError, Word
from postprocess.arrays import BoolArray, IntArray

_NUMBER = r"(\d{1,12})"
_YEARS = r"(?:\s*(?:years?|yrs?))?"
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|\.\.|_|to)\s*{_NUMBER}{_YEARS}", re.ASCII)
_FROM = re.compile(rf"{_NUMBER}{_YEARS}\s*(?:\+|plus|(?:and|or) (?:over|older|more))", re.ASCII)
_UNDER = re.compile(rf"(?:under|below|<)\s*{_NUMBER}{_YEARS}", re.ASCII)
_ONE = re.compile(_NUMBER + _YEARS, re.ASCII)


@dataclass(frozen=True)
class Band:
    """The numbers that a value stands for: from `low` to `high`; None where there is no end."""

    low: Fraction | None
    high: Fraction | None

    def compared(self, operator: str, number: Fraction) -> bool | None:
        """Whether `band operator number` holds: for all of its numbers, for none, or None for some of them."""
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        for_all, for_some = {
            "<": (high < number, low < number), "<=": (high <= number, low <= number),
            ">": (low > number, high > number), ">=": (low >= number, high >= number),
        }[operator]  # fmt: skip
        return True if for_all else None if for_some else False


def band_of(value: str) -> Band | None:
    """The whole numbers that a value's name states; None where it states none.

    >>> band_of("18-64"), band_of("asian")
    (Band(low=Fraction(18, 1), high=Fraction(64, 1)), None)
    """
    text = value.strip().lower()
    if found := _BETWEEN.fullmatch(text):
        low, high = Fraction(found[1]), Fraction(found[2])
        return Band(low, high) if low <= high else None
    if found := _FROM.fullmatch(text):
        return Band(Fraction(found[1]), None)
    if found := _UNDER.fullmatch(text):
        return Band(None, Fraction(found[1]) - 1)
    if found := _ONE.fullmatch(text):
        return Band(Fraction(found[1]), Fraction(found[1]))
    return None


#: Values that a message spells out.
_SHOWN: Final = 12


def resolve(asked: Asked, domain: Domain, *, whole: bool = False) -> Resolved:
    """What a question asks.

    Args:
        asked: its words.
        domain: what they may name.
        whole: keep every attribute of the schema, for records that are read by whole cells.

    Raises:
        QuestionError: a name or a value is not in the domain; one sentence with its position.
    """
    if asked.statistic == "count units" and domain.units is None:
        raise QuestionError(
            "question: found 'count units', and records without units: say in [privacy] which column has them (unit), "
            "and in how many numbers each may be counted (at_most)"
        )
    look = _Look(domain, domain.units if asked.statistic == "count units" else None)
    amount = ends = None
    if asked.amount is not None and asked.statistic == CLIP:
        ends = domain.ends(asked.amount, asked.among)
        look.at(ends)
    elif asked.amount is not None and asked.statistic != "most common":
        amount = domain.amount(asked.amount)
        look.at(amount)
    for condition in asked.where:
        look.compare(condition)
    level = None
    for word in asked.by:
        if word.text in domain.levels and domain.attribute(word.text) is None and not domain.schema.recode(word.text):
            if level is not None:
                raise word.refused(f"one level is allowed, and {level!r} is named before")
            level = word.text
        else:
            look.split(word)
    if asked.amount is not None and asked.statistic == "most common":
        look.split(asked.amount)
    if whole or not look.seen.keys() - {RECORDS}:
        for attribute in domain.schema.attributes if whole else domain.schema.attributes[:1]:
            look.at(attribute)
    seen = [look.seen[name] for name in _in_order(look, domain)]
    names = [one.attribute.name for one in seen]
    resolved = Resolved(
        str(asked), asked.statistic, level, tuple(one.axis() for one in seen),
        tuple(names.index(name) for name in look.order), amount, asked.number, asked.least, ends,
    )  # fmt: skip
    _refuse_few(asked, resolved)
    return resolved


def _refuse_few(asked: Asked, resolved: Resolved) -> None:
    """QuestionError where there is nothing to choose among."""
    if asked.amount is None:
        return
    if resolved.statistic in RANKS and len(resolved.candidates) < 2:
        raise asked.amount.refused("the conditions leave one amount, which is then the quantile: nothing to ask")
    if asked.statistic == "most common" and resolved.sizes[-1] < (asked.number or 1):
        raise asked.amount.refused(
            f"it has {resolved.sizes[-1]} values here, of which {asked.number} most common are asked for"
        )


def _in_order(look: _Look, domain: Domain) -> list[str]:
    """The attributes as the schema has them, so that equal cells have equal numbers, then the further columns."""
    known = [*domain.schema.names, *(name for name in domain.columns if name not in domain.schema.names), RECORDS]
    named = [name for name in known if name in look.seen]
    return [*named, *sorted(name for name in look.seen if name not in known)]


@dataclass
class _Seen:
    """An attribute that the question looks at."""

    attribute: Attribute
    keep: BoolArray
    term: str = ""
    group: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    labels: tuple[str, ...] = ()

    def axis(self) -> QuestionAxis:
        """The axis, without groups that nobody counted is in."""
        if not self.term:
            return QuestionAxis(self.attribute, self.keep, np.zeros(len(self.keep), dtype=np.int64))
        used = np.unique(self.group[self.keep])
        group = np.where(self.keep, np.searchsorted(used, self.group), 0).astype(np.int64)
        return QuestionAxis(self.attribute, self.keep, group, self.term, tuple(self.labels[int(i)] for i in used))


class _Look:
    """Notes what the words of a question say of each attribute."""

    def __init__(self, domain: Domain, records: Attribute | None) -> None:
        self.domain = domain
        self.records = records
        self.seen: dict[str, _Seen] = {}
        self.order: list[str] = []

    def at(self, attribute: Attribute) -> _Seen:
        """What is noted of an attribute."""
        fresh = _Seen(attribute, np.ones(len(attribute.values), dtype=bool))
        return self.seen.setdefault(attribute.name, fresh)

    def split(self, word: Word) -> None:
        """Tell the values of an attribute or the groups of a recode apart."""
        attribute, recode = self._named(word, "it is no level, attribute or recode", levels=True)
        if isinstance(attribute, AmountAttribute):
            raise word.refused("it is an amount; by takes levels, attributes and recodes")
        seen = self.at(attribute)
        if seen.term:
            raise word.refused(f"{attribute.name!r} is told apart already, by {seen.term!r}")
        seen.term = word.text
        seen.labels = attribute.values if recode is None else recode.labels
        seen.group = np.arange(len(attribute.values)) if recode is None else recode.group_of_value(attribute)
        self.order.append(attribute.name)

    def compare(self, condition: Condition) -> None:
        """Count only records for which a comparison holds."""
        attribute, recode = self._named(condition.name, "it is no attribute, recode or amount", levels=False)
        if isinstance(attribute, AmountAttribute) and (side := _beyond(condition, attribute)):
            attribute = self.domain.clip(attribute)
            holds = np.array([value == side for value in attribute.values])
        elif condition.operator in ("=", "!=", "in") and not isinstance(attribute, AmountAttribute):
            names = attribute.values if recode is None else recode.labels
            holds = _chosen(condition, names)
        elif condition.operator in ("!=", "in"):
            raise condition.name.refused(f"it is an amount; {condition.operator!r} is for attributes: use < <= > >= =")
        else:
            names = attribute.values if recode is None else recode.labels
            holds = _ordered(condition, attribute, names)
        if recode is not None:
            holds = holds[recode.group_of_value(attribute)]
        seen = self.at(attribute)
        seen.keep = seen.keep & holds
        if not seen.keep.any():
            raise condition.name.refused(f"no value of {attribute.name!r} is left by the conditions")

    def _named(self, word: Word, what: str, *, levels: bool) -> tuple[Attribute, Recode | None]:
        if self.records is not None and word.text == RECORDS:
            if self.domain.attribute(RECORDS) is not None:
                raise word.refused("it is the number of a unit's records, and a column is called so too")
            return self.records, None
        if (attribute := self.domain.attribute(word.text)) is not None:
            return attribute, None
        if (recode := self.domain.schema.recode(word.text)) is not None:
            return self.domain.schema.attribute(recode.attribute), recode
        if word.text in self.domain.levels:
            raise word.refused("it is a level; a comparison is of attributes, recodes and amounts")
        raise self.domain.unknown(word, what, levels=levels)


def _chosen(condition: Condition, names: Sequence[str]) -> BoolArray:
    for word in condition.values:
        if word.text not in names:
            raise word.refused(f"the values of {condition.name.text!r} are {_some(names)}")
    chosen = np.isin(np.array(names, dtype=object), [word.text for word in condition.values])
    return ~chosen if condition.operator == "!=" else chosen


def _beyond(condition: Condition, amount: AmountAttribute) -> str:
    """The side of the clip that a comparison is of: above the upper end, or below the lower; else ""."""
    try:
        number = parse_exact(condition.values[0].text)
    except ValueError:
        return ""
    return {(">", amount.high): "above", ("<", amount.low): "below"}.get((condition.operator, number), "")


def _ordered(condition: Condition, attribute: Attribute, names: Sequence[str]) -> BoolArray:
    """Which values a comparison by order holds for."""
    word = condition.values[0]
    try:
        number = parse_exact(word.text)
    except ValueError:
        raise word.refused(f"{condition.operator} needs a number") from None
    if isinstance(attribute, AmountAttribute):
        steps = [attribute.low + step * attribute.unit for step in range(len(names))]
        if not attribute.low <= number <= attribute.high or number not in steps:
            raise word.refused(
                f"{attribute.name!r} is counted in units of {attribute.unit} from {attribute.low} to {attribute.high}; "
                "only these can be compared with"
            )
        ends = {"<=": attribute.high, ">=": attribute.low}
        if ends.get(condition.operator) == number:
            raise word.refused(f"amounts beyond {number} count as {number}: {condition.operator} decides nothing here")
        if condition.operator == "=":
            return np.array([step == number for step in steps])
        return np.array([bool(Band(step, step).compared(condition.operator, number)) for step in steps])
    holds = np.zeros(len(names), dtype=bool)
    for position, name in enumerate(names):
        band = band_of(name)
        if band is None:
            raise condition.name.refused(
                f"its value {name!r} states no number or range, so that {condition.operator} cannot be decided; "
                "allowed are = != in"
            )
        held = band.compared(condition.operator, number)
        if held is None:
            raise word.refused(
                f"it is inside {name!r}, of which records cannot be told apart; the values of "
                f"{condition.name.text!r} are {_some(names)}"
            )
        holds[position] = held
    return holds


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])}, ... {names[-1]}"
