"""Edit rules: combinations that cannot occur as a subject-matter expert writes them, compiled to structural zeros.

A rule is a sentence about one record, `age < 15 and marital != "never married"`. It is read with Python's own grammar
and never run: only comparisons of attributes and recodes with their values, `and`, `or`, `not` and parentheses are let
through. Each comparison allows some values of one attribute, so a rule is a disjunction of boxes; each box is an entry
of `structural_zeros`, which is all that the rest of the program and its judges ever see.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from pipeline.spec.problems import Problems, unknown

#: Attribute or recode -> those of its values that are meant, as positions.
Box: TypeAlias = dict[str, frozenset[int]]

#: Entries of structural_zeros that a rule may become.
MOST_BOXES = 10_000

_EQUAL: Final = {ast.Eq: True, ast.NotEq: False, ast.In: True, ast.NotIn: False}
_ORDER: Final[dict[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MIRRORED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_LONE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_EXAMPLE = "a rule is, for example, age < 15 and marital != single"


class RuleError(Exception):
    """A rule that cannot be read; the text says where and what is allowed."""


def impossible_by(rule: str, values: Mapping[str, Sequence[str]]) -> list[dict[str, tuple[str, ...]]]:
    """The entries of structural_zeros that a rule means.

    Args:
        rule: the sentence.
        values: attribute or recode -> its values in the schema's order, by which `<` compares.

    Raises:
        RuleError: it is no rule, or names what is not in the schema.
    """
    try:
        boxes = _Reader(rule.strip(), values).boxes(ast.parse(rule.strip(), mode="eval").body, positive=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuleError(_unreadable(rule, error)) from None
    if not boxes:
        raise RuleError("is true of no record: it says nothing")
    return [{term: tuple(values[term][place] for place in sorted(box[term])) for term in box} for box in boxes]


def combinations_of(
    stated: Sequence[Mapping[str, Sequence[str]] | str], values: Mapping[str, Sequence[str]], problems: Problems
) -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """The combinations that the entries of structural_zeros mean, each with the entry's key.

    Args:
        stated: combinations and edit rules.
        values: attribute or recode -> its values in the schema's order.
        problems: of the universe; takes what is no rule.
    """
    for number, entry in enumerate(stated):
        key = f"structural_zeros[{number}]"
        if not isinstance(entry, str):
            yield key, entry
            continue
        try:
            for combination in impossible_by(entry, values):
                yield key, combination
        except RuleError as error:
            problems.add(key, f"{entry!r}: {error}")


class _Reader:
    """Reads the parts of one rule."""

    def __init__(self, rule: str, values: Mapping[str, Sequence[str]]) -> None:
        self._rule, self._values = rule, values

    def boxes(self, part: ast.expr, *, positive: bool) -> list[Box]:
        """The combinations of which a part of the rule is true, or false where it is not meant `positive`."""
        match part:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.boxes(inner, positive=not positive)
            case ast.BoolOp(op=op, values=inner):
                parts = [self.boxes(one, positive=positive) for one in inner]
                return self._all(parts) if isinstance(op, ast.And) == positive else _merged(parts)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                between = zip(pairwise([left, *comparators]), ops, strict=True)
                parts = [self._comparison(one, op, other, positive=positive) for (one, other), op in between]
                return self._all(parts) if positive else _merged(parts)
        raise RuleError(f"found {self._text(part)!r} where a comparison is needed; {_EXAMPLE}")

    def _all(self, parts: list[list[Box]]) -> list[Box]:
        """The boxes of what is in one of each part."""
        met: list[Box] = [{}]
        for part in parts:
            met = _merged([[box for one in met for other in part if (box := _both(one, other)) is not None]])
            if len(met) > MOST_BOXES:
                raise RuleError(f"means more than {MOST_BOXES:,} combinations; write it as several rules")
        return met

    def _comparison(self, one: ast.expr, op: ast.cmpop, other: ast.expr, *, positive: bool) -> list[Box]:
        term, value, kind = self._name(one), other, type(op)
        if term not in self._values and kind in _MIRRORED and self._name(other) in self._values:
            term, value, kind = self._name(other), one, _MIRRORED[kind]
        if term is None or term not in self._values:
            raise RuleError(unknown("attribute or recode", term or self._text(one), list(self._values)))
        if kind in _EQUAL:
            listed = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
            if kind in (ast.Eq, ast.NotEq) and len(listed) != 1:
                raise RuleError(f"found {self._text(value)!r} after a sign for one value; several are meant by `in`")
            met = {self._place(term, item) for item in listed}
            places = [place for place in range(len(self._values[term])) if (place in met) == _EQUAL[kind]]
        elif kind in _ORDER:
            limit = self._place(term, value)
            places = [place for place in range(len(self._values[term])) if _ORDER[kind](place, limit)]
        else:
            raise RuleError(f"found `is`; allowed are ==, !=, <, <=, >, >=, in, not in; {_EXAMPLE}")
        chosen = frozenset(places)
        rest = frozenset(range(len(self._values[term]))) - chosen
        meant, left = (chosen, rest) if positive else (rest, chosen)
        return [{term: meant} if left else {}] if meant else []

    def _name(self, part: ast.expr) -> str | None:
        match part:
            case ast.Name(id=name):
                return name
            case ast.Constant(value=str(text)):
                return text
        return None

    def _place(self, term: str, part: ast.expr) -> int:
        """Where a value stands among those of an attribute; a number is taken as it is written."""
        number = isinstance(part, ast.Constant) and not isinstance(part.value, str)
        negative = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)
        value = self._text(part) if number or negative else self._name(part)
        values = list(self._values[term])
        if value is None:
            quotes = "names and values with other signs than letters, digits and _ stand in quotes"
            raise RuleError(f"found {self._text(part)!r} where a value of {term} is needed; {quotes}")
        if value not in values:
            raise RuleError(unknown(f"value of {term}", value, values))
        return values.index(value)

    def _text(self, part: ast.expr) -> str:
        return ast.get_source_segment(self._rule, part) or self._rule


def _both(one: Box, other: Box) -> Box | None:
    """What is in two boxes; None where nothing is."""
    met = {term: one.get(term, other.get(term, frozenset())) for term in one | other}
    met |= {term: one[term] & other[term] for term in one.keys() & other.keys()}
    return met if all(met.values()) else None


def _merged(parts: list[list[Box]]) -> list[Box]:
    """All boxes of the parts without those inside another, in their order."""
    boxes = [box for part in parts for box in part]
    kept: list[Box] = []
    for box in boxes:
        if not any(_inside(box, other) for other in kept):
            kept = [*(other for other in kept if not _inside(other, box)), box]
    return kept


def _inside(box: Box, other: Box) -> bool:
    return all(term in box and box[term] <= other[term] for term in other)


def _unreadable(rule: str, error: Exception) -> str:
    if not rule.strip():
        return f"found an empty text; {_EXAMPLE}"
    place = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
    if (sign := _LONE_EQUALS.search(rule.strip())) is not None:
        return f"found = at character {sign.start() + 1} where == is needed; {_EXAMPLE}"
    if isinstance(error, SyntaxError) and "leading zeros" in str(error):
        return f"found a number that begins with 0{place}; such values stand in quotes"
    return f"found {rule.strip()!r}, which cannot be read{place}; {_EXAMPLE}"
