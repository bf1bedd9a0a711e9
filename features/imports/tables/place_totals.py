"""Areas that are sums of others are taken out of a table, and become the levels above where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.area_totals import AreaTotals, find_area_totals
from features.imports.tables.cells import Cells
from features.imports.tables.coded import Coded
from features.imports.tables.guess_spine import GuessedSpine
from features.imports.tables.level_names import is_label, rank
from features.imports.tables.number_columns import NumberColumns
from features.imports.tables.parts import Parts
from features.imports.tables.profile import Column, profile
from features.imports.tables.table_file import TableFile
from features.imports.tables.total_rows import CountTable, count_tables
from geography.codes import counted, first_few
from pipeline.errors import InputError

#: Numbers of areas times cells up to which cells are compared one by one; beyond, sums of cells are.
_MOST_CELLS = 20_000_000
_SUMS_OF_CELLS = 64
#: So many bits of agreement make a sum no accident.
_BITS = 20.0
#: What levels are called that sums of areas make, from the top down.
_LEVELS = (("region",), ("region", "district"), ("region", "district", "subdistrict"))


def place_totals(
    parts: Parts,
    file: TableFile,
    columns: Mapping[str, Column],
    numbers: NumberColumns,
    spine: GuessedSpine,
    name: str,
) -> tuple[TableFile, dict[str, Column], GuessedSpine]:
    """The table without areas that are sums of others, in `name` where it had some; its columns and its levels.

    Raises:
        InputError: areas are nearly the sums of others.
    """
    leaf = spine.leaf
    same = file, dict(columns), spine
    if spine.joined:
        return *_without_wholes(parts, file, columns, numbers, list(spine.joined.values())[-1], name), spine
    ways = [] if spine.prefixes or leaf not in columns else count_tables(columns, numbers, parts.request.asked)
    if not ways or columns[leaf].too_many:
        return same
    found, sizes, areas_of_rows = _sums(file, columns, numbers, ways, spine)
    totals = set(found.totals)
    if found.problem:
        totals = _settled(parts, file, leaf, found, sizes)
    if not totals:
        return same
    areas = list(sizes)
    leaves = [area for area in areas if area not in totals]
    chains = found.chains(leaves) if len(spine.columns) == 1 and not found.unplaced else []
    kept = ~np.array([area in totals for area in areas], dtype=bool)[areas_of_rows]
    many = [area for area in areas if area in totals]
    parts.messages.append(
        f"column {leaf!r}: {counted(len(totals), 'area')} ({first_few(many)}) {'is' if len(totals) == 1 else 'are'} "
        f"the sum of others in every cell: {'levels above' if chains else 'left out'}"
    )
    added: dict[str, tuple[str, dict[str, str]]] = {}
    levels = _level_names(chains, columns)
    names_of = _area_names(file, leaf, columns)
    for level, chain in zip(levels, chains, strict=True):
        # A whole may have no code: it is called as its level.
        added[level] = (leaf, _Known({area: above or level for area, above in chain.items()}))
        if names_of and f"{level}_name" not in columns:
            added[f"{level}_name"] = (leaf, _Known({area: names_of.get(above, "") for area, above in chain.items()}))
    file = parts.changed(file, name, kept=kept, added=added)
    found_columns = profile(file)
    columns = {column: one for column, one in found_columns.items() if column in columns or column in added}
    if chains:
        parts.messages.append(f"levels: {' > '.join([*levels, leaf])}, as the areas add up")
        spine = replace(spine, columns=(*levels, leaf), names=(*levels, *spine.names), messages=())
    return file, dict(columns), spine


def _sums(
    file: TableFile,
    columns: Mapping[str, Column],
    numbers: NumberColumns,
    ways: Sequence[CountTable],
    spine: GuessedSpine,
) -> tuple[AreaTotals, dict[str, int], NDArray[np.int32]]:
    """The sums among areas, by the first way to see the counts that has some.

    Returns:
        the sums, the people of each area in the order of the file, and the number of each row's area in that order.
    """
    leaf = spine.leaf
    names = dict.fromkeys(name for way in ways for name in (*way.labels, *(one.column for one in way.counts)))
    names.pop(leaf, None)
    table = Coded.of(file, [leaf, *(name for name in names if not columns[name].too_many or name in numbers)])
    found, sizes = AreaTotals({}, ()), dict.fromkeys(table.texts[leaf], 0)
    for way in ways:
        labels = [
            name
            for name in way.labels
            if name in table.codes
            and name not in spine.used
            and rank(name) is None
            and not is_label(name)
            and not columns[name].nearly_unique
        ]
        labels = [name for name in labels if not _says_of_area(table, leaf, name)]
        keys = table.keys([leaf, *labels])
        if len(np.unique(keys)) < len(keys):
            continue
        cells = _matrix(table, leaf, labels, way.counts)
        sums = find_area_totals(table.texts[leaf], cells)
        if sums.totals or (sums.problem and not found.problem):
            found = sums
            sizes = dict(zip(table.texts[leaf], cells.sum(axis=1).tolist(), strict=True))
        if sums.totals:
            break
    return found, sizes, table.codes[leaf]


def _settled(parts: Parts, file: TableFile, leaf: str, found: AreaTotals, sizes: Mapping[str, int]) -> set[str]:
    """The areas that are left out by the number of people that the user states, where a sum is in doubt."""
    everybody = sum(sizes.values())
    asked = parts.request.asked
    if asked.people is not None and found.suspects:
        return set() if asked.fits(everybody) else set(found.suspects)
    start = f"{file}: column {leaf!r}: {found.problem}; correct the table, or "
    if not found.suspects:
        raise InputError(f"{start}keep the rows of one level")
    without = everybody - sum(sizes[area] for area in found.suspects)
    raise InputError(
        f"{start}say how many people there are: --people {without} without it, --people {everybody} with it"
    )


def _without_wholes(
    parts: Parts,
    file: TableFile,
    columns: Mapping[str, Column],
    numbers: NumberColumns,
    joined: Sequence[str],
    name: str,
) -> tuple[TableFile, dict[str, Column]]:
    """The table without the rows of a code that is, in every area above, the sum of all others: county 000 of a state.

    Args:
        joined: the columns whose codes are joined, the lowest last.
    """
    *above, lowest = joined
    for seen in count_tables(columns, numbers, parts.request.asked)[:1]:
        table = Coded.of(file, [*joined, *(one.column for one in seen.counts)])
        parents = np.unique(table.keys(above), return_inverse=True)[1]
        codes = table.codes[lowest]
        shape = (int(parents.max()) + 1, len(table.texts[lowest]))
        whole = np.ones(shape, dtype=bool)
        there = np.zeros(shape, dtype=bool)
        bits = np.zeros(shape)
        for one in seen.counts:
            sums = np.bincount(parents * shape[1] + codes, table.numbers(one), shape[0] * shape[1]).reshape(shape)
            whole &= 2 * sums == sums.sum(axis=1, keepdims=True)
            there |= sums > 0
            bits += np.log2(1 + sums)
        sure = np.where(whole, bits, 0.0).sum(axis=0) > _BITS
        wholes = np.flatnonzero(whole.all(axis=0) & sure)
        if not len(wholes):
            _check_wholes(file, table, joined, whole & there & sure, there)
        if len(wholes):
            kept = codes != wholes[0]
            parts.messages.append(
                f"column {lowest!r}: {counted(int((~kept).sum()), 'row')} with {table.texts[lowest][wholes[0]]!r} left "
                f"out: the sum of all others in every {above[-1]!r}"
            )
            file = parts.changed(file, name, kept=kept)
            found = profile(file)
            return file, {column: found[column] for column in columns}
    return file, dict(columns)


def _check_wholes(
    file: TableFile, table: Coded, joined: Sequence[str], whole: NDArray[np.bool_], there: NDArray[np.bool_]
) -> None:
    """InputError where a code is the sum of all others in most areas above it, and not in all: locality 0000.

    Args:
        whole, there: `(n_areas_above, n_codes)` where a code is that sum; where it has people.
    """
    in_areas, in_all = whole.sum(axis=0), there.sum(axis=0)
    for i in np.flatnonzero((in_areas > 1) & (2 * in_areas > in_all)).tolist():
        raise InputError(
            f"{file}: column {joined[-1]!r}: the rows with {table.texts[joined[-1]][i]!r} are the sum of all others in "
            f"{in_areas[i]:,} of {in_all[i]:,} {joined[-2]!r} and not in the rest, so that people would be counted "
            "twice; leave the rows of sums out of the table, all of them"
        )


class _Known(dict[str, str]):
    """Area -> the one above; nothing for an empty field."""

    def __missing__(self, text: str) -> str:
        return ""


def _level_names(chains: Sequence[Mapping[str, str]], columns: Mapping[str, Column]) -> list[str]:
    """A name for each level from the top: a whole, then regions."""
    if not chains:
        return []
    whole = len(set(chains[0].values())) == 1
    depth = len(chains) - whole
    below = list(_LEVELS[depth - 1]) if 0 < depth <= len(_LEVELS) else [f"level_{i + 1}" for i in range(depth)]
    names = [*(["country"] if whole else []), *below]
    taken = {name.casefold() for name in columns}
    return [f"{name}_above" if name in taken else name for name in names]


def _says_of_area(table: Coded, leaf: str, name: str) -> bool:
    """Whether a column has one text for each area, as its name has."""
    pairs = table.keys([leaf, name])
    return len(np.unique(pairs)) == len(np.unique(table.codes[leaf])) and len(table.texts[leaf]) > 1


def _matrix(table: Coded, leaf: str, labels: Sequence[str], counts: Sequence[Cells]) -> NDArray[np.int64]:
    """`(n_areas, n_cells)`: the counts of each area, in the order in which areas come in the file."""
    areas = table.codes[leaf].astype(np.int64)
    _, cells = np.unique(table.keys(labels), return_inverse=True) if labels else (None, np.zeros(len(areas), np.int64))
    n_areas, n_cells = len(table.texts[leaf]), int(cells.max()) + 1
    if n_areas * n_cells * len(counts) > _MOST_CELLS:
        n_cells = max(1, min(n_cells, _SUMS_OF_CELLS))
        cells = cells % n_cells
    columns = []
    for one in counts:
        # Sums of fewer than 2^53 people are exact in doubles.
        sums = np.bincount(areas * n_cells + cells, table.numbers(one), n_areas * n_cells)
        columns.append(sums.astype(np.int64).reshape(n_areas, n_cells))
    return np.concatenate(columns, axis=1)


def _area_names(file: TableFile, leaf: str, columns: Mapping[str, Column]) -> dict[str, str]:
    """Area -> its name, where a column beside the codes has one of each."""
    for name, column in columns.items():
        if name == leaf or column.too_many or not (is_label(name) or rank(name) is not None):
            continue
        rows = file.distinct_rows([leaf, name])
        if not rows[leaf].duplicated().any() and not (rows[name] == "").all():
            return dict(zip(rows[leaf], rows[name], strict=True))
    return {}
