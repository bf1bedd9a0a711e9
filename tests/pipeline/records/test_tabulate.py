"""Tabulation: every record is counted in its cell, or the file is refused with all that is wrong in it.

Also of rows that the spec chooses, and by the templates of the wide form.
"""

from __future__ import annotations

import csv
import decimal
import hashlib
import struct
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from pipeline.errors import RecordsError, SpecError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Schema
from pipeline.records import record_files
from pipeline.records import tabulate as module
from pipeline.records.cells import expand_cells
from pipeline.records.columns import LARGEST_COUNT
from pipeline.records.tabulate import tabulate, update_with_counts
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


@settings(max_examples=20)
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
            update_with_counts(hasher.update, counts)
            hashes.add(hasher.hexdigest())
    assert len(hashes) == 1


# What a column may hold


def one_of_each(path: Path, **more: Sequence[object]) -> Path:
    columns: dict[str, Sequence[object]] = {
        "block": ["01100", "02999"],
        "age": ["minor", "adult"],
        "race": ["white", "asian"],
    }
    return write(path, {**columns, **more})


@pytest.mark.parametrize(
    ("columns", "more", "people"),
    [
        ({"qrace": ["1", "asian"]}, {"columns": {"race": "qrace"}, "values": {"race": {"1": "white"}}}, None),
        ({"race": ["", None]}, {"values": {"race": {"": "black"}}}, ["black", "black"]),
        ({"race": pa.array([0, 2], pa.int8()), "age": [0, 1]}, {"coded": True}, None),
        ({"race": pa.array([0, 2], pa.uint64()), "age": ["0", "1"]}, {"coded": True}, None),
        ({"race": pa.array([0.0, 2.0]), "age": [0, 1]}, {"coded": True}, None),
        ({"block": pa.array(["01100", "02999"], pa.large_string())}, {}, None),
        ({"block": pa.array(["01100", "02999"], pa.string_view())}, {}, None),
        ({"block": pa.array(["01100", "02999"]).dictionary_encode()}, {}, None),
        ({"block": pa.array([1100, 2999], pa.int64())}, {}, None),
        ({"block": pa.array([1100, 2999], pa.int32()).dictionary_encode()}, {}, None),
    ],
)
def test_what_a_column_may_hold(
    tmp_path: Path, columns: dict[str, Sequence[object]], more: dict[str, Any], people: list[str] | None
) -> None:
    """Other names, blanks that mean something, codes of any type, and geocodes as text or numbers."""
    path = one_of_each(tmp_path / "a.parquet", **columns)
    races = people or ["white", "asian"]
    expected = oracle([("01100", "minor", races[0]), ("02999", "adult", races[1])])
    np.testing.assert_array_equal(tabulate(spec(path, **more), SCHEMA, SPINE).toarray(), expected)


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
    tabulated = tabulate(spec(one_of_each(tmp_path / "a.parquet", count=counts), "long"), SCHEMA, SPINE)
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


def rows_of(n: int, changed: Mapping[str, Mapping[int, object]]) -> dict[str, list[object]]:
    """`n` good rows with some values (column -> row from 1 -> value) changed."""
    columns: dict[str, list[object]] = {"block": ["01200"] * n, "age": ["adult"] * n, "race": ["black"] * n}
    for name, values in changed.items():
        column = columns.setdefault(name, [1] * n)
        for row, value in values.items():
            column[row - 1] = value
    return columns


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


BAD_RACES = {2: "purple", 4: "green", 5: "purple", 8: "White", 9: "x", 10: "y", 11: "z"}
TWINS = spine_from_table(pa.table({"leaf": ["1100", "01100"]}), ["leaf"])
LETTERS = spine_from_table(pa.table({"leaf": ["1100", "2A"]}), ["leaf"])


@pytest.mark.parametrize(
    ("columns", "more", "told"),
    [
        (rows_of(12, {"race": BAD_RACES}), {}, "'race': a value outside the schema in 7 rows (rows 2, 4, 5, 8"),
        (rows_of(3, {"race": {1: "", 3: None}}), {}, "'race': a missing value in 2 rows (rows 1, 3)"),
        (rows_of(1, {"age": {1: 2}, "race": {1: 0}}), {"coded": True}, "found '2'; allowed are '0', '1'"),
        (rows_of(1, {"age": {1: 0}, "race": {1: 0.5}}), {"coded": True}, "found '0.5'; allowed are '0', '1', '2'"),
        (rows_of(1, {"age": {1: 0}, "race": {1: float("nan")}}), {"coded": True}, "'race': a missing value in 1 row"),
        (rows_of(3, {"block": {2: "09999"}}), {}, "'block': a geocode that is not a leaf of the spine in 1 row"),
        (rows_of(3, {"block": {2: "1100"}}), {}, "found '1100'; allowed are the 5 geocodes of level 'block', such as"),
        (rows_of(3, {"block": {2: None, 3: ""}}), {}, "'block': a missing geocode in 2 rows (rows 2, 3)"),
        ({**rows_of(2, {}), "block": pa.nulls(2)}, {}, "'block': a missing geocode in 2 rows (rows 1, 2)"),
        ({**rows_of(2, {}), "block": [1100, 7]}, {}, "found '7'; allowed are the 5 geocodes"),
        ({**rows_of(2, {}), "block": [1100, 7]}, {"spine": TWINS}, "'01100' and '1100' of the spine are the same"),
        ({**rows_of(2, {}), "block": [1100, 7]}, {"spine": LETTERS}, "'2A' of the spine cannot be distinguished"),
        ({**rows_of(2, {}), "block": [1100.0, None]}, {}, "the geocodes are of type double; write them as text"),
        (rows_of(3, {"n": {2: None}}), {"form": "long", "repeated": "add"}, "'n': a missing count in 1 row (row 2)"),
        (rows_of(2, {}), {"form": "long"}, "no column 'n'; the file's columns are 'block', 'age', 'race'"),
        (wide_rows(["01100", "01101", "01100"], {}), {"form": "wide"}, "an earlier row has in 1 row (row 3)"),
        (wide_rows(CODES, {"t_asian": {5: -7}}), {"form": "wide"}, "'t_asian': a negative count in 1 row (row 5)"),
        (
            wide_rows(CODES, {"a_black": {2: 5, 3: 4, 4: 5}}),
            {"form": "wide"},
            "'t_black - a_black': a negative count in 3 rows (rows 2, 3, 4): found '-2', '-1'; the sum must",
        ),
    ],
)
@pytest.mark.parametrize("chunk_rows", [2, 100])
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, columns: Mapping[str, Sequence[object]], more: dict[str, Any], told: str, chunk_rows: int
) -> None:
    """The column, the rows counted over the whole file wherever chunks are cut, what was found, what is allowed."""
    more = dict(more)
    spine = more.pop("spine", SPINE)
    if more.get("form") in ("long", "wide"):
        more |= {"count": "n"} if more["form"] == "long" else {"cells": WIDE}
    source = spec(write(tmp_path / "a.parquet", columns), **more)
    assert told in fails(source, spine, chunk_rows=chunk_rows)


@pytest.mark.parametrize(
    ("value", "what", "found"),
    [
        (-2, "a negative count", "'-2'"),
        (2.5, "a fractional count", "'2.5'"),
        ("1e3", "a fractional count", "'1e3'"),
        ("two", "a count that is not a number", "'two'"),
        ("-0.5", "a negative count", "'-0.5'"),
        (float("inf"), "a count that is not a number", "'inf'"),
        (LARGEST_COUNT + 1, "a count that is too large", "'10000000001'"),
        ("9" * 100, "a count that is too large", f"'{'9' * 60}'... (100 characters)"),
    ],
)
def test_counts_that_are_none(tmp_path: Path, value: object, what: str, found: str) -> None:
    """A count is a whole number of persons; anything else is named for what it is."""
    kind = pa.uint64() if isinstance(value, int) and value >= 2**63 else None
    path = write(tmp_path / "a.parquet", {**rows_of(2, {}), "n": pa.array([value, value], kind)})
    told = fails(spec(path, "long", count="n"))
    assert f"column 'n': {what} in 2 rows (rows 1, 2): found {found}; allowed are whole numbers from 0 to" in told


def test_everything_that_is_wrong_is_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a CSV file with the lines, also past blocks and blank lines: nobody has to run it once for each."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 64)
    good = "01200,adult,black,1,x\n"
    text = (
        "block,age,race,n,note\n" + good * 10 + "\n" + '01200,adult,black,a,"x, y"\n' + "01200,,red,-1,x\n" + good * 9
    )
    path = tmp_path / "a.csv"
    path.write_text(text + "x,adult,black,1,x\n")
    told = fails(spec(path, "long", count="n", repeated="add"))
    assert told.startswith("a.csv: 5 problems\n")
    for what in (
        "'block': a geocode that is not a leaf of the spine in 1 row (row 22; line 24): found 'x'",
        "'age': a missing value in 1 row (row 12; line 14)",
        "'race': a value outside the schema in 1 row (row 12; line 14): found 'red'",
        "'n': a negative count in 1 row (row 12; line 14): found '-1'",
        "'n': a count that is not a number in 1 row (row 11; line 13): found 'a'",
    ):
        assert f"\n  column {what}" in told


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


# Rows that are chosen

#: Block, relation to the householder, age; a child's age is no householder's.
PERSONS = [
    ("01100", 0, "minor"),
    ("01100", 2, "child"),
    ("01100", 0, "adult"),
    ("01200", 0, "adult"),
    ("01200", 1, "adult"),
    ("01200", 2, "child"),
]
AGES = Schema(SCHEMA.attributes[:1])


@pytest.fixture(params=["persons.parquet", "persons.csv"])
def persons(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(
        tmp_path / request.param, dict(zip(("block", "relate", "age"), zip(*PERSONS, strict=True), strict=True))
    )


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ({"relate": "0"}, [[1, 1], [0, 0], [0, 1], [0, 0], [0, 0]]),
        ({"relate": ["0", "1"], "age": "adult"}, [[0, 1], [0, 0], [0, 2], [0, 0], [0, 0]]),
    ],
)
def test_chosen_rows_alone_are_counted(persons: Path, rows: dict[str, object], counts: list[list[int]]) -> None:
    assert tabulate(spec(persons, rows=rows), AGES, SPINE).toarray().tolist() == counts


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({}, "'child'"),
        ({"relate": ["0", "2"]}, r"in 2 rows .rows 2, 6.*'child'"),
        ({"relation": "0"}, "no column 'relation'"),
    ],
)
def test_mistakes_in_chosen_rows_are_told_with_their_own_number(
    persons: Path, rows: dict[str, object], told: str
) -> None:
    with pytest.raises(RecordsError, match=told):
        tabulate(spec(persons, rows=rows), AGES, SPINE)


# The templates of the wide form

BOTH = [{"counts": "vap_{race}", "age": "adult"}, {"counts": "pop_{race} - vap_{race}", "age": "minor"}]
BLANKS = [{"counts": "non-hispanic {race} {age}  -  x-{age}{race}"}]
NO_MINORS = [BOTH[0], {"counts": "0", "age": "minor"}]


@pytest.mark.parametrize(
    ("entries", "more", "cell", "terms"),
    [
        (BOTH, {}, 1, ((1, "pop_black"), (-1, "vap_black"))),
        (BOTH, {}, 5, ((1, "vap_asian"),)),
        (BOTH, {"values": {"race": {"b": "black"}}}, 1, ((1, "pop_b"), (-1, "vap_b"))),
        (BOTH, {"coded": True}, 5, ((1, "vap_2"),)),
        ([{"counts": "a_{race}_{age} + b_{race}_{age}"}], {}, 2, ((1, "a_asian_minor"), (1, "b_asian_minor"))),
        (BLANKS, {}, 0, ((1, "non-hispanic white minor"), (-1, "x-minorwhite"))),
        (NO_MINORS, {}, 0, ()),
        (NO_MINORS, {}, 3, ((1, "vap_white"),)),
    ],
)
def test_each_cell_has_the_signed_columns_of_its_entry(
    entries: list[dict[str, str]], more: dict[str, Any], cell: int, terms: tuple[tuple[int, str], ...]
) -> None:
    """In the schema's order, as the file calls values; an operator has blanks on both sides; "0" is always empty."""
    cells = expand_cells(entries, SCHEMA, **more)
    assert [one.cell for one in cells] == list(range(6))
    assert cells[cell].terms == terms


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"counts": "vap_{race}", "age": "18+"}], "[0]: age = '18+' is not a value of the attribute; allowed are"),
        ([{"counts": "vap", "age": "adult"}], "[0]: attribute 'race' is neither given a value nor stands in 'vap'"),
        ([{"counts": "a_{race} - ", "age": "adult"}], '[0]: \'a_{race} - \' is not "a", "a + b" or "a - b" of columns'),
        (BOTH[:1], "no entry counts the cell 'minor * white' and 2 more; each cell must be counted once"),
        ([*BOTH, {"counts": "x", "age": "adult", "race": "black"}], "[2]: 'x' counts the cell 'adult * black', which"),
    ],
)
def test_mistakes_in_templates_are_told(entries: list[dict[str, str]], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        expand_cells(entries, SCHEMA)
    assert told in str(caught.value)


def test_two_names_of_one_value() -> None:
    """Two names that fill the same place would lose a column."""
    with pytest.raises(SpecError, match=r"input\.values\.race: 'b' and 'c' both stand for 'black'; .* one name"):
        expand_cells(BOTH, SCHEMA, values={"race": {"b": "black", "c": "black"}})


# Sums up the spine, and the canonical bytes


def digest(counts: sp.csr_array) -> bytes:
    hasher = hashlib.sha256()
    update_with_counts(hasher.update, counts)
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
