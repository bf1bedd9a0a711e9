"""A table, read as it is stated -> a folder with its areas, its records and a spec that runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.imports.folder import ImportFolder, import_folder
from features.imports.tables.areas import Areas, read_areas
from features.imports.tables.counts import check_number, check_once, check_sums, melt, names_of_wide, read_counts
from features.imports.tables.files import Opened, open_source
from features.imports.tables.format import text_format
from features.imports.tables.given_schema import given_attribute, has_households, schema_columns
from features.imports.tables.households import SIZE, households_of, place_persons
from features.imports.tables.sources import is_database
from features.imports.tables.spec_text import Universe, table_spec
from features.imports.tables.statement import Statement, parse_attributes, parse_names
from features.imports.tables.table import Coded, Table, normal, read_table
from features.imports.tables.values import Attribute, attribute_name, check_dates, read_attribute
from geography.codes import counted
from pipeline.errors import InputError
from pipeline.records.record_files import column_names
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import fields_of, installed_slots
from pipeline.storage.files import check_new

#: Cells of a table of all attributes that is measured as one.
MOST_CELLS = 2_100
#: The attribute of a table of counts that is counted by nothing, of one value.
_EVERYBODY = "people"


@dataclass(frozen=True)
class ImportedTable:
    """What was written, and a sentence for each thing that was done."""

    spec: Path
    messages: tuple[str, ...]


def import_table(stated: Statement, out: Path) -> ImportedTable:
    """Read the table as it is stated, and write `out`: persons.parquet, areas.parquet, import.toml and release.toml.

    Raises:
        InputError: the table is not as stated; nothing is written then.
    """
    check_new(out)
    stated.check_complete()
    with import_folder(out) as folder, TemporaryDirectory(dir=folder.path.parent) as work:
        return _imported(stated, out, folder, Path(work))


def _imported(stated: Statement, out: Path, folder: ImportFolder, work: Path) -> ImportedTable:
    opened = _open(stated, work, stated.source, stated.query, main=True)
    names = column_names(opened.path, text=opened.text)
    messages: list[str] = []
    of_list = None if stated.schema is None else schema_columns(Path(stated.schema), "attributes", names)
    asked = parse_attributes(stated.attributes)
    by = [column for _, column, _ in of_list] if of_list is not None else list(asked)
    cells = names_of_wide(names, stated.wide) if stated.wide is not None else {}
    lookup = _lookup(stated, work)
    homes = _homes(stated, work)
    places = [c for c in stated.columns if lookup is None or c in names] if homes is None else []
    if homes is None and stated.columns[-1] not in places:
        raise InputError(f"{opened.label}: no column {stated.columns[-1]!r}; the columns are {', '.join(names[:30])}")
    of_households = list(parse_names(stated.household_attributes))
    home_schema = _home_schema(stated, homes.names if homes is not None else names)
    if home_schema is not None:
        of_households = [column for _, column, _ in home_schema]
    wanted = [*places, *by, *cells, *(c.column for c in stated.conditions if not cells or c.column in names)]
    wanted += [name for name in (stated.count, stated.level, stated.key) if name is not None]
    table = read_table(opened, [*wanted, *(of_households if homes is None else [])])
    gone = parse_names(stated.missing)
    for name in {*by, *([stated.key] if stated.key else []), *(of_households if homes is None else [])}:
        if gone:
            table.columns[name] = table.columns[name].translated(lambda text: "" if text in gone else text)
    table = _only(_of_level(table, stated), stated)
    counts: NDArray[np.int64]
    if cells:
        others = list(dict.fromkeys([*places, *by]))
        attributes_of_cells = list(next(iter(cells.values())))
        if clash := [name for name in attributes_of_cells if name in table.columns]:
            raise InputError(f"--wide: {clash[0]!r} is the name of a column, too; call the attribute otherwise")
        table, counts = melt(table, cells, others)
        kept = np.ones(len(table), dtype=bool)
        for condition in stated.conditions:
            if condition.column in attributes_of_cells:
                kept &= _held(table.columns[condition.column], condition.holds)
        table, counts = table.only(kept), counts[kept]
        by = [*by, *attributes_of_cells]
    elif stated.count is not None:
        counts = read_counts(table, stated.count)
    else:
        counts = np.ones(len(table), dtype=np.int64)
    if not by:
        by = [attribute_free(_EVERYBODY, list(table.columns))]
        table.columns[by[0]] = Coded(np.zeros(len(table), dtype=np.int32), ["all"])
    if not len(table):
        raise InputError(f"{table}: no row is left")
    if homes is not None and stated.key is not None:
        areas = read_areas(homes, stated, lookup)
        rows_of_persons = place_persons(table, homes, stated.key)
        leaf = Coded(areas.leaf.codes[rows_of_persons], areas.leaf.texts)
        n_areas = areas.n_named
    else:
        areas = read_areas(table, stated, lookup)
        leaf, n_areas = areas.leaf, areas.n_named
    for name in by:
        check_dates(table, name)
    if not stated.records:
        check_once(table, {stated.columns[-1]: leaf, **{name: table.columns[name] for name in by}})
    look = {stated.columns[-1]: leaf, **{name: table.columns[name] for name in by}}
    tried = {name: one for name, one in table.columns.items() if name != stated.count and name != stated.key} | look
    # A number that is not the expected one is told first, with the change that would give it.
    check_number(table, stated, tried, counts, n_areas)
    if not stated.records:
        check_sums(table, look, counts, stated.conditions, wide=bool(cells))
    if of_list is not None:
        given = {column: (name, entry) for name, column, entry in of_list}
        attributes = [
            given_attribute(Path(str(stated.schema)), "attributes", name, column, entry, table)
            for column, (name, entry) in given.items()
        ]
    else:
        attributes = []
    for column in by if of_list is None else by[len(of_list) :]:
        taken = [one.name for one in attributes]
        attributes.append(read_attribute(table, column, asked.get(column), counts, taken))
    used = {*stated.columns, *by, *cells, stated.count, stated.key, stated.level, *of_households}
    left_out = tuple(f"column {name!r}: not stated" for name in names if name not in used)
    geocode = attribute_free("geocode" if stated.columns[-1] in by else stated.columns[-1], by)
    count = None if stated.records else attribute_free("count", [*by, geocode])
    _write(folder, "persons.parquet", {geocode: leaf, **{name: table.columns[name] for name in by}}, count, counts)
    folder.parquet("areas.parquet", areas.table)
    by_pairs = (
        math.prod(len(one.values) for one in attributes) > MOST_CELLS
        and stated.records
        and stated.key is None
        and "marginals" in fields_of(ReleaseSpec, installed_slots())
    )
    proof = (int(counts.sum()), n_areas)
    persons = Universe(
        tuple(attributes), "persons.parquet", geocode, "microdata" if stated.records else "long", count,
        left_out=left_out, by_pairs=by_pairs, expect=None if stated.unproved else proof,
    )  # fmt: skip
    households, home_messages = _households(stated, folder, table, homes, areas, leaf, of_households, home_schema)
    messages += [
        f"{counted(proof[0], 'person', 'people')} in {counted(n_areas, 'area')}, "
        + ("as expected" if not stated.unproved else "not proved: fill in [input] expect"),
        *home_messages,
        "attributes: " + ", ".join(f"{one.name} ({len(one.values)} values)" for one in attributes),
        *(f"left out: {text}" for text in left_out),
    ]
    blank = {
        one.column: one.blank for one in (*attributes, *(households.attributes if households else ())) if one.blank
    }
    if blank:
        lines = [f"{column}\t{text}" for column, texts in blank.items() for text in texts]
        folder.text("values.txt", "\n".join(lines) + "\n", private=True)
        messages += [
            f"Warning: column {c!r}: {counted(len(t), 'value')} to fill in, see values.txt" for c, t in blank.items()
        ]
    text = table_spec(
        name=stated.name or _name_of(stated.source),
        source=stated.label,
        query=stated.query,
        levels=areas.levels,
        origins=_origins(stated, households is not None),
        persons=persons,
        households=households,
        messages=(),
    )
    parse_spec(text, f"{out / 'release.toml'} (not written)", out)
    folder.text("release.toml", text)
    folder.text("import.toml", stated.recipe(), private=True)
    return ImportedTable(out / "release.toml", tuple(messages))


def _open(stated: Statement, work: Path, source: str, query: str | None, *, main: bool) -> Opened:
    text = text_format(source, stated.separator if main else None, stated.encoding if main else None)
    if not main:
        return open_source(source, work, query=query, text=text)
    return open_source(source, work, query=query, sheet=stated.sheet, text=text, header=stated.header_rows)


def _lookup(stated: Statement, work: Path) -> Table | None:
    """The public list of areas."""
    if stated.lookup is None:
        return None
    opened = _open(stated, work, stated.lookup, None, main=False)
    names = column_names(opened.path, text=opened.text)
    if stated.columns[-1] not in names:
        raise InputError(f"{opened.label}: no column {stated.columns[-1]!r}; the columns are {', '.join(names[:30])}")
    return read_table(opened, [name for name in stated.columns if name in names], "--geography")


def _homes(stated: Statement, work: Path) -> Table | None:
    """The table of households."""
    if stated.households is None:
        return None
    opened = _open(stated, work, stated.households, stated.households_query, main=False)
    schema = _home_schema(stated, column_names(opened.path, text=opened.text))
    by = [column for _, column, _ in schema] if schema is not None else list(parse_names(stated.household_attributes))
    table = read_table(opened, [*stated.columns, str(stated.key), *by], "the statement on households")
    gone = parse_names(stated.missing)
    for name in by:
        table.columns[name] = table.columns[name].translated(lambda text: "" if text in gone else text)
    return table


def _home_schema(stated: Statement, names: Sequence[str]) -> tuple[tuple[str, str, dict[str, object]], ...] | None:
    if stated.schema is None or stated.key is None:
        return None
    return schema_columns(Path(stated.schema), "households", names)


def _held(column: Coded, holds: object) -> NDArray[np.bool_]:
    return np.array([holds(text) for text in column.texts], dtype=bool)[column.codes]  # type: ignore[operator]


def _of_level(table: Table, stated: Statement) -> Table:
    """The rows of the one level that is not left out."""
    if stated.level is None:
        return table
    column = table.columns[stated.level]
    dropped = tuple(normal(text) for text in parse_names(stated.drop_level))
    if strange := [text for text in dropped if text not in column.texts]:
        raise InputError(
            f"{table}: --drop-level: no row has {strange[0]!r} in column {stated.level!r}; its values are "
            f"{', '.join(column.texts[:20])}"
        )
    left = [text for text in column.texts if text not in dropped]
    if len(left) != 1:
        raise InputError(
            f"{table}: column {stated.level!r} says that rows are of several levels, {', '.join(map(repr, left[:20]))}, of "
            f"which one is counted: leave out the others with --drop-level VALUE[,VALUE...]"
        )
    return table.only(_held(column, lambda text: text not in dropped))


def _only(table: Table, stated: Statement) -> Table:
    """The rows for which the conditions hold."""
    kept = np.ones(len(table), dtype=bool)
    for condition in stated.conditions:
        if (column := table.columns.get(condition.column)) is None:
            continue
        if strange := [value for value in condition.values if value not in column.texts]:
            raise InputError(
                f"{table}: --only: no row has {strange[0]!r} in column {condition.column!r}; its values are "
                f"{', '.join(column.texts[:20])}"
            )
        kept &= _held(column, condition.holds)
    return table.only(kept)


def attribute_free(name: str, taken: Sequence[str]) -> str:
    """The name of a column that no other has."""
    while name in taken:
        name += "_"
    return name


def _write(
    folder: ImportFolder, name: str, columns: Mapping[str, Coded], count: str | None, counts: NDArray[np.int64]
) -> None:
    arrays: dict[str, pa.Array] = {label: column.arrow() for label, column in columns.items()}
    if count is not None:
        arrays[count] = pa.array(counts)
    folder.parquet(name, pa.table(arrays), private=True)


def _households(
    stated: Statement,
    folder: ImportFolder,
    persons: Table,
    homes: Table | None,
    areas: Areas,
    leaf: Coded,
    by: Sequence[str],
    schema: tuple[tuple[str, str, dict[str, object]], ...] | None,
) -> tuple[Universe | None, list[str]]:
    """The households, written to households.parquet, and what is to be said of them."""
    if stated.key is None:
        return None, []
    homeless = 0
    if homes is None:
        made = households_of(persons, stated.key, leaf, by)
        table, leaf_of_homes, homeless = made.table, made.leaf, made.homeless
    else:
        table, leaf_of_homes = homes, areas.leaf
        if not by:
            raise InputError(
                f"{homes}: --household-attributes COLUMN[,COLUMN...] is needed, or [households] in --schema"
            )
    ones = np.ones(len(table), dtype=np.int64)
    attributes: list[Attribute] = []
    if schema is not None:
        attributes = [given_attribute(Path(str(stated.schema)), "households", n, c, e, table) for n, c, e in schema]
    elif not by:
        labels = tuple(table.columns[SIZE].texts[1:])
        attributes = [Attribute(SIZE, SIZE, labels, about="the number of persons")]
    else:
        for column in by:
            check_dates(table, column)
            attributes.append(read_attribute(table, column, None, ones, [one.name for one in attributes]))
    geocode = attribute_free(stated.columns[-1], [one.column for one in attributes])
    columns = {geocode: leaf_of_homes, **{one.column: table.columns[one.column] for one in attributes}}
    _write(folder, "households.parquet", columns, None, ones)
    universe = Universe(tuple(attributes), "households.parquet", geocode, "microdata")
    if not by and schema is None and not homeless:
        universe = replace(universe, size=attributes[0])
    messages = [f"{counted(len(table), 'household')}"]
    if homeless:
        messages.append(f"{counted(homeless, 'person')} without a household: they are counted, but in no household")
    return universe, messages


def _origins(stated: Statement, with_households: bool) -> dict[str, tuple[str, str]]:
    """Of each public input its source, and where it is from."""
    records = ("records", f"{stated.label}, by spinewise import")
    given = None if stated.schema is None else ("public", Path(stated.schema).name)
    origins = {"geography": records if stated.lookup is None else ("public", Path(stated.lookup).name)}
    stocks = parse_attributes(stated.attributes)
    if given is None and stocks and all(stocks.values()) and stated.wide is None:
        given = ("public", "lists of spinewise")
    origins["schema"] = given if given is not None and stated.wide is None else records
    if with_households:
        of_households = stated.schema is not None and has_households(Path(stated.schema))
        of_size = not of_households and not stated.household_attributes
        origins["companions.households.schema"] = (
            given if of_households and given is not None else ("public", "sizes") if of_size else records
        )
    return origins


def _name_of(source: str) -> str:
    name = "release" if is_database(source) else Path(source).name.split(".")[0]
    return attribute_name(name, ()).lower().replace("_", "-")
