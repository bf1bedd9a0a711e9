"""Counts of cells: histograms, true and published, microdata, long tables, and answers drawn where an area is positive.

A table with more than 2,048 answers has, as docs/release_directory.md states it, a row for each answer, and one for all
zeros of a geounit that are alike: a row with a label of each term of the query is of one answer, and its `answers` is
1; a row without labels stands for as many zeros as its `answers` says, those that have no row. Together the rows of a
geounit are of all answers of the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.reading.cells import Cells, Query
from auditor.reading.files import LARGEST, Files, numbers_of, value_text, whole_numbers
from auditor.reading.findings import Check, FormError, surplus
from auditor.reading.spec import PublicUniverse
from auditor.reading.spine import Level
from auditor.reading.values import FloatArray, IntArray, sums, zeros


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of the places (geounit, column) of a level; those that are not listed are 0.

    Attributes:
        width: number of columns, which are cells or answers.
        keys: `(n,)` geounit * width + column, increasing.
        counts: `(n,)`.
    """

    width: int
    keys: IntArray
    counts: IntArray

    @classmethod
    def summed(cls, width: int, keys: IntArray, counts: IntArray) -> Counts:
        """Those of `keys` `(n,)` in any order, the counts of equal ones added."""
        if (np.diff(keys) > 0).all():
            return cls(width, keys, counts)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        return cls(width, keys[first], np.add.reduceat(counts, first))

    @classmethod
    def of_parts(cls, width: int, parts: Iterable[tuple[IntArray, IntArray]]) -> Counts:
        """The same of keys and counts in several parts."""
        empty = zeros(0)
        keys, counts = zip((empty, empty), *parts, strict=True)
        return cls.summed(width, np.concatenate(keys), np.concatenate(counts).astype(np.int64))

    @property
    def geounits(self) -> IntArray:
        """The geounit's number of each count, `(n,)`, increasing."""
        return self.keys // self.width

    @property
    def columns(self) -> IntArray:
        """The cell's or answer's number of each count, `(n,)`."""
        return self.keys % self.width

    def at(self, keys: IntArray) -> IntArray:
        """The counts at `keys`, `(n,)`."""
        if not len(self.keys):
            return zeros(len(keys))
        near = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[near] == keys, self.counts[near], 0)

    def answers(self, query: Query) -> Counts:
        """The answers of a query, from counts of cells."""
        return self.mapped(query.of_cell, query.size)

    def mapped(self, column_of: IntArray, width: int) -> Counts:
        """Counts of `width` other columns, of which each of these is in one."""
        return Counts.summed(width, self.geounits * width + column_of[self.columns], self.counts)

    def raised(self, level: Level) -> Counts:
        """The sums over the children of each parent."""
        return Counts.summed(self.width, level.parents[self.geounits] * self.width + self.columns, self.counts)

    def dense(self, geounits: IntArray) -> IntArray:
        """The rows of these geounits, which increase, `(n, width)`."""
        out, near = zeros((len(geounits), self.width)), np.searchsorted(geounits, self.geounits)
        own = np.append(geounits, -1)[near] == self.geounits
        out[near[own], self.columns[own]] = self.counts[own]
        return out


def counts_digest(counts: Counts, n_geounits: int) -> bytes:
    """SHA-256 of the counts of the leaves in one canonical form, as docs/mathematics.md states it."""
    digest = hashlib.sha256(b"spinewise counts 1\0")
    starts = np.concatenate([[0], np.cumsum(np.bincount(counts.geounits, minlength=n_geounits))])
    for part in (np.array([n_geounits, counts.width, len(counts.keys)]), starts, counts.columns, counts.counts):
        digest.update(part.astype("<i8").tobytes())
    return digest.digest()


class LevelFile:
    """A file with rows of geounits of a level: finds those that are not geounits of it.

    Args:
        once: whether each geounit is to have exactly one row.
        most: rows that there can be otherwise; None where nothing says so.
        values: numbers that one row has at most.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        level: Level,
        *,
        once: bool,
        most: int | None = None,
        values: int = 1,
    ) -> None:
        self.name, self.level, self.first_row = files.name(path), level, 1
        self._files, self._path, self._once, self._values = files, path, once, values
        self._most = len(level.codes) if once else most
        self._checks: dict[str, Check] = {}

    def check(self, kind: str) -> Check:
        """The check of the file for problems of a kind, which begins when it is first asked for."""
        if kind not in self._checks:
            self._checks[kind] = self._files.check(self._path, kind)
        return self._checks[kind]

    def place(self, geounits: IntArray, row: int) -> str:
        """The geounit of a row of a part, given the number of each row's, or the row's number, as sentences name it."""
        return self.level.label(geounits[row]) if geounits[row] >= 0 else f"row {self.first_row + row:,}"

    def saying(self, *words: str | pa.ChunkedArray | Callable[[int], str]) -> Callable[[int], str]:
        """From a row of the part that is read to a sentence about it, in which a column stands for its value there."""
        first = self.first_row

        def sentence(row: int) -> str:
            texts = (w if isinstance(w, str) else w(row) if callable(w) else value_text(w, row) for w in words)
            return f"row {first + row:,} {''.join(texts)}"

        return sentence

    def parts(self, columns: list[str]) -> Iterator[tuple[pa.Table, IntArray]]:
        """The file part by part, with the number of each row's geounit, -1 where it is unknown.

        Raises:
            FormError: see `Files.read`.
        """
        rows = zeros(len(self.level.codes))
        for part in self._files.read(self._path, ["geocode", *columns], self._most, self._values):
            geounits = numbers_of(part, "geocode", self.level.codes, self.name)
            kind = f", which is no {self.level.name} of the spine"
            told = self.saying("has the geocode ", part.column("geocode"), kind)
            self.check("rows with an unknown geocode").add(geounits < 0, told)
            rows += np.bincount(geounits[geounits >= 0], minlength=len(rows))
            yield part, geounits
            self.first_row += part.num_rows
        if self._once:
            self.check("geounits without exactly one row").add(
                rows != 1,
                lambda unit: f"{self.level.label(unit)} has {rows[unit]:,} rows; each {self.level.name} has one",
            )


def read_counts(column: pa.Array | pa.ChunkedArray, label: str, geounits: IntArray, file: LevelFile) -> IntArray:
    """The counts of a column, `(n_rows,)`; -1 where there is none from 0 on, which is reported."""
    counts, whole = whole_numbers(column, label, file.name)
    whole &= counts >= 0
    file.check("counts that are not whole numbers from 0").add(
        ~whole,
        lambda row: (
            f"{file.place(geounits, row)}, {label!r}: found {value_text(column, row)}, whole numbers from 0 are "
            "required"
        ),
    )
    return np.where(whole, counts, -1)


def real_numbers(column: pa.ChunkedArray, label: str, file: LevelFile) -> FloatArray:
    """A column of numbers, `(n_rows,)`, NaN for what is missing; FormError where it holds something else."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise FormError(f"{file.name}: column {label!r} holds {column.type}; real numbers are required")
    return np.array(column.to_numpy(), dtype=np.float64)


def read_histogram(files: Files, path: Path, level: Level, universe: PublicUniverse) -> Counts:
    """The counts of a histogram; anything that is not a count, occurs twice or lies in a structural zero is reported.

    Raises:
        FormError: the file is missing or damaged, or its counts are too large to be added.
    """
    cells, least = universe.cells, universe.least
    file = LevelFile(files, path, level, once=False, most=len(level.codes) * cells.size)
    from_0 = " from 0" if least == 0 else ""
    keys, counts = [zeros(0)], [zeros(0)]
    for part, geounits in file.parts([*cells.names, "count"]):
        numbers = cell_numbers(part, cells, file)
        column = part.column("count")
        values, whole = whole_numbers(column, "count", file.name)
        told = file.saying("has the count ", column, f"; whole numbers{from_0} are required")
        file.check(f"counts that are not whole numbers{from_0}").add(~whole | (values < least), told)
        usable = (geounits >= 0) & (numbers >= 0) & whole
        keys.append((geounits * cells.size + numbers)[usable])
        counts.append(values[usable])
    all_keys, all_counts = np.concatenate(keys), np.concatenate(counts)
    if np.abs(all_counts.astype(np.float64)).sum() > LARGEST:
        raise FormError(f"{file.name}: its counts are too large to be counts of persons")
    distinct, rows = np.unique(all_keys, return_counts=True)
    file.check("cells with several rows").add(
        rows > 1,
        lambda at: (
            f"{place(level, cells.size, cells.label, distinct[at])} has {rows[at]:,} rows; a cell has one at most"
        ),
    )
    read = Counts.summed(cells.size, all_keys, all_counts)
    file.check("impossible cells that are not empty").add(
        universe.impossible[read.columns] & (read.counts != 0),
        lambda at: (
            f"{place(level, cells.size, cells.label, read.keys[at])} is impossible by the spec's structural zeros: "
            f"{surplus(int(read.counts[at]), 0)}"
        ),
    )
    return read


def sound_histogram(files: Files, path: Path, level: Level, universe: PublicUniverse) -> Counts:
    """The same of a file in which nothing may be wrong: FormError with the first problem."""
    own = files.again()
    found = read_histogram(own, path, level, universe)
    if own.findings.problems:
        raise FormError(own.findings.problems[0])
    return found


def read_microdata(
    files: Files, path: Path, level: Level, cells: Cells, most: int | None, others: Sequence[str] = ()
) -> Counts:
    """The number of records in each cell of each leaf, by the histogram `most` of them; None where it is not known.

    Args:
        others: columns beside geocode and attributes, which are checked elsewhere.

    Raises:
        FormError: the file is missing or damaged.
    """
    file = LevelFile(files, path, level, once=False, most=most)

    def parts() -> Iterator[tuple[IntArray, IntArray]]:
        for part, geounits in file.parts([*cells.names, *others]):
            numbers = cell_numbers(part, cells, file)
            yield np.unique((geounits * cells.size + numbers)[(geounits >= 0) & (numbers >= 0)], return_counts=True)

    return Counts.of_parts(cells.size, parts())


def compare(
    check: Check,
    why: str,
    level: Level,
    label: Callable[[int], str],
    actual: Counts,
    required: Counts,
    *,
    at_most: bool = False,
) -> None:
    """Report where counts are not the required ones, or not `at_most` these, and `why` those are required."""
    keys = np.union1d(actual.keys, required.keys)
    found, due = actual.at(keys), required.at(keys)
    check.add(
        found > due if at_most else found != due,
        lambda at: f"{place(level, actual.width, label, keys[at])}: {surplus(int(found[at]), int(due[at]))} ({why})",
    )


def place(level: Level, width: int, label: Callable[[int], str], key: int) -> str:
    """The geounit and the cell or answer that a key of counts stands for, as sentences name them."""
    return f"{level.label(int(key) // width)}, {label(int(key) % width)!r}"


def cell_numbers(part: pa.Table, cells: Cells, file: LevelFile) -> IntArray:
    """The number of each row's cell, `(n_rows,)`; -1 where a value is unknown, which is reported."""
    numbers = zeros(part.num_rows)
    valid = np.ones(part.num_rows, dtype=np.bool_)
    for name, values in zip(cells.names, cells.values, strict=True):
        codes = numbers_of(part, name, values, file.name)
        told = file.saying("has ", part.column(name), f" as {name!r}, which is not a value of the schema")
        file.check("rows with an unknown value").add(codes < 0, told)
        numbers = numbers * len(values) + codes
        valid &= codes >= 0
    return np.where(valid, numbers, -1)


#: Answers beyond which a table has this form.
MOST_WIDE = 2048
#: The columns beside geocode and terms.
ANSWERS, COUNT, ENDS = "answers", "count", ("moe90", "low90", "high90")
#: What is added to a label for the columns of its interval in the other form.
INTERVAL = tuple(f":{end}" for end in ENDS)
#: Number of the answer in a row of zeros.
ZEROS = -1


def is_long(answers: Query) -> bool:
    """Whether a table of a query has this form, in which its terms are columns."""
    return answers.size > MOST_WIDE and bool(answers.names)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of a table, `(n,)`, in either form.

    Attributes:
        file: they are in, for sentences.
        query: whose answers they are.
        geounits: of each number; -1 where it is unknown.
        answers: the number of the answer of each, or `ZEROS`.
        columns: the numbers, and where there are intervals margins, low and high ends, as they are in the file.
    """

    file: LevelFile
    query: Query
    geounits: IntArray
    answers: IntArray
    columns: Mapping[str, pa.ChunkedArray]

    def place(self, row: int) -> str:
        """The geounit and the answer of a row, as sentences name them."""
        answer = "its zeros" if self.answers[row] == ZEROS else repr(self.query.labels[self.answers[row]])
        return f"{self.file.place(self.geounits, row)}, {answer}"


def read_table(files: Files, path: Path, level: Level, answers: Query, *, margins: bool) -> Iterator[Numbers]:
    """The numbers of a table, part by part; rows of no geounit or answer are reported, and what has not one row each.

    Raises:
        FormError: see `Files.read`.
    """
    if is_long(answers):
        yield _read_long(files, path, level, answers, margins=margins)
        return
    file = LevelFile(files, path, level, once=True)
    suffixes = ("", *(INTERVAL if margins else ()))
    for part, geounits in file.parts([label + suffix for label in answers.labels for suffix in suffixes]):
        for number, label in enumerate(answers.labels):
            columns = {label + suffix: part.column(label + suffix) for suffix in suffixes}
            yield Numbers(file, answers, geounits, np.full(len(geounits), number), columns)


def _read_long(files: Files, path: Path, level: Level, answers: Query, *, margins: bool) -> Numbers:
    """The same in this form; reports rows of no answer, and geounits whose rows are not of all answers, each once."""
    n, size = len(level.codes), answers.size
    file = LevelFile(files, path, level, once=False, most=n * size)
    valued = file.check("rows of no answer of the query")
    rows, geounits, numbers = [], [], []
    kept = [ANSWERS, COUNT, *(ENDS if margins else ())]
    for part, of_row in file.parts([*answers.names, *kept]):
        answer = _answers(part, answers, file.name)
        valued.add(answer < ZEROS, file.saying("has no known label of some term, and of others it has one"))
        known = (of_row >= 0) & (answer >= ZEROS)
        rows.append(part.select(kept).filter(pa.array(known)))
        geounits.append(of_row[known])
        numbers.append(answer[known])
    table = pa.concat_tables(rows)
    columns = {name: table.column(name) for name in kept[1:]}
    found = Numbers(file, answers, np.concatenate(geounits), np.concatenate(numbers), columns)
    _check_complete(found, table.column(ANSWERS))
    return found


def _answers(part: pa.Table, answers: Query, name: str) -> IntArray:
    """The number of each row's answer; `ZEROS` where no term has a label, and less where a label is not known."""
    numbers, without = zeros(part.num_rows), zeros(part.num_rows)
    unknown = np.zeros(part.num_rows, dtype=np.bool_)
    for term, labels in zip(answers.names, answers.terms, strict=True):
        codes = numbers_of(part, term, pa.array(labels, pa.string()), name)
        null = part.column(term).is_null().to_numpy()
        unknown |= (codes < 0) & ~null
        without += null
        numbers = numbers * len(labels) + np.maximum(codes, 0)
    of_zeros = without == len(answers.terms)
    return np.where(unknown | ((without > 0) & ~of_zeros), ZEROS - 1, np.where(of_zeros, ZEROS, numbers))


def _check_complete(table: Numbers, stated: pa.ChunkedArray) -> None:
    """Report geounits whose rows are not of all answers of the query, by how many each is `stated` to be of."""
    level, n, size = table.file.level, len(table.file.level.codes), table.query.size
    stands, whole = whole_numbers(stated, ANSWERS, table.file.name)
    wrong = ~whole | np.where(table.answers == ZEROS, stands < 1, stands != 1)
    distinct, times = np.unique(table.geounits * (size + 1) + table.answers + 1, return_counts=True)
    odd = np.zeros(n, dtype=np.bool_)
    odd[table.geounits[wrong]] = True
    odd[distinct[times > 1] // (size + 1)] = True
    together = sums(n, table.geounits, np.where(wrong, 0, np.minimum(stands, size)))
    table.file.check("geounits whose rows are not of all answers").add(
        odd | (together != size),
        lambda unit: (
            f"{level.label(unit)}: its rows say that they are of {together[unit]:,} answers; the query has {size:,}, "
            "and each is in one row"
        ),
    )


def read_due(
    files: Files, path: Path, level: Level, query: Query, above: Counts
) -> tuple[IntArray, IntArray, Sequence[str]]:
    """What was drawn where the area above is positive: geounit * size + answer, and the noisy answers, both `(m,)`.

    Third, a sentence for what was drawn beside what was due, and for what was not; none if both are the same, in order.

    Args:
        above: the released cells of the level above.

    Raises:
        FormError: the file is missing or damaged, or holds something else.
    """
    released = above.answers(query)
    positive = released.keys[released.counts > 0]
    starts = np.searchsorted(positive, np.arange(int(level.parents.max(initial=-1)) + 2) * query.size)
    parts = [
        geounit * query.size + positive[starts[parent] : starts[parent + 1]] % query.size
        for geounit, parent in enumerate(level.parents.tolist())
    ]
    due = np.concatenate([zeros(0), *parts])
    file = LevelFile(files, path, level, once=True, values=max(map(len, parts), default=0))
    keys, values = [zeros(0)], [zeros(0)]
    for part, geounits in file.parts(["answer", "value", "variance"]):
        answers, drawn = (lists_of(part.column(name), name, file.name) for name in ("answer", "value"))
        if not np.array_equal(answers[0], drawn[0]):
            raise FormError(f"{file.name}: a row has another number of answers than of values")
        if len(answers[1]) and not 0 <= int(answers[1].min()) <= int(answers[1].max()) < query.size:
            raise FormError(f"{file.name}: has an answer that the query {query.name!r} has not")
        keys.append(np.repeat(geounits, answers[0]) * query.size + answers[1])
        values.append(drawn[1])
    found = np.concatenate(keys)
    return found, np.concatenate(values), _wrong_answers(found, due, query, level)


def lists_of(column: pa.ChunkedArray, name: str, file: str) -> tuple[IntArray, IntArray]:
    """The lengths of a column's lists, and all their numbers."""
    if not pa.types.is_list(column.type) or not pa.types.is_integer(column.type.value_type) or column.null_count:
        raise FormError(f"{file}: column {name!r} holds {column.type}; lists of whole numbers are required")
    flat = pc.list_flatten(column)
    if flat.null_count:
        raise FormError(f"{file}: column {name!r} has a number that is missing")
    return pc.list_value_length(column).to_numpy().astype(np.int64), flat.to_numpy().astype(np.int64)


def _wrong_answers(keys: IntArray, due: IntArray, query: Query, level: Level) -> Sequence[str]:
    if np.array_equal(keys, due):
        return []
    beyond, lacking = np.setdiff1d(keys, due), np.setdiff1d(due, keys)
    sentences = []
    for some, what in ((beyond, "was drawn, and is 0 in the area above"), (lacking, "was not drawn, and is positive")):
        if len(some):
            geounit, answer = divmod(int(some[0]), query.size)
            sentences.append(
                f"{len(some):,} answers, first {level.label(geounit)}, {query.labels[answer]!r}, "
                f"{what.replace('was', 'were', 1) if len(some) > 1 else what}"
            )
    return sentences or ["the answers of a geounit are not in ascending order, or one stands twice"]
