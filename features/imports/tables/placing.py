"""Where the records are: the spine, the list of its areas, and the records with a column of leaf codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import pyarrow as pa

from features.imports.tables.grid import cell_of_point, cells_of_codes, grid_of
from features.imports.tables.guess_spine import GuessedSpine, guess_spine, join_codes
from features.imports.tables.level_names import is_bare_label, labelled, plain
from features.imports.tables.levels_above import levels_above
from features.imports.tables.lookup import check_known, levels_of_lookup
from features.imports.tables.number_columns import NumberColumns
from features.imports.tables.parts import Parts, Texts
from features.imports.tables.place_totals import place_totals
from features.imports.tables.profile import Column, profile
from features.imports.tables.request import TableRequest
from features.imports.tables.table_file import TableFile
from geography.build import spine_from_prefixes, spine_from_table
from geography.codes import counted
from pipeline.errors import InputError, SpineError
from pipeline.spec.wording.fields import unfit


@dataclass(frozen=True)
class Placed:
    """The records with their places.

    Attributes:
        file: the records.
        columns: those that may be used.
        spine: the levels.
        leaf: the records' column of leaf codes.
        where: all columns of the records that describe the location.
    """

    file: TableFile
    columns: Mapping[str, Column]
    spine: GuessedSpine
    leaf: str
    where: tuple[str, ...]


def usable(file: TableFile, columns: Mapping[str, Column], ignore: Sequence[str]) -> dict[str, Column]:
    """The columns but those that the user leaves out; InputError where one is not there."""
    if missing := [name for name in ignore if name not in columns]:
        raise InputError(f"{file}: --ignore: no column {missing[0]!r}; the columns are {', '.join(list(columns)[:20])}")
    return {name: column for name, column in columns.items() if name not in ignore}


def place_records(
    parts: Parts, file: TableFile, columns: Mapping[str, Column], name: str, numbers: NumberColumns | None = None
) -> Placed:
    """Find the spine, write areas.parquet, and give every record its leaf code; records that change are in `name`.

    Args:
        parts: the folder.
        file: the records.
        columns: those that may be used.
        name: of the file of records that change.
        numbers: the columns of numbers; with them, areas that are sums of others are looked for.

    Raises:
        InputError: no geography is found, or records and list of areas do not fit.
    """
    request = parts.request
    if missing := [attribute for attribute in request.attributes if attribute not in columns]:
        raise InputError(
            f"{file}: --attribute: no column {missing[0]!r}; the columns are {', '.join(list(columns)[:20])}"
        )
    places = {attribute: column for attribute, column in columns.items() if attribute not in request.attributes}
    if request.grid is not None:
        return _on_grid(parts, file, columns, name)
    if request.areas is not None:
        lookup = parts.file(request.areas)
        areas = profile(lookup)
        if not request.levels:
            levels = levels_of_lookup(lookup, areas, file, places, request.geography, request.geocode)
            if levels is not None:
                return _looked_up(parts, file, columns, name, lookup, areas, *levels)
        spine = guess_spine(file, places, request.geography or _leaf_of(request), request.levels)
        if missing := [
            attribute for attribute in spine.columns if attribute not in areas and attribute not in (spine.joined or {})
        ]:
            raise InputError(
                f"{lookup}: --areas: no column {missing[0]!r}, which the records have; its columns are "
                f"{', '.join(list(areas)[:20])}"
            )
        source = lookup
    else:
        spine = guess_spine(file, places, request.geography or _leaf_of(request), request.levels)
        source = file
    is_own = source is file
    if numbers:
        before = file
        file, columns, spine = place_totals(parts, file, columns, numbers, spine, name)
        source = file if source is before else source
    if is_own and not (request.geography or request.levels):
        spine = levels_above(file, columns, spine)
    spine = _with_whole(spine)
    parts.messages += spine.said
    if is_own:
        parts.messages.append("areas.parquet was made from the records; put the public list of all areas in its place")
    changed = bool(spine.width) or spine.leaf in (spine.joined or {})
    _write_areas(parts, source, spine)
    if changed:
        widths = _widths(columns, spine)
        file = parts.rewritten(file, name, lambda chunk: _with_leaf(chunk, spine, widths))
        columns = usable(file, profile(file), request.ignore)
    return Placed(file, columns, spine, spine.leaf, (*spine.used, *spine.columns))


def _with_whole(spine: GuessedSpine) -> GuessedSpine:
    """The spine, with a level of one area above where it has one level only."""
    if len(spine.names) > 1 or spine.prefixes:
        return spine
    whole = next(name for name in ("all", "whole", "top") if name != spine.names[0].casefold())
    message = f"level {whole!r} was added above {spine.names[0]!r}: one area that is the sum of all"
    return replace(spine, names=(whole, *spine.names), whole=whole, messages=(*spine.messages, message))


def _leaf_of(request: TableRequest) -> tuple[str, ...]:
    return (request.geocode,) if request.geocode is not None else ()


def _widths(columns: Mapping[str, Column], spine: GuessedSpine) -> dict[str, int]:
    """The width of each joined column's codes, where it is one."""
    parts = {part for joined in (spine.joined or {}).values() for part in joined}
    return {name: next(iter(columns[name].digits)) for name in parts if len(columns[name].digits) == 1}


def _with_leaf(chunk: Texts, spine: GuessedSpine, widths: Mapping[str, int]) -> Texts:
    """The columns, with leaf codes filled up to their width, or made."""
    if spine.width:
        return {**chunk, spine.leaf: [code.zfill(spine.width) if code else code for code in chunk[spine.leaf]]}
    return {**chunk, spine.leaf: join_codes(chunk, (spine.joined or {})[spine.leaf], widths)}


def _looked_up(
    parts: Parts,
    file: TableFile,
    columns: Mapping[str, Column],
    name: str,
    lookup: TableFile,
    areas: Mapping[str, Column],
    spine: GuessedSpine,
    geocode: str,
) -> Placed:
    """The records' codes are those of the lookup's leaf."""
    parts.messages += [f"{line}" for line in spine.messages]
    parts.messages.append(f"column {geocode!r} has the codes of {spine.leaf!r} in {lookup}")
    if spine.leaf in (spine.joined or {}):
        raise InputError(
            f"{lookup}: codes of the lowest level are used again in other areas, so the records' codes do not show "
            "which is meant; the list needs codes of its own for each area"
        )
    leaf = areas[spine.leaf]
    widths = {len(code) for code in leaf.values}
    width = max(widths)
    short = [code for code in columns[geocode].values if code not in leaf.values]
    if short and len(widths) == 1 and all(code.zfill(width) in leaf.values for code in short):
        parts.messages.append(f"column {geocode!r}: leading zeros were lost and have been restored")
        file = parts.rewritten(
            file, name, lambda chunk: {**chunk, geocode: [code.zfill(width) if code else "" for code in chunk[geocode]]}
        )
        columns = usable(file, profile(file), parts.request.ignore)
    check_known(file, columns[geocode], leaf, lookup)
    _write_areas(parts, lookup, spine)
    # Columns of the records with the lookup's names describe the location, too.
    where = [column for column in columns if column in spine.used]
    return Placed(file, columns, spine, geocode, (*where, geocode))


def _write_areas(parts: Parts, file: TableFile, spine: GuessedSpine) -> None:
    """areas.parquet: one column a level, or the nested codes; beside them the areas' names, where the file has them."""
    joined = spine.joined or {}
    raw = dict.fromkeys(part for name in spine.columns for part in joined.get(name, (name,)))
    labels = _labels(parts, file, spine, raw)
    rows = file.distinct_rows([*raw, *labels])
    widths = {}
    for name in raw:
        lengths = set(rows[name].str.len()) - {0}
        if len(lengths) == 1 and rows[name][rows[name] != ""].str.isdecimal().all():
            widths[name] = lengths.pop()
    for name, columns in joined.items():
        rows[name] = join_codes({code_column: rows[code_column].tolist() for code_column in columns}, columns, widths)
    rows = rows[[*spine.columns, *labels]].drop_duplicates()
    incomplete = (rows[list(spine.columns)] == "").any(axis=1)
    if incomplete.all():
        raise InputError(f"{file}: no row has a code in every column of {', '.join(spine.columns)}")
    if incomplete.any():
        parts.messages.append("Warning: rows without a code in every column of the geography are in no area")
    rows = rows[~incomplete].copy()
    if spine.width:  # a list may have lost zeros, too
        rows[spine.leaf] = rows[spine.leaf].str.zfill(spine.width)
    named = _named(parts, rows, spine, labels)
    rows = rows[[*spine.columns, *named.values()]].drop_duplicates(list(spine.columns))
    store_areas(parts, file, rows, spine, named)


def _labels(parts: Parts, file: TableFile, spine: GuessedSpine, raw: Collection[str]) -> dict[str, str]:
    """The columns that hold names of areas, as their own names say, and the level of each."""
    of_columns = spine.names[-1:] if spine.prefixes or spine.whole else spine.names
    of_column = {} if spine.prefixes else dict(zip(spine.columns, of_columns, strict=True))
    level_of = {plain(column): level for level, column in zip(of_columns, spine.columns, strict=True)}
    level_of |= {plain(level): level for level in spine.names}
    taken = {*raw, *parts.request.ignore, *parts.request.attributes}
    found: dict[str, str] = {}
    for column in file.names():
        level = level_of.get(labelled(column) or "")
        if level is None and column in spine.twins and spine.twins[column] in of_column:
            level = of_column[spine.twins[column]]
        # In the records a column "name" is a person's, unless each area has one, and each one an area.
        if level is None and is_bare_label(column) and column not in taken:
            own = parts.request.areas is None and not spine.prefixes and not spine.joined
            if parts.request.areas is not None or (own and _one_to_one(file, spine.leaf, column)):
                level = spine.names[-1]
        if level is not None and column not in taken:
            found[column] = level
    return found


def _one_to_one(file: TableFile, leaf: str, column: str) -> bool:
    """Whether each of several areas has one text of the column, and each text one area."""
    rows = file.distinct_rows([leaf, column])
    return len(rows) > 2 and not rows[leaf].duplicated().any() and not rows[column].duplicated().any()


def _named(parts: Parts, rows: pd.DataFrame, spine: GuessedSpine, labels: Mapping[str, str]) -> dict[str, str]:
    """Level -> the first column that names each of its areas, once; a sentence on each column."""
    named: dict[str, str] = {}
    for column, level in labels.items():
        if level in named:
            why = f"column {named[level]!r} has names of them"
        else:
            why = _why_unnamed(_codes(rows, spine, level), rows[column].str.strip())
        if why:
            parts.messages.append(f"column {column!r}: names of {level!r} are not kept: {why}")
        else:
            parts.messages.append(f"column {column!r} has the names of {level!r}")
            parts.area_names.append(column)
            named[level] = column
    return {level: named[level] for level in spine.names if level in named}


def _codes(rows: pd.DataFrame, spine: GuessedSpine, level: str) -> pd.Series[str]:
    """The code of each row's area at a level."""
    if spine.prefixes:
        return rows[spine.leaf].str[: spine.prefixes[level]]
    return rows[spine.columns[spine.names.index(level) - bool(spine.whole)]]


def _why_unnamed(codes: pd.Series[str], names: pd.Series[str]) -> str:
    """Why the names cannot be those of the areas, "" if they can."""
    if names.equals(codes):
        return "they are the codes"
    for code, name in zip(codes, names, strict=True):
        if problem := unfit(name):
            return f"that of {code!r} {problem}"
    several = names.groupby(codes).nunique()
    if (several > 1).any():
        return f"{several.index[several > 1][0]!r} has several"
    return ""


def store_areas(
    parts: Parts, file: TableFile, rows: pd.DataFrame, spine: GuessedSpine, named: Mapping[str, str] | None = None
) -> None:
    """Write the areas in order, one row a leaf, once they are found to be a tree; `named`: level -> column of names."""
    rows = rows.sort_values(list(spine.columns))
    if spine.whole:
        rows = rows.assign(**{spine.whole: spine.whole})
    names = ("geocode",) if spine.prefixes else spine.names
    columns = dict(zip(names, (*((spine.whole,) if spine.whole else ()), *spine.columns), strict=True))
    for level, column in (named or {}).items():
        parts.names[level] = _free(f"{level}_name", columns)
        columns[parts.names[level]] = column
    table = pa.table({name: pa.array(rows[column].tolist(), pa.string()) for name, column in columns.items()})
    try:
        if spine.prefixes:
            spine_from_prefixes(table.column("geocode").to_pylist(), spine.prefixes)
        else:
            spine_from_table(table, spine.names)
    except SpineError as error:
        raise InputError(f"{file}: {error}") from None
    parts.folder.parquet("areas.parquet", table)


def _on_grid(parts: Parts, file: TableFile, columns: Mapping[str, Column], name: str) -> Placed:
    """Cells of a grid: the records' own codes, or those of the cells in which their coordinates lie."""
    grid = parts.request.grid
    assert grid is not None
    source = file if parts.request.areas is None else parts.file(parts.request.areas)
    for table in {file, source}:
        if missing := [column for column in grid.columns if column not in table.names()]:
            raise InputError(
                f"{table}: --grid: no column {missing[0]!r}; the columns are {', '.join(table.names()[:20])}"
            )
    rows = source.distinct_rows(grid.columns)
    rows = rows[(rows != "").all(axis=1)]
    if grid.size is None:
        codes = sorted(rows[grid.columns[0]])
        size, cells = cells_of_codes(codes, f"{source}, column {grid.columns[0]!r}")
        leaf = grid.columns[0]
    else:
        size, leaf = grid.size, _free("cell", columns)
        cells = sorted({_cell(source, x, y, size) for x, y in zip(*(rows[c] for c in grid.columns), strict=True)})
        codes = []
    tree = grid_of(size, cells)
    paths = [tree.codes(*cell) for cell in cells]
    if codes:
        paths = [(*path[:-1], code) for path, code in zip(paths, codes, strict=True)]
    names = tree.level_names
    spine = GuessedSpine(names, names, {}, 0, (), None, ())
    store_areas(parts, source, pd.DataFrame(paths, columns=list(names)), spine)
    parts.messages.append(f"levels: {' > '.join(names)}, squares of a grid, four of which make one of the level above")
    parts.messages.append(f"{counted(len(paths), 'cell')} of the grid are in areas.parquet")
    if source is file:
        parts.messages.append("areas.parquet was made from the records; put the public list of all cells in its place")
    if not codes:
        x, y = grid.columns

        def located(chunk: Texts) -> Texts:
            leaf_cells = [
                tree.codes(*_cell(file, *point, size))[-1] if all(point) else ""
                for point in zip(chunk[x], chunk[y], strict=True)
            ]
            return {leaf: leaf_cells, **chunk}

        file = parts.rewritten(file, name, located)
        columns = usable(file, profile(file), parts.request.ignore)
    return Placed(file, columns, spine, leaf, (*grid.columns, leaf))


def _cell(file: TableFile, x: str, y: str, size: int) -> tuple[int, int]:
    cell = cell_of_point(x, y, size)
    if cell is None:
        raise InputError(f"{file}: --grid: found the coordinates {x!r}, {y!r}; numbers are needed")
    return cell


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name
