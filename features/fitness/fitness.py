"""All that is found of a release's fitness, as data and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from features.fitness.decisions import Threshold
from features.fitness.table import TableFitness
from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import Message, message
from pipeline.pages.templates import render
from pipeline.release.area_sizes import ALL, SIZE_LABELS, SIZES, size_labels
from postprocess.differences import ErrorMeasures
from postprocess.largest_group import PEOPLE, POINTS, SHARE


@dataclass(frozen=True)
class Compared:
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
    thresholds: tuple[Threshold, ...] = ()
    compared: tuple[Compared, ...] = ()

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
