"""Reading files: only what is asked for, exactly as it stands, and one clear message where it cannot be read."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import RecordsError
from pipeline.model.text_format import TextFormat
from pipeline.records import record_files
from pipeline.records.record_files import open_records


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
