"""A revision: one history of the releases of a series so far, and tables of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from features.years.chain import InSeries, check_exact, name_at, released
from features.years.design import Design, independent, mixed_again, unmixed
from features.years.history import (
    VERDICTS,
    ChangeModel,
    ExactAnswers,
    LevelHistory,
    PeriodNumbers,
    SeriesQuery,
    answers_of,
    change_precisions,
    histories,
    numbers_of,
    whole_histories,
)
from geography.errors import InputError
from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.estimation.constraints import (
    carried_constraints,
    declared_constraints,
    facility_bounds,
    published_facilities,
)
from pipeline.estimation.problem import invariants_of
from pipeline.model.draw import Draw, by_level
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.published import open_finished, release_at
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.problem import Constraints

#: Numbers that are kept of all geounits together: covariances of their histories.
MOST_NUMBERS: Final = 2 * 10**8


@dataclass(frozen=True, eq=False)
class Revision:
    """A history of some periods of a series.

    Attributes:
        releases: that it is made of, first to last.
        universe, spine: of the last of them.
        possible: `(cells,)` False for structural zeros; what follows has the possible cells alone, c of them.
        plain, modelled: of each level linear estimates without and with a model of change; the same twice without one.
        changes: of each level what the model has found; None at the top, and without a model.
        whole: of each level non-negative whole numbers `(n, T, c)` that add up in every period.
    """

    releases: tuple[InSeries, ...]
    universe: Universe
    spine: Spine
    possible: BoolArray
    plain: Sequence[LevelHistory]
    modelled: Sequence[LevelHistory]
    changes: Sequence[ChangeModel | None]
    whole: Sequence[IntArray]

    @cached_property
    def periods(self) -> tuple[str, ...]:
        """Names of the periods, first to last."""
        return tuple(str(one.section.period) for one in self.releases)

    def number(self, period: str) -> int:
        """Which period that is, from 0; InputError where there is no release of it."""
        if period not in self.periods:
            raise InputError(f"period {period}: there are releases of {', '.join(self.periods)}")
        return self.periods.index(period)

    def numbers(self, level: str, cells: FloatArray, period: int, since: int | None = None) -> PeriodNumbers:
        """The sum of some cells, of `(cells,)`, in a period or as its change since another, of a level's geounits."""
        at = self.spine.index_of(level)
        return numbers_of(self.whole[at], self.plain[at], self.modelled[at], cells[self.possible], period, since)


def series_at(folder: Path) -> tuple[InSeries, ...]:
    """The releases of a series so far, first to last: of a folder with them, or of the one that a release is of.

    Raises:
        InputError: there is no release of a series, there are several series, one release does not follow another, or
            other cells are impossible or other sums exact in it.
    """
    run = RunDirectory(folder)
    if run.manifest.is_file() or folder.absolute().name == "public":
        return _chain(released(release_at(folder)))
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; a release of a series, or the folder with all of them is needed")
    first: dict[tuple[str, str], InSeries] = {}
    for path in sorted(folder.iterdir()):
        if (path / "public" / "manifest.json").is_file():
            try:
                one = released(RunDirectory(path))
            except InputError:
                continue  # a release of no series
            first.setdefault((one.section.name, one.base), one)
    if len(first) != 1:
        found = ", ".join(f"{name} ({base})" for name, base in sorted(first)) or "none"
        raise InputError(f"{folder}: found {found}; the folder of one series is needed, or one of its releases")
    (one,) = first.values()
    return _chain(one)


def _chain(one: InSeries) -> tuple[InSeries, ...]:
    """All releases beside it from the first period on, as far as there are any, each after the one before."""
    folder, base = one.run.root.resolve().parent, one.base
    found: list[InSeries] = []
    for period in one.section.series.periods:
        run = RunDirectory(folder / name_at(base, period))
        if not run.manifest.is_file():
            break
        each = released(run)
        due = found[-1].hash if found else "first"
        if (each.section.series, each.section.terms) != (one.section.series, one.section.terms):
            raise InputError(f"{run.root}: of another series than {one.run.root}")
        if each.section.predecessor != due or each.section.period != period:
            raise InputError(f"{run.root}: does not follow the release of the period before it as that is now")
        if found:
            check_exact(each.spec.universes()[0], found[0].spec.universes()[0], str(run.root), found[0].run)
        found.append(each)
    if str(one.section.period) not in [str(each.section.period) for each in found]:
        missing = one.section.series.periods[len(found)]
        raise InputError(f"{folder}: there is no release of {missing}, and one of {one.section.period}")
    return tuple(found)


def revised(releases: Sequence[InSeries], *, model: bool = False) -> Revision:
    """The history of releases of a series.

    Args:
        releases: of `series_at`.
        model: whether numbers are expected to grow as those of the area above do, see `history`, also where the spec
            of the last release does not ask for it.

    Raises:
        InputError: the releases have what a history does not know, or it would be too large.
        ReleaseError: a file is damaged, or not the one that its manifest lists.
    """
    last = open_finished(releases[-1].run.root, check_hashes=False)
    universe, spine = last.universes[0], last.spine
    possible = ~universe.structural_zeros
    kept, exact = _kept(releases, universe, spine), _exact(releases, universe, spine)
    _check(releases, universe, spine, exact)
    design = _design(universe, len(releases))
    measured = [
        [_query(releases, design, universe, spine, draw) for draw in level]
        for level in by_level(universe.draws(), spine.level_names)
    ]
    plain = histories(spine, design, measured, None, exact)
    modelled: Sequence[LevelHistory] = plain
    changes: list[ChangeModel | None] = [None] * spine.n_levels
    if model and len(releases) > 1:
        precisions, changes = change_precisions(spine, plain)
        modelled = histories(spine, design, measured, precisions, exact)
    whole = whole_histories(spine, modelled, last.spec.postprocess.seed, exact, kept)
    return Revision(tuple(releases), universe, spine, possible, plain, modelled, changes, whole)


def _kept(releases: Sequence[InSeries], universe: Universe, spine: Spine) -> list[Constraints]:
    """What the numbers of each period keep, from its own public files."""
    found = []
    for one in releases:
        folder = one.files_of(universe.name)
        own = one.spec.universes()[0]
        bounds = facility_bounds(own, published_facilities(folder, own, spine))
        declared = declared_constraints(own, spine, bounds, invariants_of(folder, universe, spine))
        found.append(carried_constraints(spine, declared))
    return found


def _exact(releases: Sequence[InSeries], universe: Universe, spine: Spine) -> list[ExactAnswers | None]:
    """The invariants of each level and of those below it, added up."""
    published = [invariants_of(one.files_of(universe.name), universe, spine) for one in releases]
    known: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in spine.levels]
    for level, query in universe.invariants:
        values = np.array([answers[level, query.name] for answers in published], dtype=np.float64)
        for at in range(spine.index_of(level), -1, -1):
            known[at].append((_matrix(query)[:, ~universe.structural_zeros], values))
            if at:
                sums = np.zeros((len(values), len(spine.levels[at - 1]), values.shape[2]))
                np.add.at(sums.transpose(1, 0, 2), spine.levels[at].parents, values.transpose(1, 0, 2))
                values = sums
    return [
        ExactAnswers(np.concatenate([rows for rows, _ in some]), np.concatenate([values for _, values in some], axis=2))
        if some
        else None
        for some in known
    ]


def _design(universe: Universe, periods: int) -> Design:
    """Of the periods so far: the first rows of the whole."""
    assert universe.series is not None, "a release of a series"
    terms = universe.series.terms
    if not terms.design:
        return independent(periods, terms.spells, universe.neighbours)
    return Design(terms.design[:periods], terms.spells, universe.neighbours)


def _check(
    releases: Sequence[InSeries], universe: Universe, spine: Spine, exact: Sequence[ExactAnswers | None]
) -> None:
    """InputError for what a history does not know, and for one that is too large."""
    if any(one.spec.universes()[0].facts for one in releases):
        raise InputError("a history does not know public shares, which these releases have")
    cells = int((~universe.structural_zeros).sum())
    levels = by_level(universe.draws(), spine.level_names)
    for name, draws, known in zip(spine.level_names, levels, exact, strict=True):
        rows = [_matrix(draw.query)[:, ~universe.structural_zeros] for draw in draws]
        rows += [] if known is None else [known.matrix]
        if not draws or np.linalg.matrix_rank(np.concatenate(rows)) < cells:
            raise InputError(
                f"level {name!r}: a history needs queries there that determine every cell, such as detailed; "
                f"these are {', '.join(draw.query.name for draw in draws) or 'none'}"
            )
    periods = len(releases)
    numbers = sum(map(len, spine.levels)) * (periods * cells) ** 2
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"a history of {periods} periods, {cells} cells and {sum(map(len, spine.levels)):,} geounits keeps "
            f"{numbers:,} covariances; at most {MOST_NUMBERS:,} are computed yet"
        )


def _matrix(query: Query) -> FloatArray:
    """`(size, c)`: which cells each answer sums."""
    return (np.arange(query.size)[:, None] == query.cell_answer[None, :]).astype(np.float64)


def _query(releases: Sequence[InSeries], design: Design, universe: Universe, spine: Spine, draw: Draw) -> SeriesQuery:
    """What was measured of one query at one level in all periods, solved for the counts of each."""
    stored = []
    for one in releases:
        path = one.unchanged(one.run.main.measurement(draw.level, draw.query.name))
        found = read_measurement(path)
        if not np.array_equal(found.geocodes, spine.level(draw.level).geocodes):
            raise ReleaseError(f"{path}: has other geounits than the last release; a series has one spine")
        stored.append(found.values)
    values = np.array(unmixed(design, mixed_again(design, stored)))
    matrix = _matrix(draw.query)[:, ~universe.structural_zeros]
    return SeriesQuery(matrix, values, draw.drawn[0].variance)


#: Of the column that says whether a number fell, rose, or cannot be told to have.
DIRECTION_SUFFIX = ":direction"


def periods_of(text: str) -> tuple[str, str]:
    """The two periods of "2031..2033"; InputError where these are not two."""
    first, between, last = text.partition("..")
    if not between or not first or not last or ".." in last:
        raise InputError(f"--change: found {text!r}; two periods are needed, such as 2031..2033")
    return first, last


def changes(
    release: Path, query: str, conditions: Mapping[str, Sequence[str]], level: str, between: str
) -> pd.DataFrame:
    """How much the answers of a query have changed, of all geounits of a level: for `spinewise query --change`.

    Args:
        release: a release of the series; the others are beside it.
        query: as `spinewise query` takes it.
        conditions: term -> the values of it that are counted.
        level: of the geounits.
        between: two periods, "2031..2033".

    Raises:
        InputError: a name is unknown, or there is no release of a period.
    """
    first, last = periods_of(between)
    if first == last:
        raise InputError(f"--change: found period {first} twice; two different periods are needed")
    revision = revised(series_at(release))
    if level not in revision.spine.level_names:
        raise InputError(f"--at: found {level!r}; the levels are {', '.join(revision.spine.level_names)}")
    kept = np.ones(revision.universe.schema.n_cells)
    for term, values in conditions.items():
        condition = Query.parse(term, revision.universe.schema, where="--where")
        labels = condition.answer_labels()
        if unknown := [value for value in values if value not in labels]:
            raise InputError(f"--where {term}: found {unknown[0]!r}; allowed are {', '.join(labels)}")
        kept *= np.isin(condition.cell_answer, [labels.index(value) for value in values])
    asked = Query.parse(query, revision.universe.schema, where="query")
    return history_table(revision, asked, level, revision.number(last), revision.number(first), kept)


def history_table(
    revision: Revision, query: Query, level: str, period: int, since: int | None = None, kept: FloatArray | None = None
) -> pd.DataFrame:
    """One row a geounit: of each answer the number in a period, or its change, and the ends of its interval.

    Of a change its direction, too.

    Args:
        revision: a history.
        query: whose answers.
        level: of the geounits.
        period, since: from 0; without the latter, numbers of the period and no changes.
        kept: `(c,)` 1 for the cells that are counted, else 0; default: all.
    """
    columns: dict[str, object] = {}
    for label, cells in answers_of(query, kept):
        numbers = revision.numbers(level, cells, period, since)
        columns |= {label: numbers.values, label + LOW_SUFFIX: numbers.low, label + HIGH_SUFFIX: numbers.high}
        if since is not None:
            columns[label + DIRECTION_SUFFIX] = [VERDICTS[one + 1] for one in numbers.directions.tolist()]
    index = pd.Index(revision.spine.level(level).geocodes.astype(object), name="geocode")
    return pd.DataFrame(columns, index=index)
