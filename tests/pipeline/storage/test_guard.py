"""Files of strangers: what would take gigabytes is refused with little memory, whatever its footer says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ReleaseError
from pipeline.storage import guard
from pipeline.storage.files import HEADER_KEY, open_parquet, reading
from pipeline.storage.guard import GuardedFile, PageError, pages
from pipeline.storage.paths import unchecked

#: Megabytes that a process may take to refuse a file of gigabytes; an interpreter with Arrow has 120.
_MEGABYTES = 400
_ROWS = 1 << 26

_REFUSE = """
import sys
from pathlib import Path
import numpy as np
from pipeline.errors import SpinewiseError
from pipeline.model.schema import Attribute, Schema
from pipeline.release.histograms import read_histogram
from pipeline.release.measurements import read_measurement
from pipeline.release.spine import read_public_spine
from pipeline.release.tables import read_table
from auditor.reading.counts import LevelFile
from auditor.reading.files import Files
from auditor.reading.spine import Level
from auditor.reading.findings import FormError
from pipeline.exchange.nmf import LevelMeasurements
from pipeline.runs.rerun import compare_public
from pipeline.release.layout import RunDirectory
import pyarrow as pa
schema = Schema((Attribute("sex", ("female", "male")),))
level = Level("block", pa.array(["a", "b"]), np.array([-1, -1]))

def checked(path, columns, **given):
    files = Files(path.parent)
    for part, _ in LevelFile(files, path, level, **given).parts(columns):
        pass

def compared(path):
    print(*compare_public(RunDirectory(path.parents[1]), RunDirectory(path.parents[1] / "again"), {}, ["block"]))

readers = {
    "checked table": lambda path: checked(path, ["total"], once=True),
    "checked histogram": lambda path: checked(path, ["sex", "count"], once=False, most=4),
    "checked measurement": lambda path: checked(path, ["value", "variance"], once=True, values=3),
    "checked microdata": lambda path: checked(path, ["sex", "count"], once=False),
    "nmf": LevelMeasurements("block", schema, []).read,
    "compared": compared,
    "spine": lambda path: read_public_spine(path, ["county", "block"]),
    "table": lambda path: read_table(path, 6),
    "histogram": lambda path: read_histogram(path, np.array(["a", "b"]), schema),
    "measurement": read_measurement,
}
try:
    readers[sys.argv[1]](Path(sys.argv[2]))
except (SpinewiseError, FormError) as error:
    print(error)
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))
"""


def _refused(reader: str, path: Path) -> tuple[str, int]:
    """The refusal of a file in a process of its own, and the most memory that it took, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", _REFUSE, reader, str(path)], capture_output=True, text=True, check=True
    )
    *message, peak = done.stdout.splitlines()
    return "\n".join(message), int(peak)


def _bomb(path: Path, schema: pa.Schema, columns: list[pa.Array], header: object, times: int) -> None:
    """A file whose rows are the same `times` times, which its encoding makes almost nothing of."""
    schema = schema.with_metadata({HEADER_KEY: json.dumps(header).encode()})
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_batch(batch, row_group_size=batch.num_rows)


KINDS = ["spine", "table", "histogram", "measurement"]
#: Readers that are given a file of another kind than their name says.
MADE_AS = {"checked microdata": "histogram", "compared": "table", "nmf": "nmf"}


@pytest.mark.slow
@pytest.mark.parametrize("reader", [*KINDS, *(f"checked {kind}" for kind in KINDS[1:]), *MADE_AS])
def test_two_megabytes_do_not_become_gigabytes(reader: str, tmp_path: Path) -> None:
    """By the readers of releases, by the checker, the comparison of `verify`, and of measurements made elsewhere."""
    kind, n = MADE_AS.get(reader, reader.removeprefix("checked ")), 1 << 20
    path = tmp_path / "public" / f"{kind}.parquet"
    path.parent.mkdir()
    one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, dtype=np.int32)), pa.array(["a"]))
    code, zeros = one.cast(pa.string()), pa.array(np.zeros(n, dtype=np.int64))
    if kind == "spine":
        schema = pa.schema([("county", pa.string()), ("block", pa.string())])
        _bomb(path, schema, [code, code], {"kind": "spine"}, _ROWS // n)
    elif kind == "table":
        schema = pa.schema([pa.field("geocode", pa.string(), nullable=False), ("total", pa.int64(), False)])
        header = {"kind": "table", "name": "total", "level": "block", "query": "total", "margins": False}
        _bomb(path, schema, [code, zeros], header, _ROWS // n)
    elif kind == "histogram":
        schema = pa.schema([("geocode", one.type, False), ("sex", one.type, False), ("count", pa.int64(), False)])
        _bomb(path, schema, [one, one, zeros], {"kind": "histogram"}, _ROWS // n)
    elif kind == "nmf":
        lists = pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32)), zeros)
        names = ["geocode", "query_name", "query_shape", "value", "variance"]
        columns = [code, code, lists, lists, zeros.cast(pa.float64())]
        schema = pa.schema(list(zip(names, (column.type for column in columns), strict=True)))
        _bomb(path, schema, columns, {}, _ROWS // n)
    else:
        item = pa.field("element", pa.int64(), nullable=False)
        schema = pa.schema(
            [("geocode", pa.string(), False), ("value", pa.list_(item), False), ("variance", pa.float64(), False)]
        )
        lists = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), zeros, type=pa.list_(item))
        header = {"kind": "measurement", "level": "block", "query": "detailed", "size": n, "variance": 1.0}
        header |= {"mechanism": "discrete_gaussian", "scale": "1"}
        _bomb(path, schema, [code.slice(0, 1), lists, pa.array([1.0])], header, _ROWS // n)
    assert path.stat().st_size < 3e6
    if reader == "compared":
        again = tmp_path / "again" / "public"
        again.mkdir(parents=True)
        pq.write_table(pa.table({"geocode": ["a"], "total": [1]}), again / path.name)
    message, peak = _refused(reader, path)
    assert "it is not read" in message, message
    assert path.name in message
    assert peak < _MEGABYTES, f"{peak} MB to refuse it"


@pytest.mark.slow
def test_a_text_that_every_row_names_is_not_spelled_out(tmp_path: Path) -> None:
    path, n = tmp_path / "spine.parquet", 1 << 18
    plain = pa.array(["a" * 20_000] * (n // 32))
    schema = pa.schema([("county", pa.string()), ("block", pa.string())], {HEADER_KEY: b'{"kind": "spine"}'})
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(pa.table([pa.chunked_array([plain] * 32)] * 2, schema=schema), row_group_size=n)
    assert path.stat().st_size < 1e5
    message, peak = _refused("spine", path)
    assert "has a text of 20,000 bytes among 262,144, which no code or label has; it is not read" in message
    assert peak < _MEGABYTES


def test_pages_that_say_other_than_the_footer_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The footer is honest about a small file; the header of its page states what is not so."""
    path, lying, n = tmp_path / "a.parquet", tmp_path / "lying.parquet", 200_000
    table = pa.table({"n": np.zeros(n, dtype=np.int64)})
    pq.write_table(table, path, compression="zstd", row_group_size=n, use_dictionary=False, write_statistics=False)
    monkeypatch.setattr(guard, "_BYTES_BESIDE", 1000)
    monkeypatch.setattr(guard, "_BYTES_PER_VALUE", 9)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with path.open("rb") as file:
        page, *others = pages(file, chunk.data_page_offset, chunk.total_compressed_size, n)
    assert len(others) > 1
    assert GuardedFile(path).read().equals(table)
    data, start = path.read_bytes(), chunk.data_page_offset
    for honest, stated, message in (
        (page.uncompressed, (1 << 20) - 1, "hold 200,000 values in 2,[0-9,]* bytes; its footer states 200,000 values"),
        (page.values, (1 << 20) - 1, "hold 1,048,575 values in 1"),
    ):
        at = data.index(_varint(2 * honest), start)
        forged = data[:at] + _varint(2 * stated) + data[at + len(_varint(2 * honest)) :]
        assert len(forged) == len(data)
        lying.write_bytes(forged)
        with pytest.raises(ReleaseError, match=message):
            GuardedFile(lying).read()
    with path.open("rb") as file, pytest.raises(PageError, match="of a page"):
        list(pages(file, start, 20, n))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_pages_are_counted_as_the_footer_does(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"{n % 7}" * 9 for n in range(50_000)], "n": np.arange(50_000), "l": [[1, 2]] * 50_000})
    for version in ("1.0", "2.0"):
        pq.write_table(table, path, data_page_version=version, data_page_size=1000, row_group_size=20_000)
        metadata = pq.ParquetFile(path).metadata
        with path.open("rb") as file:
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for chunk in map(group.column, range(group.num_columns)):
                    start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
                    found = list(pages(file, start, chunk.total_compressed_size, chunk.num_values))
                    assert sum(page.values for page in found) == chunk.num_values
                    assert len(found) > 3
        with open_parquet(unchecked(path)) as opened, reading(path):
            assert opened.read().equals(table)
