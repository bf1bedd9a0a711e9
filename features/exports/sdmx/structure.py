"""What the tables of a release are in SDMX: dimensions, code lists and attributes, with identifiers that it allows.

Every table of a universe is a dataflow with its own data structure: a dimension for each term of its query, the level,
the area, and the period or reference date where there is one. The count is the measure. Observation status, the class
of a number and the ends of its 90 % interval are attributes of each observation. Areas are not coded, being millions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from features.exports.chosen import by_table
from pipeline.metadata.contents import SUFFIX_WORDS, Axis, DataFile
from pipeline.model.texts.catalogue import Texts
from pipeline.release.reliability import CLASSES
from pipeline.release.status import EXAMPLE, TEST_KEY
from pipeline.release.tables import INTERVAL_SUFFIXES

LEVEL, AREA, TIME, VALUE = "LEVEL", "REF_AREA", "TIME_PERIOD", "OBS_VALUE"
STATUS, USE, AREA_NAME = "OBS_STATUS", "USE", "AREA_NAME"
#: Suffix of a column of an interval -> the attribute that holds it.
INTERVAL = dict(zip(INTERVAL_SUFFIXES, ("MOE90", "LOW90", "HIGH90"), strict=True))
#: Of SDMX's own list CL_OBS_STATUS, and which of them a class of numbers has.
NORMAL, UNRELIABLE, EXPERIMENTAL = "A", "U", "G"
#: Releases whose numbers are none: every number of them is experimental, "not of guaranteed quality as normally
#: expected from the provider", however reliable it would be. No code of the list is nearer to a test.
NO_NUMBERS = (TEST_KEY, EXAMPLE)
STATUS_OF = {one.key: UNRELIABLE if one.key == "unreliable" else NORMAL for one in CLASSES}
_RESERVED = (LEVEL, AREA, TIME, VALUE, STATUS, USE, AREA_NAME, *INTERVAL.values())
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class CodeList:
    """Codes and their names, in order."""

    id: str
    name: str
    codes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Component:
    """A dimension, measure or attribute: its concept is of the same name.

    Attributes:
        codes: the list of its values; None where they are text or numbers.
        text: the format of other values.
    """

    id: str
    name: str
    codes: CodeList | None = None
    text: str = "String"


@dataclass(frozen=True, eq=False)
class Flow:
    """A table of all its levels.

    Attributes:
        id: of dataflow, data structure and file.
        files: a file of the release for each level.
        terms: a dimension for each term of the query.
        experimental: whether its numbers are none, see `NO_NUMBERS`.
        of_intervals, ends: the attributes that follow from an interval, and its ends.
    """

    id: str
    name: str
    files: tuple[DataFile, ...]
    terms: tuple[Component, ...]
    with_margins: bool
    named: bool
    experimental: bool
    of_intervals: tuple[Component, ...]
    ends: tuple[Component, ...]

    @property
    def coded(self) -> tuple[Component, ...]:
        """Status, and class of use: neither where nothing is known of errors and no margin says so.

        Of experimental numbers the status is stated all the same.
        """
        known = self.with_margins or bool(self.files[0].note)
        return self.of_intervals if known else self.of_intervals[:1] if self.experimental else ()

    @property
    def attributes(self) -> tuple[Component, ...]:
        """Attributes of an observation."""
        return (*self.coded, *(self.ends if self.with_margins else ()))


@dataclass
class _Names:
    """Identifiers that differ from each other."""

    taken: set[str] = field(default_factory=set)

    def of(self, *parts: str) -> str:
        base = identifier("_".join(part for part in parts if part))
        found, number = base, 1
        while found.upper() in self.taken:
            number += 1
            found = f"{base}_{number}"
        self.taken.add(found.upper())
        return found


class Structure:
    """The structures of some tables, in a language.

    Args:
        files: of tables and household tables.
        levels: name and label of each level, top first.
        named: levels whose areas have names.
        time: what the time of the counts is called; "" where none is known.
        experimental: see `Flow`.
        texts: of the language.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        levels: Sequence[tuple[str, str]],
        named: Collection[str],
        texts: Texts,
        *,
        time: str,
        experimental: bool,
    ) -> None:
        self._names = _Names({name.upper() for name in _RESERVED})
        self._terms: dict[Axis, Component] = {}
        codes = _codes(levels)
        self.level_codes = dict(zip((name for name, _ in levels), (code for code, _ in codes), strict=True))
        self.level = Component(LEVEL, texts("Level of the area"), CodeList("CL_LEVEL", texts("Levels"), codes))
        self.area = Component(AREA, texts("Code of the area"))
        self.time = Component(TIME, time, text="ObservationalTimePeriod") if time else None
        self.value = Component(VALUE, texts("Count"), text="Long")
        self.area_name = Component(AREA_NAME, texts("Name of the area")) if named else None
        flows = _Names()
        self.flows = tuple(
            Flow(
                flows.of(path.replace("companions/", "").replace("household_tables/", "household_").replace("/", "_")),
                own[0].heading,
                tuple(own),
                tuple(self._term(axis) for axis in own[0].axes),
                own[0].with_intervals,
                self.area_name is not None,
                experimental,
                _coded(texts),
                _ends(texts),
            )
            for path, own in by_table(files).items()
        )

    @property
    def concepts(self) -> tuple[Component, ...]:
        """All components, each once."""
        own = (self.level, self.area, self.time, self.value, self.area_name)
        found = [*self._terms.values(), *(one for one in own if one is not None)]
        found += [one for flow in self.flows for one in flow.attributes]
        return tuple({one.id: one for one in found}.values())

    @property
    def code_lists(self) -> tuple[CodeList, ...]:
        """All lists of codes, each once."""
        return tuple(one.codes for one in self.concepts if one.codes is not None)

    def _term(self, axis: Axis) -> Component:
        """The dimension of a term; the same term of the same universe is one."""
        if axis not in self._terms:
            name = self._names.of(axis.universe, axis.term)
            values = _codes(list(zip(axis.values, axis.labels, strict=True)))
            self._terms[axis] = Component(name, axis.label, CodeList(f"CL_{name}", axis.label, values))
        return self._terms[axis]


def identifier(text: str) -> str:
    """An identifier of SDMX that is near to a text: letters, digits, _ and -, a letter first.

    >>> identifier("Office of Towns"), identifier("5+"), identifier("é")
    ('Office_of_Towns', 'X5', 'X')
    """
    found = _NOT_IN_IDS.sub("_", text).strip("_")
    return found if found[:1].isalpha() else f"X{found}"


def _codes(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Codes of values with their labels: the values themselves, so far as they can be codes and differ."""
    names = _Names()
    return tuple(
        (value if re.fullmatch(r"[A-Za-z0-9_-]+", value) and not _clash(names, value) else names.of(value), label)
        for value, label in values
    )


def _clash(names: _Names, value: str) -> bool:
    """Whether a code is taken; takes it, if not."""
    if value.upper() in names.taken:
        return True
    names.taken.add(value.upper())
    return False


def _coded(texts: Texts) -> tuple[Component, ...]:
    """Observation status, and the class of the number."""
    status, use = texts("Observation status"), texts("What the number can be used for")
    statuses = (
        (NORMAL, texts("Normal value")),
        (UNRELIABLE, texts("Low reliability")),
        (EXPERIMENTAL, texts("Experimental value")),
    )
    uses = tuple((one.key, f"{texts(one.label)}: {texts(one.rule)}") for one in CLASSES)
    return (
        Component(STATUS, status, CodeList("CL_OBS_STATUS", status, statuses)),
        Component(USE, use, CodeList("CL_USE", texts("Use"), uses)),
    )


def _ends(texts: Texts) -> tuple[Component, ...]:
    """The margin, and the ends of the interval."""
    return tuple(Component(name, texts(SUFFIX_WORDS[end]), text="Double") for end, name in INTERVAL.items())
