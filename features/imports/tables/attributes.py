"""The attributes of a table and their values: of a stock list, of a public list, or such as cannot identify anybody."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from features.imports.tables.table import RecordTable
from features.imports.toml_text import read_toml_of
from geography.spine import counted
from pipeline.errors import InputError
from pipeline.model.schema import RESERVED_NAMES
from pipeline.release.tables import is_count
from pipeline.spec.resolve import TAKEN_COLUMNS
from postprocess.arrays import IntArray

#: The last age that is mapped.
OLDEST: Final = 130
_OPEN_AGE = re.compile(
    r"(?:over|>=|≥)?\s*([0-9]{1,3})\s*(?:years?|jahre|ans|anos|años|anni)?\s*"
    r"(?:\+|plus|and (?:over|older|above)|or (?:over|older|more)|und (?:älter|mehr)|et plus|y más|ou mais|e oltre)\s*",
    re.IGNORECASE,
)


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


#: Of sex; codes are those of ISO/IEC 5218, 1 male and 2 female.
_SEX: Final = {
    "female": ("female", "f", "w", "women", "woman", "weiblich", "femme", "mujer", "2"),
    "male": ("male", "m", "men", "man", "männlich", "homme", "hombre", "1"),
}
#: By their names, as options and a file of --schema give them.
STOCK_LISTS: Final[Mapping[str, StockList]] = {
    "ages single": _ages(range(101)),
    "ages five-year": _ages(range(0, 101, 5)),
    "ages ten-year": _ages(range(0, 101, 10)),
    "ages broad": _ages((0, 5, 18, 25, 45, 65, 85)),
    "ages voting": _ages((0, 18)),
    "sex": StockList(tuple(_SEX), {text: value for value, some in _SEX.items() for text in some}),
}


#: Values that an attribute may have without a list.
MOST_VALUES = 40
#: Records that have a value which is proposed for the public schema, and its longest text.
FEWEST_RECORDS, LONGEST = 20, 40
MISSING = "missing"
_DATE = re.compile(
    r"\d{1,2}[-. ](?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]*"
    r"|(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]*[-. ]\d{1,2}"
    r"|\d{4}-\d\d-\d\d.*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AttributeColumn:
    """An attribute.

    Attributes:
        name: in the spec.
        column: in the file.
        values: in order.
        mapped: value in the file -> value of the schema, where they differ.
        about: a comment.
        blank: texts that no public file may show, and for which values are to be filled in.
    """

    name: str
    column: str
    values: tuple[str, ...]
    mapped: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    blank: tuple[str, ...] = ()


def check_dates(table: RecordTable, column: str) -> None:
    """InputError where a value is a date, as Excel makes of ages."""
    for text in table.columns[column].texts:
        if _DATE.fullmatch(text):
            raise InputError(
                f"{table.found(column, [text])}, a date, as Excel makes of ages such as 5-9; write the values as "
                "they were"
            )


def read_attribute(
    table: RecordTable,
    column: str,
    stock: str | None,
    people: IntArray,
    taken: Collection[str],
    *,
    with_missing: bool,
) -> AttributeColumn:
    """The attribute of a column.

    Args:
        stock: the name of a stock list, whose values are the attribute's.
        people: `(n_rows,)`, how many each row counts.
        taken: names of other attributes.
        with_missing: whether rows without a value are stated, which a list then takes.

    Raises:
        InputError: the list lacks a value, or there are more values than an attribute may have.
    """
    one = table.columns[column]
    name = attribute_name(column, taken)
    texts = [text for text in one.texts if text]
    if not texts:
        raise InputError(f"{table}: column {column!r}: no row has a value")
    if stock is not None:
        if (listed := STOCK_LISTS.get(stock)) is None:
            raise InputError(f"--attributes: {stock!r} is no list; allowed are {', '.join(STOCK_LISTS)}")
        values = (*listed.values, MISSING) if with_missing else listed.values
        mapped, unknown = _in_list(table, column, values, listed, {})
        if unknown:
            raise InputError(
                f"{table.found(column, unknown)}, which the list {stock!r} does not have; where it means that there "
                f"is no value: --missing {shlex.quote(unknown[0])}"
            )
        return AttributeColumn(name, column, values, mapped, f"the list {stock!r}")
    if len(texts) > MOST_VALUES:
        raise InputError(
            f"{table}: column {column!r} has {len(texts):,} values; at most {MOST_VALUES} can be proposed: state a "
            f"list, such as --attributes '{column}=ages five-year' ({', '.join(STOCK_LISTS)}), or --schema FILE"
        )
    known = table.opened.labels.get(column, {})
    n_people = np.bincount(one.codes, weights=people, minlength=len(one.texts))
    of_text = dict(zip(one.texts, n_people.tolist(), strict=True))
    shown = [text for text in texts if text in known or (of_text[text] >= FEWEST_RECORDS and len(text) <= LONGEST)]
    shown += [code for code in known if code not in of_text and code]
    blank = tuple(sorted(set(texts) - set(shown)))
    numbers = all(re.fullmatch(r"-?[0-9]{1,9}", text) for text in shown)
    labels: dict[str, str] = {}
    for text in sorted(shown, key=int) if numbers else sorted(shown):
        labels[text] = _value_label(known.get(text, text)[:LONGEST], list(labels.values()))
    if "" in of_text:
        labels[""] = _value_label(MISSING, list(labels.values()))
    mapped = {text: label for text, label in labels.items() if text != label}
    about = ""
    if blank:
        about = (
            f"{counted(len(blank), 'value')} of the records {'is' if len(blank) == 1 else 'are'} not shown here (fewer "
            f"than {FEWEST_RECORDS} records, or longer than {LONGEST}); fill in: the texts are in values.txt"
        )
    if not labels:
        raise InputError(
            f"{table}: column {column!r}: no value stands in {FEWEST_RECORDS} records; state a list with --schema FILE"
        )
    return AttributeColumn(name, column, tuple(labels.values()), mapped, about, blank)


def _in_list(
    table: RecordTable, column: str, values: Sequence[str], stock: StockList | None, codes: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Text -> value of a list, where they differ, and the texts of the table that the list does not have.

    All is mapped that the list knows, so that the spec does not show what the records have.
    """
    found = {text: codes.get(text) or _value_of(text, values, stock) for text in table.columns[column].texts}
    mapped = dict(stock.mapped) if stock is not None else {}
    mapped |= codes
    mapped |= {"": MISSING} if MISSING in values else {}
    mapped |= {text: value for text, value in found.items() if value is not None}
    return (
        {text: value for text, value in mapped.items() if text != value},
        [text for text, value in found.items() if value is None],
    )


def attribute_name(column: str, taken: Collection[str]) -> str:
    """A name for an attribute that queries can use, made of a column's."""
    name = re.sub(r"\W+", "_", column.strip(), flags=re.ASCII).strip("_")[:60] or "attribute"
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"a_{name}"
    stem, number = name, 2
    folded = {other.casefold() for other in (*taken, *RESERVED_NAMES, *TAKEN_COLUMNS)}
    while name.casefold() in folded:
        name = f"{stem}_{number}"
        number += 1
    return name


def _value_label(text: str, taken: Collection[str]) -> str:
    """A value that the schema allows, made of one in the file."""
    label = " ".join(text.split()).replace(" * ", " x ").strip()[:80] or "blank"
    if not is_count(label):
        label += "_"
    stem, number = label, 2
    while label in taken:
        label = f"{stem} ({number})"
        number += 1
    return label


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
    content = read_toml_of("--schema", path)
    if "attributes" not in content or (strange := sorted(content.keys() - {"attributes", "households"})):
        found = f"found [{strange[0]}]" if "attributes" in content else "it has no [attributes]"
        raise InputError(f"--schema {path}: {found}; allowed are [attributes] and [households]")
    if of not in content:
        return ()
    entries = content[of]
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{path}: {of}: a table is needed, of attributes and the values of each")
    listed = []
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
        listed.append((name, column, stated))
    return tuple(listed)


def given_attribute(
    path: Path, of: str, name: str, column: str, stated: dict[str, Any], table: RecordTable
) -> AttributeColumn:
    """An attribute of the public list.

    Raises:
        InputError: the entry is wrong, or the list lacks a value of the records.
    """
    where = f"--schema {path}: {of}.{name}"
    values, stock = _values(where, stated.get("values"))
    codes = stated.get("codes", {})
    if not isinstance(codes, dict) or not all(isinstance(value, str) and value in values for value in codes.values()):
        raise InputError(f"{where}.codes: a table is needed, from what stands in the file to one of the values")
    mapped, unknown = _in_list(table, column, values, stock, codes)
    if unknown:
        raise InputError(
            f"{where}: {table.found(column, unknown)}, which the list does not have; add it to the list, "
            f'say with codes what it stands for, or, for fields without a value, add "{MISSING}"'
        )
    return AttributeColumn(name, column, values, mapped, f"from {path.name}")


def _values(where: str, stated: object) -> tuple[tuple[str, ...], StockList | None]:
    """The values of an entry, and its stock list."""
    stock = None
    if isinstance(stated, str):
        if (stock := STOCK_LISTS.get(stated)) is None:
            raise InputError(
                f"{where}: found {stated!r}; a list of values is needed, or one of {', '.join(STOCK_LISTS)}"
            )
        return stock.values, stock
    if isinstance(stated, list) and stated and isinstance(stated[0], str) and len(stated) <= 3:
        stock = STOCK_LISTS.get(stated[0])
    if stock is not None and isinstance(stated, list):
        stated = [*stock.values, *stated[1:]]
    if not isinstance(stated, list) or not stated or not all(isinstance(value, str) for value in stated):
        raise InputError(f"{where}: a list of values in quotes is needed, or one of {', '.join(STOCK_LISTS)}")
    if len(set(stated)) < len(stated):
        raise InputError(f"{where}: a value stands twice in the list")
    return tuple(stated), stock


def _value_of(text: str, values: Sequence[str], stock: StockList | None) -> str | None:
    """The value that a text of a file stands for, None where the list does not have it."""
    if text in values:
        return text
    if not text:
        return MISSING if MISSING in values else None
    if stock is None:
        return None
    if (value := stock.mapped.get(text.casefold())) is not None:
        return value
    age = _OPEN_AGE.fullmatch(text)
    if stock.open_from is not None and age is not None and int(age[1]) >= stock.open_from:
        return stock.mapped[str(stock.open_from)]
    return None
