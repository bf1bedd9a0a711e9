"""Whether the rows of a table are counts of one population: of one time, without percentages, without weights."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from features.imports.tables.asked import Asked, Form
from features.imports.tables.count_names import about_counts, in_thousands, is_time, name_words, named_weight
from features.imports.tables.level_names import folded, is_label, rank, words
from features.imports.tables.number_columns import NumberColumns
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from pipeline.errors import InputError


@dataclass(frozen=True)
class Records:
    """A table whose places are known, and what its columns are.

    Attributes:
        file: the table.
        columns: those that may be used.
        numbers: those of them that hold numbers.
        geography: the columns that state the place.
        leaf: the one of them that states it by itself.
        attributes: the columns that the user counts by.
    """

    file: TableFile
    columns: Mapping[str, Column]
    numbers: NumberColumns
    geography: Collection[str]
    leaf: str
    attributes: Collection[str] = ()

    @property
    def others(self) -> list[str]:
        """The columns that do not state the place."""
        names = [name for name in self.columns if name not in self.geography]
        return [name for name in names if name in self.attributes or (rank(name) is None and not is_label(name))]

    @property
    def one_row_each(self) -> bool:
        """Whether each row has an area of its own."""
        leaf = self.columns[self.leaf]
        return not leaf.n_missing and leaf.unique


#: A column of units, such as SCALAR_FACTOR, has no more values than this.
_FEW_UNITS = 3
#: Values of a column that say that its rows are not all counts.
_MEASURE_WORDS = frozenset(
    [
        "percent",
        "percentage",
        "per_cent",
        "%",
        "pct",
        "rate",
        "ratio",
        "share",
        "proportion",
        "median",
        "mean",
        "average",
        "moe",
        "margin_of_error",
        "index",
        "anteil",
        "prozent",
        "pourcentage",
        "part",
        "porcentaje",
        "quote",
    ]
)


def check_population(records: Records, form: Form, counts: Collection[str], asked: Asked) -> None:
    """InputError where the rows are no counts of one population: of several years, percentages, or with weights.

    Args:
        records: the table.
        form: how it is read.
        counts: the columns that are counted.
        asked: what the user states; with a number of people that fits, times and percentages are no question.
    """
    if form == "microdata":
        if asked.form != "microdata":
            _check_weights(records)
        return
    if asked.people is not None:
        return
    _check_units(records, counts)
    _check_estimates(records, counts)
    _check_parts(records)
    _check_things(records)
    for name in records.others:
        column = records.columns[name]
        if name in counts or name in records.attributes or column.n_distinct < 2:
            continue
        values = ", ".join(map(repr, sorted(column.values)[:4])) + (", ..." if column.n_distinct > 4 else "")
        if is_time(name):
            raise InputError(
                f"{records.file}: column {name!r} has {column.n_distinct} values ({values}): the people of several "
                f"times would be added up; keep the rows of one, or count by it: --attribute {name}"
            )
        measures = [value for value in column.values if folded(value) in _MEASURE_WORDS or "%" in value]
        if measures and column.n_distinct <= 12:
            raise InputError(
                f"{records.file}: column {name!r}: the rows with {measures[0]!r} are no counts ({values}); leave them "
                f"out, or say that it is a value as others are: --attribute {name}"
            )


def _check_units(records: Records, counts: Collection[str]) -> None:
    """InputError where the table says that its numbers are in thousands, or more."""
    needed = "counts are needed as whole numbers of people"
    for name in counts:
        if in_thousands(name):
            raise InputError(
                f"{records.file}: column {name!r}: its name says that the numbers are in thousands; {needed}"
            )
    for name, column in records.columns.items():
        if name in counts or name in records.attributes or not about_counts(name) or column.n_distinct > _FEW_UNITS:
            continue
        if units := list(filter(in_thousands, column.values)):
            raise InputError(
                f"{records.file}: column {name!r} has {units[0]!r}: the numbers are in thousands, or more; {needed}"
            )


#: How columns of the American Community Survey are called: B01001_002E and B01001_002M.
_ESTIMATE = re.compile(r"(.+_[0-9]{3,4})E(?:_.*)?")
_ESTIMATE_WORDS = words("estimate estimates est schaetzung schatzung estimation estimacion stima")
_ERROR_WORDS = words("moe margin lower upper se rse cv stderr error")


def _check_estimates(records: Records, counts: Collection[str]) -> None:
    """InputError where margins of error stand beside the counts: estimates of a sample are no counts of people."""
    names = list(records.columns)
    for count in counts:
        match = _ESTIMATE.fullmatch(count)
        errors = [name for name in names if match is not None and name.startswith(f"{match[1]}M")]
        if not errors and name_words(count) & _ESTIMATE_WORDS:
            errors = [name for name in names if name not in counts and name_words(name) & _ERROR_WORDS]
        for name in names:
            said = name_words(name)
            if said & _ERROR_WORDS and said - _ERROR_WORDS == name_words(count) and name not in errors:
                errors.append(name)
        if errors:
            raise InputError(
                f"{records.file}: column {errors[0]!r} is the margin of error of {count!r}, so that the numbers are "
                "estimates of a sample, and no counts of people: a person of the sample would change them by many; if "
                f"they are counts, leave the margins out: --ignore {shlex.quote(errors[0])}"
            )


#: Things that are counted, which are not those of one population.
_COUNTED = (
    words("population persons people residents inhabitants total_population personen einwohner personnes personas"),
    words("households families haushalte menages hogares familias famiglie gospodarstwa huishoudens hushall"),
    words("dwellings housing_units houses wohnungen logements viviendas abitazioni mieszkania woningen"),
)


def _check_things(records: Records) -> None:
    """InputError where rows count several things: people, households, dwellings."""
    for name in records.others:
        column = records.columns[name]
        if name in records.attributes or column.too_many or name in records.numbers:
            continue
        found = [next((value for value in column.values if folded(value) in things), None) for things in _COUNTED]
        several = [repr(value) for value in found if value is not None]
        if len(several) > 1:
            raise InputError(
                f"{records.file}: column {name!r}: the rows count several things ({', '.join(several)}), which are not "
                f"of one population; keep the rows of one, or count by it: --attribute {name}"
            )


#: How offices mark rows that are parts of the one above.
_PART_OF = re.compile(r"(of which|davon|darunter|dont|de los cuales|di cui|waarvan|w tym|z toho|heraf|darav)\b.*")


def _check_parts(records: Records) -> None:
    """InputError where a row says that it is a part of another: "of which: Carlow" below a region."""
    for name, column in records.columns.items():
        if column.too_many or name in records.numbers:
            continue
        texts = [text for text in column.values if _PART_OF.fullmatch(folded(text).replace("_", " ").lstrip(" -:"))]
        if texts and len(texts) < column.n_distinct:
            raise InputError(
                f"{records.file}: column {name!r}: {texts[0]!r} is a part of another row, so that its people would be "
                f"counted twice; keep the rows of the whole, or those of all parts (such values: {len(texts)})"
            )


def _check_weights(records: Records) -> None:
    """InputError where the records seem to stand for more than one person each."""
    for name in records.others:
        column = records.columns[name]
        if name in records.attributes:
            continue
        if named_weight(name) and _positive(column):
            why = "its name is that of a survey weight"
        elif name in records.numbers and _like_weights(column):
            why = "its numbers are those of a survey weight"
        else:
            continue
        raise InputError(
            f"{records.file}: column {name!r}: {why}, so that a record would stand for several people; say that the "
            f"records are unweighted: --ignore {name}; weights themselves are refused, see --weights"
        )


def _positive(column: Column) -> bool:
    try:
        return all(float(text.replace(",", ".")) > 0 for text in column.values)
    except ValueError:
        return False


def _like_weights(column: Column) -> bool:
    """Whether numbers with fractions are positive, above 1.5 on average, and few for the number of rows."""
    if column.too_many or column.n_missing or not _positive(column) or column.n_distinct > 0.5 * column.n_rows:
        return False
    numbers = {float(text.replace(",", ".")): n for text, n in column.values.items()}
    whole = all(number.is_integer() for number in numbers)
    return not whole and sum(number * n for number, n in numbers.items()) > 1.5 * column.n_rows
