"""Two texts are the same only if all their characters are: in every column, of every kind of file."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.small import write_town

from geography.errors import SpineError
from pipeline.errors import InputError, RecordsError, ReleaseError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.records.tabulate import read_units, tabulate
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import open_parquet
from pipeline.storage.paths import unchecked

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
