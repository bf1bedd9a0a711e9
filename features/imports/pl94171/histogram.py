"""The histograms that a P.L. 94-171 summary file states exactly: persons, group quarters, housing units."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.imports.pl94171.layout import BLOCK, GEO_LEVELS, SPINE_LEVELS
from features.imports.pl94171.read import SummaryFile
from pipeline.exchange.pl94171_tables import race_lines
from pipeline.spec.wording.fields import unfit

#: Lines (from 0) of the types in P5, and of occupied and vacant in H1.
_QUARTERS_LINES = (2, 3, 4, 5, 7, 8, 9)
_UNITS_LINES = (1, 2)
_BLOCKS_AT_ONCE = 10_000


def block_geocodes(summary: SummaryFile) -> NDArray[np.str_]:
    """The geocode of each block, `(n_blocks,)`."""
    return summary.geocode[summary.rows(BLOCK)]


def persons(summary: SummaryFile, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """`(n, 2, 2, 63)` persons in the rows `blocks` (n,): under 18 and older, not Hispanic and Hispanic, by race.

    P3 and P4 hold the adults; those under 18 are P1 - P3 and P2 - P4. Hispanics are P1 - P2 and P3 - P4.
    """
    lines = np.array(race_lines())
    everybody, others, adults, other_adults = (
        summary.tables[table][blocks][:, lines + start].astype(np.int64)
        for table, start in (("P1", 0), ("P2", 2), ("P3", 0), ("P4", 2))
    )
    young = [others - other_adults, (everybody - adults) - (others - other_adults)]
    old = [other_adults, adults - other_adults]
    return np.stack([np.stack(young, axis=1), np.stack(old, axis=1)], axis=1)


def persons_table(summary: SummaryFile) -> pa.Table:
    """The persons of all blocks as `long_table` has them, made some blocks at a time."""
    blocks = summary.rows(BLOCK)
    parts = []
    for start in range(0, blocks.size, _BLOCKS_AT_ONCE):
        part = blocks[start : start + _BLOCKS_AT_ONCE]
        parts.append(long_table(summary.geocode[part], persons(summary, part), ("votingage", "hispanic", "cenrace")))
    table = pa.concat_tables(parts).combine_chunks()
    some = pc.greater(table["count"], 0)
    return table.filter(some) if pc.any(some).as_py() else table.slice(0, 1)


def quarters(summary: SummaryFile) -> NDArray[np.int64]:
    """`(n_blocks, 7)` persons by type of group quarters; the file must have P5."""
    return summary.tables["P5"][summary.rows(BLOCK)][:, _QUARTERS_LINES].astype(np.int64)


def housing_units(summary: SummaryFile) -> NDArray[np.int64]:
    """`(n_blocks, 2)` occupied and vacant housing units."""
    return summary.tables["H1"][summary.rows(BLOCK)][:, _UNITS_LINES].astype(np.int64)


def long_table(geocodes: NDArray[np.str_], counts: NDArray[np.int64], names: tuple[str, ...]) -> pa.Table:
    """Counts `(n_blocks, ...)` as one row a cell that is not empty: block, the value's number of each attribute, count.

    Where all cells are empty, one row with the count 0 stands for them.
    """
    places = np.nonzero(counts)
    if not places[0].size:
        places = tuple(np.zeros(1, dtype=np.int64) for _ in places)
    columns = {"block": pa.array(geocodes[places[0]].tolist(), pa.string())}
    columns.update({name: pa.array(codes.astype(np.int8)) for name, codes in zip(names, places[1:], strict=True)})
    columns["count"] = pa.array(counts[places])
    return pa.table(columns)


def names(summary: SummaryFile) -> tuple[tuple[str, ...], pa.Table]:
    """Names of states, counties and tracts: the levels whose every area has one, and a table of geocode and name.

    Block groups and blocks are called by their numbers alone, which their codes end in.
    """
    blocks = block_geocodes(summary)
    levels: list[str] = []
    rows: dict[str, list[str]] = {"geocode": [], "name": []}
    for summary_level in ("040", "050", "140"):
        level = GEO_LEVELS[summary_level].name
        found = {str(summary.geocode[row]): str(summary.name[row]).strip() for row in summary.rows(summary_level)}
        codes = np.unique(blocks.astype(f"<U{SPINE_LEVELS[level]}")).tolist()
        if all(not unfit(found.get(code, "")) for code in codes):
            levels.append(level)
            rows["geocode"] += codes
            rows["name"] += [found[code] for code in codes]
    return tuple(levels), pa.table({name: pa.array(texts, pa.string()) for name, texts in rows.items()})


def off_spine(summary: SummaryFile) -> pa.Table:
    """Places and American Indian areas as lists of blocks: kind, code (with the state's), name, block."""
    blocks = summary.rows(BLOCK)
    state = summary.geocode[blocks].astype("<U2")
    parts: list[tuple[str, NDArray[np.str_], NDArray[np.str_]]] = []
    for kind, codes in (("aian", summary.area[blocks]), ("place", summary.place[blocks])):
        inside = np.flatnonzero(codes != "")
        parts.append((kind, np.strings.add(state[inside], codes[inside]), summary.geocode[blocks[inside]]))
    names: dict[tuple[str, str], str] = {}
    for level, kind in (("280", "aian"), ("160", "place")):
        rows = summary.rows(level)
        names.update({(kind, str(summary.geocode[row])): str(summary.name[row]) for row in rows})
    columns: dict[str, list[str]] = {"kind": [], "code": [], "name": [], "geocode": []}
    for kind, codes, geocodes in parts:
        order = np.lexsort((geocodes, codes))
        columns["kind"] += [kind] * order.size
        columns["code"] += codes[order].tolist()
        columns["name"] += [names.get((kind, code), "") for code in codes[order].tolist()]
        columns["geocode"] += geocodes[order].tolist()
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
