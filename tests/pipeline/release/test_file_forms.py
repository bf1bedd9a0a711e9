"""Each form of a published file is read as it was written; spoilt in any way, it is refused or read, and no more."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from oracles.damage import damaged_bytes, damaged_parquet

from geography.build import spine_from_prefixes
from pipeline.errors import ReleaseError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.selection import Selection
from pipeline.model.universe import Bound, Table
from pipeline.privacy.noise.choices import Select
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.release.draws import draws_file, read_draws
from pipeline.release.facilities import read_public_facilities, write_facilities
from pipeline.release.histograms import read_histogram, write_histogram
from pipeline.release.long_tables import MOST_WIDE
from pipeline.release.measurements import (
    MeasurementHeader,
    MeasurementWriter,
    Selected,
    answered,
    read_measurement,
    read_positive,
    read_selected,
    write_positive,
    write_selected,
)
from pipeline.release.spine import read_public_spine, write_spine
from pipeline.release.tables import ReleasedTable, long_terms, read_table, write_table
from pipeline.storage.files import HEADER_KEY, canonical_json
from pipeline.storage.paths import unchecked

RNG = np.random.default_rng(4)
CODES = np.array([f"1{tract}{block:02d}" for tract in "12" for block in range(6)])
SPINE = spine_from_prefixes(CODES.tolist(), {"county": 1, "tract": 2, "block": 4})
SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "middle", "old"))))
COUNTS = sp.csr_array(RNG.poisson(0.8, (len(CODES), SCHEMA.n_cells)).astype(np.int64))
HEADER = MeasurementHeader("block", "sex", 2, "discrete_gaussian", Fraction(339, 7), 48.43)
VALUES = RNG.integers(-(2**40), 2**40, (len(CODES), 2))
BOUND = Bound("homes", "block", Path("f.csv"), "block", Query.parse("sex", SCHEMA), 1, 9, {0: "a", 1: "b"})
HOMES = RNG.integers(0, 3, (len(CODES), 2))
NESTED = tuple(Query.parse(text, SCHEMA) for text in ("total", "sex", "detailed"))
CHOICE = Select("detail", tuple(zip(("total", "sex", "detailed"), (0, 9, 90), strict=True)), Fraction(1, 5))
SELECTION = Selection(CHOICE, "block", NESTED, Fraction(1, 10), DiscreteGaussian(Fraction(9)))
CHOSEN = np.arange(len(CODES)) % 3
NUMBERS = RNG.integers(-99, 99, (len(CODES), SCHEMA.n_cells)) * answered(SELECTION, CHOSEN)
POSITIVE = MeasurementHeader("block", "detailed", SCHEMA.n_cells, "discrete_gaussian", Fraction(9), 9.0)
DRAWN_TABLE = Table("all", Query.parse("sex", SCHEMA), ("block",))
DRAWN = RNG.integers(-999, 999, (2, len(CODES), 2)) / 256
WIDE = Schema((Attribute("sex", ("f", "m")), Attribute("age", tuple(map(str, range(1 + MOST_WIDE // 2))))))


def table_of(schema: Schema) -> ReleasedTable:
    query = Query.parse("detailed", schema)
    counts = RNG.poisson(0.05, (len(CODES), query.size))
    lows, highs = np.maximum(counts - 1, 0).astype(np.float64), (counts + 2).astype(np.float64)
    return ReleasedTable(
        "all", "block", "detailed", CODES, query.answer_labels(), counts, lows, highs, long_terms("all", query)
    )


TABLE, LONG = table_of(SCHEMA), table_of(WIDE)


def write_measurement(path: Path) -> None:
    with MeasurementWriter.open(path, path.parent, HEADER) as writer:
        writer.write(CODES, VALUES)


def numbers_of(path: Path) -> list[Any]:
    read = read_measurement(unchecked(path))
    return [read.header, read.geocodes, read.values]


def write_drawn(path: Path) -> None:
    with draws_file(path, path.parent, DRAWN_TABLE, "block", CODES, 2) as file:
        for number in range(2):
            file.add(number, DRAWN[number])


def drawn_in(path: Path) -> list[Any]:
    return [read_draws(unchecked(path), DRAWN_TABLE, "block", CODES, 2).to_numpy().reshape(DRAWN.shape)]


def positive_in(path: Path) -> list[Any]:
    read = read_positive(unchecked(path), POSITIVE, CODES, SCHEMA.n_cells)
    return [read.indptr, read.indices, read.data]


def selected_in(path: Path) -> list[Any]:
    parts = list(read_selected(unchecked(path), SELECTION, CODES))
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("geocodes", "chosen", "values")]


def table_in(path: Path) -> list[Any]:
    read = read_table(unchecked(path), geocodes=CODES)
    return [(read.name, read.level, read.labels, read.terms), read.geocodes, read.counts, read.lows, read.highs]


def stated(table: ReleasedTable) -> list[Any]:
    return [(table.name, table.level, table.labels, table.terms), CODES, table.counts, table.lows, table.highs]


@dataclass(frozen=True)
class Form:
    """How a file of a form is written and read, and what of it was written; what nobody looks at in it."""

    write: Callable[[Path], object]
    read: Callable[[Path], list[Any]]
    written: list[Any]
    free: tuple[str, ...] = ()


FORMS = {
    "measurement": Form(write_measurement, numbers_of, [HEADER, CODES, VALUES], free=("order", "twice")),
    "histogram": Form(
        lambda path: write_histogram(path, path.parent, "block", CODES, SCHEMA, COUNTS),
        lambda path: [read_histogram(unchecked(path), CODES, SCHEMA).toarray()],
        [COUNTS.toarray()],
    ),
    "table": Form(lambda path: write_table(path, path.parent, [TABLE]), table_in, stated(TABLE)),
    "long table": Form(lambda path: write_table(path, path.parent, [LONG]), table_in, stated(LONG)),
    "positive": Form(
        lambda path: write_positive(path, path.parent, POSITIVE, CODES, [COUNTS[:5], COUNTS[5:]]),
        positive_in, [COUNTS.indptr, COUNTS.indices, COUNTS.data],
    ),
    "draws": Form(write_drawn, drawn_in, [DRAWN]),
    "selection": Form(
        lambda path: write_selected(path, path.parent, SELECTION, [Selected(CODES, CHOSEN, NUMBERS)]),
        selected_in, [CODES, CHOSEN, NUMBERS],
    ),
    "facilities": Form(
        lambda path: write_facilities(path, path.parent, BOUND, CODES, HOMES),
        lambda path: [read_public_facilities(unchecked(path), BOUND, CODES)],
        [HOMES],
    ),
    "spine": Form(
        lambda path: write_spine(path, path.parent, SPINE),
        lambda path: [read_public_spine(unchecked(path), SPINE.level_names).fingerprint()],
        [SPINE.fingerprint()],
        free=("order",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_what_is_read_is_what_was_written(name: str, tmp_path: Path) -> None:
    form, path = FORMS[name], tmp_path / "a.parquet"
    form.write(path)
    for read, written in zip(form.read(path), form.written, strict=True):
        assert read == written if not isinstance(written, np.ndarray) else np.array_equal(read, written)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_cut_off_is_refused(name: str, tmp_path: Path) -> None:
    form, path = FORMS[name], tmp_path / "a.parquet"
    form.write(path)
    content = path.read_bytes()
    for length in (0, 1, 4, len(content) // 3, len(content) - 9, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ReleaseError, match=r"a\.parquet"):
            form.read(path)
    path.unlink()
    with pytest.raises(ReleaseError, match="cannot be read"):
        form.read(path)


@pytest.mark.parametrize("name", FORMS)
def test_whatever_is_damaged_is_refused_or_read(name: str, tmp_path: Path) -> None:
    """By byte, and by column, row and value under the right header: no other error, and none of them unnoticed."""
    form, path = FORMS[name], tmp_path / "a.parquet"
    form.write(path)
    content, told = path.read_bytes(), []
    rounds = 6 if name == "long table" else 30
    for number in range(rounds):
        rng = random.Random(f"{name} {number}")
        path.write_bytes((damaged_parquet if number % 3 else damaged_bytes)(rng, content))
        try:
            form.read(path)
        except ReleaseError as error:
            told.append(str(error))
    assert [text for text in told if "a.parquet" not in text] == []
    assert len(told) > rounds / 3


def _with_header(table: pa.Table, **other: str) -> pa.Table:
    return table.replace_schema_metadata({HEADER_KEY: canonical_json({**other})})


CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "column": lambda table: table.drop_columns([table.column_names[-1]]),
    "name": lambda table: table.rename_columns([*table.column_names[:-1], "other"]),
    "header": partial(_with_header),
    "kind": partial(_with_header, kind="other"),
    "no header": lambda table: table.replace_schema_metadata(None),
    "order": lambda table: table.take([*range(len(table) - 1, -1, -1)]),
    "twice": lambda table: pa.concat_tables([table, table.slice(len(table) - 1)]),
}


@pytest.mark.parametrize("name", FORMS)
def test_another_structure_is_refused(name: str, tmp_path: Path) -> None:
    """But for what is compared with the spine by whoever reads it, and headers that say nothing further."""
    form, path = FORMS[name], tmp_path / "a.parquet"
    form.write(path)
    good = pq.read_table(path)
    for change in CHANGES.keys() - set(form.free):
        pq.write_table(CHANGES[change](good), path)
        with pytest.raises(ReleaseError, match=r"a\.parquet"):
            form.read(path)
