"""Guesses the attributes of a table of records: names, values, groups of ages, and what is left out."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from features.imports.tables.level_names import folded
from features.imports.tables.profile import Column
from pipeline.model.schema import RESERVED_NAMES
from pipeline.release.tables import is_count
from pipeline.spec.resolve import TAKEN_COLUMNS

#: Values that an attribute may have, and cells that all attributes together may span, before columns are left out:
#: about as many as the 2020 redistricting data have.
MOST_VALUES = 40
MOST_CELLS = 2_100
#: Attributes of a table of records with more cells than that.
MOST_ATTRIBUTES = 40
#: First years of age groups, and the last age that is mapped.
_AGE_GROUPS = (0, 5, 18, 25, 45, 65, 85)
_OLDEST = 130
_OPEN_AGE = re.compile(
    r"(?:over|>=|≥)?\s*([0-9]{1,3})\s*(?:years?|jahre|ans|anos|años|anni)?\s*"
    r"(?:\+|plus|and (?:over|older|above)|or (?:over|older|more)|und (?:älter|mehr)|et plus|y más|ou mais|e oltre)\s*",
    re.IGNORECASE,
)
_YOUNGEST = re.compile(r"(?:under|less than|unter|<|moins de?)\s*1\s*(?:years?|jahre?|an)?|0-1", re.IGNORECASE)
_FRACTION = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")
_AGE_WORDS = frozenset(("age", "ages", "alter", "edad", "idade", "eta", "leeftijd", "alder", "wiek", "ika"))


@dataclass(frozen=True)
class GuessedAttribute:
    """An attribute.

    Attributes:
        name: in the spec.
        column: in the file.
        values: in order.
        mapped: value in the file -> value of the schema, where they differ.
        about: a comment.
    """

    name: str
    column: str
    values: tuple[str, ...]
    mapped: Mapping[str, str] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True)
class GuessedSchema:
    """The attributes that were found, and a sentence for each column that is none.

    Attributes:
        many: they have more cells than all of them could be measured in; pairs of them can.
        amounts: a name for an attribute -> its column, of those left out that hold whole numbers as an amount has.
    """

    attributes: tuple[GuessedAttribute, ...]
    left_out: tuple[str, ...]
    many: bool = False
    amounts: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_cells(self) -> int:
        """Of a table of all attributes."""
        return math.prod(len(attribute.values) for attribute in self.attributes)


def guess_schema(columns: Mapping[str, Column], used: Iterable[str], *, by_pairs: bool = False) -> GuessedSchema:
    """The attributes among the columns that are not `used` for something else, in the file's order.

    A column with more values than fit, ages apart, is left out with the reason.

    Args:
        columns: of the file.
        used: names of columns.
        by_pairs: rows are records, so that attributes with too many cells can be measured in pairs; else those that do
            not fit are left out.
    """
    attributes: list[GuessedAttribute] = []
    left_out: list[str] = []
    n_cells, many = 1, False
    skipped = set(used)
    for name, column in columns.items():
        if name in skipped:
            continue
        attribute = _attribute(column, [other.name for other in attributes])
        if isinstance(attribute, str):
            left_out.append(f"column {name!r}: {attribute}")
        elif by_pairs and len(attributes) == MOST_ATTRIBUTES:
            left_out.append(f"column {name!r}: there are {MOST_ATTRIBUTES} attributes before it; more are not proposed")
        elif n_cells * len(attribute.values) > MOST_CELLS and not by_pairs:
            cells = f"{n_cells * len(attribute.values):,} cells in all, more than {MOST_CELLS:,}"
            left_out.append(f"column {name!r}: its {len(attribute.values)} values would make {cells}")
        else:
            attributes.append(attribute)
            n_cells *= len(attribute.values)
            many = many or n_cells > MOST_CELLS
    names = [attribute.name for attribute in attributes]
    free = [column for name, column in columns.items() if name not in skipped and _is_amount(column)]
    amounts: dict[str, str] = {}
    for column in free if many else ():
        amounts[attribute_name(column.name, [*names, *amounts])] = column.name
    return GuessedSchema(tuple(attributes), tuple(left_out), many, amounts)


def _is_amount(column: Column) -> bool:
    """Whether a column has more values than an attribute may have, and they are whole numbers as those of an amount."""
    if column.numbers is None or column.padded or column.nearly_unique or column.numbers_rows:
        return False
    return column.too_many or column.n_distinct > MOST_VALUES


def _attribute(column: Column, taken: Sequence[str]) -> GuessedAttribute | str:
    """The attribute, or why the column is none."""
    numbers = column.numbers
    if not column.values:
        return "no row has a value"
    if column.n_distinct == 1 and not column.n_missing:
        return "every row has the same value"
    if column.numbers_rows and column.n_rows > 10:
        return "it numbers the rows"
    name = attribute_name(column.name, taken)
    if _AGE_WORDS & set(re.split(r"[^a-z]+", folded(column.name))) and not column.too_many and column.n_distinct > 10:
        ages = {text: _age(text) for text in column.values}
        if None not in ages.values() and 5 < max(age for age in ages.values() if age is not None) <= _OLDEST:
            return _ages(name, column)
    if (
        column.n_distinct > MOST_VALUES
        and numbers is None
        and not column.digits
        and all(map(_FRACTION.fullmatch, column.values))
    ):
        return "its numbers have fractions, as those of an amount have; group them"
    if column.nearly_unique and column.n_distinct > 10:
        return "nearly every row has a value of its own, as an identifier has"
    if column.too_many or column.n_distinct > MOST_VALUES:
        more = "more than " if column.too_many else ""
        amount = ", all numbers, as an amount has" if numbers is not None and not column.padded else ""
        return f"it has {more}{column.n_distinct:,} values{amount}; group them, or name the column in --geography"
    texts = sorted(column.values) if numbers is None else list(map(str, numbers))
    labels = value_labels(texts)
    mapped = {text: label for text, label in labels.items() if label != text}
    if column.n_missing:
        mapped[""] = value_label("missing", list(labels.values()))
        labels[""] = mapped[""]
    return GuessedAttribute(name, column.name, tuple(labels.values()), mapped)


def _age(text: str) -> int | None:
    """The years of an age, the lowest of an open one such as 90+; None where the text is none that a group can hold."""
    if text.isdecimal() and len(text) <= 3:
        return int(text)
    if (match := _OPEN_AGE.fullmatch(text)) is not None and int(match[1]) >= _AGE_GROUPS[-1]:
        return int(match[1])
    return 0 if _YOUNGEST.fullmatch(text) else None


def open_age(text: str) -> int | None:
    """The lowest age of an open one such as "90+"; None where the text is none."""
    match = _OPEN_AGE.fullmatch(text)
    return None if match is None else int(match[1])


def _ages(name: str, column: Column) -> GuessedAttribute:
    """Ages in years, in groups; every age is mapped, including those that no record here has."""
    bounds = [*_AGE_GROUPS, _OLDEST + 1]
    labels = [*(f"{low}-{high - 1}" for low, high in pairwise(_AGE_GROUPS)), f"{_AGE_GROUPS[-1]}+"]
    mapped: dict[str, str] = {}
    for label, low, high in zip(labels, bounds, bounds[1:], strict=False):
        mapped.update({str(age): label for age in range(low, high)})
        # "90+" lies in the last group whole, "under 1" in the first.
        mapped.update({text: label for text in column.values if text not in mapped and low <= (_age(text) or 0) < high})
    if column.n_missing:
        mapped[""] = "missing"
        labels.append("missing")
    return GuessedAttribute(name, column.name, tuple(labels), mapped, "years of age in groups; see the values below")


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


def value_labels(texts: Iterable[str]) -> dict[str, str]:
    """A value that the schema allows for each text, all different."""
    labels: dict[str, str] = {}
    for text in texts:
        labels[text] = value_label(text, list(labels.values()))
    return labels


def value_label(text: str, taken: Collection[str]) -> str:
    """A value that the schema allows, made of one in the file."""
    label = " ".join(text.split()).replace(" * ", " x ").strip()[:80] or "blank"
    if not is_count(label):
        label += "_"
    stem, number = label, 2
    while label in taken:
        label = f"{stem} ({number})"
        number += 1
    return label
