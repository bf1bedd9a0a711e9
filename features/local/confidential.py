"""What sees the file of reports: they are counted, and their totals published without more noise.

The reports were randomised by their senders, so that the totals of any group of them may be published. They are
confidential input all the same: which report came from where is nobody's business, and the file may hold more.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.local.central import CENTRAL
from features.local.collect.mechanism import LocalMechanism
from features.local.collect.reports import CHARACTER, COHORT, FAULTS, LENGTH, VALUE, Reports
from features.local.collected import Collected
from features.local.survey import survey_of
from geography.spine import Spine, counted
from pipeline.confidential.parts import ConfidentialPart, Inspection
from pipeline.errors import RecordsError
from pipeline.execution.job import Job
from pipeline.model.record_source import RecordSource
from pipeline.model.strategy import Central
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.records.cells import CHUNK_ROWS
from pipeline.records.columns import LEFT_OUT, LeafReader
from pipeline.records.problems import SHOWN, MistakeLog
from pipeline.records.record_files import open_records
from pipeline.release.measurements import (
    MeasurementHeader,
    MeasurementWriter,
    exact_header,
    header_of,
    read_measurement,
)
from pipeline.release.run_directory import is_of_others
from pipeline.storage.files import write_json
from postprocess.arrays import IntArray

#: Half of the share of releases of the same persons that are refused: tails of whole numbers are up to twice as heavy.
_FALSE_ALARM: Final = 5e-7


class RandomisedReports(ConfidentialPart):
    """Reports that were randomised before they were sent: their totals are published as they are."""

    def tabulate(self, job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
        """See `ConfidentialPart.tabulate`: the reports of each leaf, and a sentence on those that are not used.

        Raises:
            RecordsError: the file cannot be read, or has reports that cannot be used and the spec does not say to
                count them; the message may show what is in the file, and names no respondent.
        """
        records, collected = universe.require_input(), survey_of(universe).collected
        drawing = key.keyed_hash(f"one report of each respondent/{universe.name}", b"")
        found = count_reports(records, collected, job.spine, bytes.fromhex(drawing))
        if records.bad_reports != "count":
            found.log.raise_if_any()
        if not found.reports.any():
            raise RecordsError(f"{records.file}: no report can be used; at least one is needed")
        if (wrong := _contradiction(universe, job.spine, job.inputs.of(CENTRAL)[0], found.reports)) is not None:
            raise RecordsError(wrong)
        digest = hashlib.sha256(b"spinewise reports 1\0")
        for part in (found.totals, found.reports, np.array(list(found.unused.values()))):
            digest.update(np.array([*part.shape], dtype="<i8").tobytes())
            digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
        fingerprint = key.keyed_hash(f"input/{universe.name}", digest.digest())
        if not is_of_others(job.run, universe.name, fingerprint):
            _keep(job, universe, found)
        unused = sum(found.unused.values())
        remarks = [f"{universe.key('input')}: {counted(unused, 'report')} cannot be used"] if unused else []
        return fingerprint, remarks

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[IntArray]]) -> list[str]:  # noqa: ARG002
        """Nothing: of reports nothing is known that could contradict what is exact."""
        return []

    def measure(
        self,
        job: Job,
        key: MasterKey,  # noqa: ARG002
        fingerprint: str,  # noqa: ARG002
        universe: Universe,
        level: str,
    ) -> None:
        """Publish the totals of the reports of each leaf, how many there are, and what is said beside them.

        See `ConfidentialPart.measure`; no key is needed, as no noise is drawn.
        """
        folder, leaves = job.folder(universe), job.spine.levels[-1]
        totals, reports = (read_measurement(folder.counted_reports(name)).values for name in ("totals", "numbers"))
        draw = universe.draws(job.spine, reports[:, 0])[-1]
        (invariant,) = (query for name, query in universe.invariants if name == level)
        target = folder.measurement(level, draw.query.name)
        with MeasurementWriter.open(target, job.run.staging, header_of(draw)) as writer:
            writer.write(leaves.geocodes, totals, draw.kinds)
        header = exact_header(level, invariant)
        with MeasurementWriter.open(folder.invariant(level, invariant.name), job.run.staging, header) as writer:
            writer.write(leaves.geocodes, reports)
        beside = json.loads(folder.counted_reports("beside").read_bytes())
        write_json(job.run.reports, {"mechanism": survey_of(universe).mechanism.name, **beside}, job.run.staging)
        job.progress.advance(len(leaves))

    def inspected(self, universe: Universe, spine: Spine) -> Inspection:
        """See `ConfidentialPart.inspected`: every report, which cannot be used, and why."""
        records, collected = universe.require_input(), survey_of(universe).collected
        found = count_reports(records, collected, spine, bytes(32))  # the draw matters little
        used = int(found.reports.sum())
        read = used + sum(found.unused.values())
        if records.bad_reports != "count":
            return Inspection(found.log, (), read, used)
        lines = found.log.lines()
        remarks = tuple(f"{records.file}, not used: {one.message(lines)}" for one in found.log.mistakes)
        return Inspection(None, remarks, read, used)


def _keep(job: Job, universe: Universe, found: CountedReports) -> None:
    """Write what is counted to restricted/."""
    folder, leaves = job.folder(universe), job.spine.levels[-1]
    for name, values in (("totals", found.totals), ("numbers", found.reports[:, None])):
        target = folder.counted_reports(name)
        header = MeasurementHeader(leaves.name, target.stem, values.shape[1], "exact", Fraction(0), 0.0)
        with MeasurementWriter.open(target, job.run.staging, header, private=True) as writer:
            writer.write(leaves.geocodes, values)
    beside = {"used": int(found.reports.sum()), "not used": found.unused}
    write_json(folder.counted_reports("beside"), beside, job.run.staging, private=True)
    job.progress.advance(job.n_geounits)


def _contradiction(universe: Universe, spine: Spine, counts: Mapping[str, IntArray], reports: IntArray) -> str | None:
    """Where central counts cannot be of those who sent reports; None where they may be.

    The counts of an area add up to the persons there, but for the noise; they are others where one of all areas is so
    far off as the noise is once in a million releases.

    Args:
        universe: of the reports.
        spine: the geography.
        counts: level -> noisy counts `(n_geounits, n_cells)` of a central release.
        reports: `(n_leaves,)` how many each leaf has.
    """
    central = survey_of(universe).central
    if central is None:
        return None
    areas = sum(len(values) for values in counts.values())
    for level, values in counts.items():
        starts = spine.leaf_offsets(spine.index_of(level))[:-1]
        sent, persons = np.add.reduceat(reports, starts), values.sum(axis=1)
        reach = allowed_difference(central, level, values.shape[1], areas)
        wrong = np.flatnonzero(np.abs(persons - sent) > reach)
        if wrong.size:
            first = int(wrong[0])
            return (
                f"collect.central: in {wrong.size:,} areas of the level {level!r} central counts are not of those who "
                f"sent reports: {spine.level(level).geocodes[first]} has {sent[first]:,} reports, and the counts add "
                f"up to {persons[first]:,}, by their noise within {reach:,.0f}; both have to be of the same persons"
            )
    return None


def allowed_difference(central: Central, level: str, cells: int, areas: int) -> float:
    """By how much the sum of an area's central counts may differ from its persons.

    Noise is taken for continuous noise of the same scale: where there is little of it, that of whole numbers has far
    heavier tails than its own variance tells.

    Args:
        central: the release.
        level: of the area.
        cells: counts that are added up.
        areas: that are compared, of all levels.
    """
    noise = central.noise(level)
    return noise.farthest(areas, _FALSE_ALARM) * math.sqrt(cells * noise.continuous_variance)


# -- counting reports -------------------------------------------------------------------------------------------------

#: Why a report is not used, as the public counts call it: the faults of its text, and those found here.
GEOCODE, NOBODY, AGAIN = 11, 12, 13
REASONS: Final = {
    GEOCODE: "geocode that is not a leaf",
    **{fault: FAULTS[fault] for fault in (LENGTH, CHARACTER, VALUE, COHORT)},
    NOBODY: "missing respondent",
    AGAIN: "second report of a respondent",
}


@dataclass(frozen=True, eq=False)
class CountedReports:
    """What is counted of the reports.

    Attributes:
        totals: `(n_leaves, n_cells)` int64, of the reports that are used.
        reports: `(n_leaves,)` int64, how many these are.
        unused: reason -> how many are not used, in the order of `REASONS`; without those whose leaf the spine leaves
            out, which are nobody's concern. Cohorts are among the reasons where the mechanism has several.
        log: the same with rows, and what was found.
    """

    totals: IntArray
    reports: IntArray
    unused: dict[str, int]
    log: MistakeLog

    def add(self, collected: Collected, reports: Reports, leaves: IntArray, sign: int = 1) -> None:
        """Count reports in their leaves; with the sign -1 no longer."""
        self.totals[:] += sign * collected.totals(reports, leaves, len(self.reports))
        self.reports[:] += sign * np.bincount(leaves, minlength=len(self.reports))


def count_reports(
    records: RecordSource,
    collected: Collected,
    spine: Spine,
    key: bytes,
    *,
    chunk_rows: int = CHUNK_ROWS,
) -> CountedReports:
    """Count the reports of each leaf. A report with a fault is never used, whatever the fault is.

    Of a respondent with several reports without a fault one is used, drawn with the key: with two of them, what is
    published would tell more than one report does. Whether faults stop a run is for the caller to decide.

    Args:
        records: the spec's [input], of the form "reports".
        collected: how the answers were randomised, and what is counted.
        spine: the geography; its leaves are the rows of the result.
        key: a secret of 16 to 64 bytes; the same key draws the same reports again, in whatever order rows stand.
        chunk_rows: rows of a Parquet file in memory at a time.

    Raises:
        RecordsError: the file cannot be read, or lacks a column.
    """
    report, mechanism = records.columns.get("report", "report"), collected.mechanism
    cohort = records.columns.get("cohort", "cohort") if mechanism.n_cohorts > 1 else None
    respondent = records.columns.get("respondent")
    columns = [records.geocode, report, *(column for column in (cohort, respondent) if column is not None)]
    file = open_records(records.file, columns, chunk_rows, label="the file of the reports", text=records.text_format)
    log = MistakeLog(records.file, file.find_lines)
    leaf_reader = LeafReader(spine, records.geocode, records.file)
    reasons = {fault: reason for fault, reason in REASONS.items() if fault != COHORT or cohort is not None}
    found = CountedReports(
        np.zeros((spine.n_leaves, collected.n_cells), dtype=np.int64),
        np.zeros(spine.n_leaves, dtype=np.int64),
        dict.fromkeys(reasons.values(), 0),
        log,
    )
    drawing = Deduplicator(key)
    geocodes = spine.levels[-1].geocodes
    first_row = 0
    for chunk in file.chunks():
        leaves, _ = leaf_reader.read(chunk.column(records.geocode), first_row, log)
        texts = _texts(chunk.column(report))
        cohorts = None if cohort is None else _texts(chunk.column(cohort))
        decoded = mechanism.decode(texts, cohorts)
        faults = decoded.faults.astype(np.int64)
        _note(log, report, faults, first_row, _text_mistakes(mechanism), texts)
        if cohort is not None and cohorts is not None:
            allowed = f"whole numbers from 0 to {mechanism.n_cohorts - 1} are allowed"
            wrong = {COHORT: ("a cohort that the mechanism does not have", allowed)}
            _note(log, cohort, faults, first_row, wrong, cohorts)
        faults = np.where(leaves < 0, GEOCODE, faults)
        faults[leaves == LEFT_OUT] = -1
        if respondent is not None:
            codes = geocodes[np.maximum(leaves, 0)].tolist()  # of good reports, which are from a leaf
            sent = list(zip(codes, texts, *([] if cohorts is None else [cohorts]), strict=True))
            who = _texts(chunk.column(respondent))
            for row in np.flatnonzero(faults == 0).tolist():
                if not who[row]:
                    faults[row] = NOBODY
                elif not drawing.add(who[row], sent[row]):
                    faults[row] = AGAIN
            _note(log, respondent, faults, first_row, _RESPONDENT_MISTAKES)
        decodable = np.flatnonzero(decoded.faults == 0)
        used = faults[decodable] == 0
        found.add(collected, decoded.reports[used], leaves[decodable[used]])
        for fault, reason in reasons.items():
            found.unused[reason] += int((faults == fault).sum())
        first_row += chunk.num_rows
    _exchange(found, drawing, collected, spine)
    return found


def _text_mistakes(mechanism: LocalMechanism) -> Mapping[int, tuple[str, str]]:
    """What is wrong with reports that cannot have been made by the mechanism, and what is allowed."""
    length = mechanism.report_length
    wanted = f"a report of {mechanism.name} has {length} character{'s' if length > 1 else ''}, such as {'0' * length!r}"
    return {
        LENGTH: ("a report of the wrong length", wanted),
        CHARACTER: ("a report with a wrong character", wanted),
        VALUE: ("what is no report of the mechanism", wanted),
    }


#: The same of respondents.
_RESPONDENT_MISTAKES: Final = {
    NOBODY: ("a missing respondent", "each report needs the respondent who sent it"),
    AGAIN: ("a respondent with a report above", "one report of each respondent is allowed"),
}


def _note(
    log: MistakeLog,
    column: str,
    faults: IntArray,
    first_row: int,
    wrong: Mapping[int, tuple[str, str]],
    texts: Sequence[str] = (),
) -> None:
    """Note the rows of a column that have faults: fault -> its words, and what is allowed; with their texts, if any."""
    for fault, (words, allowed) in wrong.items():
        rows = np.flatnonzero(faults == fault)
        found = dict.fromkeys(texts[row] for row in rows[: 10 * SHOWN].tolist()) if texts else ()
        log.add(f"column {column!r}", words, first_row + rows + 1, found, allowed)


def _texts(column: pa.Array) -> list[str]:
    """A column as texts; what is missing is empty, and numbers are written in digits."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.cast(plain, pa.string()), "").to_pylist()


# -- one report of each respondent ------------------------------------------------------------------------------------

#: All that says what was sent, and from where: its leaf, its text, its cohort.
ReportRow = tuple[str, ...]


class Deduplicator:
    """Chooses one report of each respondent, all of that respondent's rows with the same chance.

    Each row gets a number, the hash, keyed with a secret, of who sent what, and of how many rows above say the same;
    the least number wins. So the choice is the same in whatever order and chunks rows are read, since rows that say the
    same are as good as each other. And it follows no report: with n rows of a respondent each is chosen with
    probability 1 / n. Were only different reports drawn from, a rare one would be chosen too often; and were the hash
    not secret, whoever computes it would know that the reports with lesser numbers had not been sent.

    Args:
        key: a secret of 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._first: dict[str, ReportRow] = {}
        self._more: dict[str, list[ReportRow]] = {}

    def add(self, who: str, sent: ReportRow) -> bool:
        """Whether this is the first row of the respondent; rows are given as they stand."""
        if who not in self._first:
            self._first[who] = sent
            return True
        self._more.setdefault(who, []).append(sent)
        return False

    def exchanged(self) -> list[tuple[ReportRow, ReportRow]]:
        """The first report of a respondent, and the one that is used in its place; of those for whom they differ."""
        pairs = ((self._first[who], self._drawn(who, [self._first[who], *more])) for who, more in self._more.items())
        return [(first, drawn) for first, drawn in pairs if first != drawn]

    def _drawn(self, who: str, reports: list[ReportRow]) -> ReportRow:
        above: Counter[ReportRow] = Counter()
        numbers = []
        for sent in reports:
            numbers.append((self._number(who, *sent, str(above[sent])), sent))
            above[sent] += 1
        return min(numbers)[1]

    def _number(self, *parts: str) -> bytes:
        hashed = hashlib.blake2b(key=self._key, digest_size=32, person=b"spinewise one 1")
        for part in (text.encode() for text in parts):
            hashed.update(len(part).to_bytes(8, "big") + part)
        return hashed.digest()


def _exchange(found: CountedReports, drawing: Deduplicator, collected: Collected, spine: Spine) -> None:
    """Count the reports that were drawn in the place of the first ones, which are counted already."""
    pairs = drawing.exchanged()
    if not pairs:
        return
    for reports, sign in zip(zip(*pairs, strict=True), (-1, 1), strict=True):
        codes, texts, *cohorts = zip(*reports, strict=True)
        leaves = np.asarray(spine.find_leaves(np.array(codes, dtype=str)), dtype=np.int64)
        decoded = collected.mechanism.decode(texts, *cohorts)
        found.add(collected, decoded.reports, leaves, sign)
