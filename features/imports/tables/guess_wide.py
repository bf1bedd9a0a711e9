"""The cells of a table with a row an area and a column a count, from the columns' names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from features.imports.tables.guess_schema import attribute_name
from features.imports.tables.table_file import TableFile
from pipeline.records.columns import CountReader
from pipeline.records.problems import MistakeLog

_RACES = {"white", "black", "aian", "asian", "nhpi", "sor", "other", "hisp", "hispanic", "two"}
#: Beginnings of names that count other things than people.
_OTHER_THINGS = {"units", "unit", "hh", "households", "household", "dwellings", "families", "houses", "hu", "buildings"}


@dataclass(frozen=True)
class WideCells:
    """The attributes and cells.

    Attributes:
        attributes: name -> values as the columns' names have them.
        cells: entries of [input] cells.
        messages: what was guessed.
    """

    attributes: Mapping[str, tuple[str, ...]]
    cells: tuple[Mapping[str, str], ...]
    messages: tuple[str, ...]


def families_of(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Beginning -> endings, where all names are a beginning and an ending joined by _, with the same endings for each.

    Empty where they are not, and where the beginnings are of different things or years.
    """
    families: dict[str, list[str]] = {}
    for name in names:
        prefix, _, ending = name.partition("_")
        if not prefix or not ending:
            return {}
        families.setdefault(prefix, []).append(ending)
    if len({tuple(sorted(endings)) for endings in families.values()}) != 1:
        return {}
    if any(len(endings) < 2 for endings in families.values()):
        return {}
    if len(families) > 1:
        bare = {re.sub(r"\d+$", "", prefix) for prefix in families}
        if len(bare) < len(families) or any(prefix.lower() in _OTHER_THINGS for prefix in families):
            return {}
    return {prefix: tuple(endings) for prefix, endings in families.items()}


def is_family(file: TableFile, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that count everybody, where others among `names` count a part of them; else none."""
    families = families_of(names)
    if len(families) != 2:
        return ()
    endings = families[next(iter(families))]
    less = _less_or_equal(file, list(families), endings)
    return () if less is None else tuple(f"{less[1]}_{ending}" for ending in endings)


def guess_wide(file: TableFile, counts: Sequence[str]) -> WideCells:
    """The cells that the columns state.

    pop_white, pop_black ... are values of one attribute; where vap_white, vap_black ... are there too and never more,
    they count a part of these persons.
    """
    families = families_of(counts)
    if families:
        return _families(file, families)
    message = f"columns {', '.join(counts[:6])}{' ...' if len(counts) > 6 else ''} are counts, one cell each"
    return WideCells({"group": tuple(counts)}, ({"counts": "{group}"},), (message,))


def _families(file: TableFile, families: Mapping[str, Sequence[str]]) -> WideCells:
    prefixes = list(families)
    endings = tuple(families[prefixes[0]])
    group = "race" if len(_RACES & {e.lower() for e in endings}) >= 3 else "group"
    messages = [f"columns {prefix}_... are counts by {group}: {', '.join(endings)}" for prefix in prefixes]
    less = _less_or_equal(file, prefixes, endings)
    if less is not None:
        part, whole = less
        adults = (part.lower(), whole.lower()) == ("vap", "pop")
        name = "votingage" if adults else attribute_name(f"in_{part}", [group])
        inside, outside = ("18plus", "under18") if adults else ("yes", "no")
        messages.append(f"no {part}_... is more than its {whole}_..., so they are a part of it: attribute {name}")
        return WideCells(
            {name: (outside, inside), group: endings},
            (
                {"counts": f"{part}_{{{group}}}", name: inside},
                {"counts": f"{whole}_{{{group}}} - {part}_{{{group}}}", name: outside},
            ),
            tuple(messages),
        )
    if len(prefixes) == 1:
        cells: tuple[Mapping[str, str], ...] = ({"counts": f"{prefixes[0]}_{{{group}}}"},)
        return WideCells({group: endings}, cells, tuple(messages))
    cells = ({"counts": f"{{kind}}_{{{group}}}"},)
    return WideCells({"kind": tuple(prefixes), group: endings}, cells, tuple(messages))


def _less_or_equal(file: TableFile, prefixes: Sequence[str], endings: Sequence[str]) -> tuple[str, str] | None:
    """(part, whole) of two families, where no count of the part is more than the same of the whole."""
    if len(prefixes) != 2:
        return None
    possible = {(prefixes[0], prefixes[1]): True, (prefixes[1], prefixes[0]): True}
    names = [f"{prefix}_{ending}" for prefix in prefixes for ending in endings]
    log = MistakeLog(file.path)
    for chunk in file.chunks(names):
        counts = {name: CountReader(name, file.text.decimal).read(chunk.column(name), 0, log) for name in names}
        for part, whole in possible:
            for ending in endings:
                possible[part, whole] &= bool((counts[f"{part}_{ending}"] <= counts[f"{whole}_{ending}"]).all())
    log.raise_if_any()
    return next((pair for pair, holds in possible.items() if holds), None)
