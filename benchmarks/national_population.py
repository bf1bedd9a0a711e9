"""A synthetic population of the full redistricting schema (2,016 cells) on real block codes, for tests of scale.

The example's generator puts people of eight groups and two ages on the blocks; here each of its cells is divided
further: hispanics by race, those of several races by which, and some blocks have group quarters, in which the block's
adults live. The shares are near the 2010 Census's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from features.example.population import RACES, SCHEMA, populate
from geography.build import spine_from_prefixes

LEVELS = {"us": 1, "state": 3, "county": 6, "tract": 12, "block_group": 13, "block": 16}
#: Numbers of the 63 races of table P1: white 0, black 1, aian 2, asian 3, nhpi 4, some other 5, then combinations.
_SINGLE = {"white": 0, "black": 1, "aian": 2, "asian": 3, "nhpi": 4, "other": 5}
_HISPANIC = {0: 0.53, 1: 0.025, 2: 0.014, 3: 0.004, 4: 0.001, 5: 0.367, 6: 0.013, 10: 0.03, 14: 0.016}
_SEVERAL = {6: 0.25, 7: 0.2, 8: 0.22, 9: 0.03, 10: 0.12, 11: 0.03, 12: 0.03, 14: 0.04, 16: 0.02, 21: 0.03, 24: 0.03}
#: Share of blocks with a facility, of the facilities' types (1 correctional ... 7 other), and persons in one.
_WITH_FACILITY = 0.022
_TYPES = np.array([0.06, 0.03, 0.2, 0.03, 0.18, 0.01, 0.49])
_HHGQ = (
    "gq_correctional",
    "gq_juvenile",
    "gq_nursing",
    "gq_other_inst",
    "gq_college",
    "gq_military",
    "gq_other_noninst",
)
_ROWS_AT_ONCE = 1 << 22


def write_nation(spine_file: Path, folder: Path, states: list[int], people_a_block: float = 41.4, seed: int = 1) -> int:
    """Write persons.parquet and units.parquet for the blocks of some states to `folder`; returns the number of blocks.

    Args:
        spine_file: real block codes as whole numbers.
        folder: in which the files are written.
        states: numbers of the states, as in the first two digits of a code.
        people_a_block: mean number of persons of a block.
        seed: of the population.
    """
    blocks = pq.read_table(spine_file).column(0).to_numpy()
    blocks = np.sort(blocks[np.isin(blocks // 10**13, states)])
    # One digit before the code stands for the nation, so that every level is a prefix.
    codes = (blocks + 10**15).astype("U16")
    spine = spine_from_prefixes(codes, LEVELS)
    rng = np.random.default_rng([seed, 2])
    counts = populate(spine, round(people_a_block * len(codes)), seed)
    facility_of = np.where(rng.random(len(codes)) < _WITH_FACILITY, rng.choice(7, len(codes), p=_TYPES) + 1, 0)
    facility_of[np.diff(counts.indptr) == 0] = 0
    text = pa.array(codes, pa.string())
    _write_persons(folder / "persons.parquet", text, counts, facility_of, rng)
    units = {"block": text, "housing_units": pa.array(np.ceil(np.asarray(counts.sum(axis=1)) / 2.2).astype(np.int64))}
    for number, name in enumerate(_HHGQ):
        units[name] = pa.array((facility_of == number + 1).astype(np.int64))
    units["occupied"] = pa.array((units["housing_units"].to_numpy() * 0.9).astype(np.int64))
    pq.write_table(pa.table(units), folder / "units.parquet", compression="zstd")
    return len(codes)


def _write_persons(
    path: Path, codes: pa.Array, counts: sp.csr_array, facility_of: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """One row for each nonzero cell: block, hhgq, votingage, hispanic, cenrace (numbers), count."""
    fields = [pa.field("block", pa.dictionary(pa.int32(), pa.string()))]
    fields += [pa.field(name, pa.int16()) for name in ("hhgq", "votingage", "hispanic", "cenrace")]
    fields.append(pa.field("count", pa.int64()))
    cell_codes = SCHEMA.cell_codes()
    step = max(1, int(_ROWS_AT_ONCE / max(1.0, counts.nnz / counts.shape[0])))
    with pq.ParquetWriter(path, pa.schema(fields), compression="zstd") as writer:
        for first in range(0, counts.shape[0], step):
            part = counts[first : first + step]
            rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            ages, groups = cell_codes[part.indices].T
            cells = [np.zeros((0, 6), dtype=np.int64)]
            for group, name in enumerate(RACES):
                mine = groups == group
                cells.append(_divided(name, rows[mine], ages[mine], part.data[mine], rng))
            persons = np.concatenate(cells)
            persons[:, 1] = _quarters(persons, facility_of[first : first + step])
            persons = persons[np.lexsort(persons[:, :5].T[::-1])]
            leaf = pa.DictionaryArray.from_arrays(
                pa.array(persons[:, 0].astype(np.int32)), codes.slice(first, part.shape[0])
            )
            arrays = [leaf, *(pa.array(persons[:, i].astype(np.int16)) for i in range(1, 5)), pa.array(persons[:, 5])]
            writer.write_table(pa.table(arrays, schema=pa.schema(fields)))


def _divided(
    group: str, rows: NDArray[np.int64], ages: NDArray[np.int64], data: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows (block, hhgq 0, votingage, hispanic, cenrace, count) of one of the generator's groups."""
    if group in _SINGLE:
        races, shares = [_SINGLE[group]], [1.0]
    else:
        divided = _HISPANIC if group == "hispanic" else _SEVERAL
        races, shares = list(divided), list(divided.values())
    drawn = rng.multinomial(data, np.array(shares) / sum(shares))
    area, race = np.nonzero(drawn)
    hispanic = np.full(len(area), int(group == "hispanic"))
    nobody = np.zeros(len(area), dtype=np.int64)
    return np.stack([rows[area], nobody, ages[area], hispanic, np.array(races)[race], drawn[area, race]], axis=1)


def _quarters(persons: NDArray[np.int64], facility_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """The type of quarters of each row: in a block with a facility its adults' largest rows live there."""
    facility = facility_of[persons[:, 0]]
    lives_there = (facility > 0) & (persons[:, 2] == 1)
    return np.where(lives_there, facility, 0)
