"""Persons in households: which column is the key, what belongs to the household, and where its persons live."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from features.imports.tables.batches import BatchWriter
from features.imports.tables.guess_schema import GuessedAttribute
from features.imports.tables.level_names import plain
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import counted, first_few
from pipeline.errors import InputError

#: What keys of households are called, without "_id" and the like.
_KEY_NAMES = ("household", "hh", "serial", "dwelling", "family", "home")
#: The attribute of households of which nothing else is known, and its largest group.
SIZE, _LARGEST = "size", 7
_SIZE_LABEL = re.compile(r"([0-9]{1,3})(\+?)", re.ASCII)


def guess_key(file: TableFile, columns: Mapping[str, Column], leaf: str) -> str | None:
    """The key of households in a table of persons: by its name, with several rows each, all in one leaf."""
    for name, column in columns.items():
        if plain(name) not in _KEY_NAMES or column.n_missing or name == leaf or column.n_distinct == column.n_rows:
            continue
        if column.n_distinct > 1 and not file.distinct_rows([name, leaf])[name].duplicated().any():
            return name
    return None


@dataclass(frozen=True, eq=False)
class Households:
    """A table of households made from one of persons: a row each, with the key's other columns as text."""

    table: pd.DataFrame
    messages: tuple[str, ...]


def households_of(
    file: TableFile, columns: Mapping[str, Column], key: str, leaf: str, geography: Sequence[str]
) -> Households:
    """The households of a table of persons that holds them too.

    Columns that never differ within a household are the household's; where there are none but the leaf, its number of
    persons is.

    Raises:
        InputError: persons of one household live in several leaves, or have no key.
    """
    check_key(file, columns, key)
    others = [name for name in columns if name not in (key, *geography)]
    parts = [pd.DataFrame(chunk, dtype=object) for chunk in file.texts([key, leaf, *others])]
    rows = pd.concat(parts, ignore_index=True)
    differing = rows.groupby(key)[[leaf, *others]].nunique()
    if (apart := differing.index[differing[leaf] > 1]).size:
        raise InputError(
            f"{file}: column {key!r}: {counted(apart.size, 'household')} with persons in several values of {leaf!r}: "
            f"{first_few(list(apart))}; a household is in one"
        )
    own = [name for name in others if (differing[name] <= 1).all() and columns[name].n_distinct > 1]
    first = rows.drop_duplicates(key)[[key, leaf, *own]].reset_index(drop=True)
    if own:
        return Households(
            first, (f"columns {', '.join(own)} are the same within each {key}: attributes of households",)
        )
    sizes = rows.groupby(key).size()
    first[SIZE] = [size_label(n) for n in first[key].map(sizes)]
    return Households(first, (f"no column but the geography is the same within each {key}: households get their size",))


def size_label(persons: int) -> str:
    """The label of a household size: "1", "2", and the largest open at the top."""
    return str(persons) if persons < _LARGEST else f"{_LARGEST}+"


def check_key(file: TableFile, columns: Mapping[str, Column], key: str) -> None:
    """InputError unless the column is there and every row has a value."""
    if key not in columns:
        raise InputError(f"{file}: --key: no column {key!r}; the columns are {', '.join(list(columns)[:20])}")
    if columns[key].n_missing:
        raise InputError(
            f"{file}: column {key!r}: {counted(columns[key].n_missing, 'row')} without a value; each needs one"
        )


def place_persons(persons: TableFile, households: TableFile, key: str, leaf: str, target: Path) -> int:
    """Write the persons with the leaf of their household; the number of households without persons.

    Raises:
        InputError: a household has two rows, or a person has none.
    """
    parts = [pd.DataFrame(chunk, dtype=object) for chunk in households.texts([key, leaf])]
    rows = pd.concat(parts, ignore_index=True)
    if (twice := rows[key][rows[key].duplicated()].unique()).size:
        raise InputError(
            f"{households}: column {key!r}: {counted(len(twice), 'household')} with several rows: "
            f"{first_few(list(twice))}; each has one"
        )
    leaf_of = dict(zip(rows[key], rows[leaf], strict=True))
    empty = set(leaf_of)
    homeless: dict[str, None] = {}
    n_homeless = 0
    with BatchWriter(target) as written:
        for chunk in persons.texts(persons.names()):
            places = [leaf_of.get(code) for code in chunk[key]]
            empty.difference_update(chunk[key])
            missing = [code for code, place in zip(chunk[key], places, strict=True) if place is None]
            n_homeless += len(missing)
            homeless.update(dict.fromkeys(missing[: 10 - len(homeless)]))
            columns = {name: pa.array(values, pa.string()) for name, values in chunk.items() if name != leaf}
            written.write(pa.RecordBatch.from_pydict({leaf: pa.array(places, pa.string()), **columns}))
    if n_homeless:
        raise InputError(
            f"{persons}: column {key!r}: {counted(n_homeless, 'person')} of households that are not in {households}: "
            f"{first_few(list(homeless))}; each needs a row there"
        )
    return len(empty)


def size_attribute(
    attributes: Sequence[GuessedAttribute], persons: TableFile, households: TableFile, key: str
) -> GuessedAttribute | None:
    """The attribute of households that is the number of their persons, in every household; None where there is none.

    Args:
        attributes: of households.
        persons, households: the tables, both with the key.
        key: the column that leads from persons to households.
    """
    sized = [a for a in attributes if len(a.values) > 1 and all(_SIZE_LABEL.fullmatch(value) for value in a.values)]
    members: Counter[str] = Counter()
    for chunk in persons.texts([key]) if sized else ():
        members.update(chunk[key])
    for attribute in sized:
        chunks = households.texts([key, attribute.column])
        if all(
            _is_size(attribute.mapped.get(text, text), members[code])
            for chunk in chunks
            for code, text in zip(chunk[key], chunk[attribute.column], strict=True)
        ):
            return attribute
    return None


def _is_size(label: str, persons: int) -> bool:
    """Whether "3" or "7+" is the label of this number."""
    size = _SIZE_LABEL.fullmatch(label)
    return size is not None and (persons >= int(size[1]) if size[2] else persons == int(size[1]))
