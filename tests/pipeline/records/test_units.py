"""Units with several records: at most so many are counted, and one unit's change alters no more than it should."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from geography.build import spine_from_prefixes
from pipeline.errors import RecordsError
from pipeline.model.schema import Attribute, Schema
from pipeline.privacy.units import kept_records
from pipeline.records.tabulate import LeftOutRecords, tabulate_units
from pipeline.records.unit_checks import find_person_numbers
from pipeline.spec.input_section import InputSpec

SPINE = spine_from_prefixes(("11", "12", "21"), {"city": 1, "block": 2})
SCHEMA = Schema((Attribute("reason", ("fall", "fever", "birth")),))
BLOCKS, REASONS = ("11", "12", "21"), SCHEMA.attributes[0].values

Visit = tuple[str, str, str]  # patient, block, reason


def keyed(secret: str) -> Callable[[bytes], bytes]:
    return lambda data: hmac.digest(secret.encode(), data, hashlib.sha256)


def visits(rng: random.Random, patients: int, most: int) -> list[Visit]:
    return [
        (f"p{number}", rng.choice(BLOCKS), rng.choice(REASONS))
        for number in range(patients)
        for _ in range(rng.randrange(1, most + 1))
    ]


def counted(
    path: Path, rows: Sequence[Visit], at_most: int, secret: str = "key"
) -> tuple[NDArray[np.int64], LeftOutRecords]:
    patients, blocks, reasons = (list(column) for column in zip(*rows, strict=True))
    pq.write_table(pa.table({"patient": patients, "block": blocks, "reason": reasons}), path, row_group_size=7)
    source = InputSpec.model_validate({"file": path, "form": "microdata", "geocode": "block"}).source()
    source = type(source)(**{**vars(source), "unit": "patient", "at_most": at_most})
    counts, left_out = tabulate_units(source, SCHEMA, SPINE, keyed(secret), chunk_rows=5)
    return counts.toarray(), left_out


@pytest.mark.parametrize("at_most", [1, 2, 5])
def test_of_each_unit_at_most_so_many_records_are_counted(tmp_path: Path, at_most: int) -> None:
    rows = visits(random.Random(at_most), 60, 6)
    counts, left_out = counted(tmp_path / "visits.parquet", rows, at_most)
    sizes = Counter(patient for patient, *_ in rows)
    assert counts.sum() == sum(min(size, at_most) for size in sizes.values())
    assert left_out.records == sum(max(size - at_most, 0) for size in sizes.values())
    assert left_out.units == sum(size > at_most for size in sizes.values())


def test_neither_the_order_of_the_file_nor_its_chunks_matter_but_the_key_does(tmp_path: Path) -> None:
    rows = visits(random.Random(4), 50, 8)
    first, _ = counted(tmp_path / "visits.parquet", rows, 2)
    for seed in range(5):
        shuffled = random.Random(seed).sample(rows, len(rows))
        assert (counted(tmp_path / "visits.parquet", shuffled, 2)[0] == first).all()
    assert (counted(tmp_path / "visits.parquet", rows, 2, "another")[0] != first).any()


def test_each_record_of_a_unit_is_as_likely_to_be_counted() -> None:
    cells, trials = np.array([0, 0, 0, 4, 7, 8]), 1_500
    times = np.zeros(6)
    for secret in range(trials):
        times += kept_records(np.zeros(6, dtype=np.int64), cells, ["p"], 2, keyed(str(secret)))
    error = np.sqrt(trials * (1 / 3) * (2 / 3))
    # The three equal ones are told apart by nothing: only their sum means something.
    assert abs(times[:3].sum() - trials) < 5 * np.sqrt(3) * error
    assert (np.abs(times[3:] - trials / 3) < 5 * error).all()


def test_a_record_without_a_unit_is_a_mistake(tmp_path: Path) -> None:
    rows = [("a", "11", "fall"), ("", "12", "fever"), ("b", "21", "birth")]
    with pytest.raises(RecordsError) as caught:
        counted(tmp_path / "visits.parquet", rows, 2)
    assert "column 'patient'" in str(caught.value)
    assert "a missing unit" in str(caught.value)
    assert "row 2" in str(caught.value)


def test_a_column_that_looks_like_a_persons_number_is_told_by_the_rows_that_have_one(tmp_path: Path) -> None:
    numbers = [*(f"n{number}" for number in range(30)), "n1", "n2", *[""] * 60]
    rows = [f"{number},{row % 7},{row}.5" for row, number in enumerate(numbers)]
    (tmp_path / "visits.csv").write_text("\n".join(["number,age,weight", *rows]) + "\n")
    (found,) = find_person_numbers(tmp_path / "visits.csv", ("number", "age", "weight"))
    assert found.startswith("column 'number' looks like a person's number, and some stand in several rows (1.07 rows")
