"""The conditions of --only: `sex != Total and level in county, city`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.errors import InputError

_FORM = re.compile(r"\s*(?P<column>\"[^\"]+\"|.+?)\s*(?P<sign>==|!=|\s(?:not\s+)?in\s)\s*(?P<values>.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """Rows are kept whose column has one of the values, or none of them.

    Attributes:
        kept: whether rows with the values are those that are kept.
    """

    column: str
    values: tuple[str, ...]
    kept: bool

    def holds(self, text: str) -> bool:
        """Whether a row with this text is kept."""
        return (text in self.values) is self.kept


def parse_only(text: str) -> tuple[Condition, ...]:
    """The conditions joined by `and`.

    Raises:
        InputError: a part is no condition.
    """
    return tuple(_condition(text, part) for part in re.split(r"\s+and\s+(?=[^=!]*(?:==|!=|\sin\s))", text))


def _condition(text: str, part: str) -> Condition:
    match = _FORM.fullmatch(part)
    if match is None:
        raise InputError(
            f"--only {text!r}: found {part!r}; COLUMN == VALUE, COLUMN != VALUE or COLUMN in VALUE, VALUE is needed, "
            "more of them joined by and"
        )
    sign = " ".join(match["sign"].split())
    values = [match["values"]] if sign in ("==", "!=") else _listed(match["values"])
    if sign != "==" and sign != "!=" and not all(values):
        raise InputError(f"--only {text!r}: an empty value stands in the list")
    return Condition(_unquoted(match["column"]), tuple(map(_unquoted, values)), sign in ("==", "in"))


def _listed(text: str) -> list[str]:
    return [one.strip() for one in re.findall(r"\s*(\"[^\"]*\"|'[^']*'|[^,]*)(?:,|$)", text)[:-1] or [text]]


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
