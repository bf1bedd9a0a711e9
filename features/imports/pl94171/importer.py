"""A P.L. 94-171 summary file -> a folder with its blocks, histograms, off-spine areas and a spec that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.imports.folder import Imported, import_folder
from features.imports.pl94171.check import check_summary, mismatch_messages
from features.imports.pl94171.spec_text import spec_text
from features.imports.pl94171.summary_file import BLOCK, GEO_LEVELS, SPINE_LEVELS, SummaryFile, find_files, read_summary
from geography.spine import counted
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import race_lines
from pipeline.spec.wording.fields import unfit
from pipeline.storage.files import check_new
from postprocess.arrays import IntArray

#: Lines (from 0) of the types in P5, and of occupied and vacant in H1.
_QUARTERS_LINES = (2, 3, 4, 5, 7, 8, 9)
_UNITS_LINES = (1, 2)
_BLOCKS_AT_ONCE = 10_000


def persons_of(summary: SummaryFile, blocks: IntArray) -> IntArray:
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
        parts.append(long_table(summary.geocode[part], persons_of(summary, part), ("votingage", "hispanic", "cenrace")))
    table = pa.concat_tables(parts).combine_chunks()
    some = pc.greater(table["count"], 0)
    return table.filter(some) if pc.any(some).as_py() else table.slice(0, 1)


def counts_of(summary: SummaryFile, table: str, lines: Sequence[int]) -> IntArray:
    """`(n_blocks, n_lines)`: some lines (from 0) of a table of the file."""
    return summary.tables[table][summary.rows(BLOCK)][:, lines].astype(np.int64)


def long_table(geocodes: NDArray[np.str_], counts: IntArray, names: tuple[str, ...]) -> pa.Table:
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


def area_names(summary: SummaryFile) -> tuple[tuple[str, ...], pa.Table]:
    """Names of states, counties and tracts: the levels whose every area has one, and a table of geocode and name.

    Block groups and blocks are called by their numbers alone, which their codes end in.
    """
    blocks = summary.geocode[summary.rows(BLOCK)]
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


def import_pl94171(path: Path, out: Path, *, strict: bool = False) -> Imported:
    """Read the summary file at `path`, check it, and write `out`.

    Args:
        path: a folder or zip with one state's files.
        out: a folder that is new or empty.
        strict: refuse every mismatch, not only those that leave the histogram undetermined.

    Raises:
        InputError: a file is not in its layout, tables of a block contradict each other, or `out` cannot be written;
            nothing is written then.
    """
    check_new(out)
    files = find_files(path)
    summary = read_summary(files)
    mismatches = check_summary(summary)
    fatal = [mismatch for mismatch in mismatches if strict or mismatch.fatal]
    if fatal:
        listing = "\n".join(f"  {line}" for line in mismatch_messages(summary, fatal))
        raise InputError(
            f"{path}: tables contradict each other"
            f"{'' if strict else ' in blocks, so that the persons cannot be told apart'}\n{listing}"
        )
    geocodes = summary.geocode[summary.rows(BLOCK)]
    states = np.unique(geocodes.astype("<U2"))
    if states.size > 1:
        raise InputError(f"{files.geo.place}: blocks of the states {', '.join(states)} are there; one state is needed")
    persons = persons_table(summary)
    with_quarters = "P5" in summary.tables
    with import_folder(out) as folder:
        folder.parquet("blocks.parquet", pa.table({"block": pa.array(np.sort(geocodes).tolist(), pa.string())}))
        folder.parquet("persons.parquet", persons, private=True)
        units = counts_of(summary, "H1", _UNITS_LINES)
        folder.parquet("units.parquet", long_table(geocodes, units, ("status",)), private=True)
        if with_quarters:
            quarters = counts_of(summary, "P5", _QUARTERS_LINES)
            folder.parquet("quarters.parquet", long_table(geocodes, quarters, ("quarters",)), private=True)
        named, names = area_names(summary)
        if named:
            folder.parquet("names.parquet", names)
        areas = off_spine(summary)
        folder.parquet("off_spine.parquet", areas)
        # A row for each area and rule.
        lines = ["level,geocode,rule,found,expected"]
        for one in mismatches:
            name = GEO_LEVELS[one.level].name
            for row, actual, expected in zip(one.rows, one.actual, one.expected, strict=True):
                lines.append(f"{name},{summary.geocode[row]},{one.rule},{actual},{expected}")
        folder.text("mismatches.csv", "".join(f"{line}\n" for line in lines), private=True)
        text = spec_text(
            state=files.state,
            state_code=str(states[0]),
            year=files.year,
            n_blocks=geocodes.size,
            with_quarters=with_quarters,
            named=named,
        )
        folder.text("release.toml", text)
    listed = Counter(kind for kind, _ in set(zip(areas["kind"].to_pylist(), areas["code"].to_pylist(), strict=True)))
    contents = (
        f"{geocodes.size:,} blocks, {pc.sum(persons['count']).as_py():,} persons, {int(units.sum()):,} housing units"
    )
    if with_quarters:
        contents += f", {int(quarters.sum()):,} persons in group quarters"
    said = [contents]
    if not with_quarters and files.geo.layout == "pipes":
        name = f"{files.state}00003{files.year}.pl"
        said.append(f"segment 3 ({name}) is not there: persons in group quarters by type (table P5) are not imported")
    off = f"off the spine: {counted(listed['place'], 'place')}, {counted(listed['aian'], 'American Indian area')}"
    return Imported(out / "release.toml", (*said, off), tuple(mismatch_messages(summary, mismatches)))
