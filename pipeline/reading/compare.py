"""Two releases side by side: what differs in what they state, and in their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.errors import InputError
from pipeline.reading.reader import Reader
from pipeline.reading.release import Release
from pipeline.release.tables import MARGIN_SUFFIX, is_count
from postprocess.differences import DifferenceSums, largest, outside

#: Geounits and numbers with the largest differences that are named for each table and level.
_NAMED = 5


@dataclass(frozen=True)
class Difference:
    """Something that the two state differently; None where one does not state it."""

    key: str
    first: str | None
    second: str | None


@dataclass(frozen=True)
class Largest:
    """One number in both.

    Attributes:
        name: of the area in the first, "" where it has none.
    """

    geocode: str
    name: str
    label: str
    first: int
    second: int
    margin: float | None


@dataclass(frozen=True)
class TableComparison:
    """One table at one level.

    Attributes:
        geounits: in both; `only_first` and `only_second` count the others.
        numbers: compared.
        equal: share of numbers that are the same.
        mean_absolute: mean absolute difference, persons.
        bias: mean difference, second less first, persons.
        first_margin, second_margin: mean margins of error; None where one publishes none.
        beyond: share of differences larger than their margin, which is the root of the sum of the squared margins; None
            where there is none, or where both are of the same measurements.
    """

    universe: str
    table: str
    level: str
    geounits: int
    only_first: int
    only_second: int
    numbers: int
    equal: float
    mean_absolute: float
    bias: float
    first_margin: float | None
    second_margin: float | None
    beyond: float | None
    largest: tuple[Largest, ...]


@dataclass(frozen=True)
class Change:
    """One number of an area in both.

    Attributes:
        table: "" for the total of an area, where no table is of it.
        margin: of the difference; None where it has none.
    """

    universe: str
    table: str
    label: str
    first: int
    second: int
    margin: float | None

    @property
    def verdict(self) -> Literal["", "rose", "fell", "equal", "cannot tell"]:
        """Whether the number rose or fell by more than the margin of the difference; "" where there is none."""
        if self.margin is None:
            return ""
        difference = self.second - self.first
        if abs(difference) > self.margin:
            return "rose" if difference > 0 else "fell"
        return "cannot tell" if self.margin else "equal"


@dataclass(frozen=True)
class AreaChanges:
    """What both publish of an area; `name` is "" where it has none."""

    level: str
    geocode: str
    name: str
    changes: tuple[Change, ...]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        changes = [vars(one) | {"verdict": one.verdict} for one in self.changes]
        return {"level": self.level, "geocode": self.geocode, "name": self.name, "changes": changes}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two releases compared.

    Attributes:
        same_measurements: whether both are computed from the same noisy measurements.
        one_series: whether both are of a series whose noise is correlated over its periods.
        statements: what differs in spec, budgets and software.
        tables: what both publish.
        left_out: tables that only one of them publishes, in words.
    """

    first: Reader
    second: Reader
    same_measurements: bool
    statements: tuple[Difference, ...]
    tables: tuple[TableComparison, ...]
    left_out: tuple[str, ...]
    one_series: bool = False

    @property
    def remark(self) -> str:
        """How the differences are to be read."""
        if self.same_measurements:
            return (
                "Both are computed from the same noisy measurements: their errors are correlated, so the differences "
                "have no margin of error. They show the effect of the other method."
            )
        if self.one_series:
            return (
                "Both are of one series, whose noise is correlated over its periods: the differences have no margin of "
                "error here. `spinewise query --change` shows changes with their intervals."
            )
        return (
            "The noise of the two is independent: a difference has the margin of error sqrt(a^2 + b^2), where a and "
            "b are the margins of its two numbers. If the true counts are equal, about 10 % of differences "
            "exceed it."
        )

    def of_area(self, text: str) -> AreaChanges:
        """The numbers of one area in both: the total of each universe, where no table is of it, and table by table.

        Args:
            text: its geocode or its name in the first release; of several levels "level:code" or "level:name".

        Raises:
            InputError: there is no such area, there are several, or the second release does not have it.
        """
        level, geocode, name = _place(self.first, text)
        if level not in self.second.levels or geocode not in self.second.spine.level(level).geocodes:
            raise InputError(f"{self.second.name}: has no {level} {geocode}, which {self.first.name} has")
        changes = []
        for universe, table, *both in self._frames(level):
            labels = [one for one in both[0].columns if is_count(one)]
            left, right = (frame.loc[[geocode]] for frame in both)
            correlated = self.same_measurements or self.one_series
            margins = None if correlated else _margin_of_difference(left, right, labels)
            for column, label in enumerate(labels):
                numbers = int(left[label].iloc[0]), int(right[label].iloc[0])
                changes.append(Change(universe, table, label, *numbers, _number(margins, 0, column)))
        return AreaChanges(level, geocode, name, tuple(changes))

    def _frames(self, level: str) -> Iterator[tuple[str, str, pd.DataFrame, pd.DataFrame]]:
        """Universe, table, and the table at a level in both; before the tables, as one without name, totals.

        These are of each universe that counts and publishes no table of them.
        """
        rows = [row for row in self.tables if row.level == level]
        of = {one: self._of(one) for one in dict.fromkeys(row.universe for row in rows)}
        for universe, both in of.items():
            tables = [row.table for row in rows if row.universe == universe]
            totalled = any(table.name in tables and table.query.size == 1 for table in both[0].universe.tables)
            if not totalled and not any(one.universe.measure.remark for one in both):
                left, right = (Release(one).query("total").at(level) for one in both)
                yield universe, "", left, right
        for row in rows:
            left, right = (Release(one).table(row.table, level) for one in of[row.universe])
            yield row.universe, row.table, left, right

    def _of(self, universe: str) -> list[Reader]:
        return [one.companion(universe) if universe else one for one in (self.first, self.second)]

    def title_of(self, change: Change) -> str:
        """What a number is called for people."""
        if not change.table:
            return change.label
        return _columns(self.first, change.universe, change.table).get(change.label, change.label)

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "first": _identity(self.first),
            "second": _identity(self.second),
            "same_measurements": self.same_measurements,
            "remark": self.remark,
            "statements": [vars(statement) for statement in self.statements],
            "tables": [vars(table) | {"largest": [vars(cell) for cell in table.largest]} for table in self.tables],
            "left_out": list(self.left_out),
        }


def compare(first: Reader, second: Reader) -> Comparison:
    """Compare two releases and their companions of the same names.

    Raises:
        InputError: they have no table with a level in common.
    """
    pairs = [(first, second)]
    pairs += [(first.companion(name), second.companion(name)) for name in first.companions if name in second.companions]
    same, mixed = _measurements(first) == _measurements(second), _are_mixed(first, second)
    tables: list[TableComparison] = []
    left_out: list[str] = []
    for left, right in pairs:
        compared, missing = _tables(left, right, same or mixed)
        tables += compared
        left_out += missing
    for here, there, which in ((first, second, "first"), (second, first, "second")):
        left_out += [
            f"companion {name} is in the {which} only" for name in here.companions if name not in there.companions
        ]
    if not tables:
        raise InputError(
            f"{first.name} and {second.name} have no table in common: a table is one with the same name, labels and "
            f"level, and they publish {', '.join(first.tables)} and {', '.join(second.tables)}"
        )
    return Comparison(first, second, same, tuple(_statements(first, second)), tuple(tables), tuple(left_out), mixed)


def _place(release: Reader, text: str) -> tuple[str, str, str]:
    """Level, geocode and name of an area that is given by its geocode, the lowest level first, or by its name."""
    for level in reversed(release.levels):
        if text in release.spine.level(level).geocodes:
            names: dict[str, str] = dict(release.names(level)) if level in release.named_levels else {}
            return level, text, names.get(text, "")
    if (found := release.areas.one(text)) is None:
        raise InputError(f"{release.name}: no area has the geocode or the name {text!r}{release.areas.advice(text)}")
    return found.level, found.geocode, "" if found.name == found.geocode else found.name


def _are_mixed(first: Reader, second: Reader) -> bool:
    """Whether the numbers of both are mixed of the periods of one series."""
    one, other = first.universe.series, second.universe.series
    return one is not None and other is not None and bool(one.terms.design) and one.whole == other.whole


def _identity(release: Reader) -> dict[str, Any]:
    return {
        "release": release.name,
        "directory": str(release.run.root),
        "status": release.manifest.status,
        "budget": {statement.universe: statement.budget for statement in release.manifest.privacy},
        "promise": release.manifest.promise,
        "estimator": release.spec.postprocess.estimator,
    }


def _measurements(release: Reader) -> dict[str, str]:
    """The hashes of all measurements, by path."""
    return {name: entry.sha256 for name, entry in release.manifest.files.items() if "measurements" in name.split("/")}


def _statements(first: Reader, second: Reader) -> Iterator[Difference]:
    """What differs in the spec, and in the software."""
    parts = [(first.manifest.spec, second.manifest.spec, "")]
    here, there = first.manifest.software, second.manifest.software
    parts.append(
        ({"spinewise": here.version, **here.packages}, {"spinewise": there.version, **there.packages}, "software")
    )
    for mine, theirs, prefix in parts:
        left, right = dict(_flat(mine, prefix)), dict(_flat(theirs, prefix))
        for key in dict.fromkeys([*left, *right]):
            if left.get(key) != right.get(key):
                yield Difference(key, left.get(key), right.get(key))


def _flat(value: object, key: str) -> Iterator[tuple[str, str]]:
    """The leaves of nested data with their keys; a list of pairs is a table."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list) and value and all(_is_pair(pair) for pair in value):
        pairs = [(pair[0], pair[1]) for pair in value]
    else:
        yield key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return
    for name, item in pairs:
        yield from _flat(item, f"{key}.{name}" if key else str(name))


def _is_pair(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)


def _tables(first: Reader, second: Reader, same: bool) -> tuple[list[TableComparison], list[str]]:
    compared: list[TableComparison] = []
    missing: list[str] = []
    levels = {table.name: table.levels for table in second.universe.tables}
    for table, level in [(one, level) for one in first.universe.tables for level in one.levels]:
        where = f"{_named(first, table.name)} at {level}"
        if level not in levels.get(table.name, ()):
            missing.append(f"{where} is in the first only")
            continue
        left, right = (Release(one).table(table.name, level) for one in (first, second))
        labels = [name for name in left.columns if is_count(name)]
        if labels != [name for name in right.columns if is_count(name)]:
            missing.append(f"{where} has other columns in the two")
        elif not len(left.index.intersection(right.index)):
            missing.append(f"{where} has no geounit in common")
        else:
            names: dict[str, str] = dict(first.names(level)) if level in first.named_levels else {}
            place = (first.universe.name, table.name, level)
            compared.append(_compared(place, left, right, labels, same, names))
    own = {table.name: table.levels for table in first.universe.tables}
    for table in second.universe.tables:
        only = [level for level in table.levels if level not in own.get(table.name, ())]
        missing += [f"{_named(second, table.name)} at {level} is in the second only" for level in only]
    return compared, missing


def _named(release: Reader, table: str) -> str:
    return f"table {release.universe.name} {table}" if release.universe.name else f"table {table}"


def _compared(
    place: tuple[str, str, str],
    left: pd.DataFrame,
    right: pd.DataFrame,
    labels: list[str],
    same: bool,
    names: Mapping[str, str],
) -> TableComparison:
    universe, table, level = place
    both = left.index.intersection(right.index, sort=False)
    first, second = left.loc[both, labels].to_numpy(), right.loc[both, labels].to_numpy()
    difference, sums = second - first, DifferenceSums(len(labels))
    sums.add(second, first)
    first_margins, second_margins = _margins(left.loc[both], labels), _margins(right.loc[both], labels)
    margin = None if same else _margin_of_difference(left.loc[both], right.loc[both], labels)
    named = tuple(
        Largest(
            str(both[row]),
            names.get(str(both[row]), ""),
            labels[column],
            int(first[row, column]),
            int(second[row, column]),
            _number(margin, row, column),
        )
        for row, column in largest(np.abs(difference), _NAMED)
    )
    missed, known = (0, 0) if margin is None else outside(difference, -margin, margin)
    return TableComparison(
        universe=universe,
        table=table,
        level=level,
        geounits=len(both),
        only_first=len(left) - len(both),
        only_second=len(right) - len(both),
        numbers=difference.size,
        equal=sums.equal / difference.size,
        mean_absolute=sums.mean(sums.absolute),
        bias=sums.mean(sums.signed),
        first_margin=_mean(first_margins),
        second_margin=_mean(second_margins),
        beyond=missed / known if known else None,
        largest=named,
    )


def _margin_of_difference(left: pd.DataFrame, right: pd.DataFrame, labels: list[str]) -> np.ndarray | None:
    """The root of the sum of the squared margins, for independent noise; None where one has no margins."""
    first, second = _margins(left, labels), _margins(right, labels)
    return None if first is None or second is None else np.sqrt(first**2 + second**2)


def _margins(frame: pd.DataFrame, labels: list[str]) -> np.ndarray | None:
    names = [label + MARGIN_SUFFIX for label in labels]
    return frame[names].to_numpy(float, na_value=np.nan) if all(name in frame.columns for name in names) else None


def _number(margins: np.ndarray | None, row: int, column: int) -> float | None:
    """One of the margins; None where it is not known."""
    return None if margins is None or np.isnan(margins[row, column]) else float(margins[row, column])


def _mean(margins: np.ndarray | None) -> float | None:
    if margins is None or np.isnan(margins).all():
        return None
    return float(np.nanmean(margins))


def _columns(release: Reader, universe: str, name: str) -> dict[str, str]:
    """The labels of a table's columns that have another one."""
    of = release.companion(universe) if universe else release
    table = next(one for one in of.universe.tables if one.name == name)
    return release.spec.labels(universe).columns(table.query)
