"""Reading files: only what is asked for, exactly as it stands, one clear message else; units with several records."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import random
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from releases.small import write_town

from geography.build import spine_from_prefixes
from geography.errors import SpineError
from pipeline.errors import InputError, RecordsError, ReleaseError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.schema import Attribute, Schema
from pipeline.model.text_format import TextFormat
from pipeline.privacy.units import kept_records
from pipeline.records import record_files
from pipeline.records.record_files import open_records
from pipeline.records.tabulate import LeftOutRecords, read_units, tabulate, tabulate_units
from pipeline.records.unit_checks import find_person_numbers
from pipeline.spec.input_section import InputSpec
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import open_parquet
from pipeline.storage.paths import unchecked


def read(path: Path, columns: list[str], chunk_rows: int = 2) -> list[dict[str, object]]:
    return [row for chunk in open_records(path, columns, chunk_rows).chunks() for row in chunk.to_pylist()]


def write_csv(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def fails(path: Path, columns: list[str] | None = None) -> str:
    """The message with the folder left out."""
    with pytest.raises(RecordsError) as caught:
        read(path, columns or ["a"])
    return str(caught.value).replace(f"{path.parent}/", "")


def quoted(field: str, separator: str = ",") -> str:
    """A field as it has to be written."""
    return '"' + field.replace('"', '""') + '"' if set(field) & set(f'"{separator}') else field


#: How a file may be written: its ending, separator, encoding, and the ends of its lines.
FORMS = [
    (".csv", ",", "utf-8", "\n"),
    (".csv", ",", "utf-8-sig", "\r\n"),
    (".csv.gz", ",", "utf-8", "\n"),
    (".txt", ";", "cp1252", "\r\n"),
    (".tsv", "\t", "utf-8", "\n"),
    (".tsv.gz", "|", "utf-16", "\r\n"),
    (".parquet", ",", "utf-8", "\n"),
]
#: Nothing is guessed to be a number or missing: leading zeros, blanks, signs and words such as NA survive.
TEXTS = st.sampled_from(["007", " 7", "+7", "NA", "null", "1e3", "7.0", "", 'say "hi"', "a,b", "a;b", "a|b", "é"])


@settings(max_examples=40)
@given(
    form=st.sampled_from(FORMS),
    rows=st.lists(st.tuples(TEXTS, st.sampled_from("xy")), min_size=1, max_size=30),
    chunk_rows=st.integers(1, 8),
    block=st.sampled_from([64, 1 << 24]),
)
def test_every_form_is_read_as_it_was_written(
    form: tuple[str, str, str, str], rows: list[tuple[str, str]], chunk_rows: int, block: int
) -> None:
    """Whole rows in order, the needed columns alone; lines are counted as an editor does, a blank one included."""
    ending, separator, encoding, ends = form
    text = TextFormat(separator, encoding)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_files, "BLOCK_BYTES", block)
        path = Path(folder) / f"a{ending}"
        if ending == ".parquet":
            columns = dict(zip(("code", "other"), map(list, zip(*rows, strict=True)), strict=True))
            pq.write_table(pa.table(columns), path, row_group_size=5)
        else:
            lines = [separator.join(quoted(field, separator) for field in row) for row in [("code", "other"), *rows]]
            raw = ends.join([*lines[:2], "", *lines[2:]]).encode(encoding)
            path.write_bytes(gzip.compress(raw) if ending.endswith(".gz") else raw)
        file = open_records(path, ["other", "code", "other"], chunk_rows, text=text)
        assert record_files.column_names(path, text=text) == ("code", "other")
        assert file.columns == ("other", "code")
        chunks = list(file.chunks())
        assert [(row["code"], row["other"]) for chunk in chunks for row in chunk.to_pylist()] == rows
        if ending == ".parquet":
            assert max(chunk.num_rows for chunk in chunks) <= chunk_rows
        else:
            assert file.find_lines is not None
            numbers = range(1, len(rows) + 1)
            assert file.find_lines([*numbers]) == {row: row + 1 + (row > 1) for row in numbers}


@settings(max_examples=60)
@given(
    form=st.sampled_from([(".csv.gz", None), (".parquet", "none"), (".parquet", "zstd")]),
    damage=st.sampled_from(["cut", "flip"]),
    data=st.data(),
)
def test_a_file_cut_short_or_with_a_bit_turned_over_is_refused_or_read_as_it_was(
    form: tuple[str, str | None], damage: str, data: st.DataObject
) -> None:
    """Compressed files, and Parquet with checksums of pages: never other values; cut anywhere, never fewer."""
    ending, compression = form
    rows = [{"n": str(1_000_000 + 7 * i), "t": f"text{i % 5}"} for i in range(300)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{ending}"
        if compression is None:
            content = "n,t\n" + "".join(f"{row['n']},{row['t']}\n" for row in rows)
            path.write_bytes(gzip.compress(content.encode(), mtime=0))
        else:
            table = pa.Table.from_pylist(rows)
            pq.write_table(table, path, compression=compression, write_page_checksum=True)
        whole = path.read_bytes()
        # A bit of the footer can end Arrow, and the process with it.
        footer = len(whole) if compression is None else len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        place = data.draw(st.integers(1, (len(whole) if damage == "cut" else footer) - 1))
        bit = 1 << data.draw(st.integers(0, 7))
        turned = whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :]
        path.write_bytes(whole[:place] if damage == "cut" else turned)
        try:
            found = read(path, ["n", "t"], 100)
        except RecordsError:
            return
        assert damage == "flip"
        assert found == rows


#: Of a CSV file: a field with any signs.
FIELDS = st.text(st.sampled_from('ab ",é'), max_size=4)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS, st.sampled_from("xy")), min_size=1, max_size=30), data=st.data())
def test_no_quote_swallows_a_row(rows: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """Rows are read as they were written; with one quote more or less, anywhere, they are so or the file stops."""
    lines = ["a,b,c", *(",".join(map(quoted, row)) for row in rows)]
    text = "\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = write_csv(Path(folder) / "a.csv", text)
        assert [tuple(row.values()) for row in read(path, ["a", "b", "c"])] == rows
        at = data.draw(st.integers(len(lines[0]) + 1, len(text)))
        for other in (text[:at] + '"' + text[at:], text[:at] + text[at + 1 :] if text[at : at + 1] == '"' else text):
            write_csv(path, other)
            try:
                found = read(path, ["a", "b", "c"])
            except RecordsError:
                continue
            assert len(found) == len(rows)
            assert sum(tuple(row.values()) != one for row, one in zip(found, rows, strict=True)) <= 1


#: Files that are none: the name, the content (a table is written as Parquet), and what is told.
NONE = [
    ("a.xlsx", b"PK", "unknown type of file '.xlsx'; allowed are .csv, .tsv, .txt (also .gz) and .parquet"),
    ("a.csv", b"", "the file is empty (0 bytes); at least one record is needed"),
    ("a.csv", b"a,b\n", "the file has a header and no rows; at least one record is needed"),
    ("a.parquet", pa.table({"a": pa.array([], pa.string())}), "the file has no rows; at least one record is needed"),
    ("a.parquet", b"a,b\n1,2\n", "not a readable Parquet file"),
    ("a.csv.gz", b"a,b\n1,2\n", "not a readable CSV file"),
    ("a.parquet", pa.table({"a": [[1]]}), "column 'a': found values of type list<"),
    ("a.parquet", pa.table({"b": ["1"], "c": ["2"]}), "no column 'a'; the file's columns are 'b', 'c'"),
    ("a.csv", b"a,a\n1,2\n", "several columns are named 'a'; each may occur once"),
    ("a.csv", b'a,b\n1,"x,y"\n\nsecret,2,3\n', "line 4: the number of fields is 3, that of the header is 2"),
    ("a.csv", b"a,b\n" + b"1,2\n" * 5000 + b"1\n", "line 5,002: the number of fields is 1"),
    ("a.csv", b'a,b\n1,2\n3,"x\n4,5\n6,y"\n', "line 3: a quote is opened and not closed on its line"),
    ("a.csv", b'a,b\n1,2\n3,4\n5,x"y"z\n', "line 4: a quote inside a field that is not in quotes"),
    ("a.csv", b'a,b\n1,2\n"3"4,5\n', "line 3: a quote inside a field that is not in quotes, or behind one that is"),
    ("a.csv", b"a,b\n1,2\n3\r,4\n", "line 3: found a carriage return in the middle of the line"),
    ("a.csv", "a,b\nx,1\ncafé,2\n".encode("latin-1"), "line 3: the text is not in UTF-8; write the file in UTF-8"),
]


@pytest.mark.parametrize("block", [48, 1 << 24])
@pytest.mark.parametrize(("name", "content", "told"), NONE, ids=lambda one: str(one)[:30])
def test_what_cannot_be_read_is_told_with_its_place(
    name: str, content: bytes | pa.Table, told: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever blocks are cut; the content of a row is not shown."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", block)
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else pq.write_table(content, path)
    message = fails(path)
    assert message.startswith(name)
    assert told in message
    assert "secret" not in message


def test_a_dot_in_the_name_of_a_column_does_not_make_it_nested(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b.c": ["x"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", ["b.c"]) == [{"b.c": "x"}]


def test_a_damaged_text_in_a_page_without_checksums_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["secret-text"] * 10}), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"secret-text", b"secret-\xb1ext"))
    assert fails(path).startswith("a.parquet: the file is corrupt: ")


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
COUNTED_FORMS = ("csv", "parquet", "dictionary", "large", "memory")


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


@pytest.mark.parametrize("form", COUNTED_FORMS)
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


@pytest.mark.parametrize("form", COUNTED_FORMS)
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


@pytest.mark.parametrize("form", COUNTED_FORMS)
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
