"""The wide form of records: which columns add up to which cell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import SpecError
from pipeline.model.schema import Attribute, Schema
from pipeline.records.problems import list_allowed

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_OPERATOR = re.compile(r"\s+([+-])\s+")


@dataclass(frozen=True)
class CellColumns:
    """One cell's count as a sum of columns: `terms` are (+1 or -1, column); no terms where the cell is always empty."""

    cell: int
    text: str
    terms: tuple[tuple[int, str], ...]


def expand_cells(
    entries: Sequence[Mapping[str, str]],
    schema: Schema,
    *,
    coded: bool = False,
    values: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[CellColumns, ...]:
    """The columns of every cell of the schema, in the order of the cells.

    Args:
        entries: each has `counts`, a template such as "pop_{race} - vap_{race}", and the value of every attribute that
            has no {placeholder} in it. `counts = "0"` states cells that are always empty.
        schema: whose cells the columns hold.
        coded: placeholders are filled with the values' numbers, from 0, not with their names.
        values: attribute -> what stands in the columns' names -> value of the schema.

    Raises:
        SpecError: an entry does not fit the schema, a cell has two entries or none.
    """
    if not entries:
        raise SpecError('input.cells: none given; the form "wide" needs at least one entry')
    by_cell: dict[int, CellColumns] = {}
    fillings = [_fillings(a, coded, (values or {}).get(a.name, {})) for a in schema.attributes]
    for number, entry in enumerate(entries):
        where = f"input.cells[{number}]"
        for cell in _expand_entry(where, entry, schema, fillings):
            if cell.cell in by_cell:
                raise SpecError(
                    f"{where}: {cell.text!r} counts the cell {_label(schema, cell.cell)}, which "
                    f"{by_cell[cell.cell].text!r} counts already; each cell may be counted once"
                )
            by_cell[cell.cell] = cell
    if missing := [cell for cell in range(schema.n_cells) if cell not in by_cell]:
        raise SpecError(
            f"input.cells: no entry counts the cell {_label(schema, missing[0])}"
            f"{f' and {len(missing) - 1:,} more' if len(missing) > 1 else ''}; each cell must be counted once "
            '(counts = "0" where it is always empty)'
        )
    return tuple(by_cell[cell] for cell in range(schema.n_cells))


def _label(schema: Schema, cell: int) -> str:
    return repr(schema.cell_labels()[cell])


def _fillings(attribute: Attribute, coded: bool, values: Mapping[str, str]) -> tuple[str, ...]:
    """What stands in the columns' names for each value of the attribute."""
    filled = [str(i) if coded else value for i, value in enumerate(attribute.values)]
    text_of: dict[str, str] = {}
    for text, value in values.items():
        if value in text_of:
            raise SpecError(
                f"input.values.{attribute.name}: {text_of[value]!r} and {text!r} both stand for {value!r}; in the form "
                '"wide" one name is allowed, which fills the columns\' names'
            )
        text_of[value] = text
        filled[attribute.values.index(value)] = text
    return tuple(filled)


def _expand_entry(
    where: str, entry: Mapping[str, str], schema: Schema, fillings: Sequence[tuple[str, ...]]
) -> Iterator[CellColumns]:
    template = entry.get("counts")
    if template is None:
        raise SpecError(f'{where}: "counts" is missing; it names the columns, such as counts = "pop_{{race}}"')
    choices = _choices(where, entry, schema)
    parts = [part.strip() for part in _OPERATOR.split(template)]
    if parts != ["0"]:
        _check_terms(where, template, parts[::2], entry, schema)
    signs = [1] + [1 if operator == "+" else -1 for operator in parts[1::2]]
    for codes in itertools.product(*choices):
        filled = {name: filling[code] for name, filling, code in zip(schema.names, fillings, codes, strict=True)}
        columns = [_fill(part, filled) for part in parts]
        terms = () if parts == ["0"] else tuple(zip(signs, columns[::2], strict=True))
        yield CellColumns(int(np.ravel_multi_index(codes, schema.shape)), " ".join(columns), terms)


def _fill(template: str, filled: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: filled[match[1]], template)


def _choices(where: str, entry: Mapping[str, str], schema: Schema) -> list[range]:
    """The value numbers of each attribute that the entry runs over."""
    allowed = (*schema.names, "counts")
    if unknown := [name for name in entry if name not in allowed]:
        raise SpecError(f"{where}: {unknown[0]!r} is not an attribute; allowed are {', '.join(allowed)}")
    choices: list[range] = []
    for attribute in schema.attributes:
        value = entry.get(attribute.name)
        if value is None:
            choices.append(range(len(attribute.values)))
        elif value in attribute.values:
            number = attribute.values.index(value)
            choices.append(range(number, number + 1))
        else:
            raise SpecError(
                f"{where}: {attribute.name} = {value!r} is not a value of the attribute; allowed are "
                f"{list_allowed(attribute.values)}"
            )
    return choices


def _check_terms(where: str, template: str, terms: Sequence[str], entry: Mapping[str, str], schema: Schema) -> None:
    """SpecError unless each term names one column for each of the cells that the entry runs over."""
    for term in terms:
        if not term:
            raise SpecError(f'{where}: {template!r} is not "a", "a + b" or "a - b" of columns')
        placeholders = _PLACEHOLDER.findall(term)
        if unknown := [name for name in placeholders if name not in schema.names]:
            raise SpecError(
                f"{where}: {{{unknown[0]}}} in {template!r} is not an attribute; allowed are {', '.join(schema.names)}"
            )
        for attribute in schema.attributes:
            if attribute.name not in entry and attribute.name not in placeholders:
                raise SpecError(
                    f"{where}: attribute {attribute.name!r} is neither given a value nor stands in {term!r}; write "
                    f'{attribute.name} = "{attribute.values[0]}" or {{{attribute.name}}}'
                )
