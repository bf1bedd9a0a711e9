"""The new folder of an import: the tables that it reads, those that it writes anew, and what it has decided."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.imports.folder import ImportFolder
from features.imports.tables.batches import BatchWriter
from features.imports.tables.guess_format import guess_format
from features.imports.tables.layout import HEAD_ROWS, Layout, find_layout
from features.imports.tables.request import TableRequest, TableSource
from features.imports.tables.sheets import (
    check_format,
    choose_sheet,
    fetch_statistics,
    is_statistics,
    is_workbook,
    settle,
    text_grid,
    with_keys_apart,
    write_grid,
)
from features.imports.tables.sources import describe_source, fetch
from features.imports.tables.table_file import Origin, TableFile
from pipeline.errors import InputError
from pipeline.records.columns import Distinct
from pipeline.records.record_files import is_text_file

#: A chunk of a table: columns of text.
Texts = dict[str, list[str]]
#: Text of a cell -> its text in the table that is written; one that is not there stays, or `__missing__` says it.
Change = Mapping[str, str]
_MOST_UNPACKED = 1 << 34


@dataclass
class Parts:
    """The new folder, the messages for the user, and which column of areas.parquet names the areas of a level.

    Attributes:
        request: what the user asks.
        folder: the new folder.
        messages: a sentence for each decision.
        names: level -> column of areas.parquet.
        area_names: columns of the records that hold names of areas.
        units: what the table's title says of thousands, with the file; "" where it says nothing.
        decisions: for import.json: the part of the reading -> what was decided.
    """

    request: TableRequest
    folder: ImportFolder
    messages: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, object] = field(default_factory=dict)
    area_names: list[str] = field(default_factory=list)
    units: str = ""

    def table(self, source: TableSource, name: str) -> TableFile:
        """The table's file; what is no plain CSV or Parquet file is written to the folder as one."""
        if source.query is not None:
            with self.folder.file(name, private=True) as path:
                n_rows = fetch(source.source, source.query, path)
            self.messages.append(f"{n_rows:,} rows of {describe_source(source.source)} are in {name}")
            return TableFile(path, origin=Origin(f"the query of {describe_source(source.source)}", first=1))
        check_format(source.source)
        if is_workbook(source.source):
            grid, layout, sheet = choose_sheet(source.source, source.sheet, source.header_rows)
            self.decisions["sheet"] = sheet
            self._laid_out(grid.label, layout)
            with self.folder.file(name, private=True) as path:
                origin = write_grid(grid, layout, path)
            self.messages.append(f"{len(origin):,} rows of sheet {sheet!r} of {source.source} are in {name}")
            return TableFile(path, origin=origin)
        if is_statistics(source.source):
            with self.folder.file(name, private=True) as path:
                origin = fetch_statistics(source.source, path)
            self.messages.append(f"the records of {source.source} are in {name}")
            return TableFile(path, origin=origin)
        if source.source.lower().endswith(".zip"):
            return self._unpacked(source, name)
        return self._text_or_parquet(Path(source.source), name, source.header_rows)

    def _unpacked(self, source: TableSource, name: str) -> TableFile:
        """The only table in an archive."""
        try:
            with zipfile.ZipFile(source.source) as archive:
                members = [
                    info for info in archive.infolist()
                    if not info.is_dir() and is_text_file(Path(info.filename)) and "__MACOSX" not in info.filename
                ]  # fmt: skip
                data = [info for info in members if "metadata" not in info.filename.lower()] or members
                if len(data) != 1:
                    found = ", ".join(info.filename for info in members[:10]) or "none"
                    raise InputError(
                        f"{source.source}: one CSV file in the archive is needed; found {found}; unpack it"
                    )
                if data[0].file_size > _MOST_UNPACKED:
                    raise InputError(f"{source.source}: {data[0].filename} has {data[0].file_size:,} bytes; unpack it")
                stem = Path(name).stem
                with (
                    self.folder.file(f"{stem}.csv", private=True) as path,
                    archive.open(data[0]) as packed,
                    path.open("wb") as target,
                ):
                    shutil.copyfileobj(packed, target, 1 << 20)
        except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{source.source}: not a readable archive: {error}") from None
        label = f"{source.source}, file {data[0].filename!r}"
        self.messages.append(f"{label} is in {path.name}")
        return self._text_or_parquet(path, name, source.header_rows, label)

    def _text_or_parquet(
        self, path: Path, name: str, header_rows: tuple[int, int] | None, label: str | None = None
    ) -> TableFile:
        """A file in its own format; a text file with titles, notes or a header of several rows is written anew."""
        text, messages = guess_format(path, self.request.text)
        self.messages += [line.replace(str(path), label) if label else line for line in messages]
        origin = None if label is None else Origin(label, unit="line")
        if not is_text_file(path) or not path.is_file() or not path.stat().st_size:
            return TableFile(path, text, origin)
        self.decisions["separator"] = text.separator
        grid = with_keys_apart(text_grid(path, text))
        head = [row for row, _ in zip(grid.rows(), range(HEAD_ROWS), strict=False)]
        if header_rows is None and _plain_text(path, text.encoding, head):
            return TableFile(path, text, origin)
        layout = settle(grid, header_rows)
        if _is_whole(layout, head):
            return TableFile(path, text, origin)
        if label is not None:
            grid = type(grid)(label, grid.rows, grid.unit)
        self._laid_out(grid.label, layout)
        with self.folder.file(name, private=True) as target:
            made = write_grid(grid, layout, target)
        if label is not None:
            path.unlink()
        self.messages.append(f"the table of {grid.label} is in {name}")
        return TableFile(target, origin=made)

    def _laid_out(self, label: str, layout: Layout) -> None:
        self.messages += [f"{label}: {line}" for line in layout.messages]
        self.decisions["header"] = list(layout.header)
        self.units = self.units or (f"{label}: {layout.units}" if layout.units else "")

    def file(self, path: Path) -> TableFile:
        """A list of areas, in a format of its own."""
        return self.table(TableSource(str(path)), f"list_{path.stem}.parquet")

    def name_in_spec(self, file: TableFile) -> str:
        """The file as the spec names it: files of the folder by their name."""
        return file.path.name if file.path.parent == self.folder.path else str(file.path.resolve())

    def rewritten(self, file: TableFile, name: str, change: Callable[[Texts], Texts]) -> TableFile:
        """The table as text with changed columns, in a file of the folder."""
        with self.folder.file("changed.parquet", private=True) as target, BatchWriter(target) as written:
            for chunk in file.texts(file.names()):
                columns = {
                    column: pa.array([value or None for value in values], pa.string())
                    for column, values in change(chunk).items()
                }
                written.write(pa.RecordBatch.from_pydict(columns))
        return TableFile(self.in_place(file, target, name), origin=_origin(file))

    def changed(
        self,
        file: TableFile,
        name: str,
        changes: Mapping[str, Change] | None = None,
        kept: NDArray[np.bool_] | None = None,
        added: Mapping[str, tuple[str, Change]] | None = None,
    ) -> TableFile:
        """The table as text, in a file of the folder, value by value: fast, whatever the number of rows.

        Args:
            file: the table.
            name: of the new file.
            changes: column -> what becomes of its texts; "" is a field without a value.
            kept: `(n_rows,)`, the rows that stay; all where it is None.
            added: new column -> the column and the change it is made by.
        """
        names = file.names()
        made = dict(added or {})
        same = _Same()
        sources = {column: (column, (changes or {}).get(column, same)) for column in names}
        sources = {**made, **sources}
        first = 0
        with self.folder.file("changed.parquet", private=True) as target, BatchWriter(target) as written:
            for chunk in file.chunks(names):
                distinct = {column: Distinct.of(chunk.column(column)) for column in names}
                here = None if kept is None else kept[first : first + chunk.num_rows]
                first += chunk.num_rows
                columns = {}
                for column, (source, change) in sources.items():
                    texts = [change[text] or None for text in (*distinct[source].texts, "")]
                    index = distinct[source].index if here is None else distinct[source].index[here]
                    columns[column] = pa.array(texts, pa.string()).take(pa.array(index))
                written.write(pa.RecordBatch.from_pydict(columns))
        origin = _origin(file) if kept is None else _origin(file).only(np.flatnonzero(kept))
        return TableFile(self.in_place(file, target, name), origin=origin)

    def in_place(self, file: TableFile, target: Path, name: str) -> Path:
        """The new file under its name; the table of the folder that it was made of is gone."""
        if file.path.parent == self.folder.path and file.path.name != name and not file.path.name.startswith("list_"):
            file.path.unlink()
        return target.rename(target.with_name(name))

    def tidy(self) -> None:
        """Remove lists of areas that were read from a workbook or another format: their areas are in areas.parquet."""
        for path in self.folder.path.glob("list_*"):
            path.unlink()


class _Same(dict[str, str]):
    """Every text stays as it is."""

    def __missing__(self, text: str) -> str:
        return text


def _origin(file: TableFile) -> Origin:
    if file.origin is not None:
        return file.origin
    return Origin(str(file.path), first=1 if not is_text_file(file.path) else 2, unit=_unit(file.path))


def _unit(path: Path) -> str:
    return "line" if is_text_file(path) else "row"


def _plain_text(path: Path, encoding: str, head: list[list[str]]) -> bool:
    """Whether a long text file is a plain table as far as its first and its last rows show."""
    if (
        path.stat().st_size < 1 << 22
        or "\\" in "".join(head[0] if head else [])
        or path.name.lower().endswith(".gz")
        or encoding.startswith("utf-16")
    ):
        return False
    with path.open("rb") as file:
        file.seek(-(1 << 16), 2)
        end = file.read().decode(encoding, errors="replace").splitlines()[1:]
    width = len(head[0])
    alike = all(len(row) == width for row in head) and all(line.strip() for line in end)
    return alike and _is_whole(find_layout(head, [], str(path)), head) and not any(_sparse(line) for line in end[-20:])


def _sparse(line: str) -> bool:
    """Whether a line may be a note: it has no number, or nothing in its last field."""
    return not any(letter.isdigit() for letter in line) or line.rstrip()[-1:] in ",;|\t"


def _is_whole(layout: Layout, head: list[list[str]]) -> bool:
    """Whether a reader of plain CSV reads the table as the layout has it."""
    header = head[layout.header[0] - 1] if layout.header[0] <= len(head) else []
    return layout.is_plain and list(layout.columns) == list(range(len(header))) and list(layout.names) == header
