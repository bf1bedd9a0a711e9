"""Tabulation: every record is counted in its cell, or the file is refused with all that is wrong in it."""

from __future__ import annotations

import csv
import decimal
import hashlib
import struct
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from geography.build import spine_from_prefixes, spine_from_table
from geography.spine import Spine
from pipeline.errors import RecordsError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Schema
from pipeline.records import record_files
from pipeline.records import tabulate as module
from pipeline.records.columns import LARGEST_COUNT
from pipeline.records.count_accumulator import CountAccumulator
from pipeline.records.tabulate import roll_up, tabulate, update_with_counts
from pipeline.spec.input_section import InputSpec

LEVELS = {"state": 1, "county": 3, "block": 5}
CODES = ("01100", "01101", "01200", "02100", "02999")
SPINE = spine_from_prefixes(CODES, LEVELS)
SCHEMA = Schema((Attribute("age", ("minor", "adult")), Attribute("race", ("white", "black", "asian"))))
FIPS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}

Person = tuple[str, str, str]


def spec(path: Path, form: str = "microdata", **more: object) -> RecordSource:
    return InputSpec.model_validate({"file": path, "form": form, "geocode": "block", **more}).source()


def write(path: Path, columns: Mapping[str, Sequence[object]]) -> Path:
    """The same table as Parquet (types as given) or CSV, by the name of the file."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(columns)), path, row_group_size=3)
    else:
        with path.open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    return path


def oracle(people: Sequence[Person]) -> NDArray[np.int64]:
    """Dense counts by brute force, cells in C order."""
    counted = Counter(people)
    return np.array(
        [
            [counted[code, age, race] for age in SCHEMA.attributes[0].values for race in SCHEMA.attributes[1].values]
            for code in CODES
        ]
    )


def all_forms(people: Sequence[Person], folder: Path) -> list[RecordSource]:
    """The same records in the three forms, as both types of file."""
    counted = Counter(people)
    cells = sorted({*counted, ("01100", "minor", "white")}, key=lambda cell: cell[::-1])
    wide: dict[str, list[object]] = {"block": list(CODES)}
    for race in SCHEMA.attributes[1].values:
        adults = [counted[code, "adult", race] for code in CODES]
        wide[f"vap_{race}"] = list(adults)
        wide[f"pop_{race}"] = [n + counted[code, "minor", race] for n, code in zip(adults, CODES, strict=True)]
    entries = [{"counts": "vap_{race}", "age": "adult"}, {"counts": "pop_{race} - vap_{race}", "age": "minor"}]
    made: list[RecordSource] = []
    for suffix in (".parquet", ".csv"):
        rows = {name: [person[i] for person in people] for i, name in enumerate(("block", "age", "race"))}
        long = {name: [cell[i] for cell in cells] for i, name in enumerate(("block", "age", "race"))}
        if people:
            made.append(spec(write(folder / f"microdata{suffix}", rows)))
        counts = {"n": [counted[cell] for cell in cells]}
        made.append(spec(write(folder / f"long{suffix}", {**long, **counts}), "long", count="n"))
        made.append(spec(write(folder / f"wide{suffix}", wide), "wide", cells=entries))
    return made


people_lists = st.lists(
    st.tuples(st.sampled_from(CODES), *(st.sampled_from(a.values) for a in SCHEMA.attributes)), max_size=40
)


@settings(max_examples=40, deadline=None)
@given(people=people_lists, chunk_rows=st.integers(1, 50))
def test_all_forms_and_files_agree_with_brute_force(people: list[Person], chunk_rows: int) -> None:
    """Microdata, long and wide, CSV and Parquet, in any chunks: one and the same canonical matrix, and one hash."""
    hashes = set()
    with tempfile.TemporaryDirectory() as folder:
        for records_spec in all_forms(people, Path(folder)):
            counts = tabulate(records_spec, SCHEMA, SPINE, chunk_rows=chunk_rows)
            np.testing.assert_array_equal(counts.toarray(), oracle(people))
            assert counts.dtype == np.int64
            assert counts.nnz == len(set(people))
            assert sp.csr_array((counts.data, counts.indices, counts.indptr), counts.shape).has_canonical_format
            hasher = hashlib.sha256()
            update_with_counts(hasher, counts)
            hashes.add(hasher.hexdigest())
    assert len(hashes) == 1


def test_many_csv_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that fill many blocks of a CSV file are all counted."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 256)
    rng = np.random.default_rng(3)
    values = [CODES, *(a.values for a in SCHEMA.attributes)]
    people = [tuple(str(rng.choice(v)) for v in values) for _ in range(500)]
    rows = {name: [person[i] for person in people] for i, name in enumerate(("block", "age", "race"))}
    counts = tabulate(spec(write(tmp_path / "a.csv", rows)), SCHEMA, SPINE)
    np.testing.assert_array_equal(counts.toarray(), oracle(people))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 5)), max_size=30), max_size=12
    )
)
def test_accumulator(chunks: list[list[tuple[int, int, int]]]) -> None:
    """However the entries are cut into chunks, they add up to the dense sum, without stored zeros."""
    expected = np.zeros((4, 5), dtype=np.int64)
    accumulator = CountAccumulator(4, 5)
    for chunk in chunks:
        for row, column, count in chunk:
            expected[row, column] += count
        entries = np.array(chunk, dtype=np.int64).reshape(-1, 3)
        accumulator.add(entries[:, 0] * 5 + entries[:, 1], entries[:, 2])
    matrix = accumulator.finish()
    np.testing.assert_array_equal(matrix.toarray(), expected)
    assert matrix.nnz == np.count_nonzero(expected)


# What a column may hold


def one_of_each(path: Path, **more: Sequence[object]) -> Path:
    columns: dict[str, Sequence[object]] = {
        "block": ["01100", "02999"],
        "age": ["minor", "adult"],
        "race": ["white", "asian"],
    }
    return write(path, {**columns, **more})


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_under_other_names(tmp_path: Path, suffix: str) -> None:
    """`columns` and `values` translate the file's names; values as written in the schema still count."""
    path = one_of_each(tmp_path / f"a{suffix}", qrace=["1", "asian"])
    counts = tabulate(
        spec(path, columns={"race": "qrace"}, values={"race": {"1": "white", "": "black"}}), SCHEMA, SPINE
    )
    np.testing.assert_array_equal(counts.toarray(), oracle([("01100", "minor", "white"), ("02999", "adult", "asian")]))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_blank_can_be_a_value(tmp_path: Path, suffix: str) -> None:
    """Where `values` gives the empty text a meaning, empty and null are that value and not missing."""
    blanks: list[object] = ["", None] if suffix == ".parquet" else ["", ""]
    path = one_of_each(tmp_path / f"a{suffix}", race=blanks)
    counts = tabulate(spec(path, values={"race": {"": "black"}}), SCHEMA, SPINE)
    assert counts.toarray()[:, [1, 4]].sum() == 2


@pytest.mark.parametrize(
    "codes", [pa.array([0, 2], pa.int8()), pa.array([0, 2], pa.uint64()), pa.array([0.0, 2.0]), ["0", "2"]]
)
def test_coded_columns(tmp_path: Path, codes: Sequence[object]) -> None:
    """`coded` takes the numbers of the values from 0, in any type of column."""
    path = one_of_each(tmp_path / "a.parquet", race=codes, age=[0, 1])
    expected = oracle([("01100", "minor", "white"), ("02999", "adult", "asian")])
    np.testing.assert_array_equal(tabulate(spec(path, coded=True), SCHEMA, SPINE).toarray(), expected)


@pytest.mark.parametrize(
    "geocodes",
    [
        pa.array(CODES[:2], pa.large_string()),
        pa.array(CODES[:2], pa.string_view()),
        pa.array(CODES[:2]).dictionary_encode(),
        pa.array([1100, 1101], pa.int64()),
        pa.array([1100, 1101], pa.int32()).dictionary_encode(),
    ],
    ids=["large", "view", "dictionary", "numbers", "dictionary of numbers"],
)
def test_types_of_geocodes(tmp_path: Path, geocodes: pa.Array) -> None:
    """All types of text do, and whole numbers where each is one leaf, its leading zeros put back."""
    counts = tabulate(spec(one_of_each(tmp_path / "a.parquet", block=geocodes)), SCHEMA, SPINE)
    assert counts.sum(axis=1).tolist() == [1, 1, 0, 0, 0]


def test_geocodes_of_several_lengths(tmp_path: Path) -> None:
    """Codes need not have one length, nor be ASCII."""
    spine = spine_from_table(pa.table({"town": ["Aš", "B"], "ward": ["Aš-9", "B-10"]}), ["town", "ward"])
    path = one_of_each(tmp_path / "a.parquet", block=["B-10", "Aš-9"])
    assert tabulate(spec(path), SCHEMA, spine).sum(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize(
    "counts",
    [
        pa.array([3, 0], pa.uint8()),
        pa.array([3.0, 0.0]),
        pa.array([decimal.Decimal("3.00"), decimal.Decimal("0.00")]),
        ["3", "0.0"],
        ["+3", "000"],
    ],
)
def test_whole_numbers_of_any_type(tmp_path: Path, counts: Sequence[object]) -> None:
    """A count is the number that it states, whatever its type; a count of 0 is no entry."""
    path = one_of_each(tmp_path / "a.parquet", count=counts)
    tabulated = tabulate(spec(path, "long"), SCHEMA, SPINE)
    assert (tabulated.nnz, tabulated.sum()) == (1, 3)


def test_large_counts_add_up(tmp_path: Path) -> None:
    """Sums beyond 32 bits are exact."""
    path = one_of_each(
        tmp_path / "a.parquet", block=["01100"] * 2, age=["minor"] * 2, race=["white"] * 2, count=[LARGEST_COUNT] * 2
    )
    assert tabulate(spec(path, "long", repeated="add"), SCHEMA, SPINE)[0, 0] == 2 * LARGEST_COUNT


# What is refused


def fails(records_spec: RecordSource, spine: Spine = SPINE, **options: int) -> str:
    """The message with the folder left out."""
    with pytest.raises(RecordsError) as caught:
        tabulate(records_spec, SCHEMA, spine, **options)
    assert isinstance(records_spec.file, Path)
    return str(caught.value).replace(f"{records_spec.file.parent}/", "")


LEAVES = "allowed are the 5 geocodes of level 'block', such as '01100', '01101'"
RACES = "allowed are 'white', 'black', 'asian'"
NUMBERS = "allowed are whole numbers from 0 to 10,000,000,000"


def rows_of(n: int, changed: Mapping[str, Mapping[int, object]]) -> dict[str, list[object]]:
    """`n` good rows with some values (column -> row from 1 -> value) changed."""
    columns: dict[str, list[object]] = {"block": ["01200"] * n, "age": ["adult"] * n, "race": ["black"] * n}
    for name, values in changed.items():
        column = columns.setdefault(name, [1] * n)
        for row, value in values.items():
            column[row - 1] = value
    return columns


@pytest.mark.parametrize("chunk_rows", [1, 3, 4, 100])
def test_value_outside_the_schema(tmp_path: Path, chunk_rows: int) -> None:
    """Row numbers count from 1 over the whole file, wherever chunks are cut; all rows are counted, the first shown."""
    bad = {2: "purple", 4: "green", 5: "purple", 8: "White", 9: "x", 10: "y", 11: "z"}
    path = write(tmp_path / "a.parquet", rows_of(12, {"race": bad}))
    assert fails(spec(path), chunk_rows=chunk_rows) == (
        "a.parquet, column 'race': a value outside the schema in 7 rows (rows 2, 4, 5, 8, 9, ...): "
        f"found 'purple', 'green', 'White', 'x', 'y', ...; {RACES}"
    )


def test_lines_of_csv_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV messages give the row of data and the line of the file, also past blocks and blank lines."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 64)
    good = "01200,adult,black,x\n"
    text = "block,age,race,note\n" + good * 10 + "\n" + '01200,adult,black,"x, y"\n' + "01200,adult,red,x\n" + good * 9
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert fails(spec(path)) == (
        f"a.csv, column 'race': a value outside the schema in 1 row (row 12; line 14): found 'red'; {RACES}"
    )
    path.write_text(text + good + "01200,adult,blue,x\n")
    assert "in 2 rows (rows 12, 23; lines 14, 25): found 'red', 'blue'" in fails(spec(path))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_missing_value(tmp_path: Path, suffix: str) -> None:
    """Null and empty are missing, in both types of file."""
    missing: dict[int, object] = {1: "", 3: None} if suffix == ".parquet" else {1: "", 3: ""}
    path = write(tmp_path / f"a{suffix}", rows_of(3, {"race": missing}))
    lines = "; lines 2, 4" if suffix == ".csv" else ""
    assert fails(spec(path)) == f"a{suffix}, column 'race': a missing value in 2 rows (rows 1, 3{lines}); {RACES}"


def test_attribute_in_a_column_of_another_name(tmp_path: Path) -> None:
    """The message names the column of the file and the attribute of the schema."""
    path = write(tmp_path / "a.parquet", rows_of(1, {"qrace": {1: "3"}}))
    assert fails(spec(path, columns={"race": "qrace"}, values={"race": {"1": "white"}})) == (
        "a.parquet, column 'qrace' (attribute 'race'): a value outside the schema in 1 row (row 1): found '3'; "
        f"{RACES}, '1'"
    )


def test_code_outside_the_schema(tmp_path: Path) -> None:
    """With `coded`, the numbers are what is allowed; a fraction and a NaN are none of them."""
    path = write(tmp_path / "a.parquet", {**rows_of(3, {}), "age": [0, 1, 2], "race": [0.5, float("nan"), 2.0]})
    assert fails(spec(path, coded=True)) == (
        "a.parquet: 3 problems\n"
        "  column 'age': a value outside the schema in 1 row (row 3): found '2'; allowed are '0', '1'\n"
        "  column 'race': a value outside the schema in 1 row (row 1): found '0.5'; allowed are '0', '1', '2'\n"
        "  column 'race': a missing value in 1 row (row 2); allowed are '0', '1', '2'"
    )


def test_leaf_outside_the_spine(tmp_path: Path) -> None:
    """An unknown geocode is told; so is what lost zeros look like."""
    path = write(tmp_path / "a.parquet", rows_of(3, {"block": {2: "09999"}}))
    what = "a geocode that is not a leaf of the spine in 1 row (row 2)"
    assert fails(spec(path)) == f"a.parquet, column 'block': {what}: found '09999'; {LEAVES}"
    path = write(tmp_path / "a.parquet", rows_of(3, {"block": {2: "1100"}}))
    assert fails(spec(path)) == (
        f"a.parquet, column 'block': {what}: found '1100'; {LEAVES} ('01100' is one: were leading zeros lost?)"
    )


def test_missing_geocode(tmp_path: Path) -> None:
    """A record without a place cannot be counted anywhere."""
    path = write(tmp_path / "a.parquet", rows_of(3, {"block": {2: None, 3: ""}}))
    assert fails(spec(path)) == f"a.parquet, column 'block': a missing geocode in 2 rows (rows 2, 3); {LEAVES}"
    path = write(tmp_path / "b.parquet", {**rows_of(2, {}), "block": pa.nulls(2)})
    assert fails(spec(path)) == f"b.parquet, column 'block': a missing geocode in 2 rows (rows 1, 2); {LEAVES}"


def test_numbers_as_geocodes(tmp_path: Path) -> None:
    """Whole numbers are refused where they could stand for two leaves, or for none; other numbers always."""
    path = write(tmp_path / "a.parquet", {**rows_of(2, {}), "block": [1100, 7]})
    assert fails(spec(path)) == (
        f"a.parquet, column 'block': a geocode that is not a leaf of the spine in 1 row (row 2): found '7'; {LEAVES}"
    )
    start = "a.parquet, column 'block': the geocodes are numbers, without their leading zeros, and the "
    twins = spine_from_table(pa.table({"leaf": ["1100", "01100"]}), ["leaf"])
    assert fails(spec(path), twins) == (
        f"{start}geocodes '01100' and '1100' of the spine are the same number; write the column as text"
    )
    letters = spine_from_table(pa.table({"leaf": ["1100", "2A"]}), ["leaf"])
    assert fails(spec(path), letters) == (
        f"{start}geocode '2A' of the spine cannot be distinguished from a number; write the column as text"
    )
    path = write(tmp_path / "a.parquet", {**rows_of(2, {}), "block": [1100.0, None]})
    assert fails(spec(path)) == (
        "a.parquet, column 'block': the geocodes are of type double; write them as text, with their leading zeros"
    )


@pytest.mark.parametrize(
    ("value", "what", "found"),
    [
        (-2, "a negative count", "'-2'"),
        (2.5, "a fractional count", "'2.5'"),
        ("1e3", "a fractional count", "'1e3'"),
        ("two", "a count that is not a number", "'two'"),
        ("1,000", "a count that is not a number", "'1,000'"),
        ("-0.5", "a negative count", "'-0.5'"),
        (float("inf"), "a count that is not a number", "'inf'"),
        (True, "a count that is not a number", "'true'"),
        (decimal.Decimal("0.001"), "a fractional count", "'0.001'"),
        (LARGEST_COUNT + 1, "a count that is too large", "'10000000001'"),
        ("9" * 100, "a count that is too large", f"'{'9' * 60}'... (100 characters)"),
        (2**64 - 1, "a count that is too large", "'18446744073709551615'"),
    ],
)
def test_counts_that_are_none(tmp_path: Path, value: object, what: str, found: str) -> None:
    """A count is a whole number of persons; anything else is named for what it is."""
    kind = pa.uint64() if isinstance(value, int) and value >= 2**63 else None
    path = write(tmp_path / "a.parquet", {**rows_of(2, {}), "n": pa.array([value, value], kind)})
    assert fails(spec(path, "long", count="n")) == (
        f"a.parquet, column 'n': {what} in 2 rows (rows 1, 2): found {found}; {NUMBERS}"
    )


def test_missing_count(tmp_path: Path) -> None:
    """No count is not 0."""
    path = write(tmp_path / "a.parquet", rows_of(3, {"n": {2: None}}))
    assert fails(spec(path, "long", count="n", repeated="add")) == (
        f"a.parquet, column 'n': a missing count in 1 row (row 2); {NUMBERS}"
    )


def test_everything_that_is_wrong_in_one_message(tmp_path: Path) -> None:
    """One pass over the whole file finds all problems: nobody has to run it once for each."""
    path = write(
        tmp_path / "a.csv",
        rows_of(9, {"race": {9: "red"}, "age": {1: ""}, "block": {4: "x"}, "n": {9: -1, 5: "a"}}),
    )
    assert fails(spec(path, "long", count="n", repeated="add"), chunk_rows=2) == (
        "a.csv: 5 problems\n"
        f"  column 'block': a geocode that is not a leaf of the spine in 1 row (row 4; line 5): found 'x'; {LEAVES}\n"
        "  column 'age': a missing value in 1 row (row 1; line 2); allowed are 'minor', 'adult'\n"
        f"  column 'race': a value outside the schema in 1 row (row 9; line 10): found 'red'; {RACES}\n"
        f"  column 'n': a negative count in 1 row (row 9; line 10): found '-1'; {NUMBERS}\n"
        f"  column 'n': a count that is not a number in 1 row (row 5; line 6): found 'a'; {NUMBERS}"
    )


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_a_cell_in_several_rows(tmp_path: Path, chunk_rows: int) -> None:
    """Refused with the rows, wherever chunks are cut, unless the spec says that rows are added; then they are."""
    rows: dict[str, Sequence[object]] = {
        **rows_of(6, {"race": {2: "white", 4: "asian", 5: "white"}}),
        "count": [1, 2, 4, 8, 16, 32],
    }
    path = write(tmp_path / "a.parquet", rows)
    assert fails(spec(path, "long"), chunk_rows=chunk_rows) == (
        "a.parquet, columns 'block', 'age', 'race': a cell that an earlier row has in 3 rows (rows 3, 5, 6): found "
        "'01200'; each cell may have one row; repeated = \"add\" in [input] adds its rows up"
    )
    counts = tabulate(spec(path, "long", repeated="add"), SCHEMA, SPINE, chunk_rows=chunk_rows)
    leaf = SPINE.leaf_level.geocodes.tolist().index("01200")
    assert counts.toarray()[leaf].tolist() == [0, 0, 0, 2 + 16, 1 + 4 + 32, 8]


def test_values_that_the_spec_puts_together_may_have_a_row_each(tmp_path: Path) -> None:
    """A cell of the file is what stands there: single races that make one value are no repetition."""
    rows: dict[str, Sequence[object]] = {**rows_of(3, {"race": {2: "thai", 3: "lao"}}), "count": [1, 2, 4]}
    values = {"race": {"thai": "asian", "lao": "asian"}}
    path = write(tmp_path / "a.parquet", rows)
    assert tabulate(spec(path, "long", values=values), SCHEMA, SPINE).sum() == 7
    path = write(tmp_path / "b.parquet", {**rows, "race": ["thai", "lao", "thai"]})
    assert "a cell that an earlier row has in 1 row (row 3)" in fails(spec(path, "long", values=values))


def test_counts_with_a_decimal_comma(tmp_path: Path) -> None:
    """ "12,0" is 12 where the spec says so; a point is then no decimal mark."""
    path = tmp_path / "a.csv"
    path.write_text("block;age;race;n\n01200;adult;black;12,0\n01200;adult;white;3\n")
    given = {"count": "n", "separator": ";"}
    assert tabulate(spec(path, "long", decimal=",", **given), SCHEMA, SPINE).sum() == 15
    assert "a count that is not a number in 1 row (row 1; line 2): found '12,0'" in fails(spec(path, "long", **given))
    path.write_text("block;age;race;n\n01200;adult;black;1.200\n")
    assert "a count that is not a number" in fails(spec(path, "long", decimal=",", **given))


WIDE = [{"counts": "a_{race}", "age": "adult"}, {"counts": "t_{race} - a_{race}", "age": "minor"}]


def wide_rows(geocodes: Sequence[str], changed: Mapping[str, Mapping[int, object]]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {"block": list(geocodes)}
    for race in SCHEMA.attributes[1].values:
        columns[f"a_{race}"] = [1] * len(geocodes)
        columns[f"t_{race}"] = [3] * len(geocodes)
    for name, values in changed.items():
        for row, value in values.items():
            columns[name][row - 1] = value
    return columns


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_geocode_twice_in_wide_form(tmp_path: Path, chunk_rows: int) -> None:
    """A leaf has one row: the rows that repeat one are told, in one chunk or in several."""
    path = write(tmp_path / "a.parquet", wide_rows(["01100", "01101", "01100", "01100", "01101"], {}))
    assert fails(spec(path, "wide", cells=WIDE), chunk_rows=chunk_rows) == (
        "a.parquet, column 'block': a geocode that an earlier row has in 3 rows (rows 3, 4, 5): "
        "found '01100', '01101'; each geocode may have one row"
    )


def test_negative_difference_in_wide_form(tmp_path: Path) -> None:
    """The columns that give a negative count together are named, and so is a column that is negative by itself."""
    path = write(tmp_path / "a.csv", wide_rows(CODES, {"a_black": {2: 5, 3: 4, 4: 5}, "t_asian": {5: -7}}))
    assert fails(spec(path, "wide", cells=WIDE)) == (
        "a.csv: 2 problems\n"
        f"  column 't_asian': a negative count in 1 row (row 5; line 6): found '-7'; {NUMBERS}\n"
        "  columns 't_black - a_black': a negative count in 3 rows (rows 2, 3, 4; lines 3, 4, 5): found '-2', '-1'; "
        "the sum must be 0 or more"
    )


def test_leaves_without_a_row_are_empty(tmp_path: Path) -> None:
    """Wide files may leave out leaves; so may all forms."""
    path = write(tmp_path / "a.parquet", wide_rows(["02999"], {}))
    counts = tabulate(spec(path, "wide", cells=WIDE), SCHEMA, SPINE)
    np.testing.assert_array_equal(counts.toarray(), [[0] * 6] * 4 + [[2, 2, 2, 1, 1, 1]])


def test_missing_columns(tmp_path: Path) -> None:
    """A column that the spec needs and the file does not have is named before anything is read."""
    path = write(tmp_path / "a.parquet", rows_of(2, {}))
    there = "the file's columns are 'block', 'age', 'race'"
    assert fails(spec(path, "long")) == f"a.parquet: no column 'count'; {there}"
    assert fails(spec(path, columns={"age": "AGEP"})) == f"a.parquet: no column 'AGEP'; {there}"
    assert fails(spec(path, geocode="geoid")) == f"a.parquet: no column 'geoid'; {there}"
    assert fails(spec(path, "wide", cells=[{"counts": "{age}_{race}"}])).startswith(
        "a.parquet: no column 'minor_white', 'minor_black'"
    )


# Sums up the spine, and the canonical bytes


def test_roll_up() -> None:
    """Every geounit is the sum of the leaves whose code begins with its code."""
    dense = np.random.default_rng(5).integers(0, 4, (5, 6))
    rolled = roll_up(SPINE, sp.csr_array(dense))
    assert len(rolled) == 3
    for level, counts in zip(SPINE.levels, rolled, strict=True):
        assert counts.dtype == np.int64
        assert counts.has_canonical_format
        for geocode, row in zip(level.geocodes, counts.toarray(), strict=True):
            below = [code.startswith(geocode) for code in SPINE.leaf_level.geocodes]
            np.testing.assert_array_equal(row, dense[below].sum(axis=0))


def digest(counts: sp.csr_array) -> bytes:
    hasher = hashlib.sha256()
    update_with_counts(hasher, counts)
    return hasher.digest()


def test_canonical_bytes_are_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash can be computed from the description alone, and does not depend on the size of the pieces."""
    counts = sp.csr_array(np.array([[0, 2, 0], [0, 0, 0], [5, 0, 7]]))
    parts = [3, 3, 3, 0, 1, 1, 3, 1, 0, 2, 2, 5, 7]  # shape, nonzeros; row starts; columns; counts
    expected = hashlib.sha256(b"spinewise counts 1\0" + struct.pack(f"<{len(parts)}q", *parts)).digest()
    assert digest(counts) == expected
    monkeypatch.setattr(module, "_HASHED_AT_ONCE", 2)
    assert digest(counts) == expected


def test_canonical_bytes_follow_the_counts_alone() -> None:
    """Index type, order, duplicates and stored zeros do not matter; each count, place and the shape do."""
    dense = np.array([[0, 2, 0], [4, 0, 0]])
    counts = sp.csr_array(dense)
    messy = sp.csr_array(
        (np.array([0, 1, 1, 4]), np.array([2, 1, 1, 0], dtype=np.int64), np.array([0, 3, 4], dtype=np.int64)), (2, 3)
    )
    assert digest(messy) == digest(counts)
    assert messy.nnz == 4, "the matrix that is hashed is not changed"
    changed = [
        dense + np.eye(2, 3, dtype=int),
        dense[::-1],
        dense[:, ::-1],
        dense[:1],
        np.vstack([dense, dense[:1] * 0]),
    ]
    hashes = {digest(sp.csr_array(other)) for other in [dense, dense.T, *changed]}
    assert len(hashes) == 2 + len(changed)


# Real counts

RACE_NAMES = ("hispanic", "white", "black", "aian", "asian", "nhpi", "other", "two_or_more")
REDISTRICTING = Schema((Attribute("votingage", ("under18", "18plus")), Attribute("race", RACE_NAMES)))


@pytest.fixture(scope="module")
def rhode_island(shared_data: Path) -> Spine:
    codes = pq.read_table(shared_data / "ri_2010_blocks.parquet", columns=["block"])["block"].to_numpy()
    return spine_from_prefixes(codes.astype(np.str_), FIPS)


@pytest.fixture(scope="module")
def rhode_island_counts(shared_data: Path, rhode_island: Spine) -> sp.csr_array:
    wide = spec(
        shared_data / "ri_2010_blocks.parquet",
        "wide",
        values={"race": {"hisp": "hispanic", "two": "two_or_more"}},
        cells=[
            {"counts": "vap_{race}", "votingage": "18plus"},
            {"counts": "pop_{race} - vap_{race}", "votingage": "under18"},
        ],
    )
    return tabulate(wide, REDISTRICTING, rhode_island)


def test_rhode_island_2010(rhode_island: Spine, rhode_island_counts: sp.csr_array) -> None:
    """The published counts of the state and its counties come out of the block file."""
    state, county, tract, block_group, block = roll_up(rhode_island, rhode_island_counts)
    assert [len(level) for level in rhode_island.levels] == [1, 5, 244, 815, 25_181]
    assert state.sum() == tract.sum() == block_group.sum() == 1_052_567
    assert state.toarray()[0, 8:].sum() == 828_611
    assert dict(zip(rhode_island.levels[1].geocodes.tolist(), county.sum(axis=1).tolist(), strict=True)) == {
        "44001": 49_875,
        "44003": 166_158,
        "44005": 82_888,
        "44007": 626_667,
        "44009": 126_979,
    }
    assert (block.sum(axis=1) == 0).sum() == 7_537


def test_full_rhode_island_collapses_to_the_block_file(
    shared_data: Path, rhode_island: Spine, rhode_island_counts: sp.csr_array
) -> None:
    """The long file of 2,016 coded cells, summed to 16, equals the wide file of the same people."""
    sizes = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
    full = Schema(tuple(Attribute(name, tuple(f"v{i}" for i in range(size))) for name, size in sizes.items()))
    long = spec(shared_data / "ri_pl94_persons.parquet", "long", coded=True)
    counts = tabulate(long, full, rhode_island)
    assert counts.shape == (25_181, 2_016)
    assert (counts.nnz, counts.sum()) == (112_724, 1_052_567)
    codes = full.cell_codes()
    assert counts.sum(axis=0)[codes[:, 0] > 0].sum() == 10_599
    # P1 order: one race each (white, black, aian, asian, nhpi, other) and then all combinations.
    race = np.where(codes[:, 2] == 1, 0, np.minimum(codes[:, 3], 6) + 1)
    to_sixteen = np.zeros((full.n_cells, 16), dtype=np.int64)
    to_sixteen[np.arange(full.n_cells), codes[:, 1] * 8 + race] = 1
    np.testing.assert_array_equal(counts @ to_sixteen, rhode_island_counts.toarray())


def test_records_of_another_hierarchy(shared_data: Path) -> None:
    """Microdata whose zones are whole numbers of different lengths (ActivitySim) are counted as they are."""
    path = shared_data / "semcog_synthetic_persons.parquet"
    table = pq.read_table(path, columns=["county", "district", "taz", "maz", "sex"])
    spine = spine_from_table(
        table.drop_columns("sex").group_by(["county", "district", "taz", "maz"]).aggregate([]),
        ["county", "district", "taz", "maz"],
    )
    schema = Schema((Attribute("sex", ("male", "female")),))
    counts = tabulate(spec(path, geocode="maz", values={"sex": {"1": "male", "2": "female"}}), schema, spine)
    frame = table.to_pandas().groupby(["maz", "sex"]).size()
    assert counts.sum() == table.num_rows == 35_769
    for (maz, sex), n in frame.items():
        assert counts[spine.find_leaves(np.array([str(maz)]))[0], sex - 1] == n
