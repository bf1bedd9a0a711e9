"""The attributes of a public list: a TOML file with the values, or the name of a stock list, of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from features.imports.tables.stock import STOCK_LISTS, StockList, stock_list, value_in_stock
from features.imports.tables.table import Table
from features.imports.tables.values import MISSING, Attribute, attribute_name
from features.imports.toml_text import read_toml_of
from geography.codes import first_few
from pipeline.errors import InputError

#: Of an attribute its name, the file's column, and the entry.
Listed = tuple[str, str, dict[str, Any]]
_KEYS = ("values", "column", "codes")


def schema_columns(path: Path, of: str, names: Sequence[str]) -> tuple[Listed, ...]:
    """The attributes of the public list: name, column of the file, entry; none where it does not have the table.

    Args:
        path: the list.
        of: its table, "attributes" or "households".
        names: the file's columns.

    Raises:
        InputError: the list cannot be read, or names a column that is not there.
    """
    content = _content(path)
    if of not in content:
        return ()
    entries = content[of]
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{path}: {of}: a table is needed, of attributes and the values of each")
    found = []
    for name, entry in entries.items():
        where = f"--schema {path}: {of}.{name}"
        stated = entry if isinstance(entry, dict) else {"values": entry}
        if strange := [key for key in stated if key not in _KEYS]:
            raise InputError(f"{where}: found the key {strange[0]!r}; allowed are {', '.join(_KEYS)}")
        column = str(stated.get("column", name))
        if column not in names and "column" not in stated:  # "age_group" for the column "age group"
            alike = [one for one in names if attribute_name(one, ()) == name]
            column = alike[0] if len(alike) == 1 else column
        if column not in names:
            raise InputError(
                f"{where}: the table has no column {column!r}; its columns are {', '.join(names[:20])}; name it with "
                "column = ..."
            )
        found.append((name, column, stated))
    return tuple(found)


def given_attribute(path: Path, of: str, name: str, column: str, stated: dict[str, Any], table: Table) -> Attribute:
    """An attribute of the public list.

    Raises:
        InputError: the entry is wrong, or the list lacks a value of the records.
    """
    where = f"--schema {path}: {of}.{name}"
    values, stock = _values(where, stated.get("values"))
    codes = stated.get("codes", {})
    if not isinstance(codes, dict) or not all(isinstance(value, str) and value in values for value in codes.values()):
        raise InputError(f"{where}.codes: a table is needed, from what stands in the file to one of the values")
    found = {text: codes.get(text) or _value_of(text, values, stock) for text in table.columns[column].texts}
    if unknown := [text for text, value in found.items() if value is None]:
        raise InputError(
            f"{where}: {table.place(table.first(column, unknown[0]))}, column {column!r}: found "
            f"{first_few([text or 'nothing' for text in unknown])}, which the list does not have; add it to the list, "
            f'say with codes what it stands for, or, for fields without a value, add "{MISSING}"'
        )
    # All that the list knows, so that the spec does not show what the records have.
    mapped = dict(stock.mapped) if stock is not None else {}
    mapped |= {str(text): str(value) for text, value in codes.items()}
    mapped |= {"": MISSING} if MISSING in values else {}
    mapped |= {text: str(value) for text, value in found.items() if text != value}
    mapped = {text: value for text, value in mapped.items() if text != value}
    return Attribute(name, column, values, mapped, f"from {path.name}")


def _content(path: Path) -> dict[str, Any]:
    content = read_toml_of("--schema", path)
    if "attributes" not in content or (strange := sorted(content.keys() - {"attributes", "households"})):
        found = f"found [{strange[0]}]" if "attributes" in content else "it has no [attributes]"
        raise InputError(f"--schema {path}: {found}; allowed are [attributes] and [households]")
    return content


def _values(where: str, stated: object) -> tuple[tuple[str, ...], StockList | None]:
    """The values of an entry, and its stock list."""
    stock = None
    if isinstance(stated, str):
        if (stock := stock_list(stated)) is None:
            raise InputError(
                f"{where}: found {stated!r}; a list of values is needed, or one of {', '.join(STOCK_LISTS)}"
            )
        return stock.values, stock
    if isinstance(stated, list) and stated and isinstance(stated[0], str) and len(stated) <= 3:
        stock = stock_list(stated[0])
    if stock is not None and isinstance(stated, list):
        stated = [*stock.values, *stated[1:]]
    if not isinstance(stated, list) or not stated or not all(isinstance(value, str) for value in stated):
        raise InputError(f"{where}: a list of values in quotes is needed, or one of {', '.join(STOCK_LISTS)}")
    if len(set(stated)) < len(stated):
        raise InputError(f"{where}: a value stands twice in the list")
    return tuple(stated), stock


def _value_of(text: str, values: tuple[str, ...], stock: StockList | None) -> str | None:
    if text in values:
        return text
    if not text:
        return MISSING if MISSING in values else None
    return None if stock is None else value_in_stock(text, stock)
