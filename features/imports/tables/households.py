"""Persons in households: their key, what belongs to the household, and where its persons live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.table import Coded, Table, keys_of
from geography.codes import counted
from pipeline.errors import InputError

#: The attribute of households of which nothing else is known, and its largest group.
SIZE, _LARGEST = "size", 7


@dataclass(frozen=True, eq=False)
class Households:
    """A row a household.

    Attributes:
        table: of the households, with the columns asked for and, where there is none, SIZE.
        leaf: its area.
        homeless: persons without a household.
    """

    table: Table
    leaf: Coded
    homeless: int


def households_of(persons: Table, key: str, leaf: Coded, attributes: Sequence[str]) -> Households:
    """The households of a table of persons that holds them too.

    Raises:
        InputError: persons of one household differ in their area, or in an attribute of it.
    """
    one = persons.columns[key]
    with_home = np.array([text != "" for text in one.texts], dtype=bool)[one.codes]
    if not with_home.any():
        raise InputError(f"{persons}: column {key!r}: no row has a value")
    if odd := [text for text in one.texts if text.startswith("-") and text[1:].isdecimal()]:
        raise InputError(
            f"{persons.place(persons.first(key, odd[0]))}, column {key!r}: found household {odd[0]!r}, a negative "
            f"number, as is written where there is none: --missing {odd[0]}"
        )
    rows = np.flatnonzero(with_home)
    codes, first, inverse = np.unique(one.codes[rows], return_index=True, return_inverse=True)
    first_rows = rows[first]
    for name, column in {"the area": leaf, **{name: persons.columns[name] for name in attributes}}.items():
        apart = np.flatnonzero(column.codes[first_rows][inverse] != column.codes[rows])
        if apart.size:
            row, other = int(rows[apart[0]]), int(first_rows[inverse[apart[0]]])
            raise InputError(
                f"{persons.place(other)} and {persons.place(row)[len(str(persons)) + 2 :]}: household "
                f"{one.texts[one.codes[row]]!r} of column {key!r} has {column.texts[column.codes[other]]!r} and "
                f"{column.texts[column.codes[row]]!r} as {name}; a household has one (a key that means no household: "
                "--missing)"
            )
    columns = {name: Coded(persons.columns[name].codes[first_rows], persons.columns[name].texts) for name in attributes}
    if not attributes:
        columns[SIZE] = sizes(np.bincount(inverse, minlength=len(codes)))
    table = Table(persons.opened, columns, persons.rows[first_rows], persons.names)
    return Households(table, Coded(leaf.codes[first_rows], leaf.texts), int((~with_home).sum()))


def sizes(persons: NDArray[np.int64]) -> Coded:
    """Household sizes "1", "2", ..., the largest open at the top."""
    labels = [*map(str, range(_LARGEST)), f"{_LARGEST}+"]
    return Coded(np.minimum(persons, _LARGEST).astype(np.int32), labels)


def place_persons(persons: Table, homes: Table, key: str) -> NDArray[np.int64]:
    """`(n_persons,)`, the row of each person's household.

    Raises:
        InputError: a household has two rows or no key, or a person has none.
    """
    listed, own = homes.columns[key], persons.columns[key]
    if "" in listed.texts:
        raise InputError(
            f"{homes.place(homes.first(key, ''))}, column {key!r}: found nothing; each household needs a key"
        )
    keys = keys_of([listed])
    if (twice := np.flatnonzero(np.bincount(keys) > 1)).size:
        rows = np.flatnonzero(listed.codes == twice[0])[:2]
        raise InputError(
            f"{homes.place(int(rows[0]))} and {homes.place(int(rows[1]))[len(str(homes)) + 2 :]}: household "
            f"{listed.texts[twice[0]]!r} stands in two rows; each has one"
        )
    row_of = {listed.texts[code]: row for row, code in enumerate(listed.codes.tolist())}
    place = np.array([row_of.get(text, -1) for text in own.texts], dtype=np.int64)[own.codes]
    if (lost := np.flatnonzero(place < 0)).size:
        row = int(lost[0])
        raise InputError(
            f"{persons.place(row)}, column {key!r}: found {own.texts[own.codes[row]]!r}; "
            f"{counted(lost.size, 'person')} of households that are not in {homes}; each needs a row there"
        )
    return place
