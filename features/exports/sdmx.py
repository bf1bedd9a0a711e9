"""A release in SDMX 3.0: the structure of every table as SDMX-ML, its numbers as SDMX-CSV 2.0.

Every table of a universe is a dataflow with its own data structure: a dimension for each term of its query, the level,
the area, and the period or reference date where there is one. The count is the measure. Observation status, the class
of a number and the ends of its 90 % interval are attributes of each observation. Areas are not coded, being millions.

SDMX-CSV has a line for each observation with its whole key and the data structure's name. Nearly all of it is the same
as in the line before, so that compressed it is a fortieth.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined

from features.exports.chosen import by_table
from features.exports.rows import FileRows
from features.exports.words import facts
from pipeline.errors import InputError
from pipeline.metadata.contents import SUFFIX_WORDS, Axis, DataFile
from pipeline.model.area_names import as_cell
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.published import PublishedRelease
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.status import EXAMPLE, TEST_KEY
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, read_table_parts
from pipeline.storage.plain_tables import write_csv

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
        attributes: of an observation.
    """

    id: str
    files: tuple[DataFile, ...]
    terms: tuple[Component, ...]
    attributes: tuple[Component, ...]


@dataclass
class _Names:
    """Identifiers that differ from each other."""

    taken: set[str] = field(default_factory=set)

    def of(self, *parts: str) -> str:
        """An identifier near to the parts."""
        return self.free(identifier("_".join(part for part in parts if part)))

    def free(self, base: str) -> str:
        """The text, with a number behind it where it is taken."""
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
        experimental: whether the numbers are none, see `NO_NUMBERS`.
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
        self.experimental = experimental
        self._coded = _coded(texts)
        self._ends = [Component(name, texts(SUFFIX_WORDS[end]), text="Double") for end, name in INTERVAL.items()]
        flows = _Names()
        self.flows = tuple(
            Flow(
                flows.of(path.replace("companions/", "").replace("household_tables/", "household_").replace("/", "_")),
                tuple(own),
                tuple(self._term(axis) for axis in own[0].axes),
                self._attributes(own[0]),
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

    def _attributes(self, file: DataFile) -> tuple[Component, ...]:
        """Status, and class of use: neither where nothing is known of errors and no margin says so; and the margins.

        Of experimental numbers the status is stated all the same.
        """
        if file.with_intervals:
            return (*self._coded, *self._ends)
        return self._coded if file.note else self._coded[:1] if self.experimental else ()

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
    found = []
    for value, label in values:
        is_code = re.fullmatch(r"[A-Za-z0-9_-]+", value) and value.upper() not in names.taken
        found.append((names.free(value) if is_code else names.of(value), label))
    return tuple(found)


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


#: Observations written at a time.
_AT_ONCE = 1 << 20
_KEYS = np.array([one.key for one in CLASSES])
#: The agency where no publisher is stated, and the time of a message where no date is.
_NOBODY, _NO_DATE = "UNSTATED", "1970-01-01"


def write_sdmx(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write structure.xml and `TABLE.csv.gz` for each table, without average household sizes, which count nothing.

    Raises:
        InputError: no table is left.
        ReleaseError: a file is damaged.
    """
    counted = [file for file in files if file.kind in ("table", "counts")]
    if not counted:
        raise InputError("--format sdmx: no table was chosen; average household sizes are no counts")
    rows, labels, about = FileRows(release), release.spec.labels(), release.spec.about
    levels = [(level, labels.level(level)) for level in release.spine.level_names]
    named = [level for level, _ in levels if rows.names(level) is not None]
    texts = texts_in(release.spec.report.language)
    experimental = release.manifest.status in NO_NUMBERS
    time = texts("Period") if about.period else texts("Reference date") if about.time else ""
    structure = Structure(counted, levels, named, texts, time=time, experimental=experimental)
    agency = identifier(about.publisher) if about.publisher else _NOBODY
    environment = Environment(
        loader=PackageLoader("features.exports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("structure.xml.j2").render(
        structure=structure,
        agency=agency,
        message=identifier(release.spec.name),
        test="false" if release.manifest.status == "official" else "true",
        prepared=f"{about.reference_date or _NO_DATE}T00:00:00Z",
        publisher=about.publisher,
        facts=facts(release),
        title=about.title or release.spec.name,
        language=release.spec.report.language or "en",
    )
    (folder / "structure.xml").write_text(text, encoding="utf-8")
    for flow in structure.flows:
        # "I" is information, to be added or replaced.
        stated = {"STRUCTURE": "dataflow", "STRUCTURE_ID": f"{agency}:DF_{flow.id}(1.0.0)", "ACTION": "I"}
        write_csv(folder / f"{flow.id}.csv.gz", _observations(flow, structure, rows, stated, about.time))


def _observations(
    flow: Flow, structure: Structure, rows: FileRows, stated: Mapping[str, str], time: str
) -> Iterator[pa.Table]:
    """One row for each number of the table at all levels, some at a time; what is `stated` of all stands first."""
    answers = _answer_codes(flow)
    for file in flow.files:
        names, first = rows.names(file.level), 0
        for whole in read_table_parts(rows.source(file)):
            step = max(1, _AT_ONCE // len(whole.labels))
            for start in range(0, len(whole.geocodes), step):
                part = whole.rows(slice(start, start + step))
                own = None if names is None else names[first : first + len(part.geocodes)]
                first += len(part.geocodes)
                columns = {name: pa.array([text] * part.counts.size, pa.string()) for name, text in stated.items()}
                columns |= _columns(part, answers, structure.level_codes[file.level], time)
                columns |= _attributes(flow, part, experimental=structure.experimental)
                if structure.area_name is not None:
                    cells = [""] * len(part.geocodes) if own is None else [as_cell(name) for name in own]
                    columns[AREA_NAME] = _each(cells, len(part.labels))
                yield pa.table(columns)


def _answer_codes(flow: Flow) -> dict[str, list[str]]:
    """Dimension -> its code in each answer, the last dimension fastest."""
    codes = [[code for code, _ in term.codes.codes] for term in flow.terms if term.codes is not None]
    grids = np.meshgrid(*(np.arange(len(own)) for own in codes), indexing="ij") if codes else []
    return {
        term.id: [own[number] for number in grid.ravel().tolist()]
        for term, own, grid in zip(flow.terms, codes, grids, strict=True)
    }


def _columns(part: ReleasedTable, answers: dict[str, list[str]], level: str, time: str) -> dict[str, pa.Array]:
    """Dimensions and the count of every number: area by area, answer by answer."""
    areas, size = part.counts.shape
    columns = {name: pa.array(codes * areas, pa.string()) for name, codes in answers.items()}
    columns[LEVEL] = pa.array([level] * (areas * size), pa.string())
    columns[AREA] = _each(part.geocodes.tolist(), size)
    if time:
        columns[TIME] = pa.array([time] * (areas * size), pa.string())
    columns[VALUE] = pa.array(part.counts.ravel())
    return columns


def _attributes(flow: Flow, part: ReleasedTable, *, experimental: bool) -> dict[str, pa.Array]:
    """Status and class of every number, and the ends of its interval."""
    found: dict[str, pa.Array] = {}
    stated = {one.id for one in flow.attributes}
    if USE in stated:
        unknown = np.full(part.counts.shape, np.nan)
        keys = _KEYS[classes_in(part.counts, unknown if part.margins is None else part.margins)].ravel().tolist()
        found[STATUS] = pa.array([STATUS_OF[key] for key in keys], pa.string())
        found[USE] = pa.array(keys, pa.string())
    if experimental:
        found[STATUS] = pa.array([EXPERIMENTAL] * part.counts.size, pa.string())
    if stated & {*INTERVAL.values()}:
        for name, values in zip(INTERVAL.values(), (part.margins, part.lows, part.highs), strict=True):
            flat = np.full(part.counts.size, np.nan) if values is None else values.ravel()
            found[name] = pa.array(flat, mask=np.isnan(flat))
    return found


def _each(texts: Sequence[str], times: int) -> pa.Array:
    """Every text so many times, one after the other."""
    return pa.array(np.repeat(np.array(texts, dtype=object), times), pa.string())
