"""All that is found of a release's fitness, as data and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from scipy.special import ndtr

from features.fitness.table import TableFitness
from pipeline.execution.console import output_console, table_of
from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import Message, message
from pipeline.pages.templates import Called, render
from pipeline.release.area_sizes import ALL, SIZE_LABELS, SIZES, size_labels
from postprocess.arrays import FloatArray, IntArray
from postprocess.differences import ErrorMeasures
from postprocess.largest_group import PEOPLE, POINTS, SHARE

#: Areas whose truth is on the other side with at least this probability are called doubtful; so many are listed.
DOUBTFUL, LISTED = 0.05, 20


@dataclass(frozen=True)
class DoubtfulArea:
    """An area near a threshold; `name` is "" where it has none, `truth` None where it is not known."""

    geocode: str
    name: str
    published: int
    probability: float
    truth: int | None


@dataclass(frozen=True)
class Threshold:
    """A threshold at a level: an area is on one side with `people` or more.

    Attributes:
        level_label: of the level, for people.
        areas, above: of the level, and how many of them have so many people as published.
        expected_wrong: how many are expected to be on the other side in truth.
        doubtful: how many are there with a probability of `DOUBTFUL` or more.
        unknown: areas of whose errors nothing is known; they are left out of the last two.
        lost, gained: areas that truly are above and were published below, and the reverse; None where not known.
        listed: the most doubtful ones.
    """

    universe: str
    level: str
    level_label: str
    people: int
    areas: int
    above: int
    expected_wrong: float
    doubtful: int
    unknown: int
    lost: int | None
    gained: int | None
    listed: tuple[DoubtfulArea, ...]


def beyond_zero(margin: FloatArray, spread: FloatArray) -> FloatArray:
    """The probability that a normal number around `margin` has the other sign; 0 where it is exact, NaN if unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(margin) / spread
    return np.where(spread == 0, 0.0, ndtr(-z))


def threshold(
    universe: str,
    level: str,
    people: int,
    geocodes: NDArray[np.str_],
    published: IntArray,
    spread: FloatArray,
    truth: IntArray | None = None,
    called: Called | None = None,
) -> Threshold:
    """Judge a threshold at a level.

    Args:
        geocodes, published: `(n,)` of the areas, and their people.
        spread: `(n,)` standard deviations of their errors, persons; 0 where exact, NaN where not known.
        truth: `(n,)` of their true numbers of people, if known.
        called: what level and areas are called for people.
    """
    words = called or Called()
    above = published >= people
    wrong = beyond_zero(published.astype(np.float64) - people + 0.5, spread)
    known = ~np.isnan(wrong)
    order = np.argsort(-np.where(known, wrong, -1.0), kind="stable")[:LISTED]
    listed = tuple(
        DoubtfulArea(
            geocode := str(geocodes[row]),
            words.names.get(geocode, ""),
            int(published[row]),
            float(wrong[row]),
            None if truth is None else int(truth[row]),
        )
        for row in order.tolist()
        if known[row] and wrong[row] >= DOUBTFUL
    )
    return Threshold(
        universe=universe,
        level=level,
        level_label=words.level or level,
        people=people,
        areas=len(published),
        above=int(above.sum()),
        expected_wrong=float(wrong[known].sum()),
        doubtful=int((wrong[known] >= DOUBTFUL).sum()),
        unknown=int((~known).sum()),
        lost=None if truth is None else int((~above & (truth >= people)).sum()),
        gained=None if truth is None else int((above & (truth < people)).sum()),
        listed=listed,
    )


@dataclass(frozen=True)
class ComparedMethod:
    """A release's tables, protected in another way.

    Attributes:
        name: of the way, short.
        about: what it is, with its parameters, and what it promises.
        tables: in the order of the release's own; none of an amount.
    """

    name: Message
    about: Message
    tables: tuple[TableFitness, ...]


@dataclass(frozen=True)
class Fitness:
    """A release judged.

    Attributes:
        restricted: whether true counts were used; then nothing of it may leave restricted/.
        tables: of all universes.
        compared: other ways to protect the same counts; with the truth only.
    """

    release: str
    status: str
    restricted: bool
    tables: tuple[TableFitness, ...]
    thresholds: tuple[Threshold, ...]
    compared: tuple[ComparedMethod, ...] = ()

    @property
    def amounts(self) -> bool:
        """Whether some tables are of sums of an amount."""
        return any(not table.counts for table in self.tables)

    @property
    def bases(self) -> tuple[Message, ...]:
        """Where errors are known from, in words, each once."""
        return tuple(dict.fromkeys(table.basis for table in self.tables))

    def beside(self, number: int) -> list[tuple[Message, ErrorMeasures, float | None]]:
        """A table in the release and in every other way: the way's name, errors, and share within the points.

        Nothing of sums of an amount, which the other ways do not have.
        """
        table = self.tables[number]
        if not table.counts:
            return []
        place = sum(one.counts for one in self.tables[:number])
        rows = [(message("this release"), table)]
        rows += [(way.name, way.tables[place]) for way in self.compared]
        return [(name, table.whole, None if table.target is None else table.target.share) for name, table in rows]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "release": self.release,
            "status": self.status,
            "restricted": self.restricted,
            "tables": [table.data() for table in self.tables],
            "thresholds": [vars(one) | {"listed": [vars(area) for area in one.listed]} for one in self.thresholds],
            "compared": [
                {"way": str(way.name), "about": str(way.about), "tables": [table.data() for table in way.tables]}
                for way in self.compared
            ],
        }

    def page(self, texts: Texts) -> str:
        """The page in a language, for any browser; all text is escaped."""
        return render(
            "features.fitness",
            "fitness.html.j2",
            (),
            texts,
            fitness=self,
            points=POINTS,
            percent_of_areas=round(100 * SHARE),
            people=PEOPLE,
            sizes=dict(zip((ALL, *SIZE_LABELS), (texts(ALL), *size_labels(texts, SIZES)), strict=True)),
        )


def show_fitness(fitness: Fitness) -> None:
    """Errors of all tables, and thresholds."""
    console = output_console()
    console.print(f"Expected errors of {fitness.release}, in persons and percent. Known from:")
    for basis in fitness.bases:
        console.print(f"  {basis}", soft_wrap=True)
    console.print(_errors(fitness))
    if fitness.amounts:
        console.print(
            "Of sums of an amount errors are in its units, and percentages are of the sums; there are none where sums "
            "may be below 0.",
            soft_wrap=True,
        )
    if fitness.thresholds:
        console.print(_thresholds(fitness))


def _errors(fitness: Fitness) -> Table:
    table = table_of(("table", "level"), ("areas", "MAE", "RMSE", "bias", "MAPE", "within 5 points", "worst group"))
    for one in fitness.tables:
        whole, target, worst = one.whole, one.target, one.worst_group
        table.add_row(
            f"{one.table_title} (units of {one.unit})" if one.unit else one.table_title,
            one.level_title,
            f"{whole.areas:,}",
            _number(whole.mae),
            _number(whole.rmse),
            _number(whole.bias, "+"),
            _percent(whole.mape),
            "" if target is None or target.share is None else f"{100 * target.share:.1f} %",
            "" if worst is None else f"{one.called.number(worst.group)} ({_percent(worst.measures.relative)})",
        )
    return table


def _thresholds(fitness: Fitness) -> Table:
    table = table_of(("threshold", "level"), ("areas", "at or above", "expected on the wrong side", "doubtful areas"))
    for one in fitness.thresholds:
        table.add_row(
            f"{one.people:,}",
            one.level_label,
            f"{one.areas:,}",
            f"{one.above:,}",
            f"{one.expected_wrong:.2f}",
            f"{one.doubtful:,}",
        )
    return table


def _number(value: float | None, sign: str = "") -> str:
    return "?" if value is None else format(value, f"{sign},.2f")


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f} %"
