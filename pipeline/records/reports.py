"""Reads reports that respondents randomised before they sent them: their totals in each leaf, and which are no good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.collect.mechanism import CHARACTER, LENGTH, VALUE, ListedMechanism
from pipeline.collect.several import GoodReport, OneOfEach
from pipeline.model.record_source import RecordSource
from pipeline.records.cells import CHUNK_ROWS
from pipeline.records.columns import LEFT_OUT
from pipeline.records.geocodes import LeafReader
from pipeline.records.problems import SHOWN, MistakeLog
from pipeline.records.record_files import open_records

#: Why a report is not used, as the public counts call it, by the faults of `pipeline.collect` and those found here.
GEOCODE, NOBODY, AGAIN = 11, 12, 13
REASONS = {
    GEOCODE: "geocode that is not a leaf",
    LENGTH: "wrong length",
    CHARACTER: "wrong character",
    VALUE: "not a report of the mechanism",
    NOBODY: "missing respondent",
    AGAIN: "second report of a respondent",
}


@dataclass(frozen=True, eq=False)
class CountedReports:
    """What is counted of the reports.

    Attributes:
        totals: `(n_leaves, n_outputs)` int64, of the reports that are used.
        reports: `(n_leaves,)` int64, how many these are.
        unused: reason -> how many are not used, in the order of `REASONS`; without those whose leaf the spine leaves
            out, which are nobody's concern.
        log: the same with rows, and what was found.
    """

    totals: NDArray[np.int64]
    reports: NDArray[np.int64]
    unused: dict[str, int]
    log: MistakeLog


def count_reports(
    records: RecordSource, mechanism: ListedMechanism, spine: Spine, key: bytes, *, chunk_rows: int = CHUNK_ROWS
) -> CountedReports:
    """Count the reports of each leaf. A report with a fault is never used, whatever the fault is.

    Of a respondent with several reports without a fault one is used, drawn with the key: with two of them, what is
    published would tell more than one report does. Whether faults stop a run is for the caller to decide.

    Args:
        records: the spec's [input], of the form "reports".
        mechanism: by which the answers were randomised.
        spine: the geography; its leaves are the rows of the result.
        key: a secret of 16 to 64 bytes; the same key draws the same reports again, in whatever order rows stand.
        chunk_rows: rows of a Parquet file in memory at a time.

    Raises:
        RecordsError: the file cannot be read, or lacks a column.
    """
    report = records.report or "report"
    columns = [records.geocode, report, *([] if records.respondent is None else [records.respondent])]
    file = open_records(records.file, columns, chunk_rows, label="the file of the reports", text=records.text_format)
    log = MistakeLog(records.file, file.find_lines)
    leaf_reader = LeafReader(spine, records.geocode, records.file)
    totals = np.zeros((spine.n_leaves, mechanism.n_outputs), dtype=np.int64)
    reports = np.zeros(spine.n_leaves, dtype=np.int64)
    unused = dict.fromkeys(REASONS, 0)
    drawing = OneOfEach(key)
    geocodes = spine.levels[-1].geocodes
    first_row = 0
    for chunk in file.chunks():
        leaves, _ = leaf_reader.read(chunk.column(records.geocode), first_row, log)
        texts = _texts(chunk.column(report))
        decoded = mechanism.decode(texts)
        faults = decoded.faults.astype(np.int64)
        _note_faults(faults, texts, mechanism, report, first_row, log)
        outside = leaves < 0
        faults = np.where(outside, GEOCODE, faults)
        faults[leaves == LEFT_OUT] = -1
        if records.respondent is not None:
            who = _texts(chunk.column(records.respondent))
            sent = [(str(geocodes[leaf]), text) if leaf >= 0 else () for leaf, text in zip(leaves, texts, strict=True)]
            _note_respondents(who, sent, faults, drawing, records.respondent, first_row, log)
        decodable = np.flatnonzero(decoded.faults == 0)
        used = faults[decodable] == 0
        own = leaves[decodable[used]]
        totals += mechanism.totals(decoded.reports[used], own, spine.n_leaves)
        reports += np.bincount(own, minlength=spine.n_leaves)
        for number in REASONS:
            unused[number] += int((faults == number).sum())
        first_row += chunk.num_rows
    _exchange(drawing, mechanism, spine, totals, reports)
    return CountedReports(totals, reports, {REASONS[number]: count for number, count in unused.items()}, log)


def _texts(column: pa.Array) -> list[str]:
    """A column as texts; what is missing is empty, and numbers are written in digits."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.cast(plain, pa.string()), "").to_pylist()


def _note_faults(
    faults: NDArray[np.int64],
    texts: Sequence[str],
    mechanism: ListedMechanism,
    column: str,
    first_row: int,
    log: MistakeLog,
) -> None:
    """Note reports that cannot have been made by the mechanism."""
    length = mechanism.report_length
    wanted = f"a report of {mechanism.name} has {length} character{'s' if length > 1 else ''}"
    for fault, words in (
        (LENGTH, "a report of the wrong length"),
        (CHARACTER, "a report with a wrong character"),
        (VALUE, "what is no report of the mechanism"),
    ):
        rows = np.flatnonzero(faults == fault)
        found = dict.fromkeys(texts[row] for row in rows[: 10 * SHOWN].tolist())
        log.add(f"column {column!r}", words, first_row + rows + 1, found, f"{wanted}, such as {_example(mechanism)!r}")


def _example(mechanism: ListedMechanism) -> str:
    return "0" * mechanism.report_length


def _note_respondents(
    respondents: Sequence[str],
    sent: Sequence[tuple[str, ...]],
    faults: NDArray[np.int64],
    drawing: OneOfEach,
    column: str,
    first_row: int,
    log: MistakeLog,
) -> None:
    """Mark in `faults` the good reports of nobody, and those of respondents with a good one above; names none."""
    for row in np.flatnonzero(faults == 0).tolist():
        if not respondents[row]:
            faults[row] = NOBODY
        elif not drawing.add(respondents[row], GoodReport(first_row + row, sent[row])):
            faults[row] = AGAIN
    where = f"column {column!r}"
    for fault, words, allowed in (
        (NOBODY, "a missing respondent", "each report needs the respondent who sent it"),
        (AGAIN, "a respondent with a report above", "one report of each respondent is allowed"),
    ):
        log.add(where, words, first_row + np.flatnonzero(faults == fault) + 1, (), allowed)


def _exchange(
    drawing: OneOfEach,
    mechanism: ListedMechanism,
    spine: Spine,
    totals: NDArray[np.int64],
    reports: NDArray[np.int64],
) -> None:
    """Count the reports that were drawn in the place of the first ones, which are counted already."""
    pairs = drawing.exchanged()
    if not pairs:
        return
    for number, sign in ((0, -1), (1, 1)):
        sent = [pair[number].sent for pair in pairs]
        leaves = np.asarray(spine.find_leaves(np.array([geocode for geocode, _ in sent], dtype=str)), dtype=np.int64)
        decoded = mechanism.decode([text for _, text in sent])
        totals += sign * mechanism.totals(decoded.reports, leaves, spine.n_leaves)
        reports += sign * np.bincount(leaves, minlength=spine.n_leaves)
