"""The levels above the records' areas, from a lookup table: the usual case of an office."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from features.imports.tables.guess_spine import GuessedSpine, check_stated, distinct_names, nested_levels
from features.imports.tables.level_names import is_label, rank, says_code
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import counted, first_few
from pipeline.errors import InputError


def levels_of_lookup(
    lookup: TableFile,
    areas: Mapping[str, Column],
    file: TableFile,
    columns: Mapping[str, Column],
    geography: Sequence[str],
    geocode: str | None,
) -> tuple[GuessedSpine, str] | None:
    """The levels, as columns of the lookup table, and the records' column of leaf codes.

    Args:
        lookup: the lookup table.
        areas: the columns of the lookup table, by name.
        file: the records.
        columns: the columns of the records, by name.
        geography: the columns that the user names, top first.
        geocode: the records' column of leaf codes, where the user names it.

    Returns:
        None where the table has one level only, so that the records state what is above.

    Raises:
        InputError: a column is not there, levels cross each other, or it is unclear which column holds the leaf codes.
    """
    if geography:
        missing = [name for name in geography if name not in areas]
        if missing and all(name in columns for name in geography):
            raise InputError(
                f"{lookup}: --areas: no column {missing[0]!r}, which the records have; its columns are "
                f"{', '.join(list(areas)[:20])}"
            )
        check_stated(lookup, areas, geography)
        spine = GuessedSpine(
            tuple(geography), distinct_names(geography), {}, 0, (f"levels, as you stated: {' > '.join(geography)}",)
        )
    else:
        candidates = _candidates(areas)
        if len(candidates) < 2:
            return None
        leaf = _leaf(areas, candidates, file, columns, geocode)
        candidates = [name for name in candidates if name == leaf or areas[name].n_distinct <= areas[leaf].n_distinct]
        spine = nested_levels(lookup, areas, [*(name for name in candidates if name != leaf), leaf])
        if spine.leaf != leaf:
            raise InputError(
                f"{lookup}: column {leaf!r} has the records' codes, and {spine.leaf!r} lies below it; name the levels "
                f"from the top down, the records' last, as --geography"
            )
        unused = [name for name in areas if name not in spine.used and name not in candidates]
        if unused:
            message = f"columns of {lookup} that are not levels: {', '.join(unused)}"
            spine = GuessedSpine(
                spine.columns, spine.names, {}, 0, (*spine.messages, message), spine.joined, spine.beside
            )
    if geocode is not None:
        if geocode not in columns:
            raise InputError(
                f"{file}: --geocode: no column {geocode!r}; the columns are {', '.join(list(columns)[:20])}"
            )
        return spine, geocode
    return spine, _same_codes(areas[spine.leaf], lookup, file, columns)


def _candidates(areas: Mapping[str, Column]) -> list[str]:
    """The columns that can be levels, from the top down as far as their names show."""
    ranked = sorted((order, i, name) for i, name in enumerate(areas) if (order := rank(name)) is not None)
    others = [
        name
        for name, column in areas.items()
        if rank(name) is None and not is_label(name) and column.numbers is None and says_code(name)
    ]
    # Unknown names go where their number of values puts them.
    names = [name for _, _, name in ranked]
    for name in others:
        at = next(
            (i for i, candidate in enumerate(names) if areas[candidate].n_distinct > areas[name].n_distinct), len(names)
        )
        names.insert(at, name)
    return names


def _leaf(
    areas: Mapping[str, Column],
    candidates: Sequence[str],
    file: TableFile,
    columns: Mapping[str, Column],
    geocode: str | None,
) -> str:
    """The lookup's column that has the codes of the records."""
    common = [name for name in candidates if name in columns] if geocode is None else []
    if common:
        return max(common, key=lambda name: areas[name].n_distinct)
    sought = [columns[geocode]] if geocode is not None and geocode in columns else list(columns.values())
    fitting = [
        name
        for name in candidates
        for column in sought
        if column.n_distinct > 1 and not column.values.keys() - areas[name].values.keys()
    ]
    if not fitting:
        raise InputError(
            f"{file}: no column has the codes of the list of areas; name the records' column as --geocode, and the "
            f"list's from the top down as --geography (the list's are {', '.join(list(areas)[:20])})"
        )
    return max(fitting, key=lambda name: areas[name].n_distinct)


def _same_codes(leaf: Column, lookup: TableFile, file: TableFile, columns: Mapping[str, Column]) -> str:
    """The records' column with the codes of the lookup's leaf: by its name, else by its values."""
    if leaf.name in columns:
        return leaf.name
    fitting = [
        name
        for name, column in columns.items()
        if column.n_distinct > 1 and not column.values.keys() - leaf.values.keys()
    ]
    if len(fitting) == 1:
        return fitting[0]
    subject = f"columns {', '.join(fitting)} have" if fitting else "no column has"
    raise InputError(f"{file}: {subject} the codes of {leaf.name!r} in {lookup}; name the records' column as --geocode")


def check_known(file: TableFile, column: Column, leaf: Column, lookup: TableFile) -> None:
    """InputError unless every code of the records is in the list of areas, also where zeros were lost on one side."""
    listed = set(leaf.values)
    unknown = [code for code in column.values if code not in listed] if not leaf.too_many else []
    if unknown:
        n_rows = sum(column.values[code] for code in unknown)
        raise InputError(
            f"{file}: column {column.name!r}: {counted(len(unknown), 'code')} in {counted(n_rows, 'row')} "
            f"{'is' if len(unknown) == 1 else 'are'} not in {lookup}: {first_few(np.array(unknown))}; the list has to "
            "name every area"
        )
