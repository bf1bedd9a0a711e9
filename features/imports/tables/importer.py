"""A table, read as it is stated -> a folder with its areas, its records and a spec that runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from features.imports.folder import Imported, ImportFolder, import_folder, unused
from features.imports.tables.areas import Areas, read_areas
from features.imports.tables.attributes import (
    AttributeColumn,
    Listed,
    check_dates,
    given_attribute,
    read_attribute,
    schema_columns,
)
from features.imports.tables.counts import check_number, check_once, check_sums, melt, names_of_wide, read_counts
from features.imports.tables.files import HeaderRows, Opened, open_source, text_format
from features.imports.tables.spec_text import RecordsOf, table_spec
from features.imports.tables.statement import RowCondition, TableStatement, parse_names
from features.imports.tables.table import Coded, RecordTable, column_names_of, keys_of, normal, read_table
from geography.spine import counted, first_few
from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import fields_of, installed_slots
from pipeline.storage.files import check_new
from postprocess.arrays import BoolArray, IntArray

#: The attribute of households of which nothing else is known, and its largest group.
SIZE, _LARGEST = "size", 7


def households_of(
    persons: RecordTable, key: str, leaf: Coded, attributes: Sequence[str]
) -> tuple[RecordTable, Coded, int]:
    """The households of a table of persons that holds them too.

    Returns:
        a row for each, with the columns asked for and, where there is none, SIZE; their areas; and how many persons
        have none.

    Raises:
        InputError: persons of one household differ in their area, or in an attribute of it.
    """
    one = persons.columns[key]
    with_home = one.holds(bool)
    if not with_home.any():
        raise InputError(f"{persons}: column {key!r}: no row has a value")
    if odd := [text for text in one.texts if text.startswith("-") and text[1:].isdecimal()]:
        raise InputError(
            f"{persons.found(key, odd[:1])}, a negative number, as is written where there is no household: --missing "
            f"{odd[0]}"
        )
    rows = np.flatnonzero(with_home)
    codes, first, inverse = np.unique(one.codes[rows], return_index=True, return_inverse=True)
    first_rows = rows[first]
    for name, column in {"the area": leaf, **{name: persons.columns[name] for name in attributes}}.items():
        apart = np.flatnonzero(column.codes[first_rows][inverse] != column.codes[rows])
        if apart.size:
            row, other = int(rows[apart[0]]), int(first_rows[inverse[apart[0]]])
            raise InputError(
                f"{persons.both(other, row)}: household "
                f"{one.texts[one.codes[row]]!r} of column {key!r} has {column.texts[column.codes[other]]!r} and "
                f"{column.texts[column.codes[row]]!r} as {name}; a household has one (a key that means no household: "
                "--missing)"
            )
    columns = {name: persons.columns[name].at(first_rows) for name in attributes}
    if not attributes:
        labels = [*map(str, range(_LARGEST)), f"{_LARGEST}+"]  # open at the top
        sizes = np.bincount(inverse, minlength=len(codes))
        columns[SIZE] = Coded(np.minimum(sizes, _LARGEST).astype(np.int32), labels)
    table = RecordTable(persons.opened, columns, persons.rows[first_rows], persons.names)
    return table, leaf.at(first_rows), int((~with_home).sum())


def place_persons(persons: RecordTable, homes: RecordTable, key: str) -> IntArray:
    """`(n_persons,)`, the row of each person's household.

    Raises:
        InputError: a household has two rows or no key, or a person has none.
    """
    listed, own = homes.columns[key], persons.columns[key]
    if "" in listed.texts:
        raise InputError(f"{homes.found(key, [''])}; each household needs a key")
    keys = keys_of([listed])
    if (twice := np.flatnonzero(np.bincount(keys) > 1)).size:
        raise InputError(
            f"{homes.both(*np.flatnonzero(listed.codes == twice[0])[:2])}: household "
            f"{listed.texts[twice[0]]!r} stands in two rows; each has one"
        )
    row_of = {listed.texts[code]: row for row, code in enumerate(listed.codes.tolist())}
    place = np.array([row_of.get(text, -1) for text in own.texts], dtype=np.int64)[own.codes]
    if (lost := np.flatnonzero(place < 0)).size:
        raise InputError(
            f"{persons.found(key, [own.texts[own.codes[lost[0]]]])}; "
            f"{counted(lost.size, 'person')} of households that are not in {homes}; each needs a row there"
        )
    return place


#: Cells of a table of all attributes that is measured as one.
MOST_CELLS = 2_100
#: The attribute of a table that is counted by nothing, and its only value.
EVERYBODY, _ALL = "people", "all"


def import_table(stated: TableStatement, out: Path) -> Imported:
    """Read the table as it is stated, and write `out`: persons.parquet, areas.parquet, import.toml and release.toml.

    Raises:
        InputError: the table is not as stated; nothing is written then.
    """
    check_new(out)
    stated.check_complete()
    with import_folder(out) as folder, TemporaryDirectory(dir=folder.path.parent) as work:
        return _imported(stated, out, folder, Path(work))


@dataclass(frozen=True, eq=False)
class _Read:
    """The rows that count, as they are stated.

    Attributes:
        table: of persons.
        counts: `(n_rows,)`, how many people each row is.
        by: columns that they are counted by.
        areas: of the lowest level, and those above.
        leaf: each row's area.
        homes: the table of households, where it is one of its own.
        home_by: columns that households are counted by.
        listed: of --schema, those of `by` that it has, which are the first.
        home_listed: all of `home_by`, if they are of --schema.
        used: columns of the file that the statement names.
    """

    table: RecordTable
    counts: IntArray
    by: Sequence[str]
    areas: Areas
    leaf: Coded
    homes: RecordTable | None
    home_by: Sequence[str]
    listed: tuple[Listed, ...]
    home_listed: tuple[Listed, ...]
    used: frozenset[str | None]

    @property
    def columns(self) -> dict[str, Coded]:
        """Those that a row's cell consists of, besides its area."""
        return {name: self.table.columns[name] for name in self.by}


def _imported(stated: TableStatement, out: Path, folder: ImportFolder, work: Path) -> Imported:
    read = _read(stated, work)
    attributes = _attributes(stated, "attributes", read.table, read.by, read.listed, read.counts)
    attributes = attributes or (AttributeColumn(EVERYBODY, EVERYBODY, (_ALL,)),)
    people, n_areas = int(read.counts.sum()), len(read.areas.leaf.texts)
    columns = read.columns or {EVERYBODY: Coded(np.zeros(len(read.counts), dtype=np.int32), [_ALL])}
    geocode = unused(stated.lowest, columns)
    count = None if stated.records else unused("count", [*columns, geocode])
    _write(folder, "persons.parquet", {geocode: read.leaf, **columns}, count, read.counts)
    folder.parquet("areas.parquet", read.areas.table)
    # All attributes together may have too many cells to be measured as one table.
    by_pairs = (
        math.prod(len(one.values) for one in attributes) > MOST_CELLS
        and stated.records
        and stated.key is None
        and "marginals" in fields_of(ReleaseSpec, installed_slots())
    )
    left_out = tuple(f"column {name!r}: not stated" for name in read.table.names if name not in read.used)
    persons = RecordsOf(
        attributes, "persons.parquet", geocode, "microdata" if stated.records else "long", count, left_out=left_out,
        by_pairs=by_pairs, expect=None if stated.unproved else (people, n_areas),
    )  # fmt: skip
    households, said = _households(stated, folder, read)
    messages = [
        f"{counted(people, 'person', 'people')} in {counted(n_areas, 'area')}, "
        + ("as expected" if not stated.unproved else "not proved: fill in [input] expect"),
        *said,
        "attributes: " + ", ".join(f"{one.name} ({len(one.values)} values)" for one in attributes),
        *(f"left out: {text}" for text in left_out),
        *_values_to_fill_in(folder, [*attributes, *(households.attributes if households is not None else ())]),
    ]
    origins = _origins(stated, read, with_households=households is not None)
    text = table_spec(stated, read.areas, origins, persons, households)
    parse_spec(text, f"{out / 'release.toml'} (not written)", out)
    folder.text("release.toml", text)
    folder.text("import.toml", stated.recipe())
    return Imported(out / "release.toml", tuple(messages))


def _read(stated: TableStatement, work: Path) -> _Read:
    """The rows that count, with their areas; InputError where they are not what is stated or expected."""
    text = text_format(stated.source, stated.separator, stated.encoding)
    rows = HeaderRows(*stated.header_rows, stated.last)
    opened = open_source(stated.source, work, query=stated.query, sheet=stated.sheet, text=text, rows=rows)
    names = column_names_of(opened)
    of_persons, listed = _counted_by(stated, "attributes", names)
    cells: dict[str, dict[str, str]] = {}
    if stated.wide is not None:  # columns that are stated to be nothing else
        others = {*stated.places, *stated.places.values(), *of_persons, stated.level}
        cells = names_of_wide([name for name in names if name not in others], stated.wide)
    lookup, homes = None, _homes(stated, work)
    if stated.areas is not None:
        columns = [*stated.columns, *filter(None, stated.places.values())]
        lookup = read_table(_open(stated.areas, work), columns, "--geography")
    places: list[str] = []
    if homes is None:
        places = [name for name in stated.columns if lookup is None or name in names or name == stated.lowest]
    home_by, home_listed = _counted_by(stated, "households", names if homes is None else homes.names)
    of_homes = home_by if homes is None else ()
    conditions = [one for one in stated.conditions if not cells or one.column in names]
    wanted = [*places, *of_persons, *cells, *of_homes, *(one.column for one in conditions)]
    wanted += [name for name in (stated.count, stated.level, stated.key) if name is not None]
    if lookup is None and homes is None:
        wanted += [name for name in stated.places.values() if name is not None]
    table = _without_missing(read_table(opened, wanted), stated, [*of_persons, *of_homes, stated.key])
    table = _of_level(table, stated)
    table = table.only(_kept(table, conditions, table.names))
    if cells:
        table, counts = melt(table, cells, [name for name in table.columns if name not in cells])
        of_cells = list(next(iter(cells.values())))
        kept = _kept(table, [one for one in stated.conditions if one not in conditions], of_cells)
        table, counts = table.only(kept), counts[kept]
        of_persons += of_cells
    elif stated.count is not None:
        counts = read_counts(table, stated.count)
    else:
        counts = np.ones(len(table), dtype=np.int64)
    if not len(table):
        raise InputError(f"{table}: no row is left")
    for name in of_persons:
        check_dates(table, name)
    if homes is not None and stated.key is not None:
        areas = read_areas(homes, stated, lookup)
        leaf = areas.leaf.at(place_persons(table, homes, stated.key))
    else:
        areas = read_areas(table, stated, lookup)
        leaf = areas.leaf
    used = frozenset([*wanted, *stated.places, *stated.places.values()])
    read = _Read(table, counts, of_persons, areas, leaf, homes, home_by, listed, home_listed, used)
    cell = {stated.lowest: leaf, **read.columns}
    if not stated.records:
        check_once(table, cell)
    # A number that is not the expected one is told first, with the change that would give it.
    check_number(table, stated, cell, counts, len(areas.leaf.texts))
    if not stated.records:
        check_sums(table, cell, counts, stated.conditions, wide=bool(cells))
    return read


def _attributes(
    stated: TableStatement, of: str, table: RecordTable, by: Sequence[str], listed: Sequence[Listed], people: IntArray
) -> tuple[AttributeColumn, ...]:
    """What persons ("attributes") or "households" are counted by, with values: first those of the public list."""
    found = [given_attribute(Path(str(stated.schema)), of, *one, table) for one in listed]
    stocks = stated.counted_by if of == "attributes" else {}
    for column in by[len(listed) :]:
        check_dates(table, column)
        taken = [one.name for one in found]
        stock = stocks.get(column)
        found.append(read_attribute(table, column, stock, people, taken, with_missing=stated.missing is not None))
    return tuple(found)


def _open(source: str, work: Path, query: str | None = None) -> Opened:
    """A second file: how it is written is stated of the main one only."""
    return open_source(source, work, query=query, text=text_format(source, None, None))


def _homes(stated: TableStatement, work: Path) -> RecordTable | None:
    """The table of households."""
    if stated.households is None:
        return None
    opened = _open(stated.households, work, stated.households_query)
    by, _ = _counted_by(stated, "households", column_names_of(opened))
    if not by:
        raise InputError(
            f"{opened.label}: --household-attributes COLUMN[,COLUMN...] is needed, or [households] in --schema"
        )
    names = filter(None, stated.places.values()) if stated.areas is None else ()
    places = stated.columns if stated.areas is None else (stated.lowest,)
    table = read_table(opened, [*places, *names, str(stated.key), *by], "the statement on households")
    return _without_missing(table, stated, by)


def _counted_by(stated: TableStatement, of: str, names: Sequence[str]) -> tuple[list[str], tuple[Listed, ...]]:
    """The columns that persons ("attributes") or "households" are counted by, and what --schema has of them."""
    listed: tuple[Listed, ...] = ()
    if stated.schema is not None and (of == "attributes" or stated.key is not None):
        listed = schema_columns(Path(stated.schema), of, names)
    unlisted = stated.counted_by if of == "attributes" else parse_names(stated.household_attributes)
    return [column for _, column, _ in listed] or list(unlisted), listed


def _without_missing(table: RecordTable, stated: TableStatement, columns: Sequence[str | None]) -> RecordTable:
    """The table with nothing in place of what means that there is no value."""
    changed = {
        name: table.columns[name].translated(lambda text: "" if text in stated.gone else text)
        for name in columns
        if name is not None
    }
    return replace(table, columns=table.columns | changed)


def _of_level(table: RecordTable, stated: TableStatement) -> RecordTable:
    """The rows of the one level that is not left out."""
    if stated.level is None:
        return table
    column = table.columns[stated.level]
    dropped = tuple(normal(text) for text in parse_names(stated.drop_level))
    _check_values(table, "--drop-level", stated.level, dropped)
    left = [text for text in column.texts if text not in dropped]
    if len(left) != 1:
        raise InputError(
            f"{table}: column {stated.level!r} says that rows are of several levels, {first_few(np.array(left))}; one "
            "is counted: leave out the others with --drop-level VALUE[,VALUE...]"
        )
    return table.only(column.holds(lambda text: text not in dropped))


def _kept(table: RecordTable, conditions: Sequence[RowCondition], allowed: Sequence[str]) -> BoolArray:
    """`(n_rows,)`, whether all conditions hold, which are of the allowed columns."""
    kept = np.ones(len(table), dtype=bool)
    for one in conditions:
        if one.column not in allowed:
            raise InputError(f"{table}: --only: no column {one.column!r}; there are {', '.join(table.names[:30])}")
        _check_values(table, "--only", one.column, one.values)
        kept &= table.columns[one.column].holds(one.holds)
    return kept


def _check_values(table: RecordTable, option: str, column: str, values: Sequence[str]) -> None:
    """InputError where an option names a value that no row has."""
    texts = table.columns[column].texts
    if strange := [value for value in values if value not in texts]:
        raise InputError(
            f"{table}: {option}: no row has {strange[0]!r} in column {column!r}; its values are {', '.join(texts[:20])}"
        )


def _write(folder: ImportFolder, name: str, columns: Mapping[str, Coded], count: str | None, counts: IntArray) -> None:
    arrays: dict[str, pa.Array] = {label: column.arrow() for label, column in columns.items()}
    if count is not None:
        arrays[count] = pa.array(counts)
    folder.parquet(name, pa.table(arrays), private=True)


def _households(stated: TableStatement, folder: ImportFolder, read: _Read) -> tuple[RecordsOf | None, list[str]]:
    """The households, written to households.parquet, and what is to be said of them."""
    if stated.key is None:
        return None, []
    homeless, table, leaf = 0, read.homes, read.areas.leaf
    if table is None:
        table, leaf, homeless = households_of(read.table, stated.key, read.leaf, read.home_by)
    ones = np.ones(len(table), dtype=np.int64)
    attributes = _attributes(stated, "households", table, read.home_by, read.home_listed, ones)
    size = None
    if not read.home_by:
        size = AttributeColumn(SIZE, SIZE, tuple(table.columns[SIZE].texts[1:]), about="the number of persons")
        attributes = (size,)
    geocode = unused(stated.lowest, [one.column for one in attributes])
    columns = {geocode: leaf, **{one.column: table.columns[one.column] for one in attributes}}
    _write(folder, "households.parquet", columns, None, ones)
    messages = [f"{counted(len(table), 'household')}"]
    if homeless:
        messages.append(f"{counted(homeless, 'person')} without a household: they are counted, but in no household")
    joined = None if homeless else size
    return RecordsOf(attributes, "households.parquet", geocode, "microdata", size=joined), messages


def _values_to_fill_in(folder: ImportFolder, attributes: Sequence[AttributeColumn]) -> list[str]:
    """Write the values of records that no public file may show to values.txt, and warn of them."""
    blank = {one.column: one.blank for one in attributes if one.blank}
    if blank:
        lines = [f"{column}\t{text}" for column, texts in blank.items() for text in texts]
        folder.text("values.txt", "\n".join(lines) + "\n", private=True)
    return [f"Warning: column {c!r}: {counted(len(t), 'value')} to fill in, see values.txt" for c, t in blank.items()]


def _origins(stated: TableStatement, read: _Read, *, with_households: bool) -> dict[str, tuple[str, str]]:
    """Of each public input its source, and where it is from."""
    records = ("records", f"{stated.label}, by spinewise import")
    given = None if stated.schema is None else ("public", Path(stated.schema).name)
    origins = {"geography": records if stated.areas is None else ("public", Path(stated.areas).name)}
    lists = stated.counted_by.values()
    stocks = ("public", "lists of spinewise") if stated.schema is None and stated.wide is None and all(lists) else None
    origins["schema"] = records if stated.wide is not None else given or stocks or records
    if any(stated.places.values()):
        origins["names"] = origins["geography"]
    if with_households:
        of_households = given if read.home_listed else None
        of_size = ("public", "sizes") if of_households is None and not stated.household_attributes else None
        origins["companions.households.schema"] = of_households or of_size or records
    return origins
