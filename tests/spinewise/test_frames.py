"""Tables of every kind are the same rows, a spec in Python that of the same tables in TOML; slips are named."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from releases.small import write_town

import spinewise as sw
from geography.build import spine_from_prefixes
from pipeline.errors import RecordsError
from pipeline.model.memory_table import MemoryTable
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Schema
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec
from spinewise.frames import as_source

SCHEMA = Schema((Attribute("sex", ("female", "male")), Attribute("age", ("young", "old"))), ())


KINDS: dict[str, Callable[[pd.DataFrame], object]] = {
    "pandas": lambda frame: frame,
    "pandas objects": lambda frame: frame.astype(object),
    "pandas categories": lambda frame: frame.astype("category"),
    "pandas of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, other columns that Arrow cannot hold": lambda frame: frame.assign(other=frame["sex"].map(lambda _: {1})),
    "Arrow": pa.Table.from_pandas,
    "Arrow in chunks": lambda frame: pa.Table.from_pandas(frame).to_reader(7),
    "polars": lambda frame: pytest.importorskip("polars").DataFrame({one: frame[one].tolist() for one in frame}),
    "duckdb": lambda frame: pytest.importorskip("duckdb").from_df(frame),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_counts_the_same(kind: str, persons: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """Counted by pandas, and by the reader of records, four rows at a time."""
    spine = spine_from_prefixes(blocks["block"].to_numpy(str), {"county": 1, "block": 3})
    source = as_source(KINDS[kind](persons), "records")
    assert isinstance(source, MemoryTable)
    counts = tabulate(RecordSource(source, "microdata", "block"), SCHEMA, spine, chunk_rows=4).toarray()
    for row, block in enumerate(blocks["block"]):
        for cell, (sex, age) in enumerate([("female", "young"), ("female", "old"), ("male", "young"), ("male", "old")]):
            here = (persons["block"] == block) & (persons["sex"] == sex) & (persons["age"] == age)
            assert counts[row, cell] == here.sum(), (block, sex, age)


def counted(frame: Any) -> np.ndarray:
    spine = spine_from_prefixes(np.array(["A01", "A02"]), {"county": 1, "block": 3})
    return tabulate(RecordSource(as_source(frame, "records"), "microdata", "block"), SCHEMA, spine).toarray()


def test_wrong_rows_are_named() -> None:
    good = pd.DataFrame({"block": ["A01"] * 6, "sex": ["male"] * 6, "age": ["old"] * 6}).astype(object)
    values: list[tuple[str, int, Any, str]] = [
        ("sex", 3, "x", r"column 'sex': a value outside the schema in 1 row \(row 4\): found 'x'; allowed are"),
        ("sex", 0, None, r"column 'sex': a missing value in 1 row \(row 1\)"),
        (
            "block",
            5,
            "A09",
            r"column 'block': a geocode that is not a leaf of the spine in 1 row \(row 6\): found 'A09'",
        ),
        ("sex", 2, 7, r"column 'sex': found values of the types int, str; write all of them as text"),
    ]
    for column, row, value, message in values:
        frame = good.copy()
        frame.loc[row, column] = value
        with pytest.raises(
            RecordsError, match=rf"^records \(a pandas DataFrame, rows counted from 1\), {message}"
        ) as told:
            counted(frame)
        assert told.value.__context__ is None, "what a library says of it may show a value"


def test_a_table_shows_nothing_and_stays_in_its_process() -> None:
    """It may be confidential: no text has a value of it, and it is handed to no worker."""
    source = as_source(pa.table({"block": ["A01"], "sex": ["planted"]}), "records")
    assert "planted" not in repr(source) + str(source)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(source)


Changed = Callable[..., sw.Spec]


def test_a_file_is_read_as_a_run_reads_it(tmp_path: Path) -> None:
    path = write_town(tmp_path)
    spec, loaded = sw.Spec.read(path), load_spec(path)
    assert spec.resolved == loaded
    assert spec.name == "town"
    assert spec.levels == ("county", "tract", "block")
    assert spec.attributes["quarters"] == ("house", "dorm", "prison")
    assert spec.tables == ("total", "sex", "detail")
    assert spec.companions == ("units",)
    (tmp_path / "again.toml").write_text(spec.to_toml())
    again = sw.Spec.read(tmp_path / "again.toml")
    assert again.to_dict() == spec.to_dict()
    assert again.resolved.model_dump() == spec.resolved.model_dump()


def test_arrays_and_exact_numbers_are_taken_and_no_key_is_shown(changed: Changed) -> None:
    spec = changed(
        privacy={"rho": Fraction(1, 3), "key": "insecure-test:1"},
        schema={"attributes": {"sex": np.array(["female", "male"]), "age": ("a", "b")}},
    )
    assert spec.resolved.privacy.rho == Fraction(1, 3)
    assert spec.attributes == {"sex": ("female", "male"), "age": ("a", "b")}
    assert repr(spec).startswith("Spec 'village'\n")
    assert "insecure" not in repr(spec) + spec._repr_html_()


def test_what_is_wrong_is_named_as_in_a_file(changed: Changed) -> None:
    with pytest.raises(sw.SpecError, match=r'^Spec: privacy\.rho: found the number 2; write it in quotes, "2"'):
        changed(privacy={"rho": 2})
