"""A table of records, or of persons and households -> a folder with its areas and a spec that runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from features.imports.folder import import_folder
from features.imports.tables.cells import read_cells
from features.imports.tables.coded import Coded
from features.imports.tables.count_names import about_counts
from features.imports.tables.filling import check_named, filled_down
from features.imports.tables.given_schema import has_households, read_given_schema
from features.imports.tables.guess_schema import (
    MOST_CELLS,
    GuessedAttribute,
    GuessedSchema,
    guess_schema,
    value_labels,
)
from features.imports.tables.guess_spine import level_name
from features.imports.tables.guess_wide import guess_wide
from features.imports.tables.households import check_key, guess_key, households_of, place_persons, size_attribute
from features.imports.tables.level_names import is_label
from features.imports.tables.margins import fill_from_margins
from features.imports.tables.melting import melted
from features.imports.tables.number_columns import NumberColumns, plain_numbers
from features.imports.tables.parts import Parts
from features.imports.tables.placing import Placed, place_records, usable
from features.imports.tables.profile import Column, profile
from features.imports.tables.readings import Reading, Records, choose_reading, stand_once
from features.imports.tables.request import TableRequest as TableRequest
from features.imports.tables.request import TableSource as TableSource
from features.imports.tables.sources import describe_source, is_database
from features.imports.tables.spec_text import GuessedUniverse, table_spec
from features.imports.tables.subtotals import without_subtotals
from features.imports.tables.table_file import TableFile
from features.imports.tables.total_rows import drop_totals
from features.imports.tables.total_values import check_total_values
from geography.codes import counted
from pipeline.errors import InputError
from pipeline.records.person_numbers import PersonNumber, find_person_numbers
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import fields_of, installed_slots
from pipeline.storage.files import check_new

_MOST_LINES = 20


@dataclass(frozen=True)
class ImportedTable:
    """What was written, and what was guessed."""

    spec: Path
    messages: tuple[str, ...]

    @property
    def summary(self) -> tuple[str, ...]:
        """The messages in at most 20 lines, how many people are counted first."""
        first = [line for line in self.messages if " counted: " in line]
        rest = [line for line in self.messages if line not in first]
        lines = [*first, *sorted(rest, key=lambda line: not line.startswith("Warning"))]
        if len(lines) <= _MOST_LINES:
            return tuple(lines)
        more = f"... and {len(lines) - _MOST_LINES + 1} more decisions, see {self.spec.with_name('import.json')}"
        return (*lines[: _MOST_LINES - 1], more)


def import_table(request: TableRequest, out: Path) -> ImportedTable:
    """Look at the table, guess spine and schema, and write `out`: areas.parquet, release.toml, and what was fetched.

    Raises:
        InputError: a file cannot be read, nothing in it can be guessed, or it can be read in two ways that differ in
            people; nothing is written then.
    """
    check_new(out)
    with import_folder(out) as folder:
        parts = Parts(request, folder)
        key: str | None
        households: GuessedUniverse | None
        homes: TableFile | None
        file = parts.table(request.persons, "persons.parquet")
        if request.households is not None:
            placed, key, households, homes = _with_households(parts, file)
            reading = _records_reading(placed, request)
        else:
            placed, numbers = _own_table(parts, file)
            key = _own_key(placed, request)
            households, homes = (None, None) if key is None else _own_households(parts, placed, key)
            if key is not None:
                reading = _records_reading(placed, request)
            else:
                reading = choose_reading(_records(placed, numbers, request), request.asked)
        own = placed.columns[placed.leaf] if request.households is None and key is None else None
        if own is not None and (reading.form != "microdata" or 2 * own.n_missing > own.n_rows):
            check_named(placed.file, own)
        if parts.units and reading.form != "microdata" and request.asked.people is None:
            raise InputError(
                f"{parts.units}: the numbers are in thousands, or more; counts are needed as whole numbers of people "
                "(if they are, say how many people there are: --people)"
            )
        persons = _persons(parts, placed, reading, key, households)
        if households is not None and homes is not None and key is not None:
            households = replace(households, size=size_attribute(households.attributes, placed.file, homes, key))
            if households.size is not None:
                name = households.size.name
                parts.messages.append(f"{name} is the number of persons of each household: they are joined by it")
        text = table_spec(
            name=request.name or _name_of(request.persons.source),
            source=describe_source(request.persons.source),
            query=request.persons.query,
            spine=replace(placed.spine, named=parts.names),
            origins=_origins(request, households is not None, named=bool(parts.names)),
            persons=replace(persons, counted=request.counted),
            households=households,
            messages=parts.messages,
        )
        parse_spec(text, f"{out / 'release.toml'} (not written)", out)
        folder.text("release.toml", text)
        folder.text("import.json", _decisions(parts, placed, reading, persons), private=True)
        parts.tidy()
    return ImportedTable(out / "release.toml", tuple(parts.messages))


def _decisions(parts: Parts, placed: Placed, reading: Reading, persons: GuessedUniverse) -> str:
    """import.json: what was decided, each as the option or the spec would say it."""
    request = parts.request
    text = persons.text
    content = {
        "file": describe_source(request.persons.source),
        "query": request.persons.query,
        "sheet": request.persons.sheet,
        "separator": text.separator,
        "encoding": text.encoding,
        "header": [1, 1],
        "thousands": {},
        "marks": {},
        **parts.decisions,
        "geography": {"levels": list(placed.spine.names), "column": placed.leaf, "names": dict(parts.names)},
        "attributes": {attribute.name: len(attribute.values) for attribute in persons.attributes},
        "left_out": list(persons.left_out),
        "form": reading.form,
        "counts": list(reading.counts),
        "reason": reading.reason,
        "counted": request.counted or "people",
        "total": reading.people,
        "messages": list(parts.messages),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _check_one_table(file: TableFile, columns: Mapping[str, Column]) -> None:
    """InputError where the file is no table, or more than one."""
    if next(iter(columns), "").startswith("[["):
        raise InputError(f"{file}: begins with '[[': it is JSON, a list of rows; save it as a table of rows and commas")
    again = [name for name, column in columns.items() if name in column.values]
    if len(again) > 1:
        rows = file.rows_with(again[0], again[:1])
        raise InputError(
            f"{file}: {file.place(rows)}: the names of the columns stand here again ({', '.join(map(repr, again[:3]))}"
            "): two tables below one another, so an area may have several rows; give each table a file of its own"
        )


def _own_table(parts: Parts, file: TableFile) -> tuple[Placed, NumberColumns]:
    """The table with plain numbers and without totals, its places, and its columns of numbers."""
    found = profile(file)
    _check_one_table(file, found)
    columns = usable(file, found, parts.request.ignore)
    before = file
    if parts.request.asked.form != "microdata":
        file, columns = without_subtotals(parts, file, columns, "blocks.parquet")
    file = filled_down(parts, file, columns, "filled.parquet")
    if file is not before:
        columns = usable(file, profile(file), parts.request.ignore)
    file, columns, numbers = plain_numbers(parts, file, columns, "plain.parquet")
    file, columns, numbers = fill_from_margins(parts, file, columns, numbers, "plain.parquet")
    if parts.request.asked.form != "microdata":
        file, columns = drop_totals(parts, file, columns, numbers, "parts.parquet")
    counted_areas = numbers if parts.request.asked.form != "microdata" else None
    placed = place_records(parts, file, columns, "persons.parquet", counted_areas)
    # Rows of totals took marks with them, such as the code "-" of a total.
    numbers = {
        name: read_cells(placed.columns[name], named=True, thousands="") if cells.marks else cells
        for name, cells in numbers.items()
        if name in placed.columns
    }
    if placed.file.path.parent == parts.folder.path and placed.file.path.suffix == ".parquet":
        path = placed.file.path.rename(placed.file.path.with_name("persons.parquet"))
        placed = replace(placed, file=replace(placed.file, path=path))
    return placed, numbers


def _records(placed: Placed, numbers: NumberColumns, request: TableRequest) -> Records:
    return Records(
        placed.file, placed.columns, numbers, placed.where, placed.leaf, (*request.attributes, *placed.spine.kinds)
    )


def _origins(request: TableRequest, with_households: bool, *, named: bool) -> dict[str, tuple[str, str]]:
    """Of each public input its source, and where it is from."""
    records = ("records", f"{describe_source(request.persons.source)}, by spinewise import")
    given = None if request.schema is None else ("public", request.schema.name)
    origins = {"geography": records if request.areas is None else ("public", request.areas.name)}
    if named:
        origins["names"] = origins["geography"]
    origins["schema"] = given or records
    if with_households:
        of_households = given if request.schema is not None and has_households(request.schema) else None
        origins["companions.households.schema"] = of_households or records
    return origins


def _own_key(placed: Placed, request: TableRequest) -> str | None:
    """The column that leads to households in a table of persons; None where a row is not a person."""
    asked = request.asked
    if asked.form in ("long", "wide") or asked.count is not None or asked.counts:
        return None
    return request.key or guess_key(placed.file, placed.columns, placed.leaf)


def _records_reading(placed: Placed, request: TableRequest) -> Reading:
    """A row is a person of a household."""
    n_rows = placed.columns[placed.leaf].n_rows
    if request.asked.people not in (None, n_rows):
        raise InputError(
            f"{placed.file}: --people states {request.asked.people:,}; the table has {n_rows:,}, one a row: households "
            "were found"
        )
    return Reading("microdata", (), n_rows, "a row is a person of a household")


def _name_of(source: str) -> str:
    name = "release" if is_database(source) else Path(source).name.split(".")[0]
    return level_name(name).replace("_", "-")


def _persons(
    parts: Parts, placed: Placed, reading: Reading, key: str | None, households: GuessedUniverse | None
) -> GuessedUniverse:
    """The release's own histogram, and the sentence that states how many people it counts."""
    request = parts.request
    if reading.form == "wide" and not _one_row_each(placed):
        universe = _melted(parts, placed, reading)
    elif reading.form == "wide":
        universe = _wide(parts, placed, reading)
    else:
        own = households.attributes if households is not None and request.households is None else ()
        universe = _rows(parts, placed, reading, key, [attribute.column for attribute in own])
    parts.messages.append(f"{counted(reading.people, 'person', 'people')} are counted: {reading.reason}")
    return universe


def _with_households(parts: Parts, file: TableFile) -> tuple[Placed, str, GuessedUniverse, TableFile]:
    """The persons with their leaf, their key, the households and their file, of two tables."""
    request = parts.request
    assert request.households is not None
    columns = profile(file)
    household_file = parts.table(request.households, "households.parquet")
    household_columns = profile(household_file)
    key = request.key or next(
        (name for name in household_columns if name in columns and _is_key(household_columns[name])), None
    )
    if key is None:
        raise InputError(
            f"{household_file}: no column is the key of its rows and stands in {file} too; name it with --key"
        )
    for table, of_table in ((file, columns), (household_file, household_columns)):
        check_key(table, of_table, key)
    homes = place_records(parts, household_file, household_columns, "households.parquet")
    with parts.folder.file("located.parquet", private=True) as target:
        n_empty = place_persons(file, homes.file, key, homes.leaf, target)
    parts.messages.append(f"column {key!r} leads from persons to households; persons have the {homes.leaf!r} of theirs")
    if n_empty:
        parts.messages.append(f"{counted(n_empty, 'household')} without persons")
    if file.path.parent == parts.folder.path:
        file.path.unlink()
    located = TableFile(target.rename(target.with_name("persons.parquet")))
    schema = _schema(request, "households", homes.file, homes.columns, [*homes.where, key])
    if not schema.attributes:
        raise InputError(f"{household_file}: no column can be an attribute of households: {'; '.join(schema.left_out)}")
    households = GuessedUniverse(
        schema.attributes, parts.name_in_spec(homes.file), homes.leaf, "microdata", left_out=schema.left_out,
        text=homes.file.text,
    )  # fmt: skip
    persons = usable(located, profile(located), request.ignore)
    where = tuple(name for name in homes.where if name in persons)
    return Placed(located, persons, homes.spine, homes.leaf, where), key, households, homes.file


def _is_key(column: Column) -> bool:
    return not column.n_missing and (column.too_many or column.n_distinct == column.n_rows)


def _own_households(parts: Parts, placed: Placed, key: str) -> tuple[GuessedUniverse, TableFile]:
    """The households of a table of persons, and their file, households.parquet."""
    households = households_of(placed.file, placed.columns, key, placed.leaf, placed.where)
    parts.messages += [f"column {key!r} is the key of households", *households.messages]
    table = pa.table(
        {name: pa.array(households.table[name].tolist(), pa.string()) for name in households.table.columns}
    )
    parts.folder.parquet("households.parquet", table, private=True)
    target = TableFile(parts.folder.path / "households.parquet")
    schema = _schema(parts.request, "households", target, profile(target), [placed.leaf, key])
    if not schema.attributes:
        raise InputError(f"{placed.file}: no column can be an attribute of households: {'; '.join(schema.left_out)}")
    name, left_out = target.path.name, schema.left_out
    return GuessedUniverse(schema.attributes, name, placed.leaf, "microdata", left_out=left_out), target


def _rows(
    parts: Parts, placed: Placed, reading: Reading, key: str | None, of_households: Sequence[str]
) -> GuessedUniverse:
    """Microdata or the long form."""
    file, columns = placed.file, placed.columns
    used = [*placed.where, *reading.counts, *([key] if key is not None else []), *of_households]
    used += [name for name in columns if is_label(name) and name not in parts.request.attributes]
    used = [name for name in used if name not in parts.request.attributes]
    if reading.form != "microdata":
        aside = _beside_counts(file, columns, placed.leaf, used, parts.request.attributes)
        parts.messages += [f"left out: column {name!r}: {why}" for name, why in aside.items()]
        used += list(aside)
    elif key is None:
        used += [name for name in parts.area_names if name not in used]
    can_be_pairs = "marginals" in fields_of(ReleaseSpec, installed_slots())
    by_pairs = can_be_pairs and reading.form == "microdata" and key is None
    schema = _schema(parts.request, "attributes", file, columns, used, by_pairs=by_pairs)
    if not schema.attributes:
        again = [code for code, n in columns[placed.leaf].values.items() if n > 1]
        twice = ""
        if again and 2 * len(again) < columns[placed.leaf].n_distinct:
            rows = file.rows_with(placed.leaf, again[:1])
            twice = f"column {placed.leaf!r}: {again[0]!r} stands in several rows ({file.place(rows)}); "
        raise InputError(
            f"{file}: {twice}no column can be an attribute: "
            f"{'; '.join(schema.left_out) or 'all of them are the geography'}"
        )
    parts.messages.append("attributes: " + ", ".join(f"{a.name} ({len(a.values)} values)" for a in schema.attributes))
    if schema.many:
        parts.messages.append(
            f"a table of all {len(schema.attributes)} attributes has {_about(schema.n_cells)} cells, more than "
            f"{MOST_CELLS:,}: pairs of them are measured, which a run chooses privately, [marginals.choose]"
        )
    parts.messages += [f"left out: {text}" for text in schema.left_out]
    count = reading.counts[0] if reading.form == "long" else None
    repeated = False
    if count is not None:
        cells = [placed.leaf, *(attribute.column for attribute in schema.attributes)]
        if parts.request.asked.people is None:
            counts = read_cells(columns[count], named=True, thousands="")
            check_total_values(file, placed.leaf, counts, [attribute.column for attribute in schema.attributes])
        repeated = _repeated(parts, file, cells, [name for name in columns if name != count])
    else:
        numbers = find_person_numbers(file.path, _possible_numbers(columns, used), text=file.text)
        parts.messages += [_person_number(number) for number in numbers]
    return GuessedUniverse(
        schema.attributes,
        parts.name_in_spec(file),
        placed.leaf,
        "microdata" if count is None else "long",
        count,
        left_out=schema.left_out,
        text=file.text,
        repeated=repeated,
        by_pairs=schema.many,
        amounts=schema.amounts,
    )


def _about(n: int) -> str:
    """A number that may have many digits."""
    return f"{n:,}" if n < 10**9 else f"about 10^{len(str(n)) - 1}"


def _beside_counts(
    file: TableFile, columns: Mapping[str, Column], leaf: str, used: Sequence[str], attributes: Sequence[str]
) -> dict[str, str]:
    """Columns of a table of counts that rows do not differ by, and why: flags, facts about areas, second names."""
    free = [name for name in columns if name not in used and name not in attributes and columns[name].n_distinct]
    aside = {name: "it is about the counts beside it" for name in free if about_counts(name)}
    free = [name for name in free if name not in aside and not columns[name].too_many]
    table = Coded.of(file, [leaf, *free])
    n_areas = len(np.unique(table.codes[leaf]))
    for name in free:
        if len(np.unique(table.keys([leaf, name]))) == n_areas:
            aside[name] = f"it has one value for each {leaf!r}: it says something of the area"
    kept: list[str] = []
    for name in free:
        if name in aside:
            continue
        n_values = columns[name].n_distinct + bool(columns[name].n_missing)
        same = next(
            (
                other
                for other in kept
                if columns[other].n_distinct + bool(columns[other].n_missing) == n_values > 1
                and len(np.unique(table.keys([other, name]))) == n_values
            ),
            None,
        )
        if same is not None:
            aside[name] = f"it says the same as {same!r}"
        else:
            kept.append(name)
    return aside


def _schema(
    request: TableRequest,
    of: str,
    file: TableFile,
    columns: Mapping[str, Column],
    used: Sequence[str],
    *,
    by_pairs: bool = False,
) -> GuessedSchema:
    """The attributes of the public list, if there is one; otherwise what is guessed from the records."""
    free = {name: column for name, column in columns.items() if name not in used}
    given = None if request.schema is None else read_given_schema(request.schema, of, file, free)
    return guess_schema(columns, used, by_pairs=by_pairs) if given is None else given


def _possible_numbers(columns: Mapping[str, Column], used: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in used]


def _person_number(number: PersonNumber) -> str:
    return f"Warning: {number.warning}"


def _repeated(parts: Parts, file: TableFile, cells: Sequence[str], everything: Sequence[str]) -> bool:
    """Whether rows are to be added up, because the columns that distinguish them are left out."""
    if stand_once(file, cells):
        return False
    if parts.request.repeated:
        parts.messages.append("rows of the same cell are added up, as you asked")
        return True
    if stand_once(file, everything):
        parts.messages.append("rows that differ only in columns that are left out are added up")
        return True
    raise InputError(
        f"{file}: the same cell occurs in several rows, which differ only in their counts; give --repeated add "
        "where they are to be added up, or correct the table"
    )


def _one_row_each(placed: Placed) -> bool:
    leaf = placed.columns[placed.leaf]
    return not leaf.n_missing and leaf.unique


def _melted(parts: Parts, placed: Placed, reading: Reading) -> GuessedUniverse:
    """Rows that differ in their area and in more, with counts side by side: a row for each count."""
    cells = guess_wide(placed.file, reading.counts)
    parts.messages += cells.messages
    reasons = dict(reading.left)
    reasons |= {name: "it numbers the rows" for name, one in placed.columns.items() if one.numbers_rows}
    reasons |= {
        name: "nearly every row has a value of its own, as an identifier has"
        for name, one in placed.columns.items()
        if one.nearly_unique and name not in reading.counts
    }
    left = [name for name in placed.columns if name in reasons and name not in placed.where]
    parts.messages += [f"left out: column {name!r}: {reasons[name]}" for name in left]
    file, count, _ = melted(parts, placed.file, cells, reading.counts, "persons.parquet")
    columns = {name: column for name, column in profile(file).items() if name not in left}
    rows = Placed(file, columns, placed.spine, placed.leaf, placed.where)
    return _rows(parts, rows, Reading("long", (count,), reading.people, reading.reason), None, ())


def _wide(parts: Parts, placed: Placed, reading: Reading) -> GuessedUniverse:
    if parts.request.schema is not None:
        raise InputError(
            f"{placed.file}: --schema: the table has its cells side by side, and their names are the values; make them "
            "public in the spec: [provenance.inputs]"
        )
    cells = guess_wide(placed.file, reading.counts)
    reasons = dict(reading.left)
    others = [name for name in placed.columns if name not in placed.where and name not in reading.counts]
    left_out = tuple(f"column {name!r}: {reasons.get(name, 'not one of the counts')}" for name in others)
    parts.messages += cells.messages
    parts.messages += [f"left out: {text}" for text in left_out]
    attributes = tuple(_named(name, values) for name, values in cells.attributes.items())
    return GuessedUniverse(
        attributes,
        parts.name_in_spec(placed.file),
        placed.leaf,
        "wide",
        cells=cells.cells,
        left_out=left_out,
        text=placed.file.text,
    )


def _named(name: str, texts: Sequence[str]) -> GuessedAttribute:
    labels = value_labels(texts)
    mapped = {text: label for text, label in labels.items() if text != label}
    return GuessedAttribute(name, name, tuple(labels.values()), mapped)
