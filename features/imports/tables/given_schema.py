"""The attributes of a public list: a TOML file with the values, or the name of a stock list, of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from features.imports.tables.guess_schema import GuessedAttribute, GuessedSchema, attribute_name, open_age
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import first_few
from pipeline.errors import InputError
from pipeline.storage.toml import TomlError, parse_toml, read_toml_text

#: The last age that is mapped.
OLDEST: Final = 130


@dataclass(frozen=True)
class StockList:
    """Values, and the texts of files that stand for them.

    Attributes:
        values: in order.
        mapped: text of a file, folded -> value; a value stands for itself, too.
        open_from: ages from here on, such as "90+", are in the last value; None where these are no ages.
    """

    values: tuple[str, ...]
    mapped: Mapping[str, str]
    open_from: int | None = None


def _ages(firsts: Sequence[int]) -> StockList:
    """Bands that begin at these ages; the last one is open."""
    bounds = [*firsts, OLDEST + 1]
    labels = [str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in pairwise(firsts)]
    labels.append(f"{firsts[-1]}+")
    mapped = {
        str(age): label for label, (low, high) in zip(labels, pairwise(bounds), strict=True) for age in range(low, high)
    }
    return StockList(tuple(labels), mapped, firsts[-1])


def _sex() -> StockList:
    texts = {
        "female": ("female", "f", "w", "women", "woman", "weiblich", "femme", "mujer", "2"),
        "male": ("male", "m", "men", "man", "männlich", "homme", "hombre", "1"),
    }
    return StockList(tuple(texts), {text: value for value, some in texts.items() for text in some})


_LISTS: Final[Mapping[str, Callable[[], StockList]]] = {
    "ages single": lambda: _ages(range(101)),
    "ages five-year": lambda: _ages(range(0, 101, 5)),
    "ages ten-year": lambda: _ages(range(0, 101, 10)),
    "ages broad": lambda: _ages((0, 5, 18, 25, 45, 65, 85)),
    "ages voting": lambda: _ages((0, 18)),
    "sex": _sex,
}
#: Names of the lists, as a file of --schema gives them.
STOCK_LISTS: Final = tuple(_LISTS)


def stock_list(name: str) -> StockList | None:
    """The list of that name; codes of sex are those of ISO/IEC 5218, 1 male and 2 female."""
    return None if name not in _LISTS else _LISTS[name]()


#: What stands for a field without a value.
_MISSING = "missing"
_KEYS = ("values", "column", "codes")


def read_given_schema(path: Path, of: str, file: TableFile, columns: Mapping[str, Column]) -> GuessedSchema | None:
    """The attributes that the public list gives the records, in its order.

    Args:
        path: the list.
        of: its table, "attributes" or "households".
        file: the records, for messages.
        columns: of the records that are not used for something else.

    Returns:
        None where the list does not have the table.

    Raises:
        InputError: the list cannot be read, names a column that is not there, or lacks a value of the records.
    """
    content = _content(path)
    if of not in content:
        return None
    entries = content[of]
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{path}: {of}: a table is needed, of attributes and the values of each")
    attributes = tuple(_attribute(path, of, name, entry, file, columns) for name, entry in entries.items())
    used = {attribute.column for attribute in attributes}
    left_out = tuple(f"column {name!r}: {path.name} does not name it" for name in columns if name not in used)
    return GuessedSchema(attributes, left_out)


def has_households(path: Path) -> bool:
    """Whether the list has the attributes of households."""
    return "households" in _content(path)


def _content(path: Path) -> dict[str, Any]:
    try:
        content = parse_toml(read_toml_text(path))
    except OSError as error:
        raise InputError(f"--schema {path}: cannot be read ({error.strerror or error})") from None
    except (TomlError, UnicodeDecodeError) as error:
        raise InputError(f"--schema {path}: is not a TOML file: {error}") from None
    if "attributes" not in content or (strange := sorted(content.keys() - {"attributes", "households"})):
        found = f"found [{strange[0]}]" if "attributes" in content else "it has no [attributes]"
        raise InputError(f"--schema {path}: {found}; allowed are [attributes] and [households]")
    return content


def _attribute(
    path: Path, of: str, name: str, entry: object, file: TableFile, columns: Mapping[str, Column]
) -> GuessedAttribute:
    where = f"--schema {path}: {of}.{name}"
    stated = entry if isinstance(entry, dict) else {"values": entry}
    if strange := [key for key in stated if key not in _KEYS]:
        raise InputError(f"{where}: found the key {strange[0]!r}; allowed are {', '.join(_KEYS)}")
    values, stock = _values(where, stated.get("values"))
    called = str(stated.get("column", name))
    column = columns.get(called)
    if column is None and "column" not in stated:  # "age_group" for the column "age group"
        alike = [one for one in columns.values() if attribute_name(one.name, ()) == name]
        column = alike[0] if len(alike) == 1 else None
    if column is None:
        raise InputError(
            f"{where}: {file} has no column {called!r} that can be counted by; its columns are "
            f"{', '.join(list(columns)[:20])}; name it with column = ..."
        )
    if column.too_many:
        raise InputError(f"{where}: column {column.name!r} of {file} has too many values to be one of {len(values)}")
    codes = stated.get("codes", {})
    if not isinstance(codes, dict) or not all(isinstance(value, str) and value in values for value in codes.values()):
        raise InputError(f"{where}.codes: a table is needed, from what stands in the file to one of the values")
    texts = [*column.values, *([""] if column.n_missing else [])]
    found = {text: codes.get(text) or _value_of(text, values, stock) for text in texts}
    if unknown := [text or "nothing" for text, value in found.items() if value is None]:
        raise InputError(
            f"{where}: column {column.name!r} of {file} has {first_few(unknown)}, which the list does not have; add "
            f'them to it, say with codes what they stand for, or, for fields without a value, add "{_MISSING}"'
        )
    # All that the list knows, so that the spec does not show what the records have.
    mapped = dict(stock.mapped) if stock is not None else {}
    mapped |= {str(text): str(value) for text, value in codes.items()}
    mapped |= {"": _MISSING} if _MISSING in values else {}
    mapped |= {text: str(value) for text, value in found.items() if text != value}
    mapped = {text: value for text, value in mapped.items() if text != value}
    return GuessedAttribute(name, column.name, values, mapped, f"from {path.name}")


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
        return _MISSING if _MISSING in values else None
    if stock is None:
        return None
    if (value := stock.mapped.get(text.casefold())) is not None:
        return value
    if stock.open_from is not None and (age := open_age(text)) is not None and age >= stock.open_from:
        return stock.mapped[str(stock.open_from)]
    return None
