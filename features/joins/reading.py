"""Average household sizes of a release: those published for the geounits of a level, and of any other areas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from features.joins.files import HouseholdSizes, read_household_sizes, sizes_file
from features.joins.link import Households, SizeSource
from pipeline.errors import InputError
from pipeline.model.area_names import Areas
from pipeline.model.universe import Table
from pipeline.published import PublishedRelease
from pipeline.reading.reader import Reader
from pipeline.release.form import check_geocodes
from postprocess.arrays import BoolArray, FloatArray
from postprocess.statistics import Averages, Counted, average_sizes


class SizesOfHouseholds:
    """The average household sizes of one joined companion.

    Args:
        release: whose files are read.
        link: of the persons with the companion.
        persons: the numbers of the release's own universe.

    Raises:
        InputError: the joins do not tell who lives in its households.
    """

    def __init__(self, release: PublishedRelease, link: Households, persons: Reader) -> None:
        if link.residents is None:
            raise InputError(
                f"{persons.name}: average household size: the joins with {link.by!r} do not tell who lives in its "
                "households, or not how many a household has; a join with `size` and without `others` does"
            )
        self.companion = link.by
        self._release = release
        self._link = link
        self._persons = persons

    def at(self, level: str) -> pd.DataFrame:
        """Of every geounit of a level; see `Release.household_sizes`."""
        return _frame(self._read(level), "geocode")

    def over(self, areas: Areas, households: Reader) -> pd.DataFrame:
        """The sizes of households over areas; see `Release.household_sizes_over`."""
        persons = self._persons
        named = dict(areas) if isinstance(areas, Mapping) else {"area": areas}
        if not named:
            raise InputError("over: no area is given; a list of geocodes, or names with lists, is needed")
        source = next(
            (each for level in persons.levels[::-1] if (each := self._link.average_size(level)) is not None), None
        )
        if source is None:
            raise self._unpublished(persons.levels[-1])
        rows = [self._area(source, households, persons.leaves_of(codes, name)) for name, codes in named.items()]
        averages = [row.averages for row in rows]
        together = Averages(
            np.concatenate([each.values for each in averages]),
            *(_joined([getattr(each, end) for each in averages]) for end in ("lows", "highs")),
        )
        people, homes = (np.concatenate([getattr(row, name) for row in rows]) for name in ("persons", "households"))
        return _frame(HouseholdSizes(self.companion, "", np.array(list(named)), people, homes, together), "area")

    def _area(self, source: SizeSource, households: Reader, inside: BoolArray) -> HouseholdSizes:
        """Of one area: the published numbers where it is a geounit that has some, else by linear margins."""
        geounit = self._persons.geounit_of(inside)
        if geounit is not None and self._link.average_size(geounit[0]) is not None:
            read, row = self._read(geounit[0]), slice(geounit[1], geounit[1] + 1)
            averages = read.averages.each(itemgetter(row))
            return HouseholdSizes(
                self.companion, read.level, read.geocodes[row], read.persons[row], read.households[row], averages
            )
        people = _counted_in(self._persons, source.persons, inside)
        homes = _counted_in(households, source.households, inside)
        averages = average_sizes(people, homes, source.residents.least, source.residents.most)
        return HouseholdSizes(self.companion, "", np.array([""]), people.counts, homes.counts, averages)

    def _read(self, level: str) -> HouseholdSizes:
        number = self._persons.index_of(level)
        if self._link.average_size(level) is None:
            raise self._unpublished(level)
        path = self._release.unchanged(sizes_file(self._release.run, self.companion, level))
        geocodes = self._persons.spine.levels[number].geocodes
        sizes = read_household_sizes(path, len(geocodes))
        check_geocodes(path, sizes.geocodes, geocodes)
        return sizes

    def _unpublished(self, level: str) -> InputError:
        return InputError(
            f"{self._persons.name}: no average household size of {self.companion!r} for level {level!r}: it is "
            "published where a table has the number of persons in households and another the number of households"
        )


def _counted_in(numbers: Reader, counted: tuple[Table, int], inside: BoolArray) -> Counted:
    """One answer of a table's query for the leaves `(n_leaves,)` together, with its linear interval."""
    table, answer = counted
    query = table.query
    count = query.answer_csr(numbers.histogram(numbers.levels[-1])[inside]).sum(axis=0)[[answer]]
    reach = numbers.margins.half_widths(inside.astype(np.float64), query.groups)[0, [answer]]
    return Counted(count, np.maximum(count - reach, 0), count + reach)


def _joined(parts: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [np.full(1, np.nan) if part is None else part for part in parts]
    return None if all(part is None for part in parts) else np.concatenate(known)


def _frame(sizes: HouseholdSizes, index: str) -> pd.DataFrame:
    """Its columns; what is null in the file is missing, and no number."""
    columns: dict[str, Any] = dict(sizes.columns())
    for name, values in columns.items():
        if values.dtype == np.float64:
            columns[name] = pd.array(values, dtype="Float64")
    return pd.DataFrame(columns, index=pd.Index(sizes.geocodes.astype(object), name=index))
