"""A question to a release: which numbers, of whom, for which areas."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from geography.spine import first_few
from pipeline.errors import InputError
from pipeline.model.area_names import Areas, folded
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.reading import derived
from pipeline.reading.derived import AskedNumbers, Places
from pipeline.reading.margins import ends_column
from pipeline.reading.reader import Reader
from pipeline.release.tables import INTERVAL_SUFFIXES, check_labels, margins_of
from pipeline.storage.paths import local_name
from postprocess.arrays import BoolArray, IntArray

#: The two forms of a list: by areas of one's own, and as `[geography.regroup]` has places and reservations.
_OWN, _OFF_SPINE = ("area", "geocode"), ("kind", "code", "geocode")


def areas_of_file(file: Path) -> dict[str, list[str]]:
    """Area -> geocodes of a CSV or Parquet file, in the order of first appearance.

    The file has the columns area and geocode; or, of areas off the spine, kind, code, geocode, and a name if there is
    one. These are called "Providence (place 4459000)".

    Raises:
        InputError: it cannot be read, lacks a column, or has two names for an area off the spine.
    """
    try:
        if file.suffix == ".parquet":
            frame = pd.read_parquet(local_name(file)).astype("string").fillna("")
        else:
            frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise InputError(f"--areas {file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, UnicodeDecodeError):
        raise InputError(
            f"--areas {file}: is no CSV or Parquet file; one with the columns area and geocode is needed"
        ) from None
    form = _OFF_SPINE if "area" not in frame.columns and "kind" in frame.columns else _OWN
    if missing := [name for name in form if name not in frame.columns]:
        raise InputError(f"--areas {file}: no column {missing[0]!r}; its columns are {', '.join(frame.columns)}")
    keys = frame["area"] if form is _OWN else _off_spine(file, frame)
    parts = frame["geocode"].groupby(keys.to_numpy(), sort=False)
    return {str(name): [str(code) for code in part] for name, part in parts}


def picked(areas: Mapping[str, list[str]], wanted: Sequence[str], file: Path) -> dict[str, list[str]]:
    """Those of a file's areas that are called so: by all that they are called, by name, or by kind and code.

    Case and blanks do not count.

    Raises:
        InputError: none is called so, or several are.
    """
    found = {}
    for text in wanted:
        same = [name for name in areas if folded(text) in {folded(part) for part in (name, *_parts(name))}]
        if len(same) != 1:
            close = difflib.get_close_matches(text, [part for name in areas for part in (name, *_parts(name))], n=1)
            hint = f": {', '.join(same[:5])}" if same else f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"--area: {len(same) or 'none'} of the areas of {file} are called {text!r}{hint}")
        found[same[0]] = areas[same[0]]
    return found


def _parts(name: str) -> tuple[str, ...]:
    """ "Providence (place 4459000)" -> "Providence", "place 4459000"."""
    own, bracket, code = name.removesuffix(")").partition(" (")
    return (own, code) if bracket and name.endswith(")") else ()


def _off_spine(file: Path, frame: pd.DataFrame) -> pd.Series[str]:
    """What the area of each row is called."""
    code = frame["kind"] + " " + frame["code"]
    if "name" not in frame.columns:
        return code
    names = frame["name"].str.strip()
    several = names.groupby(code.to_numpy(), sort=False).unique()
    if (twice := several[several.map(len) > 1]).size:
        first: Sequence[str] = twice.iloc[0]
        raise InputError(
            f"--areas {file}: area {twice.index[0]!r} has two names: {first[0]!r} and {first[1]!r}; one is allowed"
        )
    return (names + " (" + code + ")").where(names != "", code)


#: Column with the sum of all numbers of a row, where there are several.
SUM = "sum"


@dataclass(frozen=True, eq=False)
class WantedNumbers:
    """Numbers of a release that are to be had, for geounits by `at` and for any other areas by `over`.

    Attributes:
        release: which one.
        query: one number for each combination of its terms.
        allowed: for each attribute of the schema, which of its values are counted.
        conditions: how `where` was called, for people.
    """

    release: Reader
    query: Query
    allowed: tuple[BoolArray, ...]
    conditions: tuple[str, ...] = field(default=())

    def where(self, **values: str | Sequence[str]) -> WantedNumbers:
        """Only these values of attributes or recodes: `where(race="black", votingage=["18plus"])`.

        Raises:
            InputError: there is no such attribute, recode or value, or nobody is left.
        """
        schema, allowed = self.release.schema, list(self.allowed)
        conditions = list(self.conditions)
        for term, wanted in values.items():
            chosen = [wanted] if isinstance(wanted, str) else list(wanted)
            position, kept = _values(schema, term, chosen)
            allowed[position] = allowed[position] & kept
            conditions.append(f"{term} = {' or '.join(chosen)}")
            if not allowed[position].any():
                raise InputError(
                    f"where: {' and '.join(conditions)}: no value of {schema.names[position]} is all of these"
                )
        return replace(self, allowed=tuple(allowed), conditions=tuple(conditions))

    def at(self, level: str) -> pd.DataFrame:
        """For every geounit of a level: each number with its 90 % interval, and their sum.

        The columns are those of a table ("<label>", "<label>:moe90", "<label>:low90", "<label>:high90"). A number that
        stands in a published table has the interval that is published with it, whatever it was asked for as. All others
        have those of the linear estimate, with all covariances.

        Raises:
            InputError: there is no such level.
        """
        return self._numbers(Places.at(self.release, level))

    def over(self, areas: Areas) -> pd.DataFrame:
        """The same for areas of one's own, each a list of geocodes or names: leaves, or geounits of any level.

        An area that is just one geounit has its numbers and margins, those of its highest level.

        Args:
            areas: name -> geocodes, or the geocodes of one area.

        Raises:
            InputError: a geocode is not in the release, counts twice in one area, or a name is of several areas.
        """
        return self._numbers(Places.over(self.release, areas))

    def exact_at(self, level: str) -> pd.DataFrame:
        """Which numbers of `at` are certain; a margin of 0 alone does not say so.

        Raises:
            InputError: there is no such level.
        """
        return self._exact(Places.at(self.release, level))

    def exact_over(self, areas: Areas) -> pd.DataFrame:
        """Which numbers of `over` are exact.

        Raises:
            InputError: as in `over`.
        """
        return self._exact(Places.over(self.release, areas))

    def shares_at(self, level: str) -> pd.DataFrame:
        """For every geounit of a level: each number in percent of their sum, and its interval (":low90", ":high90").

        Raises:
            InputError: there is no such level.
        """
        return derived.shares(Places.at(self.release, level), self._asked())

    def shares_over(self, areas: Areas) -> pd.DataFrame:
        """The shares of areas taken together, as in `over`."""
        return derived.shares(Places.over(self.release, areas), self._asked())

    def ratios_at(self, level: str, to: WantedNumbers) -> pd.DataFrame:
        """For every geounit of a level: each number divided by that of another question, and the ratio's interval.

        Args:
            level: of the geounits.
            to: with one number, or with the same labels.

        Raises:
            InputError: there is no such level, or `to` has other labels, or is of another release, companion or clique.
        """
        return derived.ratios(Places.at(self.release, level), self._asked(), self._asked_of_the_same(to))

    def ratios_over(self, areas: Areas, to: WantedNumbers) -> pd.DataFrame:
        """The ratios of areas taken together, as in `over`."""
        return derived.ratios(Places.over(self.release, areas), self._asked(), self._asked_of_the_same(to))

    def medians_at(self, level: str) -> pd.DataFrame:
        """For every geounit of a level: the median of the one attribute asked for, by the order of its values.

        Raises:
            InputError: there is no such level, or another number of attributes than one is asked for.
        """
        return derived.medians(Places.at(self.release, level), self._asked(), self.release.schema)

    def medians_over(self, areas: Areas) -> pd.DataFrame:
        """The medians of areas taken together, as in `over`."""
        return derived.medians(Places.over(self.release, areas), self._asked(), self.release.schema)

    def cumulative_at(self, level: str) -> pd.DataFrame:
        """For every geounit of a level: how many have each value of the one attribute asked for, or one before it.

        The columns are "up to <value>", as those of `at`; the last is the sum of all.

        Raises:
            InputError: there is no such level, or another number of attributes than one is asked for.
        """
        return self._cumulated(lambda question: question.at(level))

    def cumulative_over(self, areas: Areas) -> pd.DataFrame:
        """The cumulative numbers of areas taken together, as in `over`."""
        return self._cumulated(lambda question: question.over(areas))

    def ranks_at(self, level: str) -> pd.DataFrame:
        """The rank of every geounit of a level by each number, 1 for the largest, and which ranks it may have.

        All true ranks of a number are within their limits at once, with 90 % or more.

        Raises:
            InputError: there is no such level.
        """
        return derived.ranks(Places.at(self.release, level), self._asked())

    def difference(self, first: Sequence[str], second: Sequence[str]) -> pd.DataFrame:
        """Each number in one area less that in another, both as in `over`, with the interval of the difference.

        Raises:
            InputError: as in `over`.
        """
        return derived.differences(self.release, self._asked(), first, second)

    def compared(self, first: Sequence[str], second: Sequence[str]) -> pd.DataFrame:
        """Each number of two areas, as in `over`: difference, difference of shares, ratio, and whether they differ.

        See `pipeline.reading.derived.compared`; the report's page gives the same figures.

        Raises:
            InputError: as in `over`.
        """
        return derived.compared(self.release, self._asked(), first, second)

    def _asked(self) -> AskedNumbers:
        marginal, kept, labels = self._marginal()
        return AskedNumbers(marginal, kept, labels, self.allowed)

    def _asked_of_the_same(self, to: WantedNumbers) -> AskedNumbers:
        """What another question asks for, of the same numbers: those of others have errors and cells of their own."""
        if not self.release.are_those_of(to.release):
            other = "another release of that name" if to.release.name == self.release.name else to.release.name
            raise InputError(
                f"ratio: found numbers of {self.release.name} and, to divide by, of {other}; both have to be of the "
                "same records in one release, and with [marginals] of one clique: divide counts of `at` or `over`"
            )
        return to._asked()

    def _cumulated(self, asked: Callable[[WantedNumbers], pd.DataFrame]) -> pd.DataFrame:
        position = derived.position_of_one_attribute(self._asked(), self.release.schema, "cumulative")
        group, labels = self.query.groups[position], self.query.labels[position]
        everybody = replace(
            self.query, groups=tuple(map(np.zeros_like, self.query.groups)), labels=((),) * len(self.query.groups)
        )
        (total,) = everybody.answer_labels()
        frames = []
        for last in np.unique(group[self.allowed[position]]):
            allowed = list(self.allowed)
            allowed[position] = allowed[position] & (group <= last)
            frame = asked(replace(self, query=everybody, allowed=tuple(allowed)))
            names = {name: name.replace(total, f"up to {labels[last]}", 1) for name in frame.columns}
            frames.append(frame.rename(columns=names))
        return pd.concat(frames, axis=1)

    def _parts(self) -> tuple[list[tuple[Query, IntArray]], list[str]]:
        """Queries with the answers that are shown, and what these are called: each number, and the sum of several."""
        marginal, kept, labels = self._marginal()
        if len(labels) == 1:
            return [(marginal, kept)], list(labels)
        whole = SUM if SUM not in labels else "sum of these"
        return [(marginal, kept), (self._together(), np.zeros(1, dtype=np.int64))], [*labels, whole]

    def _numbers(self, places: Places) -> pd.DataFrame:
        """Each number with its interval, and their sum, of geounits or areas."""
        (parts, labels), columns = self._parts(), dict[str, Any]()
        of_parts = []
        for query, kept in parts:
            counts = places.counts(query)
            of_parts.append([each[:, kept] for each in (counts, *places.ends(query, counts))])
        for label, *number in zip(labels, *(np.hstack(each).T for each in zip(*of_parts, strict=True)), strict=True):
            counts, lows, highs = number
            columns[label] = counts
            for suffix, values in zip(INTERVAL_SUFFIXES, (margins_of(counts, lows, highs), lows, highs), strict=True):
                columns[label + suffix] = ends_column(values)
        return places.frame(columns)

    def _exact(self, places: Places) -> pd.DataFrame:
        parts, labels = self._parts()
        exact = np.hstack([places.exact(query)[:, kept] for query, kept in parts])
        return places.frame(dict(zip(labels, exact.T, strict=True)))

    def _marginal(self) -> tuple[Query, IntArray, tuple[str, ...]]:
        """The query with one group more for what is left out, the numbers of the answers that stay, their labels.

        Raises:
            InputError: the labels cannot be columns side by side.
        """
        groups, sizes, value_labels = [], [], []
        kept = np.ones(1, dtype=bool)
        for group, names, mask in zip(self.query.groups, self.query.labels, self.allowed, strict=True):
            used = np.unique(group[mask])
            groups.append(np.where(mask, np.searchsorted(used, group), len(used)).astype(np.int64))
            sizes.append(tuple(map(str, range(len(used) + (not mask.all())))))
            value_labels.append(tuple(names[int(value)] for value in used) if names else ())
            stays = np.arange(len(sizes[-1])) < len(used)
            kept = (kept[:, None] & stays[None, :]).ravel()
        marginal = replace(self.query, groups=tuple(groups), labels=tuple(sizes))
        labels = replace(self.query, labels=tuple(value_labels)).answer_labels()
        check_labels(f'query "{self.query.name}"', labels)
        return marginal, np.flatnonzero(kept).astype(np.int64), labels

    def _together(self) -> Query:
        """Everybody who is counted as one answer, number 0."""
        groups = tuple((~mask).astype(np.int64) for mask in self.allowed)
        labels = tuple(("in",) if mask.all() else ("in", "out") for mask in self.allowed)
        return replace(self.query, groups=groups, labels=labels)

    def __repr__(self) -> str:
        limits = f" where {' and '.join(self.conditions)}" if self.conditions else ""
        levels = ", ".join(repr(name) for name in self.release.levels)
        return f"{self.query.name}{limits}, of {self.release.name}; .at(level) with {levels}, or .over(areas)"


def _values(schema: Schema, term: str, chosen: Sequence[str]) -> tuple[int, BoolArray]:
    """The attribute that a term is about, and which of its values are in the chosen ones."""
    if term not in schema.terms:
        raise InputError(f"where: {term!r} is no attribute or recode; allowed are {', '.join(schema.terms)}")
    recode, known = schema.recode(term), schema.terms[term]
    attribute = schema.attribute(term if recode is None else recode.attribute)
    unknown = [value for value in chosen if value not in known]
    if unknown or not chosen:
        given = first_few(unknown) if unknown else "no value"
        raise InputError(f"where: {term}: found {given}; its values are {', '.join(known)}")
    if recode is None:
        kept = np.array([value in chosen for value in attribute.values])
    else:
        kept = np.isin(recode.group_of_value(attribute), [known.index(value) for value in chosen])
    return schema.names.index(attribute.name), kept
