"""Guesses the cells of a table with a row an area and a column a count, from the columns' names and sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.imports.tables.guess_schema import attribute_name
from pipeline.imports.tables.profile import CHUNK_ROWS, Column
from pipeline.records.columns import CountReader
from pipeline.records.problems import MistakeLog
from pipeline.records.record_files import open_records

_RACES = {"white", "black", "aian", "asian", "nhpi", "sor", "other", "hisp", "hispanic", "two"}


@dataclass(frozen=True)
class WideCells:
    """The attributes and cells that were found.

    Attributes:
        attributes: name -> values as the columns' names have them.
        cells: entries of [input] cells.
        used: the count columns.
        told: what was guessed.
    """

    attributes: Mapping[str, tuple[str, ...]]
    cells: tuple[Mapping[str, str], ...]
    used: tuple[str, ...]
    told: tuple[str, ...]


def is_wide(columns: Mapping[str, Column], leaf: str, others: Sequence[str]) -> bool:
    """Whether each row is an area of its own and at least two of the other columns are counts."""
    codes = columns[leaf]
    one_each = not codes.n_missing and (codes.too_many or codes.n_distinct == codes.n_rows) and codes.nearly_unique
    few = not codes.n_missing and codes.n_distinct == codes.n_rows and codes.n_rows > 1
    return (one_each or few) and len(_counts(columns, others)) >= 2


def _counts(columns: Mapping[str, Column], names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        numbers = columns[name].numbers
        if numbers and numbers[0] >= 0 and not columns[name].n_missing and columns[name].n_distinct > 1:
            found.append(name)
    return found


def guess_wide(path: Path, columns: Mapping[str, Column], names: Sequence[str]) -> WideCells:
    """The cells that the count columns among `names` state.

    pop_white, pop_black ... are values of one attribute; where vap_white, vap_black ... are there too and never more,
    they count a part of these persons; pop is their sum and not needed.
    """
    counts = _counts(columns, names)
    families: dict[str, list[str]] = {}
    for name in counts:
        prefix, _, ending = name.partition("_")
        if ending:
            families.setdefault(prefix, []).append(ending)
    families = {prefix: endings for prefix, endings in families.items() if len(endings) > 1}
    sizes = {tuple(sorted(endings)) for endings in families.values()}
    if len(families) == 1 or (len(families) > 1 and len(sizes) == 1):
        return _families(path, counts, families)
    return _single(path, counts)


def _families(path: Path, counts: Sequence[str], families: Mapping[str, Sequence[str]]) -> WideCells:
    prefixes = list(families)
    endings = tuple(families[prefixes[0]])
    group = "race" if len(_RACES & {e.lower() for e in endings}) >= 3 else "group"
    used = [f"{prefix}_{ending}" for prefix in prefixes for ending in endings]
    told = [f"columns {prefix}_... are counts by {group}: {', '.join(endings)}" for prefix in prefixes]
    sums = {prefix: [f"{prefix}_{ending}" for ending in endings] for prefix in prefixes if prefix in counts}
    less = _less_or_equal(path, prefixes, endings)
    told += _told_sums(path, sums)
    if less is not None:
        part, whole = less
        adults = (part.lower(), whole.lower()) == ("vap", "pop")
        name = "votingage" if adults else attribute_name(f"in_{part}", [group])
        inside, outside = ("18plus", "under18") if adults else ("yes", "no")
        told.append(f"no {part}_... is more than its {whole}_..., so they are a part of it: attribute {name}")
        return WideCells(
            {name: (outside, inside), group: endings},
            (
                {"counts": f"{part}_{{{group}}}", name: inside},
                {"counts": f"{whole}_{{{group}}} - {part}_{{{group}}}", name: outside},
            ),
            (*used, *sums),
            tuple(told),
        )
    if len(prefixes) == 1:
        cells: tuple[Mapping[str, str], ...] = ({"counts": f"{prefixes[0]}_{{{group}}}"},)
        return WideCells({group: endings}, cells, (*used, *sums), tuple(told))
    cells = ({"counts": f"{{kind}}_{{{group}}}"},)
    return WideCells({"kind": tuple(prefixes), group: endings}, cells, (*used, *sums), tuple(told))


def _single(path: Path, counts: Sequence[str]) -> WideCells:
    """Every count is a value of one attribute, but for one that is the sum of the others."""
    values = list(counts)
    told = []
    for name in counts:
        others = [other for other in counts if other != name]
        if len(others) > 1 and not _differences(path, {name: others})[name]:
            values = others
            told.append(f"column {name!r} is the sum of the other counts and is not needed")
            break
    told.insert(0, f"columns {', '.join(values[:6])}{' ...' if len(values) > 6 else ''} are counts, one cell each")
    return WideCells({"group": tuple(values)}, ({"counts": "{group}"},), tuple(counts), tuple(told))


def _less_or_equal(path: Path, prefixes: Sequence[str], endings: Sequence[str]) -> tuple[str, str] | None:
    """(part, whole) of two families, where no count of the part is more than the same of the whole."""
    if len(prefixes) != 2:
        return None
    possible = {(prefixes[0], prefixes[1]): True, (prefixes[1], prefixes[0]): True}
    names = [f"{prefix}_{ending}" for prefix in prefixes for ending in endings]
    for chunk in _chunks(path, names):
        for part, whole in possible:
            for ending in endings:
                possible[part, whole] &= bool((chunk[f"{part}_{ending}"] <= chunk[f"{whole}_{ending}"]).all())
    return next((pair for pair, holds in possible.items() if holds), None)


def _told_sums(path: Path, sums: Mapping[str, Sequence[str]]) -> list[str]:
    told = []
    for name, differing in _differences(path, sums).items():
        if differing:
            told.append(f"Warning: column {name!r} is not the sum of {name}_... in {differing:,} rows; it is not used")
        else:
            told.append(f"column {name!r} is the sum of {name}_... and is not needed")
    return told


def _differences(path: Path, sums: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Column -> the number of rows in which it is not the sum of the others."""
    differing = dict.fromkeys(sums, 0)
    if not sums:
        return differing
    for chunk in _chunks(path, list(dict.fromkeys([*sums, *(part for parts in sums.values() for part in parts)]))):
        for name, parts in sums.items():
            total = np.sum([chunk[part] for part in parts], axis=0)
            differing[name] += int((chunk[name] != total).sum())
    return differing


def _chunks(path: Path, names: Sequence[str]) -> list[dict[str, NDArray[np.int64]]]:
    log = MistakeLog(path)
    found = []
    first_row = 0
    for chunk in open_records(path, names, CHUNK_ROWS).chunks():
        found.append({name: CountReader(name).read(chunk.column(name), first_row, log) for name in names})
        first_row += chunk.num_rows
    log.raise_if_any()
    return found
