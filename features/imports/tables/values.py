"""The attributes of a table and their values; of records, only such values as cannot identify anybody."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.stock import STOCK_LISTS, stock_list, value_in_stock
from features.imports.tables.table import Table
from geography.codes import counted, first_few
from pipeline.errors import InputError
from pipeline.model.schema import RESERVED_NAMES
from pipeline.release.tables import is_count
from pipeline.spec.resolve import TAKEN_COLUMNS

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
class Attribute:
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


def check_dates(table: Table, column: str) -> None:
    """InputError where a value is a date, as Excel makes of ages."""
    for text in table.columns[column].texts:
        if _DATE.fullmatch(text):
            raise InputError(
                f"{table.place(table.first(column, text))}, column {column!r}: found {text!r}, a date, as Excel makes "
                "of ages such as 5-9; write the values as they were"
            )


def read_attribute(
    table: Table,
    column: str,
    stock: str | None,
    people: NDArray[np.int64],
    taken: Collection[str],
    *,
    with_missing: bool,
) -> Attribute:
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
        return _of_stock(table, column, name, stock, with_missing=with_missing)
    if len(texts) > MOST_VALUES:
        raise InputError(
            f"{table}: column {column!r} has {len(texts):,} values; at most {MOST_VALUES} can be proposed: state a "
            f"list, such as --attributes '{column}=ages five-year' ({', '.join(STOCK_LISTS)}), or --schema FILE"
        )
    listed = table.opened.labels.get(column, {})
    n_people = np.bincount(one.codes, weights=people, minlength=len(one.texts))
    of_text = dict(zip(one.texts, n_people.tolist(), strict=True))
    shown = [text for text in texts if text in listed or (of_text[text] >= FEWEST_RECORDS and len(text) <= LONGEST)]
    shown += [code for code in listed if code not in of_text and code]
    blank = tuple(sorted(set(texts) - set(shown)))
    numbers = all(re.fullmatch(r"-?[0-9]{1,9}", text) for text in shown)
    labels: dict[str, str] = {}
    for text in sorted(shown, key=int) if numbers else sorted(shown):
        labels[text] = _value_label(listed.get(text, text)[:LONGEST], list(labels.values()))
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
    return Attribute(name, column, tuple(labels.values()), mapped, about, blank)


def _of_stock(table: Table, column: str, name: str, stock_name: str, *, with_missing: bool) -> Attribute:
    stock = stock_list(stock_name)
    if stock is None:
        raise InputError(f"--attributes: {stock_name!r} is no list; allowed are {', '.join(STOCK_LISTS)}")
    values, mapped = list(stock.values), dict(stock.mapped)
    if with_missing:
        values.append(MISSING)
        mapped[""] = MISSING
    unknown = []
    for text in table.columns[column].texts:
        if text not in values and text not in mapped:
            if (value := value_in_stock(text, stock)) is None:
                unknown.append(text)
            else:
                mapped[text] = value
    if unknown:
        raise InputError(
            f"{table.place(table.first(column, unknown[0]))}, column {column!r}: found "
            f"{first_few(np.array([text or 'nothing' for text in unknown]))}, which the list {stock_name!r} does not "
            f"have; where it means that there is no value: --missing {shlex.quote(unknown[0])}"
        )
    mapped = {text: value for text, value in mapped.items() if text != value}
    return Attribute(name, column, tuple(values), mapped, f"the list {stock_name!r}")


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
