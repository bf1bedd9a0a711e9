"""Tables in memory take the place of files in a public list of areas too, and never that of a file that is missing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline.errors import InputError, RecordsError
from pipeline.inputs.geography import read_spine
from pipeline.model.memory_table import MemoryTable, areas_place, records_place
from pipeline.records.record_files import column_names, open_records
from pipeline.spec.sections import GeographySection


def in_memory(table: pa.Table) -> MemoryTable:
    return MemoryTable("areas", "areas (in memory)", tuple(table.schema.names), table.select)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_areas_from_a_table(text: pa.DataType) -> None:
    codes = pa.chunked_array([["A01", "B02"], ["A02"]]).cast(pa.string())
    table = pa.table({"block": codes.dictionary_encode() if pa.types.is_dictionary(text) else codes.cast(text)})
    section = GeographySection(file=in_memory(table), levels={"county": 1, "block": 3}, column="block")
    spine = read_spine(section)
    assert spine.levels[0].geocodes.tolist() == ["A", "B"]
    assert spine.leaf_level.geocodes.tolist() == ["A01", "A02", "B02"]
    assert section.model_dump()["file"] == "areas"


def test_what_is_wrong_with_areas_is_told() -> None:
    for table, message in (
        (pa.table({"b": ["A01"]}), r"^areas \(in memory\): no column 'block'; the table's columns are 'b'"),
        (pa.table({"block": ["A01", "A1"]}), r"^areas \(in memory\): .*'A1'"),
        (pa.table({"block": [1.5]}), r"codes must be text or whole numbers"),
    ):
        section = GeographySection(file=in_memory(table), levels={"county": 1, "block": 3}, column="block")
        with pytest.raises(InputError, match=message):
            read_spine(section)


def test_a_place_is_no_table() -> None:
    assert not areas_place().given
    assert column_names(in_memory(pa.table({"a": [1], "b": [2]}))) == ("a", "b")
    with pytest.raises(RecordsError, match="records of units: no column 'block'"):
        open_records(records_place("units"), ["block"], 10)
    with pytest.raises(RecordsError, match="records: not given; a table or a file is needed"):
        open_records(records_place(""), [], 10)


def test_chunks_are_cut_and_read_twice() -> None:
    file = open_records(in_memory(pa.table({"a": list(range(10)), "b": ["x"] * 10})), ["b", "a"], 4)
    for _ in range(2):
        chunks = list(file.chunks())
        assert [chunk.num_rows for chunk in chunks] == [4, 4, 2]
        assert [value for chunk in chunks for value in chunk.column("a").to_pylist()] == list(range(10))
