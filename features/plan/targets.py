"""Targets and weights of errors: `tract: total <= 2.0; county: race <= 5`; and the group that noise hurts most."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.errors import InputError, SpecError
from pipeline.estimation.expectation import Expectation
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.reading.reader import Reader, open_reader
from postprocess.arrays import FloatArray

TARGET_FORM = '"LEVEL: QUERY <= PERSONS", several joined by ;, such as "tract: total <= 2.0; county: race <= 5"'
GROUP_FORM = '"LEVEL: QUERY", several joined by ;, such as "tract: race; county: race"'
WEIGHT_FORM = '"LEVEL: QUERY = WEIGHT", several joined by ;, such as "tract: total = 3; county: race = 1"'
_ENTRY = {
    "<=": re.compile(r"(?P<level>[^:]+):(?P<query>[^<=]+)<=\s*(?P<number>\S+?)(?P<each>\s+each)?"),
    "=": re.compile(r"(?P<level>[^:]+):(?P<query>[^<=]+?)=\s*(?P<number>\S+?)(?P<each>\s+each)?"),
}


@dataclass(frozen=True, eq=False)
class Aim:
    """One entry: the target of an error, or its weight.

    Attributes:
        number: persons (of a target), or the weight.
        each: whether the error is that of a number, and not the sum over the query's numbers.
        answer: the one answer of the query whose error counts; None for all of them.
    """

    level: str
    query: Query
    number: float
    each: bool
    answer: int | None = None

    @property
    def group(self) -> str:
        """The label of the one answer that counts; "" for all of them."""
        return "" if self.answer is None else self.query.answer_labels()[self.answer]

    @property
    def name(self) -> str:
        """Level and query: "tract: total", and the group if it is of one: "tract: race (black)"."""
        return f"{self.level}: {self.query.name}" + (f" ({self.group})" if self.group else "")

    @property
    def numbers(self) -> int:
        """The number by which the error of a geounit is divided."""
        return self.query.size if self.each and self.answer is None else 1


def parse_targets(text: str, universe: Universe) -> tuple[Aim, ...]:
    """The targets of `--target`: expected errors that are not to be exceeded.

    Raises:
        InputError: an entry is malformed, or names a level or query that the spec does not have.
    """
    return _parse(text, "<=", universe, "--target", TARGET_FORM)


def parse_weights(text: str, universe: Universe) -> tuple[Aim, ...]:
    """The weights of `--weights`; InputError as for `parse_targets`."""
    return _parse(text, "=", universe, "--weights", WEIGHT_FORM)


def parse_places(text: str, universe: Universe, option: str) -> tuple[tuple[str, Query], ...]:
    """Levels and queries; InputError as for `parse_targets`."""
    found = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        level, colon, query = entry.partition(":")
        if not colon:
            raise InputError(f"{option}: found {entry!r}; allowed is {GROUP_FORM}")
        found.append(_place(level.strip(), query, universe, f"{option}: {entry!r}"))
    if not found:
        raise InputError(f"{option}: nothing is given; allowed is {GROUP_FORM}")
    return tuple(found)


def _place(level: str, query: str, universe: Universe, where: str) -> tuple[str, Query]:
    if level not in universe.level_names:
        raise InputError(f"{where}: no level {level!r}; the levels are {', '.join(universe.level_names)}")
    try:
        return level, Query.parse(query, universe.schema, where=where)
    except SpecError as error:
        raise InputError(str(error)) from None


def _parse(text: str, sign: str, universe: Universe, option: str, form: str) -> tuple[Aim, ...]:
    aims: dict[tuple[str, tuple[str, ...]], Aim] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        match = _ENTRY[sign].fullmatch(entry)
        if match is None:
            raise InputError(f"{option}: found {entry!r}; allowed is {form}")
        level, query = _place(match["level"].strip(), match["query"], universe, f"{option}: {entry!r}")
        number = _positive(match["number"], f"{option}: {entry!r}")
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


def worst_group_aims(text: str, expectation: Expectation, like: Path) -> tuple[Aim, ...]:
    """An aim for each group of the levels and queries named: its error, against its mean number in an area.

    The largest ratio is the error of the group that noise hurts most, in parts of its people. How many people a group
    has is taken from an earlier release, so that nothing confidential is read.

    Groups whose errors are the same for every division are told by the smallest of them, which is the worst. A group
    that the earlier release has nowhere, or whose numbers are exact, is left out.

    Args:
        text: "LEVEL: QUERY; ...".
        like: directory of an earlier release with the same values.

    Raises:
        InputError: an entry is malformed, the earlier release does not have the level or the values, or the universe
            is of an amount.
    """
    universe = expectation.universe
    if not universe.measure.counts:
        raise InputError(
            f"--worst-group: groups are of people, and {universe.name} has sums of an amount; use --weights"
        )
    release = open_reader(like)
    earlier = release.companion(universe.name) if universe.name else release
    aims = []
    for level, query in parse_places(text, universe, "--worst-group"):
        means = _means(earlier, level, query)
        exact, _ = expectation.exact(expectation.spine.index_of(level), query)
        smallest: dict[tuple[int, bytes, bytes], int] = {}
        for answer in np.flatnonzero((means > 0) & ~exact.all(axis=0)).tolist():
            kind = (*_kind(expectation, query, answer), exact[:, answer].tobytes())
            if kind not in smallest or means[answer] < means[smallest[kind]]:
                smallest[kind] = answer
        aims += [Aim(level, query, float(means[answer]), True, answer) for answer in sorted(smallest.values())]
    if not aims:
        raise InputError(f"--worst-group: {like} has nobody in these groups, or their numbers are exact")
    return tuple(aims)


def _kind(expectation: Expectation, query: Query, answer: int) -> tuple[int, bytes]:
    """Answers of one kind have the same error, whatever is measured how precisely."""
    _, factors = expectation.basis.answer_factors(query)
    row, place = divmod(int(expectation.basis.answer_order(query)[answer]), factors.shape[1])
    return row, factors[:, place].round(9).tobytes()


def _means(earlier: Reader, level: str, query: Query) -> FloatArray:
    """Published people of each answer, mean over the areas of a level, `(size,)`."""
    if level not in earlier.levels:
        raise InputError(f"--like: {earlier.name} has no level {level!r}; its levels are {', '.join(earlier.levels)}")
    try:
        same = Query.parse(query.name, earlier.schema, where=f"--like: {earlier.name}")
    except SpecError as error:
        raise InputError(str(error)) from None
    if same.answer_labels() != query.answer_labels():
        raise InputError(f"--like: {earlier.name} has other values of {query.name}; the same are needed")
    return np.asarray(same.answer_csr(earlier.histogram(level)).mean(axis=0), dtype=np.float64)
