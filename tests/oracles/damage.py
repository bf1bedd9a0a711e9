"""Ways to damage files: by byte, JSON value, Parquet column, SQL, and as files; all from a seeded generator."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: Values that have a meaning somewhere, in places where they have none.
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, -0.0, 1e308, float("nan"), float("inf"), "",
    " ", "nan", "1/0", "1/3", "1e-10", "total", "block", "../../etc/passwd", "/dev/null", "a\x00b", "é", "\ud7ff",
    "x" * 5000, [], {}, [[]], [None], {"": {}}, ["total", "total"], "zcdp", "discrete_gaussian", "9" * 400,
)  # fmt: skip


def places(content: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every key and list position of a TOML document."""
    found = [at] if at else []
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, value in items:
        found += places(value, (*at, name))
    return found


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    """Bits flipped, bytes replaced, ranges removed, repeated, zeroed or swapped, the end cut off or extended."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 4, 30, 1000))
        what = rng.randrange(8)
        if what == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            data[at : at + length] = rng.randbytes(length)
        elif what == 2:
            del data[at : at + length]
        elif what == 3:
            data[at:at] = data[at : at + length]
        elif what == 4:
            data[at : at + length] = bytes(length)
        elif what == 5:
            del data[at:]
        elif what == 6:
            data += rng.randbytes(length)
        else:
            other = rng.randrange(len(data) + 1)
            data[at : at + length], data[other : other + length] = data[other : other + length], data[at : at + length]
    return bytes(data)


def damaged_json(rng: random.Random, content: bytes) -> bytes:
    """Values replaced by junk, keys removed, renamed, added; now and then something nested deep, or damaged bytes."""
    if rng.random() < 0.15:
        return damaged_bytes(rng, content)
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        known = places(value)
        if not known:
            break
        place = rng.choice(known)
        inside = value
        for part in place[:-1]:
            inside = inside[part]
        name, what = place[-1], rng.randrange(6)
        if what < 3:
            inside[name] = _like(rng, inside[name])
        elif what == 3:
            del inside[name]
        elif isinstance(inside, list):
            inside.insert(int(name), inside[int(name)] if what == 4 else rng.choice(JUNK))
        elif what == 4:
            inside[f"{name}x"] = inside.pop(name)
        else:
            inside[rng.choice(("", "file", "x", "rho", "format"))] = rng.choice(JUNK)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.02:
        text = "[" * 100_000 + text
    return text.encode("utf-8", "surrogatepass")


def _like(rng: random.Random, value: Any) -> Any:
    """Junk, or a value of the same type that is a little off."""
    if rng.random() < 0.6:
        return rng.choice(JUNK)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((value + 1, -value, value * 10**6, float(value), str(value)))
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return rng.choice((value[:at], value[:at] + rng.choice("0a/ ") + value[at + 1 :], value.upper(), value * 2))
    if isinstance(value, list | dict):
        return rng.choice(([], {}, [value], {"x": value}))
    return "x"


def damaged_parquet(rng: random.Random, content: bytes) -> bytes:
    """Columns dropped, renamed, repeated, of another type; rows dropped, repeated, turned round; values changed."""
    if rng.random() < 0.25:
        return damaged_bytes(rng, content)
    table = pq.read_table(io.BytesIO(content))
    for _ in range(rng.choice((1, 1, 2))):
        with suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
            table = _changed_table(rng, table)
    if rng.random() < 0.1:
        metadata = dict(table.schema.metadata or {})
        metadata[rng.choice([*metadata, b"spinewise"])] = damaged_bytes(rng, b'{"level": "block", "scale": "1/2"}')
        table = table.replace_schema_metadata(rng.choice((None, metadata)))
    buffer = io.BytesIO()
    try:
        pq.write_table(table, buffer, row_group_size=rng.choice((None, 1, 7)), compression=rng.choice(("zstd", "gzip")))
    except pa.ArrowException:
        return damaged_bytes(rng, content)
    return buffer.getvalue()


def damaged(rng: random.Random, path: Path) -> bytes:
    """What may stand in a file after a fault, by its form."""
    kinds = {".parquet": damaged_parquet, ".json": damaged_json, ".geojson": damaged_json}
    return kinds.get(path.suffix, damaged_bytes)(rng, path.read_bytes())


def _changed_table(rng: random.Random, table: pa.Table) -> pa.Table:
    names = table.column_names
    what = rng.randrange(9)
    if what == 0 or not names or not table.num_rows:
        return table.slice(0, rng.choice((0, 1)))
    place = rng.randrange(len(names))
    if what == 1:
        return table.remove_column(place)
    if what == 2:
        return table.rename_columns([f"{name}x" if number == place else name for number, name in enumerate(names)])
    if what == 3:
        return table.append_column(names[place], table.column(rng.randrange(len(names))))
    if what == 4:
        kind = rng.choice((pa.string(), pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.binary(), pa.bool_()))
        return table.set_column(place, names[place], table.column(place).cast(kind))
    if what == 5:
        return pa.concat_tables([table, table.slice(rng.randrange(table.num_rows), 2)])
    if what == 6:
        rows = list(range(table.num_rows))
        rng.shuffle(rows)
        return table.take(pa.array(rows[: rng.choice((len(rows), len(rows) - 1))]))
    field = table.schema.field(place)
    values = table.column(place).to_pylist()
    junk = (None, -1, 0, 2**62, float("nan"), float("inf"), 0.5, "x", "", b"\xff", [1], [None])
    values[rng.randrange(len(values))] = rng.choice(junk)
    with suppress(pa.ArrowException, TypeError, OverflowError):
        return table.set_column(place, field, pa.array(values, field.type))
    return table.set_column(place, field.name, pa.array([str(value) for value in values]))


def damage_database(rng: random.Random, path: Path) -> bool:
    """Rows and tables of an SQLite file changed by SQL; whether any row that was there has other values now."""
    with sqlite3.connect(path) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        table = rng.choice(tables)
        columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
        rows = [row for (row,) in database.execute(f'select rowid from "{table}"')]
        before = list(database.execute(f'select * from "{table}"'))
        what = rng.randrange(8)
        triggers = [name for (name,) in database.execute("select name from sqlite_master where type = 'trigger'")]
        for trigger in triggers:
            database.execute(f'drop trigger "{trigger}"')
        with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
            if what < 4 and rows:
                value = rng.choice([value for value in JUNK if not isinstance(value, list | dict)])
                column = rng.choice(columns)
                database.execute(f'update "{table}" set "{column}" = ? where rowid = ?', (value, rng.choice(rows)))
            elif what == 4 and rows:
                database.execute(f'delete from "{table}" where rowid = ?', (rng.choice(rows),))
            elif what == 5:
                database.execute(f'drop table "{table}"')
            elif what == 6:
                database.execute(f'alter table "{table}" rename column "{rng.choice(columns)}" to "other"')
            else:
                database.execute(f"pragma user_version = {rng.randrange(99)}")
        try:
            after = list(database.execute(f'select * from "{table}"'))
        except sqlite3.Error:
            after = []
    database.close()
    return before != after


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.unlink()
        make(path)

    return put


#: What can stand in the place of a file: nothing in it, nothing, a folder, links to itself, to nothing, to a device; a
#: pipe.
INSTEAD: tuple[Callable[[Path], None], ...] = tuple(
    _instead(make)
    for make in (
        Path.touch,
        lambda _: None,
        Path.mkdir,
        lambda path: path.symlink_to(path.name),
        lambda path: path.symlink_to("nothing-is-here"),
        lambda path: path.symlink_to(os.devnull),
        os.mkfifo,
    )
)


@contextmanager
def restored(paths: Sequence[Path]) -> Iterator[None]:
    """Afterwards the files are as they were, whatever stands in their place."""
    before = {path: path.read_bytes() for path in paths}
    try:
        yield
    finally:
        for path, content in before.items():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.is_symlink() or path.exists():
                path.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
