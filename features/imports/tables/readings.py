"""What a row of a table is, and which columns count people: every reading, with the number of people it gives.

Where two readings differ in people, only the user can decide: the import stops and asks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.imports.tables.guess_wide import families_of, is_family
from features.imports.tables.level_names import folded, is_label, rank, says_code, words
from features.imports.tables.profile import Column
from features.imports.tables.sums import SameTotal, find_sums
from features.imports.tables.table_file import TableFile
from pipeline.errors import InputError
from pipeline.records.columns import CountReader
from pipeline.records.problems import MistakeLog

Form = Literal["microdata", "long", "wide"]

#: Columns with these names alone hold counts in a table with a row a cell.
_COUNT_NAMES = {"n", "obs", "value", "obs_value", "observation", "number", "total", "wert", "valeur", "valor", "valore"}
#: So do columns with one of these words in their name.
_COUNT_WORDS = words(
    "count counts freq frequency persons people population pop residents inhabitants heads headcount habitants "
    "effectif effectifs anzahl personen einwohner bevoelkerung bevolkerung poblacion habitantes personas "
    "popolazione residenti abitanti populacao moradores pessoas aantal inwoners antal befolkning folkmengd "
    "ludnosc asukkaat"
)
#: Numbers of a person or an area that are never counts of people.
_OTHER_NUMBERS = words(
    "age alter edad idade eta year jahr annee ano anno aar month income salary wage weight lat lon latitude "
    "longitude easting northing area aland awater hectares km2 sqkm density objectid fid index rank "
    "percent pct share rate mean median ratio birthyear birth"
)
_MEASURES = words("x y area_km2 area_ha area_sqkm land_area water_area pop_density population_density shape_area")
_MOST_SHOWN = 6
#: So many columns that nothing connects are offered one by one.
_FEW = 4


@dataclass(frozen=True)
class Reading:
    """One way to count people in a table.

    Attributes:
        form: of the records.
        counts: the columns of counts; none for microdata, one for the long form.
        people: who would be counted.
        reason: why it can be read like this.
        left: columns of counts that it leaves out, each with the reason.
    """

    form: Form
    counts: tuple[str, ...]
    people: int
    reason: str
    left: tuple[tuple[str, str], ...] = ()

    @property
    def flag(self) -> str:
        """What to type for it."""
        if self.form == "microdata":
            return "--form microdata"
        return f"{'--count' if self.form == 'long' else '--counts'} {','.join(self.counts)}"


@dataclass(frozen=True)
class Asked:
    """What the user states about the reading: nothing, or some of it."""

    form: Form | None = None
    count: str | None = None
    counts: tuple[str, ...] = ()
    people: int | None = None


def choose_reading(
    file: TableFile, columns: Mapping[str, Column], geography: Collection[str], leaf: str, asked: Asked
) -> Reading:
    """The reading that the user asks for, or the only one that there is.

    Args:
        file: the table.
        columns: the columns that may be used.
        geography: the columns that state the place.
        leaf: the one of them that states it by itself.
        asked: what the user asks for.

    Raises:
        InputError: readings differ in people and none is asked for, or what is asked for is not there.
    """
    for flag, names in (("--count", (asked.count,) if asked.count else ()), ("--counts", asked.counts)):
        if missing := [name for name in names if name not in columns]:
            raise InputError(
                f"{file}: {flag}: no column {missing[0]!r}; the columns are {', '.join(list(columns)[:20])}"
            )
    others = [name for name in columns if name not in geography and rank(name) is None and not is_label(name)]
    one_row_each = not columns[leaf].n_missing and columns[leaf].unique
    if asked.count is not None:
        readings = [_long(file, asked.count, "you asked for it")]
    elif asked.form == "microdata":
        readings = [_microdata(columns[leaf], "you asked for it")]
    elif asked.counts or asked.form == "wide" or (asked.form is None and one_row_each):
        counts = list(asked.counts) or _count_columns(columns, others, geography)
        readings = _wide(file, counts, by_user=bool(asked.counts)) if counts else []
        readings = readings or [_microdata(columns[leaf], "no column holds counts")]
    else:
        readings = _of_rows(file, columns, others, leaf)
        if asked.form == "long":
            readings = [reading for reading in readings if reading.form == "long"]
            if not readings:
                raise InputError(f"{file}: no column looks like counts; name it with --count")
    return _decided(file, readings, asked.people)


def _decided(file: TableFile, readings: Sequence[Reading], people: int | None) -> Reading:
    if people is not None:
        fitting = [reading for reading in readings if reading.people == people]
        if not fitting:
            raise InputError(
                f"{file}: --people says {people:,}, and no reading of the table gives that:\n{_listed(readings)}"
            )
        return fitting[0]
    if len({reading.people for reading in readings}) > 1:
        raise InputError(
            f"{file}: the table can be read in several ways, which differ in people; choose one by its option, or give "
            f"the number of people as --people:\n{_listed(readings)}"
        )
    return readings[0]


def _listed(readings: Sequence[Reading]) -> str:
    return "\n".join(f"  {reading.people:,} people: {reading.reason}   ({reading.flag})" for reading in readings)


def _microdata(leaf: Column, reason: str) -> Reading:
    return Reading("microdata", (), leaf.n_rows, f"a row is a record ({reason})")


def _long(file: TableFile, count: str, reason: str) -> Reading:
    people = int(read_counts(file, [count]).sum())
    return Reading("long", (count,), people, f"a row is a cell with its count in {count!r} ({reason})")


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", folded(name))) - {""}


def _is_other_number(name: str) -> bool:
    """Whether a number with this name, in a row of its own, describes something about a person other than a count."""
    return bool(_words(name) & _OTHER_NUMBERS)


def _measures_an_area(name: str) -> bool:
    """Whether a number with this name, beside an area's counts, is none of them: by its whole name, as in age_0_4."""
    return re.sub(r"_?[0-9]+$", "", folded(name)) in _OTHER_NUMBERS | _MEASURES


def named_count(name: str) -> bool:
    """Whether a column's name shows that it holds counts of people."""
    return folded(name) in _COUNT_NAMES or bool(_words(name) & _COUNT_WORDS)


# A row an area


def _count_columns(columns: Mapping[str, Column], names: Sequence[str], geography: Collection[str]) -> list[str]:
    """The columns that can hold counts, in a table with a row an area."""
    count_columns = []
    for name in names:
        column = columns[name]
        if not column.is_counts or column.n_missing or says_code(name) or _measures_an_area(name):
            continue
        if column.n_distinct == 1 and "0" not in column.values:
            continue
        if column.padded or _is_part_of_codes(column, geography, columns):
            continue
        count_columns.append(name)
    return count_columns


def _is_part_of_codes(column: Column, geography: Collection[str], columns: Mapping[str, Column]) -> bool:
    """Whether every value stands at the front of the codes of an area, and every code begins with one."""
    if len(column.digits) != 1 or column.n_distinct < 2:
        return False
    (width,) = column.digits
    for name in geography:
        codes = columns[name].values if name in columns else {}
        if codes and width > 1 and {code[:width] for code in codes} == set(column.values):
            return True
    return False


def _wide(file: TableFile, counts: Sequence[str], *, by_user: bool) -> list[Reading]:
    """The readings of columns of counts side by side: sums are found by their values."""
    matrix = read_counts(file, counts)
    sums = dict(zip(counts, matrix.sum(axis=0).tolist(), strict=True))
    found_sums = find_sums(counts, matrix)
    groups = found_sums.groups
    left = {total: f"it is {_some(parts, '+')} in every row" for total, parts in found_sums.totals.items()}
    rest = [name for name in counts if name not in left]

    def reading(names: Sequence[str], reason: str, more: Mapping[str, str]) -> Reading:
        people = sum(sums[name] for name in names)
        part = is_family(file, names)
        if part:  # counts of a part of the people beside those of all of them
            people = sum(sums[name] for name in part)
        return Reading("wide", tuple(names), people, reason, tuple({**left, **more}.items()))

    if families_of(rest) or len(rest) == 1 or (by_user and not _doubled(groups)) or _one_vocabulary(rest):
        return [reading(rest, _side_by_side(rest), {})]
    readings = []
    for group in groups:
        for partition in sorted(group.partitions, key=len, reverse=True):
            same = f"the same people as {_some(partition)}"
            more = {name: same for other in group.partitions for name in other if name not in partition}
            readings.append(reading(partition, f"{_side_by_side(partition)}, {_sum_reason(group)}", more))
    covered = {name for group in groups for partition in group.partitions for name in partition}
    if set(rest) <= covered and len(groups) == 1:
        return readings
    alone = [name for name in rest if name not in covered]
    if alone and not covered:
        for name in alone:
            if named_count(name) or len(alone) <= _FEW:
                readings.append(reading([name], f"column {name!r} alone", {}))
    elif alone:
        readings.append(reading(alone, _side_by_side(alone), {}))
    readings.append(reading(rest, f"all of {_some(rest)}, a cell each", {}))
    return _asking(file, readings)


def _asking(file: TableFile, readings: list[Reading]) -> list[Reading]:
    """The readings; one whose only merit is that there is no other is left to the user to confirm."""
    if len(readings) == 1 and len(readings[0].counts) > 1:
        raise UnsureError(file, readings)
    return readings


class UnsureError(InputError):
    """One reading, and nothing in names or values that confirms it."""

    def __init__(self, file: TableFile, readings: Sequence[Reading]) -> None:
        self.readings = readings
        super().__init__(
            f"{file}: nothing shows that these columns count different people of one population: no column is their "
            "sum, and their names have nothing in common; confirm by the option, or give --people:\n"
            f"{_listed(readings)}"
        )


def _doubled(groups: Sequence[SameTotal]) -> bool:
    return any(len(group.partitions) > 1 for group in groups)


def _sum_reason(group: SameTotal) -> str:
    totals = " = ".join(map(repr, group.totals))
    parts = " = ".join(_some(partition, "+") for partition in group.partitions)
    return f"{totals}{' = ' if totals and parts else ''}{parts} in every row"


def _side_by_side(names: Sequence[str]) -> str:
    return f"a row is an area, with counts in {_some(names)}"


def _some(names: Sequence[str], joined: str = ",") -> str:
    if len(names) <= _MOST_SHOWN:
        return f"{joined} ".join(names) if joined == "," else f" {joined} ".join(names)
    return f"{names[0]} {joined} ... {joined} {names[-1]} ({len(names)})".replace(" ,", ",")


_VOCABULARIES = (
    "white black aian asian nhpi sor other otherrace multi multiracial two twoplus twoormore hispanic latino native "
    "pacific mixed hawaiian indian chinese arab roma",
    "male female males females men women m f man woman boys girls mann frau hommes femmes hombres mujeres other x "
    "unknown nonbinary diverse divers",
    "owner renter vacant occupied owned rented own rent mortgage social private",
    "urban rural",
    "single married widowed divorced separated partnered nevermarried",
    "employed unemployed inactive students retired",
    "young old children adults seniors child adult senior",
    "yes no",
)


def _one_vocabulary(names: Sequence[str]) -> bool:
    """Whether all names are of one list of things that exclude each other."""
    bare = {re.sub(r"[^a-z]", "", folded(name).removeprefix("nh_")) for name in names}
    return len(names) > 1 and any(bare <= set(line.split()) for line in _VOCABULARIES)


# A row a record, or a cell


def _of_rows(file: TableFile, columns: Mapping[str, Column], names: Sequence[str], leaf: str) -> list[Reading]:
    """Microdata, or the long form: the columns that may hold counts are looked at one by one."""
    candidates = []
    for name in names:
        column = columns[name]
        if not column.is_counts or column.n_missing or column.n_distinct < 2:
            continue
        if says_code(name) or _is_other_number(name) or column.padded or column.unique:
            continue
        by_name = named_count(name)
        if by_name or column.n_distinct > 2:
            candidates.append((name, by_name))
    attributes = [name for name in names if not columns[name].nearly_unique and columns[name].n_distinct > 1]
    record = _microdata(columns[leaf], "no column holds counts")
    readings: list[Reading] = []
    sure = False
    for name, by_name in candidates:
        key = [leaf, *(other for other in attributes if other != name)]
        if len(key) < 2 and not by_name:
            continue
        once = columns[leaf].n_rows > 20 and stand_once(file, key) if not by_name else stand_once(file, key)
        if by_name and once:
            readings.append(_long(file, name, "its name shows it, and each combination of the others has one row"))
            sure = True
        elif by_name:
            readings.append(_long(file, name, "its name shows it, though combinations of the others have several rows"))
        elif once:
            readings.append(_long(file, name, "each combination of the others has one row"))
    if sure and sum(1 for reading in readings if "its name shows it" in reading.reason) == 1:
        return [reading for reading in readings if "its name shows it" in reading.reason]
    if not readings:
        return [record]
    return [_microdata(columns[leaf], "the counts are numbers of each record"), *readings]


def stand_once(file: TableFile, names: Sequence[str]) -> bool:
    """Whether no combination of the columns' values stands in two rows."""
    seen: set[int] = set()
    for chunk in file.texts(names):
        # Hashes of 64 bits: that two combinations share one is as good as impossible, and costs a question.
        hashes = pd.util.hash_pandas_object(pd.DataFrame(chunk, dtype=object), index=False).to_numpy()
        distinct = set(hashes.tolist())
        if len(distinct) < len(hashes) or seen & distinct:
            return False
        seen |= distinct
    return True


def read_counts(file: TableFile, names: Sequence[str]) -> NDArray[np.int64]:
    """The columns of counts, `(n_rows, n_names)`.

    Raises:
        RecordsError: a value is not a count; all such values are reported.
    """
    log = MistakeLog(file.path)
    parts = []
    first_row = 0
    for chunk in file.chunks(names):
        readers = (CountReader(name, file.text.decimal) for name in names)
        parts.append(np.stack([reader.read(chunk.column(reader.column), first_row, log) for reader in readers], axis=1))
        first_row += chunk.num_rows
    log.raise_if_any()
    return np.concatenate(parts)
