"""Units with several records are counted as many times as stated; two texts are the same if all characters are."""

from __future__ import annotations

import hashlib
import hmac
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.small import write_town

from geography.build import spine_from_prefixes
from geography.errors import SpineError
from pipeline.errors import InputError, RecordsError, ReleaseError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.schema import Attribute, Schema
from pipeline.privacy.units import kept_records
from pipeline.records.tabulate import LeftOutRecords, read_units, tabulate, tabulate_units
from pipeline.records.unit_checks import find_person_numbers
from pipeline.spec.input_section import InputSpec
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import open_parquet
from pipeline.storage.paths import unchecked

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


#: What is done to a text that stands in a file; none of the results is the text.
CHANGES: dict[str, Callable[[str], str]] = {
    "a NUL at the end": lambda text: text + "\0",
    "two NULs": lambda text: text + "\0\0",
    "a NUL before": lambda text: "\0" + text,
    "a blank at the end": lambda text: text + " ",
    "a blank before": lambda text: " " + text,
    "a tab": lambda text: text + "\t",
    "a no-break space": lambda text: text + "\u00a0",
    "a zero-width space": lambda text: text + "\u200b",
    "another case": str.swapcase,
    "a decomposed accent": lambda text: text + unicodedata.normalize("NFD", "é"),
    "a leading zero": lambda text: "0" + text,
    "a decimal": lambda text: text + ".0",
    "letters that look alike": lambda text: text.translate(str.maketrans("0aofm", "\uff10\u0430\u043e\uff46\uff4d")),
}
FORMS = ("csv", "parquet", "dictionary", "large", "memory")


def source_of(form: str, columns: dict[str, list[str]], folder: Path) -> Source:
    """A table of texts as a file, or in memory."""
    kind = {"large": pa.large_string(), "dictionary": pa.dictionary(pa.int32(), pa.string())}.get(form, pa.string())
    table = pa.table({name: pa.array(values, pa.string()).cast(kind) for name, values in columns.items()})
    if form == "memory":
        return MemoryTable("t", "the table", tuple(columns), lambda names: table.select(list(names)))
    path = folder / f"changed.{'csv' if form == 'csv' else 'parquet'}"
    if form == "csv":
        rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
        path.write_text("".join(",".join(f'"{text}"' for text in row) + "\n" for row in rows), "utf-8")
    else:
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", ["block", "age", "sex", "quarters"])
def test_records(column: str, form: str, tmp_path: Path) -> None:
    """In any column, one row that is changed stops the count, and is named."""
    spec = load_spec(write_town(tmp_path))
    universe, spine = spec.universes()[0], read_spine(spec.geography)
    good = {"block": ["A0101", "A0102"], "age": ["adult"] * 2, "sex": ["f", "m"], "quarters": ["house"] * 2}
    records = universe.require_input()
    counts = tabulate(replace(records, file=source_of(form, good, tmp_path)), universe.schema, spine)
    assert counts.sum() == 2
    for name, change in CHANGES.items():
        bad = good | {column: [good[column][0], change(good[column][1])]}
        assert bad != good, name
        with pytest.raises(RecordsError, match=r"in 1 row \(row 2"):
            tabulate(replace(records, file=source_of(form, bad, tmp_path)), universe.schema, spine)


@pytest.mark.parametrize("form", FORMS)
def test_units(form: str, tmp_path: Path) -> None:
    """Each spelling is a unit of its own, and none is lost."""
    spec = load_spec(write_town(tmp_path))
    universe, spine = spec.universes()[0], read_spine(spec.geography)
    names = ["p1", *(change("p1") for change in CHANGES.values())]
    rows = len(names)
    columns = {"block": ["A0101"] * rows, "age": ["old"] * rows, "sex": ["f"] * rows, "quarters": ["house"] * rows}
    source = source_of(form, columns | {"who": names}, tmp_path)
    found = read_units(replace(universe.require_input(), file=source, unit="who", at_most=1), universe.schema, spine)
    assert [found.names[number] for number in found.units] == names


@pytest.mark.parametrize("form", FORMS)
def test_public_files(form: str, tmp_path: Path) -> None:
    """A NUL in the list of areas is refused; a geocode beside it that is changed is none of the list's."""
    spec = load_spec(write_town(tmp_path))
    spine, bound = read_spine(spec.geography), spec.universes()[0].bounds[0]
    codes = [str(code) for code in spine.leaf_level.geocodes]
    numbers = ["1"] * len(codes)
    for change in CHANGES.values():
        changed = [*codes[:-1], change(codes[-1])]
        listed = spec.geography.model_copy(update={"file": source_of(form, {"block": changed}, tmp_path)})
        if "\0" in changed[-1]:
            with pytest.raises(SpineError, match=r"NUL character, in row \d+"):
                read_spine(listed)
        elif len(changed[-1]) == 5:
            assert changed[-1] in read_spine(listed).leaf_level.geocodes.tolist()
        facilities = source_of(form, {"block": changed, "dorms": numbers, "prisons": numbers}, tmp_path)
        if changed != codes:
            with pytest.raises(InputError, match="a geocode that is not a leaf of the spine in 1 row"):
                read_facilities(replace(bound, file=facilities), spine)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_released_files(kind: pa.DataType, tmp_path: Path) -> None:
    """No text of a Parquet file of a release has a NUL, which would make two codes one."""
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"geocode": pa.array(["A1", "A2\0"], pa.string()).cast(kind)}), path)
    with (
        open_parquet(unchecked(path)) as file,
        pytest.raises(ReleaseError, match=r"column geocode has the text 'A2\\x00'"),
    ):
        file.read()
