"""Areas by their names: which geounits are called so, and what is said where none is, or several are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.area_names import AreaNames, folded

#: Candidates that a message lists.
_LISTED = 10


@dataclass(frozen=True)
class NamedArea:
    """A geounit that has a name.

    Attributes:
        level: of the geounit, by its name.
        number: of the geounit in its level.
        inside: the name of the geounit above it, or its geocode; "" at the top.
    """

    level: str
    number: int
    geocode: str
    name: str
    inside: str

    def __str__(self) -> str:
        return f"{self.level} {self.geocode}" + (f" in {self.inside}" if self.inside else "")


@dataclass(frozen=True, eq=False)
class AreaIndex:
    """The named areas of a release.

    Attributes:
        release: its name, for messages.
        names: by level; names of all languages count.
    """

    release: str
    spine: Spine
    names: AreaNames

    def named(self, text: str) -> list[NamedArea]:
        """The areas of that name, upper levels first; `level:name` and `level:code` are of that level alone.

        Case, blanks and marks of direction do not count. Of areas with the same leaves, one above the other, only the
        uppermost is given.
        """
        level, colon, rest = text.partition(":")
        if colon and level.strip() in self.spine.level_names:
            return self._of_level(level.strip(), rest.strip())
        found: list[NamedArea] = []
        leaves: set[tuple[int, int]] = set()
        for name, number in self._places.get(folded(text), ()):
            if (span := self.span(name, number)) not in leaves:
                leaves.add(span)
                found.append(self._area(name, number))
        return found

    def span(self, level: str, number: int) -> tuple[int, int]:
        """The first leaf of a geounit, and the one after its last."""
        offsets = self.spine.leaf_offsets(self.spine.index_of(level))
        return int(offsets[number]), int(offsets[number + 1])

    def one(self, text: str) -> NamedArea | None:
        """The one area of that name; None where there is none.

        Raises:
            InputError: there are several; the message lists them.
        """
        found = self.named(text)
        if len(found) < 2:
            return found[0] if found else None
        listed = "; ".join(map(str, found[:_LISTED]))
        more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        first = found[0]
        raise InputError(
            f"{self.release}: {text!r} is the name of {len(found):,} areas: {listed}{more}; give the geocode of "
            f"one, or level and geocode, such as {f'{first.level}:{first.geocode}'!r}"
        )

    def advice(self, text: str) -> str:
        """What to write in the place of a name that no area has: "; did you mean 'Birch County'?", or ""."""
        asked = folded(text)
        longer = [name for name in self._places if name.startswith(f"{asked} ")]  # "Birch" for "Birch County"
        close = longer or difflib.get_close_matches(asked, list(self._places), n=1, cutoff=0.7)
        return f"; did you mean {self._area(*self._places[close[0]][0]).name!r}?" if close else ""

    def _of_level(self, level: str, text: str) -> list[NamedArea]:
        codes = self.spine.level(level).geocodes
        numbers = [int(number) for number in (codes == text).nonzero()[0]]
        numbers = numbers or [number for name, number in self._places.get(folded(text), ()) if name == level]
        return [self._area(level, number) for number in numbers]

    def _area(self, level: str, number: int) -> NamedArea:
        index = self.spine.index_of(level)
        geounits = self.spine.levels[index]
        inside = "" if not index else self._called(self.spine.level_names[index - 1], int(geounits.parents[number]))
        return NamedArea(level, number, str(geounits.geocodes[number]), self._called(level, number), inside)

    def _called(self, level: str, number: int) -> str:
        if level in self.names:
            return str(next(iter(self.names[level].by_language.values()))[number])
        return str(self.spine.level(level).geocodes[number])

    @cached_property
    def _places(self) -> dict[str, list[tuple[str, int]]]:
        """Folded name -> level and number of the geounits with that name in some language, upper levels first."""
        places: dict[str, list[tuple[str, int]]] = {}
        for name, place in self._pairs():
            there = places.setdefault(name, [])
            if place not in there:
                there.append(place)
        return places

    def _pairs(self) -> Iterator[tuple[str, tuple[str, int]]]:
        for level in self.spine.level_names:
            if level in self.names:
                for texts in self.names[level].by_language.values():
                    yield from ((folded(text), (level, number)) for number, text in enumerate(texts.to_pylist()))
