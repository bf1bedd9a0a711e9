"""Fitness from what is public: intervals, draws and the variances of sums; no true count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from features.fitness.fitness import Threshold, threshold
from features.fitness.table import MOST_GROUPS, TableFitness, empty_fitness
from pipeline.model.texts.message import message
from pipeline.model.universe import Table
from pipeline.pages.templates import Called
from pipeline.reading.margins import answer_weights, together
from pipeline.reading.reader import Reader
from pipeline.reading.release import Release
from pipeline.release.tables import read_table_parts
from postprocess.arrays import IntArray
from postprocess.largest_group import POINTS
from postprocess.statistics import NORMAL_QUANTILE as QUANTILE

#: Draws that are larger than this in all, in numbers, are not used.
MOST_DRAWN = 50_000_000

INTERVALS = message(
    "the widths of published 90 % intervals, as of normal errors; percent errors are of published numbers. The "
    "intervals of small counts, 0 above all, are wide, so that their errors are overstated: two to three times where "
    "most counts are 0, and far more for groups with hardly anybody"
)
DRAWS = message("draws of what the truth may be, which are linear: they overstate the errors of small counts")
SIGNS = message("the signs and the shares of the largest group from draws of what the truth may be")


def public_tables(release: Reader, counted: Reader) -> list[TableFitness]:
    """The expected fitness of every table of one universe that has intervals or draws.

    Args:
        release: of the universe.
        counted: the universe that has the number of its records; see `Reader.counted`.
    """
    people = {level: np.asarray(counted.histogram(level).sum(axis=1)).ravel() for level in release.levels}
    places = ((table, level) for table in release.universe.tables for level in release.levels if level in table.levels)
    found = (_public_table(release, table, level, people[level]) for table, level in places)
    return [fitness for fitness in found if fitness is not None]


def _public_table(release: Reader, table: Table, level: str, people: IntArray) -> TableFitness | None:
    """The same of one table at a level, in whose areas so many people `(n,)` are published."""
    drawn = _by_draws(release, table, level, people)
    if not release.spec.publish.margins:
        return drawn
    fitness = _by_intervals(release, table, level, people)
    if drawn is not None:
        fitness.take_signs(drawn)
        fitness.basis = message("{first}; {second}", first=INTERVALS, second=SIGNS)
    elif 1 < table.query.size <= MOST_GROUPS and fitness.counts:
        _add_target(fitness, release, table, level)
    return fitness


def _by_intervals(release: Reader, table: Table, level: str, people: IntArray) -> TableFitness:
    fitness = empty_fitness(release.universe, release.labels, table, level, INTERVALS)
    first = 0
    geocodes = release.spine.level(level).geocodes
    path = release.files.readable(release.files.table(table.name, level))
    for part in read_table_parts(path, geocodes=geocodes):
        if part.lows is not None and part.highs is not None:
            inside = people[first : first + len(part.counts)]
            fitness.add_expected(part.counts, (part.highs - part.lows) / (2 * QUANTILE), inside)
        first += len(part.counts)
    return fitness


def _by_draws(release: Reader, table: Table, level: str, people: IntArray) -> TableFitness | None:
    """From draws; None where there are none, too many, or where they leave a number open."""
    count, n = release.spec.publish.draws, len(release.spine.level(level))
    if not count or count * n * table.query.size > MOST_DRAWN:
        return None
    drawn = release.draws(table.name, level).to_numpy().reshape(count, n, table.query.size)
    if np.isnan(drawn).any():
        return None
    published = table.query.answer_csr(release.histogram(level))
    fitness = empty_fitness(release.universe, release.labels, table, level, DRAWS)
    for truth in drawn:
        fitness.add(published, truth, people, weight=1 / count)
    return fitness


def _add_target(fitness: TableFitness, release: Reader, table: Table, level: str) -> None:
    """The probability of each area to be within the points, by the variance of the share of its largest group.

    The share p = x / t has, to first order, the variance (Var x - 2 p Cov(x, t) + p^2 Var t) / t^2.
    """
    query, number = table.query, release.index_of(level)
    published = query.answer_csr(release.histogram(level))
    everybody = [np.ones(len(group), dtype=np.bool_) for group in query.groups]
    moments = release.margins.moments(
        number,
        answer_weights(query.groups, np.arange(query.size)),
        together(everybody, query.size),
    )
    group = published.argmax(axis=1)[:, None]
    left, right, both = (np.take_along_axis(one, group, 1)[:, 0] for one in (moments.left, moments.right, moments.both))
    people = published.sum(axis=1)
    inhabited = np.maximum(people, 1)
    share = np.take_along_axis(published, group, 1)[:, 0] / inhabited
    variance = np.maximum(left - 2 * share * both + share**2 * right, 0.0) / inhabited**2
    if np.isnan(variance).any():
        return
    with np.errstate(divide="ignore"):
        z = POINTS / 100 / np.sqrt(variance)
    fitness.target_sums.add(people, np.where(variance == 0, 1.0, 2 * ndtr(z) - 1))


def public_thresholds(
    release: Reader, thresholds: Sequence[int], levels: Sequence[str], truths: dict[str, IntArray]
) -> list[Threshold]:
    """Thresholds of the number of people at some levels; `truths` has true numbers `(n,)` of levels, where known."""
    found = []
    for level in levels:
        numbers = Release(release).query("total").at(level)
        spread = numbers["total:moe90"].to_numpy(np.float64, na_value=np.nan) / QUANTILE
        published = numbers["total"].to_numpy(dtype=np.int64)
        geocodes = release.spine.level(level).geocodes
        names = dict(release.names(level)) if level in release.named_levels else {}
        words = Called(level=release.labels.level(level), names=names)
        found += [
            threshold(release.universe.name, level, people, geocodes, published, spread, truths.get(level), words)
            for people in thresholds
        ]
    return found
