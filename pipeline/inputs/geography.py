"""The public inputs of a release: the list of leaves, and counts of facilities that bound the persons in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.build import spine_from_pairs, spine_from_prefixes, spine_from_table
from geography.codes import first_few, text_column
from geography.off_spine import OffSpineAreas
from geography.regroup import regroup
from geography.spine import Spine
from pipeline.errors import InputError, RecordsError, ReleaseError, SpineError
from pipeline.model.memory_table import Source
from pipeline.model.universe import Bound
from pipeline.records.columns import CountReader
from pipeline.records.geocodes import LeafReader, text_array
from pipeline.records.problems import ProblemLog
from pipeline.records.record_files import RecordsFile, open_records
from pipeline.release.spine import read_public_spine as read_public_spine
from pipeline.release.spine import write_spine as write_spine
from pipeline.spec.sections import GeographySection, RegroupSection
from pipeline.storage.files import open_parquet, reading, write_parquet

_CHUNK_ROWS = 1_000_000


def read_spine(geography: GeographySection) -> Spine:
    """The spine of the spec's public list of leaves, regrouped where the spec says so.

    Raises:
        InputError: a file cannot be read; SpineError: its codes are no tree, or areas are not of its leaves.
    """
    listed = read_listed_spine(geography)
    if geography.regroup is None:
        return listed
    section = geography.regroup
    return regroup(listed, read_off_spine(section, listed), section.fan_out, keep=section.keep)


def read_off_spine(section: RegroupSection, spine: Spine) -> OffSpineAreas:
    """The areas off the spine that the spec names.

    Raises:
        InputError: the file cannot be read, or has no area of the kinds; SpineError: a leaf is not on the spine.
    """
    kinds, codes, leaves = (
        text_array(column)
        for column in _text_columns(section.file, ["kind", "code", section.leaf], "the file of areas")
    )
    if section.kinds is not None:
        found = np.unique(kinds)
        if unknown := [kind for kind in section.kinds if kind not in found]:
            raise InputError(
                f"geography.regroup.kinds: {section.file} has no area of kind {unknown[0]!r}; its kinds are "
                f"{first_few(found)}"
            )
        wanted = np.isin(kinds, section.kinds)
        kinds, codes, leaves = kinds[wanted], codes[wanted], leaves[wanted]
    try:
        return OffSpineAreas.of(spine, kinds, codes, leaves)
    except SpineError as error:
        raise SpineError(f"{section.file}: {error}") from None


def read_listed_spine(geography: GeographySection) -> Spine:
    """The spine as the list has it; errors as `read_spine`."""
    path = geography.file
    try:
        if geography.form == "prefixes":
            (codes,) = _text_columns(path, [str(geography.column)])
            return spine_from_prefixes(text_array(codes), geography.prefix_lengths)
        if geography.form == "pairs":
            child, parent = _text_columns(path, [str(geography.child), str(geography.parent)])
            return spine_from_pairs(text_array(child), text_array(parent), geography.level_names)
        columns = _text_columns(path, geography.level_names)
        return spine_from_table(pa.table(dict(zip(geography.level_names, columns, strict=True))), geography.level_names)
    except SpineError as error:
        raise SpineError(f"{path}: {error}") from None


def _text_columns(path: Source, names: Sequence[str], what: str = "the file of the geography") -> list[pa.Array]:
    """Columns of a CSV or Parquet file, or of a table in memory, as text without nulls."""
    file = _open(path, names, what)
    parts: dict[str, list[pa.Array]] = {name: [] for name in file.columns}
    try:
        for chunk in file.chunks():
            for name in file.columns:
                parts[name].append(text_column(chunk.column(name), name))
    except RecordsError as error:
        raise InputError(str(error)) from None
    return [pa.concat_arrays(parts[name]) for name in names]


def _open(path: Source, columns: Sequence[str], what: str) -> RecordsFile:
    """The file, which is public: what is wrong with it may be told to everyone."""
    try:
        return open_records(path, columns, _CHUNK_ROWS, what=what)
    except RecordsError as error:
        raise InputError(str(error)) from None


def read_facilities(bound: Bound, spine: Spine) -> NDArray[np.int64]:
    """The number of facilities of each answer that the bound is on, `(n_geounits, n_columns)` int64.

    Columns stand in the order of the answers' numbers.

    Raises:
        InputError: the file cannot be read, or does not have one row for each geounit of the bound's level.
    """
    where = f"bound {bound.name!r}"
    upto = Spine(spine.levels[: spine.index_of(bound.level) + 1])
    names = [bound.columns[answer] for answer in sorted(bound.columns)]
    file = _open(bound.file, [bound.geocode, *names], f"the file of the {where}")
    reader = LeafReader(upto, bound.geocode, bound.file)
    log = ProblemLog(bound.file, file.find_lines)
    found = np.zeros((upto.n_leaves, len(names)), dtype=np.int64)
    rows_of = np.zeros(upto.n_leaves, dtype=np.int64)
    first_row = 0
    try:
        for chunk in file.chunks():
            geounits, _ = reader.read(chunk.column(bound.geocode), first_row, log)
            known = geounits >= 0
            rows_of += np.bincount(geounits[known], minlength=upto.n_leaves)
            for number, name in enumerate(names):
                counts = CountReader(name).read(chunk.column(name), first_row, log)
                found[geounits[known], number] = counts[known]
            first_row += chunk.num_rows
        log.raise_if_any()
    except RecordsError as error:
        raise InputError(f"{where}: {error}") from None
    for wrong, what in ((rows_of > 1, "several rows"), (rows_of == 0, "no row")):
        if wrong.any():
            codes = upto.leaf_level.geocodes[wrong]
            raise InputError(
                f"{where}: {bound.file}: {len(codes):,} geounits of level {bound.level!r} have {what}: "
                f"{first_few(codes)}; each needs one"
            )
    return found


def _facility_columns(bound: Bound) -> pa.Schema:
    labels = bound.query.answer_labels()
    counts = [pa.field(labels[answer], pa.int64(), nullable=False) for answer in sorted(bound.columns)]
    return pa.schema([pa.field("geocode", pa.string(), nullable=False), *counts])


def write_facilities(
    target: Path, staging: Path, bound: Bound, geocodes: NDArray[np.str_], facilities: NDArray[np.int64]
) -> None:
    """Write the number of facilities in each geounit, one column an answer."""
    columns = [pa.array(geocodes, pa.string()), *(pa.array(column) for column in facilities.T)]
    header = {
        "kind": "constraint",
        "name": bound.name,
        "level": bound.level,
        "query": bound.query.name,
        "persons_each": [bound.lower, bound.upper],
    }
    write_parquet(target, pa.table(columns, schema=_facility_columns(bound)), staging, header)


def read_public_facilities(path: Path, bound: Bound, geocodes: NDArray[np.str_]) -> NDArray[np.int64]:
    """The facilities written by `write_facilities`; ReleaseError where they are of others."""
    with open_parquet(path) as file, reading(path):
        if not file.schema_arrow.equals(_facility_columns(bound)):
            raise ReleaseError(f"{path} does not have the columns of the bound {bound.name!r}")
        table = file.read()
        if table.column("geocode").to_pylist() != geocodes.tolist():
            raise ReleaseError(f"{path} is damaged: its rows are not the geounits of level {bound.level!r}")
        facilities = np.stack([column.to_numpy() for column in table.columns[1:]], axis=1).astype(np.int64)
    if (facilities < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative number of facilities")
    return facilities
