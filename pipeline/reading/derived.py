"""What is derived from the numbers of a question, with its intervals: shares, ratios, medians, ranks, differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.area_names import Areas
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.reading.margins import answer_weights, ends_column, together
from pipeline.reading.reader import Reader
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray, Weights
from postprocess.statistics import (
    Moments,
    difference_interval,
    half_widths,
    median_interval,
    median_weights,
    rank_limits,
    ratio_interval,
    share_interval,
)


@dataclass(frozen=True, eq=False)
class AskedNumbers:
    """The numbers that a question asks for.

    Attributes:
        marginal: a query with an answer for each of them, and others.
        answers: numbers of those that are asked for.
        labels: of these.
        allowed: for each attribute, which of its values are counted.
    """

    marginal: Query
    answers: IntArray
    labels: tuple[str, ...]
    allowed: tuple[BoolArray, ...]

    @property
    def weights(self) -> Weights:
        """The numbers as weighted sums of cells."""
        return answer_weights(self.marginal.groups, self.answers)

    @property
    def whole(self) -> Weights:
        """All that is counted, once for each number."""
        return together(self.allowed, len(self.answers))


@dataclass(frozen=True, eq=False)
class Places:
    """Geounits of a level, or areas: what is derived is derived for each.

    Attributes:
        release: of the numbers.
        names: of the geounits or areas, under `index`.
        level: number of the level; None for areas.
        inside: `(n_leaves,)` of each area.
    """

    release: Reader
    names: NDArray[np.str_]
    index: str
    level: int | None = None
    inside: tuple[BoolArray, ...] = ()

    @classmethod
    def at(cls, release: Reader, level: str) -> Places:
        """The geounits of a level; InputError where there is none."""
        number = release.index_of(level)
        return cls(release, release.spine.levels[number].geocodes, "geocode", number)

    @classmethod
    def over(cls, release: Reader, areas: Areas) -> Places:
        """Areas, as `WantedNumbers.over` takes them; InputError where a code is wrong."""
        named = dict(areas) if isinstance(areas, Mapping) else {"area": areas}
        if not named:
            raise InputError("over: no area is given; a list of geocodes, or names with lists, is needed")
        inside = tuple(release.leaves_of(codes, name) for name, codes in named.items())
        return cls(release, np.array(list(named)), "area", None, inside)

    @property
    def where(self) -> list[int | FloatArray]:
        """As margins of sums take them: one level, or each area by itself."""
        return [inside.astype(np.float64) for inside in self.inside] if self.level is None else [self.level]

    def counts(self, query: Query, answers: IntArray | slice = slice(None)) -> IntArray:
        """Released numbers `(n, k)`: some answers of a query."""
        levels = self.release.levels
        if self.level is not None:
            return query.answer_csr(self.release.histogram(levels[self.level]))[:, answers]
        leaves = self.release.histogram(levels[-1])
        return np.array([query.answer_csr(leaves[inside]).sum(axis=0)[answers] for inside in self.inside])

    def moments(self, left: Weights, right: Weights) -> Moments:
        """Variances and covariances `(n, k)` of two sums."""
        found = [self.release.margins.moments(where, left, right) for where in self.where]
        return Moments(*(np.concatenate(ones) for ones in zip(*found, strict=True)))

    def exact(self, query: Query) -> BoolArray:
        """Which answers `(n, size)` are certain."""
        return np.concatenate([self.release.margins.exact(where, query.groups) for where in self.where])

    def ends(self, query: Query, counts: IntArray) -> Ends:
        """The ends `(n, size)` of the intervals of a query's answers: the published ones, else linear.

        An area that is just one geounit has those of the highest level.
        """
        if self.level is not None:
            return _ends_at(self.release, self.level, query, counts)
        found = []
        for inside, where, own in zip(self.inside, self.where, counts, strict=True):
            if (geounit := self.release.geounit_of(inside)) is None:
                found.append(np.stack(self.release.margins.ends(where, query.groups, own[None]))[:, 0])
            else:
                level, row = geounit
                found.append(np.stack(_ends_at(self.release, self.release.index_of(level), query))[:, row])
        low, high = np.stack(found, axis=1)
        return low, high

    def frame(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """A data frame of them."""
        return pd.DataFrame(dict(columns), index=pd.Index(self.names.astype(object), name=self.index))


def _ends_at(release: Reader, number: int, query: Query, counts: IntArray | None = None) -> Ends:
    """The ends of all geounits of a level, by its number; released numbers are looked up where they are needed."""
    level = release.levels[number]
    (lows, highs), there = release.published_intervals(level, query.groups)
    if not there.all():
        counts = query.answer_csr(release.histogram(level)) if counts is None else counts
        low, high = release.margins.ends(number, query.groups, counts)
        lows[:, ~there], highs[:, ~there] = low[:, ~there], high[:, ~there]
    return lows, highs


def shares(places: Places, asked: AskedNumbers) -> pd.DataFrame:
    """Each number as a share of all that is counted, in percent, with the ends of its interval."""
    counts = places.counts(asked.marginal, asked.answers)
    whole = np.repeat(counts.sum(axis=1, keepdims=True), counts.shape[1], axis=1)
    moments = places.moments(asked.weights, asked.whole)
    share, low, high = share_interval(counts.astype(np.float64), whole.astype(np.float64), moments)
    return places.frame(_interleaved(asked.labels, share, low, high))


def ratios(places: Places, asked: AskedNumbers, to: AskedNumbers) -> pd.DataFrame:
    """Each number divided by one of `to`, its only one or that with the same label.

    Raises:
        InputError: the labels differ, and `to` has several numbers.
    """
    if len(to.answers) != 1 and to.labels != asked.labels:
        raise InputError(
            f"ratio: found numbers for {', '.join(asked.labels)} and, to divide by, for {', '.join(to.labels)}; the "
            "same are needed, or one number to divide by"
        )
    right, below = to.weights, places.counts(to.marginal, to.answers)
    if len(to.answers) == 1:
        right = tuple(np.repeat(one, len(asked.answers), axis=0) for one in right)
        below = np.repeat(below, len(asked.answers), axis=1)
    counts = places.counts(asked.marginal, asked.answers).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(below > 0, counts / below, np.nan)
    low, high = ratio_interval(counts, below.astype(np.float64), places.moments(asked.weights, right))
    return places.frame(_interleaved(asked.labels, ratio, low, high))


def medians(places: Places, asked: AskedNumbers, schema: Schema) -> pd.DataFrame:
    """The value with the median of the one attribute that is asked for, in its order, and the values it may be.

    Raises:
        InputError: several attributes are asked for, or none.
    """
    position = position_of_one_attribute(asked, schema, "median")
    picked = asked.weights
    # Up to and above a value: sums of the groups of the attribute, which all else is the same for.
    values = median_weights(len(asked.labels)) @ picked[position]
    weights = tuple(values if j == position else one for j, one in enumerate(picked))
    variances = places.moments(weights, weights).left
    labels = np.array([*asked.labels, None], dtype=object)
    found = median_interval(places.counts(asked.marginal, asked.answers), variances)
    columns = ("median", "median" + LOW_SUFFIX, "median" + HIGH_SUFFIX)
    return places.frame({name: labels[number] for name, number in zip(columns, found, strict=True)})


def position_of_one_attribute(asked: AskedNumbers, schema: Schema, what: str) -> int:
    """Where the one attribute stands that a question has several values of.

    Raises:
        InputError: several attributes are asked for, or none.
    """
    used = [j for j, size in enumerate(asked.marginal.groups) if len(np.unique(size[asked.allowed[j]])) > 1]
    if len(used) != 1:
        names = " * ".join(schema.names[j] for j in used) or "no attribute"
        raise InputError(
            f"{what}: found {names}; a query of one attribute with several values, in their order, is needed"
        )
    return used[0]


def ranks(places: Places, asked: AskedNumbers) -> pd.DataFrame:
    """The rank of each geounit by each number, 1 for the largest, and the lowest and highest that it may have."""
    counts = places.counts(asked.marginal, asked.answers)
    variances = places.moments(asked.weights, asked.weights).left
    columns: dict[str, NDArray[np.generic]] = {}
    for number, label in enumerate(asked.labels):
        found = rank_limits(counts[:, number], variances[:, number])
        columns |= dict(zip((label, label + LOW_SUFFIX, label + HIGH_SUFFIX), found, strict=True))
    return places.frame(columns)


def differences(release: Reader, asked: AskedNumbers, first: Sequence[str], second: Sequence[str]) -> pd.DataFrame:
    """For each number: that of the first area, of the second, the difference, and the ends of its interval."""
    places = Places.over(release, {"first": first, "second": second})
    counts = places.counts(asked.marginal, asked.answers)
    signed = places.inside[0].astype(np.float64) - places.inside[1]
    variance = release.margins.moments(signed, asked.weights, asked.weights).left[0]
    difference = counts[0] - counts[1]
    reach = half_widths(np.sqrt(variance), least=0.0)
    columns = {
        "first": counts[0], "second": counts[1], "difference": difference,
        "difference" + LOW_SUFFIX: ends_column(difference - reach),
        "difference" + HIGH_SUFFIX: ends_column(difference + reach),
    }  # fmt: skip
    return pd.DataFrame(columns, index=pd.Index(list(asked.labels), name="number", dtype=object))


def compared(release: Reader, asked: AskedNumbers, first: Sequence[str], second: Sequence[str]) -> pd.DataFrame:
    """For each number of two areas: the difference, that of its shares, and the ratio, each with its 90 % interval.

    Returns:
        A row for each number. "differs" and "shares differ" say whether 0 is outside the interval of the difference:
        of areas that are equal in truth, about one in ten differs, or fewer. Shares are in percent of all that is asked
        for, their difference is in points.
    """
    found = differences(release, asked, first, second)
    places = Places.over(release, {"first": first, "second": second})
    counts = places.counts(asked.marginal, asked.answers).astype(np.float64)
    own, both = _moments_of_two(places, asked.weights, asked.whole)
    totals = np.repeat(counts.sum(axis=1, keepdims=True), counts.shape[1], axis=1)
    percent, low, high = share_interval(counts, totals, own)
    pooled = np.divide(counts.sum(axis=0), totals.sum(axis=0), out=np.zeros(counts.shape[1]), where=totals[0] > 0)
    # Numbers are whole: half a person more at either end, as where differences of numbers are rounded.
    with np.errstate(divide="ignore"):
        step = (25.0 / totals).sum(axis=0)
    gap, gap_low, gap_high = difference_interval(percent, low, high, _correlation(own, both, pooled))
    gap_low, gap_high = gap_low - step, gap_high + step
    between = Moments(own.left[:1], own.left[1:], both.left[None])
    ratio = np.divide(counts[0], counts[1], out=np.full(counts.shape[1], np.nan), where=counts[1] > 0)
    ratio_low, ratio_high = ratio_interval(counts[:1], counts[1:], between)
    above, below = found["difference" + LOW_SUFFIX] > 0, found["difference" + HIGH_SUFFIX] < 0
    return found.assign(
        differs=(above | below).fillna(False).astype(bool),
        **{
            "share difference": gap,
            "share difference" + LOW_SUFFIX: gap_low,
            "share difference" + HIGH_SUFFIX: gap_high,
            "shares differ": (gap_low > 0) | (gap_high < 0),
            "ratio": ratio,
            "ratio" + LOW_SUFFIX: ratio_low[0],
            "ratio" + HIGH_SUFFIX: ratio_high[0],
        },
    )


def _moments_of_two(places: Places, left: Weights, right: Weights) -> tuple[Moments, Moments]:
    """The moments `(2, k)` of two areas, and the covariances `(k,)` between them, from (x + y)^2 - x^2 - y^2 = 2 x y.

    Those are of both left sums, of both right sums, and the mean of one area's left with the other's right.
    """
    own = places.moments(left, right)
    joined = places.inside[0].astype(np.float64) + places.inside[1]
    found = places.release.margins.moments(joined, left, right)

    def common(name: str) -> FloatArray:
        alone = getattr(own, name)
        # What is exact varies with nothing.
        return np.where((alone == 0).any(axis=0), 0.0, 0.5 * (getattr(found, name)[0] - alone.sum(axis=0)))

    return own, Moments(common("left"), common("right"), common("both"))


def _correlation(own: Moments, both: Moments, share: FloatArray) -> FloatArray:
    """Of the errors of two shares that are both about `share`, `(k,)`; 0 where one is exact."""
    errors = own.left - 2.0 * share * own.both + share**2 * own.right
    product = np.sqrt(np.maximum(errors[0] * errors[1], 0.0))
    common = both.left - 2.0 * share * both.both + share**2 * both.right
    return np.clip(np.divide(common, product, out=np.zeros_like(common), where=product > 0), -1.0, 1.0)


def _interleaved(
    labels: Sequence[str], values: FloatArray, low: FloatArray, high: FloatArray
) -> dict[str, NDArray[np.generic]]:
    columns: dict[str, NDArray[np.generic]] = {}
    for number, label in enumerate(labels):
        columns[label] = values[:, number]
        columns[label + LOW_SUFFIX], columns[label + HIGH_SUFFIX] = low[:, number], high[:, number]
    return columns
