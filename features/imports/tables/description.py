"""What a file looks like, and one command that states its reading; it proposes, and nothing is read by it."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from features.imports.tables.databases import is_database
from features.imports.tables.files import STATISTICS, WORKBOOKS, open_source, open_text, sheet_rows, text_format
from features.imports.tables.statement import TableStatement
from features.imports.tables.words import AGES, COUNTS, HOUSEHOLDS, KINDS, LEVELS, NAMES, folded, is_total
from geography.spine import counted
from pipeline.errors import InputError
from pipeline.records.record_files import is_text_file
from pipeline.storage.paths import local_name

_ROWS, _SHOWN, _WIDTH = 20_000, 4, 79


@dataclass(frozen=True)
class _Column:
    """Its name and its distinct texts, in the order in which they are met."""

    name: str
    texts: list[str]

    @property
    def kind(self) -> str:
        if not self.texts:
            return "empty"
        if all(re.fullmatch(r"-?(0|[1-9]\d*)", text) for text in self.texts):
            return "whole numbers"
        return "digits" if all(text.isdecimal() for text in self.texts) else "text"


def describe_table(stated: TableStatement) -> tuple[str, ...]:
    """Lines of at most 79 characters that describe a sample of the file, and a command to copy.

    Raises:
        InputError: the file cannot be read at all.
    """
    with TemporaryDirectory() as work:
        about, rows, sampled, extra = _sample(stated, Path(work))
    if not rows:
        raise InputError(f"{stated.label}: the file has no rows")
    header = _header(rows) if stated.header is None else stated.header_rows[1]
    names = rows[header - 1]
    columns = []
    for place, name in enumerate(names):
        texts = dict.fromkeys(row[place].strip() for row in rows[header:] if place < len(row))
        columns.append(_Column(name.strip(), [text for text in texts if text]))
    lines = [*about, "", "First rows, as they are read:"]
    lines += [f"  {number}: " + " | ".join(row) for number, row in enumerate(rows[: header + 3], 1)]
    lines += ["", f"Columns ({f'of the first {len(rows) - header:,} rows' if sampled else 'of all rows'}):"]
    roles = _roles(columns, len(rows) - header)
    for column in columns:
        examples = ", ".join(column.texts[:_SHOWN])
        role = roles.get(column.name, "?")
        lines.append(f"  {column.name}: {column.kind}, {counted(len(column.texts), 'value')}; {role}; {examples}")
    lines = [line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..." for line in lines]
    parts = _command(stated, columns, roles, header, extra)
    lines += ["", "A reading to check and to copy; N is the number of people, M that of areas,", "which you know:", ""]
    lines += [" \\\n    ".join(parts)]
    return tuple(lines)


def _sample(stated: TableStatement, work: Path) -> tuple[list[str], list[list[str]], bool, dict[str, str]]:
    """Lines on the file, its first rows, whether there are more, and options that it needs."""
    source, lower = stated.source, stated.source.lower()
    extra: dict[str, str] = {}
    if lower.endswith(WORKBOOKS):
        sheets = next(sheet_rows(Path(source), stated.sheet))
        extra["sheet"] = stated.sheet or sheets[0]
        rows = list(islice(sheet_rows(Path(source), extra["sheet"]), 1, _ROWS + 2))
        about = [source, f"a workbook with the sheets {', '.join(map(repr, sheets))}; this is {extra['sheet']!r}"]
        return about, rows[:_ROWS], len(rows) > _ROWS, extra
    if is_database(source) or lower.endswith((*STATISTICS, ".parquet", ".pq")):
        opened = open_source(source, work, query=stated.query)
        if not opened.path.is_file():
            raise InputError(f"{source}: the file of the records does not exist")
        try:
            with pq.ParquetFile(local_name(opened.path)) as file:
                batch = next(file.iter_batches(batch_size=_ROWS), None)
                n_rows, names = file.metadata.num_rows, file.schema_arrow.names
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{source}: not a readable Parquet file: {error}") from None
        values = [] if batch is None else [["" if v is None else str(v) for v in c.to_pylist()] for c in batch.columns]
        about = [opened.label, f"{n_rows:,} rows, {len(names)} columns"]
        return about, [names, *map(list, zip(*values, strict=True))], n_rows > _ROWS, extra
    text = text_format(source, stated.separator, stated.encoding)
    opened = open_source(source, work, text=text)
    if not is_text_file(opened.path):
        raise InputError(f"{source}: unknown type of file; .csv, .parquet, .xlsx, .ods, .dta, .sav, .zip are read")
    try:
        with open_text(opened.path, text) as lines:
            rows = list(islice(csv.reader(lines, delimiter=text.separator), _ROWS + 1))
    except (OSError, EOFError, csv.Error, UnicodeError) as error:
        raise InputError(f"{source}: not a readable CSV file: {error}") from None
    named = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}.get(text.separator, text.separator)
    extra["separator"] = "tab" if text.separator == "\t" else text.separator
    extra["encoding"] = text.encoding
    about = [opened.label, f"text in {text.encoding}, fields separated by {named}"]
    return about, rows[:_ROWS], len(rows) > _ROWS, extra


def _header(rows: Sequence[Sequence[str]]) -> int:
    """The row of the names: the first one that is as full as most."""
    widths = [sum(map(bool, row)) for row in rows[:50]]
    usual = max(set(widths), key=lambda width: (widths.count(width), width))
    return next((number for number, width in enumerate(widths, 1) if width >= usual), 1)


def _roles(columns: Sequence[_Column], n_rows: int) -> dict[str, str]:
    """Column -> what it could be."""
    roles: dict[str, str] = {}
    for column in columns:
        words = set(folded(column.name).split("-"))
        if column.kind == "whole numbers" and words & COUNTS:
            roles[column.name] = "counts"
        elif folded(column.name) in KINDS:
            roles[column.name] = "levels"
        elif words & set(LEVELS):
            roles[column.name] = "areas"
        elif words & HOUSEHOLDS and words & {"id", "key", "number", "nr"}:
            roles[column.name] = "households"
        elif len(column.texts) == n_rows > 10:
            roles[column.name] = "a value in each row"
        elif 1 < len(column.texts) <= 40 or words & AGES:
            roles[column.name] = "attribute"
        else:
            roles[column.name] = "to be left out"
    if "areas" not in roles.values():
        texts = [
            c for c in columns if c.kind != "whole numbers" and roles[c.name] in ("attribute", "a value in each row")
        ]
        if texts:
            roles[max(texts, key=lambda column: len(column.texts)).name] = "areas"
    return roles


def _with_names(areas: Sequence[_Column]) -> Iterator[str]:
    """The columns of areas, each with that of its names behind it: county=county_name."""
    words = {column.name: set(folded(column.name).split("-")) for column in areas}
    names = {name: words[name] - NAMES for name in words if words[name] & NAMES and len(words[name]) > 1}
    for column in areas:
        own = [name for name, of in names.items() if name != column.name and of <= words[column.name]]
        if column.name in names and any(names[column.name] <= words[other] for other in words if other not in names):
            continue
        yield f"{column.name}={own[0]}" if own and column.name not in names else column.name


def _command(
    stated: TableStatement, columns: Sequence[_Column], roles: dict[str, str], header: int, extra: dict[str, str]
) -> list[str]:
    """The parts of the command that states the proposed reading."""
    of: dict[str, list[_Column]] = {}
    for column in columns:
        of.setdefault(roles[column.name], []).append(column)
    parts = [f"spinewise import table {shlex.quote(stated.source)} --out DIR"]
    if stated.query is not None:
        parts.append(f"--query {shlex.quote(stated.query)}")
    parts += [f"--{name} {shlex.quote(value)}" for name, value in extra.items()]
    if header > 1:
        parts.append(f"--header {header}")
    areas = sorted(of.get("areas", []), key=lambda column: len(column.texts))
    parts.append("--geography " + (shlex.quote(",".join(_with_names(areas))) if areas else "COLUMN"))
    if levels := of.get("levels"):
        parts.append(f"--level {shlex.quote(levels[0].name)} --drop-level VALUES")
    counts = of.get("counts", [])
    parts.append(f"--count {shlex.quote(counts[0].name)}" if counts else "--records")
    if homes := of.get("households"):
        parts.append(f"--key {shlex.quote(homes[0].name)}")
    by = []
    for column in of.get("attribute", []):
        is_age = column.kind == "whole numbers" and set(folded(column.name).split("-")) & AGES
        by.append(f"{column.name}=ages five-year" if is_age else column.name)
    parts.append(f"--attributes {shlex.quote(','.join(by)) if by else 'COLUMNS'}")
    for column in [*of.get("attribute", []), *areas]:
        for text in column.texts:
            if is_total(text):
                parts.append(f"--only {shlex.quote(f'{column.name} != {text}')}")
    return [*parts, "--expect-records N --expect-areas M"]
