"""Targets and weights of errors: `tract: total <= 2.0; county: race <= 5`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pipeline.errors import InputError, SpecError
from pipeline.model.query import Query
from pipeline.model.universe import Universe

#: Option -> its sign, and what it allows.
_FORMS = {
    "--target": (
        "<=",
        '"LEVEL: QUERY <= PERSONS", several joined by ;, such as "tract: total <= 2.0; county: race <= 5"',
    ),
    "--weights": ("=", '"LEVEL: QUERY = WEIGHT", several joined by ;, such as "tract: total = 3; county: race = 1"'),
}


@dataclass(frozen=True, eq=False)
class Aim:
    """One entry: the target of an error, or its weight.

    Attributes:
        number: persons (of a target), or the weight.
        each: whether the error is that of a number, and not the sum over the query's numbers.
    """

    level: str
    query: Query
    number: float
    each: bool

    @property
    def name(self) -> str:
        """Level and query: "tract: total"."""
        return f"{self.level}: {self.query.name}"

    @property
    def numbers(self) -> int:
        """The number by which the error of a geounit is divided."""
        return self.query.size if self.each else 1


def parse_aims(option: str, text: str, universe: Universe) -> tuple[Aim, ...]:
    """The targets of `--target`, expected errors that are not to be exceeded, or the weights of `--weights`.

    Raises:
        InputError: an entry is malformed, or names a level or query that the spec does not have.
    """
    sign, form = _FORMS[option]
    aims: dict[tuple[str, tuple[str, ...]], Aim] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        match = re.fullmatch(rf"(?P<level>[^:]+):(?P<query>[^<=]+){sign}\s*(?P<number>\S+?)(?P<each>\s+each)?", entry)
        if match is None:
            raise InputError(f"{option}: found {entry!r}; allowed is {form}")
        where, level = f"{option}: {entry!r}", match["level"].strip()
        if level not in universe.level_names:
            raise InputError(f"{where}: no level {level!r}; the levels are {', '.join(universe.level_names)}")
        try:
            query = Query.parse(match["query"], universe.schema, where=where)
        except SpecError as error:
            raise InputError(str(error)) from None
        number = _positive(match["number"], where)
        if (level, query.terms) in aims:
            raise InputError(f"{option}: {level}: {query.name} occurs twice; once is allowed")
        aims[level, query.terms] = Aim(level, query, number, match["each"] is not None)
    if not aims:
        raise InputError(f"{option}: nothing is given; allowed is {form}")
    return tuple(aims.values())


def _positive(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"{where}: found {text!r}; a number above 0 is needed")
    return number
