"""What a row of a table is, and which columns count people: every reading, with the number of people it gives.

Where two readings differ in people, only the user can decide: the import stops and asks.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.asked import Asked as Asked
from features.imports.tables.asked import Form
from features.imports.tables.coded import Coded
from features.imports.tables.count_names import (
    alike_but_for_a_year,
    is_other_number,
    is_time,
    measures_an_area,
    named_count,
    named_weight,
    years_of,
)
from features.imports.tables.guess_wide import families_of, is_family
from features.imports.tables.level_names import folded, says_code
from features.imports.tables.number_columns import check_counts, why_no_counts
from features.imports.tables.populations import Records as Records
from features.imports.tables.populations import check_population
from features.imports.tables.profile import Column
from features.imports.tables.sums import SameTotal, find_sums
from features.imports.tables.table_file import TableFile
from pipeline.errors import InputError
from pipeline.records.columns import CountReader
from pipeline.records.problems import MistakeLog

_BY_NAME = "its name shows it"
_MOST_SHOWN = 6
#: So many columns that nothing connects are offered one by one.
_FEW = 4
#: Groups of columns may count the same people where the largest has so many times those of the smallest, at most; and
#: where no cell of one has more than the same of the other, as where one counts a part.
_ALIKE, _NEARLY_ALL = 1.25, 1.05
#: Columns with more values than this are none that a table is made by.
_FEW_VALUES = 300


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
        return f"{'--count' if self.form == 'long' else '--counts'} {shlex.quote(','.join(self.counts))}"


def choose_reading(records: Records, asked: Asked) -> Reading:
    """The reading that the user asks for, or the only one that there is.

    Raises:
        InputError: readings differ in people and none is asked for, or what is asked for is not there, or a column that
            holds counts holds something else as well.
    """
    file, columns, leaf = records.file, records.columns, records.leaf
    _check_asked(records, asked)
    if asked.count is not None:
        readings = [_long(file, asked.count, "you asked for it")]
    elif asked.form == "microdata":
        readings = [_microdata(columns[leaf], "you asked for it")]
    elif asked.counts or asked.form == "wide" or (asked.form is None and records.one_row_each):
        counts = list(asked.counts) or _count_columns(records)
        readings = _wide(file, counts, by_user=bool(asked.counts)) if counts else []
        if not readings:
            _check_records(records, [])
        readings = readings or [_microdata(columns[leaf], "no column holds counts")]
    else:
        readings = _of_rows(records)
        if asked.form == "long":
            readings = [reading for reading in readings if reading.form == "long"]
            if not readings:
                raise InputError(f"{file}: no column looks like counts; name it with --count")
    reading = _decided(file, readings, asked)
    check_population(records, reading.form, reading.counts, asked)
    return reading


def _check_asked(records: Records, asked: Asked) -> None:
    """InputError unless the columns of counts that the user names are there, and are counts."""
    for flag, names in (("--count", (asked.count,) if asked.count else ()), ("--counts", asked.counts)):
        if missing := [name for name in names if name not in records.columns]:
            raise InputError(
                f"{records.file}: {flag}: no column {missing[0]!r}; the columns are "
                f"{', '.join(list(records.columns)[:20])}"
            )
        for name in names:
            if name in records.numbers:
                check_counts(records.file, records.numbers[name])


def _decided(file: TableFile, readings: Sequence[Reading], asked: Asked) -> Reading:
    if asked.people is not None:
        fitting = sorted(
            (reading for reading in readings if asked.fits(reading.people)),
            key=lambda reading: abs(reading.people - (asked.people or 0)),
        )
        if not fitting:
            raise InputError(
                f"{file}: --people says {asked.people:,}, and no reading of the table gives that:\n{_listed(readings)}"
            )
        return fitting[0]
    if len({reading.people for reading in readings}) > 1:
        raise InputError(
            f"{file}: the table can be read in several ways, which differ in people; choose one by its option, or give "
            f"the number of people as --people:\n{_listed(readings)}{_of_years(readings)}"
        )
    return readings[0]


def _of_years(readings: Sequence[Reading]) -> str:
    """A line where columns of counts are of several years, of which one is to be chosen."""
    names = dict.fromkeys(name for reading in readings for name in reading.counts)
    if not (alike := alike_but_for_a_year(names)):
        return ""
    return f"\nseveral columns are the same but for a year ({', '.join(alike[:4])}): name those of one, as --counts"


def _listed(readings: Sequence[Reading]) -> str:
    return "\n".join(f"  {reading.people:,} people: {reading.reason}   ({reading.flag})" for reading in readings)


def _microdata(leaf: Column, reason: str) -> Reading:
    return Reading("microdata", (), leaf.n_rows, f"a row is a record ({reason})")


def _long(file: TableFile, count: str, reason: str) -> Reading:
    people = int(read_counts(file, [count]).sum())
    return Reading("long", (count,), people, f"a row is a cell with its count in {count!r} ({reason})")


# A row an area


def _count_columns(records: Records) -> list[str]:
    """The columns that can hold counts, in a table with a row an area.

    Raises:
        InputError: a column holds counts, and marks or something else as well.
    """
    columns = records.columns
    found: list[str] = []
    broken: list[str] = []
    for name in records.others:
        column, cells = columns[name], records.numbers.get(name)
        if cells is None or name in records.attributes or says_code(name) or measures_an_area(name):
            continue
        if cells.wrong or cells.unsure:
            broken.append(name)
            # A column of other numbers is left out; one that is mostly counts is not, or they would be lost.
            if named_count(name) or cells.unsure or 2 * len(cells.numbers) >= column.n_distinct:
                check_counts(records.file, cells)
            continue
        if column.n_distinct == 1 and "0" not in column.values and column.n_rows > 1 and not named_count(name):
            continue
        if column.padded or _is_part_of_codes(column, records.geography, columns):
            continue
        found.append(name)
    if not found and broken:
        check_counts(records.file, records.numbers[broken[0]])
    return found


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

    if again := _counted_again(file, rest, {} if by_user else sums):
        return [reading(some, reason, {}) for some, reason in again]
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


def _counted_again(file: TableFile, names: Sequence[str], sums: Mapping[str, int]) -> list[tuple[list[str], str]]:
    """The columns of each of several years or counts of one population, with the reason; none where there is one."""
    if years := years_of(names):
        return [(some, f"{_columns(some)}, of several years side by side") for some in years.values()]
    if not sums or not (alike := _alike(names, sums, _NEARLY_ALL if is_family(file, names) else _ALIKE)):
        return []
    return [*((some, _side_by_side(some)) for some in alike), (list(names), f"all of {_some(names)}, a cell each")]


def _alike(names: Sequence[str], sums: Mapping[str, int], most: float) -> list[list[str]]:
    """Groups of columns that may count the same people, as those of two years do: M_11 and F_11, M_21 and F_21.

    The largest has at most `most` times the people of the smallest, and no name shows that they exclude each other, as
    those of sexes do.
    """
    families = families_of(names)
    by_start = {start: [f"{start}_{end}" for end in ends] for start, ends in families.items()}
    ends = next(iter(families.values()), ())
    by_end = {end: [f"{start}_{end}" for start in families] for end in ends}
    for groups in (by_start, by_end):
        sizes = [sum(sums[name] for name in some) for some in groups.values()]
        numbers = all(group.isdigit() for group in groups)
        if len(groups) < 2 or _one_vocabulary(list(groups)) or not (len(families) > 1 or numbers):
            continue
        if min(sizes) and max(sizes) <= most * min(sizes):
            return list(groups.values())
    return []


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


def _columns(names: Sequence[str]) -> str:
    return f"column {names[0]!r} alone" if len(names) == 1 else _side_by_side(names)


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
    "unknown nonbinary diverse divers maenner manner frauen maennlich mannlich weiblich hommes femmes masculin feminin "
    "varones homens mulheres masculino feminino maschi femmine maschile femminile mannen vrouwen man kvinnor "
    "kvinna menn kvinner mand kvinde maend kvinder miehet naiset mezczyzni kobiety muzi zeny ferfi no",
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
    return len(names) > 1 and (any(bare <= set(line.split()) for line in _VOCABULARIES) or _ages_apart(names))


_AGES = re.compile(
    r"(?:[a-z_]*?_)?([0-9]{1,3})(?:_(?:to_|bis_|a_|til_|do_)?([0-9]{1,3}))?(_?\+|_plus|_and_over|_or_over|_years)*"
)


def _ages_apart(names: Sequence[str]) -> bool:
    """Whether all names are ages, or groups of ages that have none in common: 0-14, 15-64, 65+."""
    matches = [_AGES.fullmatch(folded(name).replace("\u2013", "_")) for name in names]
    if not all(matches) or len(names) < 3:
        return False
    ends = sorted((int(match[1]), int(match[2] or match[1])) for match in matches if match)
    return all(low <= high for low, high in ends) and all(
        below[1] + 1 == above[0] for below, above in itertools.pairwise(ends)
    )


# A row a record, or a cell


def _of_rows(records: Records) -> list[Reading]:
    """Microdata, or the long form: the columns that may hold counts are looked at one by one.

    Raises:
        InputError: a column that would hold counts holds something else as well.
    """
    candidates, labels = _candidates(records)
    if together := _side_by_side_rows(records, candidates, labels):
        return together
    named = [name for name in candidates if named_count(name)]
    shown = [reading for name in named if (reading := _of_rows_by(records, name, labels)) is not None]
    if len(shown) == 1 and f"{_BY_NAME}, and" in shown[0].reason:
        return shown
    others = [_of_rows_by(records, name, labels) for name in candidates if name not in named]
    readings = [*shown, *(reading for reading in others if reading is not None)]
    record = _microdata(records.columns[records.leaf], "the counts are numbers of each record")
    if not readings:
        _check_records(records, labels)
        return [replace(record, reason="a row is a record (no column holds counts)")]
    return [*sorted(readings, key=lambda reading: _BY_NAME not in reading.reason), record]


def _check_records(records: Records, labels: Sequence[str]) -> None:
    """InputError where rows are those of a table of counts, and no column holds counts."""
    columns, leaf = records.columns, records.leaf
    n_rows = columns[leaf].n_rows
    small = [name for name in labels if columns[name].n_distinct <= _FEW_VALUES and not named_weight(name)]
    table = Coded.of(records.file, [leaf, *small])
    n_leaves = len(np.unique(table.codes[leaf]))
    small = [name for name in small if len(np.unique(table.keys([leaf, name]))) > n_leaves]
    places = columns[leaf].n_distinct * math.prod(columns[name].n_distinct for name in small)
    if n_rows <= _FEW or 2 * n_rows < places or not stand_once(records.file, [leaf, *small]):
        return
    of = f"each combination of {', '.join(map(repr, [leaf, *small]))}" if small else f"each value of {leaf!r}"
    raise InputError(
        f"{records.file}: {of} has one row, as in a table of counts, and no column holds counts; name it as "
        "--count, or, if each row is a record: --form microdata"
    )


def _candidates(records: Records) -> tuple[list[str], list[str]]:
    """The columns that may hold counts, and those by which rows differ."""
    columns = records.columns
    candidates = []
    for name in records.others:
        column, cells = columns[name], records.numbers.get(name)
        if cells is None or name in records.attributes or (column.padded and not cells.wrong):
            continue
        if is_other_number(name) or says_code(name):
            continue
        if named_count(name) or (column.n_distinct > 2 and not column.numbers_rows):
            candidates.append(name)
    varying = [name for name in candidates if columns[name].n_distinct > 1]
    if any(map(named_count, varying)):  # one number in all rows, as of records of an answer, counts nothing
        candidates = varying
    labels = [
        name
        for name in records.others
        if columns[name].n_distinct + bool(columns[name].n_missing) > 1
        and not columns[name].numbers_rows
        and (not columns[name].nearly_unique or is_time(name) or name in records.attributes)
    ]
    return candidates, labels


def _side_by_side_rows(records: Records, candidates: Sequence[str], labels: Sequence[str]) -> list[Reading]:
    """Readings of several columns of counts in rows that differ in more than their area; none where they are not."""
    named = [name for name in candidates if named_count(name)]
    several = named if len(named) > 1 else [name for name in candidates if not records.numbers[name].wrong]
    keys = [records.leaf, *(name for name in labels if name not in candidates)]
    if len(candidates) < 2 or not stand_once(records.file, keys):
        return []
    for name in candidates:
        cells = records.numbers[name]
        mostly = 2 * len(cells.numbers) >= records.columns[name].n_distinct
        if named_count(name) or (mostly and (not named or list(cells.wrong) == ["mark"])):
            check_counts(records.file, cells)
    whole = [name for name in candidates if not records.numbers[name].wrong]
    if not whole:
        return []
    return _together(records.file, whole) or (_together(records.file, several) if len(several) > 1 else [])


def _of_rows_by(records: Records, name: str, labels: Sequence[str]) -> Reading | None:
    """The reading of rows as cells with their count in a column; None where nothing speaks for it."""
    by_name = named_count(name)
    key = [records.leaf, *(other for other in labels if other != name)]
    once = stand_once(records.file, key)
    if (len(key) < 2 and not by_name) or (not once and (not by_name or records.columns[name].n_distinct == 1)):
        return None
    if not by_name and (problem := why_no_counts(records.file, records.numbers[name])):
        raise InputError(f"{problem}; if each row is a record: --form microdata")
    check_counts(records.file, records.numbers[name])
    why = "each combination of the others has one row"
    if by_name:
        why = f"{_BY_NAME}, {'and ' + why if once else 'though combinations of the others have several rows'}"
    return _long(records.file, name, why)


def _together(file: TableFile, names: Sequence[str]) -> list[Reading]:
    """Counts side by side in rows that differ in more than their area; none where nothing shows that they are."""
    try:
        readings = _wide(file, names, by_user=False)
    except UnsureError:
        return []
    solid = [reading for reading in readings if len(reading.counts) > 1 and "a cell each" not in reading.reason]
    if len(readings) == 1 and len(readings[0].counts) == 1 and len(names) > 1:
        return readings
    return readings if solid else []


def stand_once(file: TableFile, names: Sequence[str]) -> bool:
    """Whether no combination of the columns' values stands in two rows."""
    keys = Coded.of(file, names).keys(names)
    keys.sort()
    return not (keys[1:] == keys[:-1]).any()


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
