"""Reading files: only what is asked for, exactly as it stands, and one clear message where it cannot be read."""

from __future__ import annotations

import gzip
import os
import tempfile
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import RecordsError
from pipeline.model.text_format import TextFormat
from pipeline.records import record_files
from pipeline.records import record_files as records
from pipeline.records.record_files import open_records


def read(path: Path, columns: list[str], chunk_rows: int = 2) -> list[dict[str, object]]:
    return [row for chunk in open_records(path, columns, chunk_rows).chunks() for row in chunk.to_pylist()]


def write_csv(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_text_is_kept_as_it_stands(tmp_path: Path) -> None:
    """Leading zeros, spaces, signs and words such as NA survive; nothing is guessed to be a number or missing."""
    values = ["007", " 7", "+7", "NA", "null", "1e3", "7.0", "", 'say "hi"', "a,b"]
    quoted = "\n".join('"' + value.replace('"', '""') + '",x' for value in values)
    path = write_csv(tmp_path / "a.csv", f"code,other\n{quoted}\n")
    assert [row["code"] for row in read(path, ["code"])] == values


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_dialects(tmp_path: Path, ends: str, mark: str) -> None:
    """Both line ends, a byte order mark, blank lines and a missing last line end make no difference."""
    path = write_csv(tmp_path / "a.csv", mark + ends.join(["code,other", "01,x", "", "02,y"]))
    assert [row["code"] for row in read(path, ["code"])] == ["01", "02"]


def test_compressed_csv(tmp_path: Path) -> None:
    """A .csv.gz file reads as the .csv file does."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"code,other\n01,x\n02,y\n"))
    assert [row["code"] for row in read(path, ["code"])] == ["01", "02"]


def test_only_the_needed_columns_are_read(tmp_path: Path) -> None:
    """Other columns never reach memory, in the order asked for and each once."""
    pq.write_table(pa.table({"a": ["1"], "b": ["2"], "c": ["3"]}), tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv", "a,b,c\n1,2,3\n")
    for name in ("a.parquet", "a.csv"):
        file = open_records(tmp_path / name, ["c", "a", "c"], 10)
        assert file.columns == ("c", "a")
        assert [chunk.schema.names for chunk in file.chunks()] == [["c", "a"]]


def test_parquet_comes_in_chunks(tmp_path: Path) -> None:
    """No chunk has more rows than asked for, and together they are the file in order."""
    pq.write_table(pa.table({"a": [str(i) for i in range(25)]}), tmp_path / "a.parquet", row_group_size=10)
    chunks = list(open_records(tmp_path / "a.parquet", ["a"], 4).chunks())
    assert max(chunk.num_rows for chunk in chunks) <= 4
    assert [row["a"] for chunk in chunks for row in chunk.to_pylist()] == [str(i) for i in range(25)]


def test_csv_comes_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CSV file is cut by bytes, never within a row."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 64)
    path = write_csv(tmp_path / "a.csv", "a,b\n" + "".join(f'{i},"a, ""b"""\n' for i in range(100)))
    chunks = list(open_records(path, ["a"], 4).chunks())
    assert len(chunks) > 5
    assert [row["a"] for chunk in chunks for row in chunk.to_pylist()] == [str(i) for i in range(100)]


def test_lines_of_rows(tmp_path: Path) -> None:
    """Line numbers count the header and blank lines, as an editor does."""
    path = write_csv(tmp_path / "a.csv", 'a,b\n1,x\n\n2,"x, y"\n3,x\n')
    find_lines = open_records(path, ["a"], 4).find_lines
    assert find_lines is not None
    assert find_lines([1, 2, 3]) == {1: 2, 2: 4, 3: 5}


def fails(path: Path, columns: list[str] | None = None) -> str:
    """The message with the folder left out."""
    with pytest.raises(RecordsError) as caught:
        read(path, columns or ["a"])
    return str(caught.value).replace(f"{path.parent}/", "")


def test_no_file(tmp_path: Path) -> None:
    """A missing file and a folder are told apart."""
    assert fails(tmp_path / "a.csv") == (
        "a.csv: the file of the records does not exist; a .csv, .tsv, .txt (also .gz) or .parquet file is needed"
    )
    (tmp_path / "b.csv").mkdir()
    assert fails(tmp_path / "b.csv") == (
        "b.csv: the file of the records is a folder; a .csv, .tsv, .txt (also .gz) or .parquet file is needed"
    )


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A path through a file, and a pipe, which cannot be read a second time for line numbers."""
    write_csv(tmp_path / "b", "")
    with pytest.raises(RecordsError, match=r"b/a\.csv: the file of the records cannot be read \(Not a directory\); "):
        read(tmp_path / "b" / "a.csv", ["a"])
    os.mkfifo(tmp_path / "a.csv")
    assert "is not a file that can be read twice" in fails(tmp_path / "a.csv")


def test_nested_columns(tmp_path: Path) -> None:
    """A list is not a value; a dot in a column's name does not make it nested."""
    pq.write_table(pa.table({"a": [[1]], "b.c": ["x"], "b": [{"c": "y"}]}), tmp_path / "a.parquet")
    assert fails(tmp_path / "a.parquet").startswith("a.parquet, column 'a': found values of type list<")
    pq.write_table(pa.table({"b.c": ["x"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", ["b.c"]) == [{"b.c": "x"}]


def test_unknown_type(tmp_path: Path) -> None:
    """The message lists the types that are read."""
    path = write_csv(tmp_path / "a.xlsx", "PK")
    assert fails(path) == "a.xlsx: unknown type of file '.xlsx'; allowed are .csv, .tsv, .txt (also .gz) and .parquet"


def test_empty_files(tmp_path: Path) -> None:
    """No bytes, no rows: each kind of empty file is an error, not an empty release."""
    for name in ("a.csv", "a.parquet"):
        assert fails(write_csv(tmp_path / name, "")) == (
            f"{name}: the file is empty (0 bytes); at least one record is needed"
        )
    assert fails(write_csv(tmp_path / "a.csv", "a,b\n")) == (
        "a.csv: the file has a header and no rows; at least one record is needed"
    )
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert fails(tmp_path / "a.parquet") == "a.parquet: the file has no rows; at least one record is needed"


def test_corrupt_parquet(tmp_path: Path) -> None:
    """A file that is no Parquet, is cut short, or has a damaged page is told as such."""
    path = write_csv(tmp_path / "a.parquet", "a,b\n1,2\n")
    assert fails(path).startswith("a.parquet: not a readable Parquet file: ")
    pq.write_table(pa.table({"a": [str(i) for i in range(1000)]}), path, compression="zstd")
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert fails(path).startswith("a.parquet: not a readable Parquet file: ")
    path.write_bytes(whole[:40] + b"\xff" * 200 + whole[240:])
    assert fails(path).startswith("a.parquet: the file is corrupt: ")


def test_missing_and_double_columns(tmp_path: Path) -> None:
    """All missing columns are named at once, with those that are there."""
    pq.write_table(pa.table({"a": ["1"], "b": ["2"]}), tmp_path / "a.parquet")
    assert fails(tmp_path / "a.parquet", ["a", "x", "y"]) == (
        "a.parquet: no column 'x', 'y'; the file's columns are 'a', 'b'"
    )
    write_csv(tmp_path / "a.csv", "a,b,b\n1,2,3\n")
    assert fails(tmp_path / "a.csv", ["A"]) == "a.csv: no column 'A'; the file's columns are 'a', 'b', 'b'"
    assert fails(tmp_path / "a.csv", ["b"]) == "a.csv: several columns are named 'b'; each may occur once"
    assert len(read(tmp_path / "a.csv", ["a"])) == 1, "a column that is not needed may be there twice"


@pytest.mark.parametrize("stated", [",", ";", "\t", "|"])
@pytest.mark.parametrize("written", [",", ";", "\t", "|"])
def test_another_separator_is_named(tmp_path: Path, stated: str, written: str) -> None:
    """A header that is one column with the stated separator, and has the needed ones with another, says which."""
    path = write_csv(tmp_path / "a.tsv", f"a{written}b\n1{written}2\n")
    text = TextFormat(separator=stated)
    if stated == written:
        assert open_records(path, ["a", "b"], 10, text=text).columns == ("a", "b")
        return
    with pytest.raises(RecordsError) as refused:
        open_records(path, ["a", "b"], 10, text=text)
    words = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}[written]
    asked = tomllib.loads(str(refused.value).rpartition("state ")[2])
    assert f"separated by {words}" in str(refused.value)
    assert asked == {"separator": written}
    with pytest.raises(RecordsError, match=r"no column .*'c'"):
        open_records(path, ["a", "c"], 10, text=text)


def test_wide_files_show_some_columns(tmp_path: Path) -> None:
    """The message stays readable where the file has hundreds of columns."""
    path = write_csv(tmp_path / "a.csv", ",".join(f"c{i}" for i in range(300)) + "\n")
    assert fails(path).endswith("'c8', 'c9', ... 'c299' (300 values)")


def test_csv_with_a_broken_row(tmp_path: Path) -> None:
    """The line of a row with too many or too few fields is named; the row's content is not shown."""
    path = write_csv(tmp_path / "a.csv", 'a,b\n1,"x,y"\n\nsecret,2,3\n')
    rule = "that of the header is 2; each row must have as many as the header"
    assert fails(path) == f"a.csv, line 4: the number of fields is 3, {rule}"
    path = write_csv(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 5000 + "1\n")
    assert fails(path) == f"a.csv, line 5,002: the number of fields is 1, {rule}"


def quoted(field: str) -> str:
    """A field as it has to be written."""
    return '"' + field.replace('"', '""') + '"' if set(field) & set('",') else field


TEXTS = st.text(st.sampled_from('ab ",é'), max_size=4)


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from("xy")), min_size=1, max_size=30), data=st.data())
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


@pytest.mark.parametrize("block", [16, 1 << 24])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n1,2\n3,"x\n4,5\n6,y"\n', "line 3: a quote is opened and not closed on its line"),
        ('a,b\n1,2\n3,4\n5,x"y"z\n', "line 4: a quote inside a field that is not in quotes"),
        ('a,b\n1,2\n"3"4,5\n', "line 3: a quote inside a field that is not in quotes, or behind one that is"),
        ("a,b\n1,2\n3\r,4\n", "line 3: found a carriage return in the middle of the line"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2: the number of fields is 3, that of the header is 2"),
    ],
)
def test_what_is_no_row(text: str, message: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops with its line, wherever blocks are cut."""
    monkeypatch.setattr(record_files, "BLOCK_BYTES", block)
    assert message in fails(write_csv(tmp_path / "a.csv", text))


def test_csv_that_is_not_utf8(tmp_path: Path) -> None:
    """Bytes of another encoding are an error, not a guess, in whichever column they stand."""
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\nx,1\ncafé,2\n".encode("latin-1"))
    assert fails(path) == (
        'a.csv, line 3: the text is not in UTF-8; write the file in UTF-8, or state its encoding: encoding = "cp1252"'
    )
    assert "line 3: the text is not in UTF-8" in fails(path, ["b"])


def test_corrupt_compressed_csv(tmp_path: Path) -> None:
    """A .csv.gz file that is none, or is cut short, is told as such."""
    path = write_csv(tmp_path / "a.csv.gz", "a,b\n1,2\n")
    assert fails(path).startswith("a.csv.gz: not a readable CSV file: ")
    path.write_bytes(gzip.compress(b"a,b\n" + b"".join(b"%d,2\n" % i for i in range(100_000)))[:-100])
    assert fails(path).startswith("a.csv.gz: not a readable CSV file: ")


@pytest.mark.parametrize("ending", [".csv", ".txt", ".tsv.gz"])
@pytest.mark.parametrize(
    ("separator", "encoding"), [(";", "cp1252"), ("\t", "utf-8"), ("|", "utf-16"), (";", "utf-8-sig")]
)
def test_separators_and_encodings(ending: str, separator: str, encoding: str, tmp_path: Path) -> None:
    """The same rows, and the same lines, however they are written."""
    last = "é" if encoding == "cp1252" else "Ł"
    lines = [f"ort{separator}n", f"Köln{separator}1", "", f'"a{separator}b""c"{separator}2', f"{last}{separator}3"]
    text = "\r\n".join(lines)
    path = tmp_path / f"a{ending}"
    raw = text.encode(encoding)
    path.write_bytes(gzip.compress(raw) if ending.endswith(".gz") else raw)
    form = TextFormat(separator, encoding)
    file = open_records(path, ["n", "ort"], 10, text=form)
    read_rows = [row for chunk in file.chunks() for row in chunk.to_pylist()]
    assert read_rows == [
        {"n": "1", "ort": "Köln"}, {"n": "2", "ort": f'a{separator}b"c'}, {"n": "3", "ort": last}
    ]  # fmt: skip
    assert records.column_names(path, text=form) == ("ort", "n")
    assert file.find_lines is not None
    assert file.find_lines([1, 3]) == {1: 2, 3: 5}


def test_a_wrong_encoding_is_told(tmp_path: Path) -> None:
    """The encoding that the spec names is the one in the message."""
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\nx,1\né,2\n".encode("cp1252"))
    with pytest.raises(RecordsError, match=r"line 3: the text is not in ascii, as its encoding states"):
        list(open_records(path, ["a"], 10, text=TextFormat(encoding="ascii")).chunks())


def test_page_checksums(tmp_path: Path) -> None:
    """A flipped bit in a number, which is still a number, is found where the file has checksums."""
    path = tmp_path / "a.parquet"
    table = pa.table({"n": pa.array([0x0102030405060708 + i for i in range(50)], pa.int64())})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    assert [row["n"] for row in read(path, ["n"])] == table.column("n").to_pylist()
    whole = path.read_bytes()
    number = (0x0102030405060708 + 20).to_bytes(8, "little")
    assert whole.count(number) == 1
    path.write_bytes(whole.replace(number, b"\x1d" + number[1:]))
    assert "the file is corrupt: " in fails(path, ["n"])


def test_parquet_with_text_that_is_not_utf8(tmp_path: Path) -> None:
    """A page that is damaged within a text is found although its file is in order."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["secret-text"] * 10}), path, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    assert b"secret-text" in whole
    path.write_bytes(whole.replace(b"secret-text", b"secret-\xb1ext"))
    assert fails(path).startswith("a.parquet: the file is corrupt: ")
