"""Everything that is wrong with a spec, its public inputs and its records, found in one pass; no budget is spent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from geography.spine import Spine
from pipeline.confidential.measure import LinkChecks, link_checks
from pipeline.confidential.parts import part_of
from pipeline.errors import InputError
from pipeline.estimation.constraints import (
    broken_bound,
    check_constraints,
    check_total,
    declared_constraints,
    facility_bounds,
)
from pipeline.inputs.geography import left_out_remark, read_spine
from pipeline.inputs.public_input import InputScope, OpenedInputs
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.record_source import RecordSource
from pipeline.model.universe import Universe
from pipeline.publishing.public_inputs import BOUNDS, read_inputs
from pipeline.records.cells import CellChunk, needed_columns, open_cells
from pipeline.records.problems import MistakeLog
from pipeline.records.record_files import column_names
from pipeline.records.unit_checks import find_person_numbers, find_similar_units
from pipeline.runs.request import stated_checks, with_data
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

#: What a released page should state of itself: keys of [report].
ASKED_FOR: Final = ("publisher", "reference_date", "publication_date", "version", "contact", "next_release")


@dataclass(frozen=True)
class SpecFinding:
    """One thing that is wrong.

    Attributes:
        part: what it is about: "spec", "geography", "records", "constraints", or a public input.
        text: the message, one line where possible.
        file: the file that it is about; "" if it is not about a file.
        where: the place in it, such as "column 'age'".
        problem: such as "a value outside the schema".
        n_rows: the number of rows that have the problem; 0 if it is not about rows.
        rows, lines: the first of them, from 1 without the header; their lines in a CSV file.
        found: the first distinct values found there.
        allowed: what is allowed.
    """

    part: str
    text: str
    file: str = ""
    where: str = ""
    problem: str = ""
    n_rows: int = 0
    rows: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    found: tuple[str, ...] = ()
    allowed: str = ""


@dataclass
class Validation:
    """The result of a validation.

    Attributes:
        findings: what is wrong; nothing can be released until it is corrected.
        remarks: what is odd but would not stop a run.
        n_rows, n_counted: rows read and persons counted, of all files of records together.
        n_leaves: of the spine; 0 where it could not be read.
    """

    findings: list[SpecFinding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    n_rows: int = 0
    n_counted: int = 0
    n_leaves: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def as_dict(self) -> dict[str, object]:
        """The result as JSON-able values."""
        findings = [asdict(finding) for finding in self.findings]
        return {
            "passed": self.passed,
            "rows": self.n_rows,
            "counted": self.n_counted,
            "leaves": self.n_leaves,
            "findings": findings,
            "remarks": self.remarks,
        }

    @contextmanager
    def noted(self, part: str) -> Iterator[None]:
        """Add a finding for each line of an InputError in the block; indented lines belong to the line before."""
        try:
            yield
        except InputError as error:
            found = re.split(r"\n(?! )", "\n".join(str(error).splitlines()))
            self.findings += [_placed(part, text) for text in found]


def _placed(part: str, text: str) -> SpecFinding:
    """The finding of a message; one on a spec begins with its file and key."""
    place = text.split(": ", 2)
    if part != "spec" or len(place) < 3:
        return SpecFinding(part, text)
    return SpecFinding(part, text, file=place[0], where=place[1], problem=place[2])


def validate(
    data: Path | None,
    spec_file: Path,
    *,
    periods_before: Sequence[Path] = (),
    i_know: bool = False,
) -> Validation:
    """Check a spec, its public inputs, and all records.

    Memory is bounded by one chunk of records, the spine, and the answers that invariants, bounds and joins are about.

    Args:
        data: records instead of the spec's: a file for the release's own, or a folder with files of the same names.
        spec_file: the release spec.
        periods_before: of a release in a series, the records of the periods before, first to last.
        i_know: what is beyond the usual limits is meant, as for a run.
    """
    result = Validation()
    loaded: list[ReleaseSpec] = []
    with result.noted("spec"):
        loaded.append(load_spec(spec_file))
    is_there = data is None or data.exists()
    if not is_there:
        result.findings.append(SpecFinding("records", f"{data}: no such file or folder", str(data)))
    if not loaded:
        return result
    (spec,), universes = loaded, loaded[0].universes()
    if not is_there:
        data, universes = None, universes[1:]
    for check in stated_checks(spec, spec.universes(), i_know=i_know):
        with result.noted("spec"):
            check()
    result.remarks += _wanted(spec_file, spec)
    spine: Spine | None = None
    with result.noted("geography"):
        spine = read_spine(spec.geography)
        result.n_leaves = spine.n_leaves
        if left_out := left_out_remark(spec.geography):
            result.remarks.append(left_out)
    inputs = OpenedInputs()
    if spine is not None:
        inputs = read_inputs(InputScope(spec, spec.universes(), spine), result.noted)
    found = [(link, link_checks(link)) for link in spec.links()]
    links = [(link, checks) for link, checks in found if checks is not None]
    answers: dict[str, _Answers | None] = {}
    for universe in universes:
        with result.noted("records"):
            (supplied,) = with_data([universe], data)
            linked = [query for link, checks in links for query in checks.queries(link, universe.name)]
            facilities = () if spine is None else inputs.of(BOUNDS)[universe.name]
            answers[universe.name] = _check_records(supplied, spine, linked, facilities, result)
    if spine is not None:
        _check_links(links, spine, answers, result)
        with result.noted("records"):
            own = [universe for universe in universes if answers.get(universe.name) is not None and not universe.name]
            result.remarks += _over_periods(own, spine, (*periods_before, data))
    return result


def _wanted(spec_file: Path, spec: ReleaseSpec) -> Iterator[str]:
    """What the spec would have to state, and what to leave out, to be that of a release for readers."""
    if missing := [key for key in ASKED_FOR if not getattr(spec.about, key)]:
        yield f"{spec_file}: [report] states no {', '.join(missing)}; readers will ask for them"
    if spec.privacy.key is not None:
        yield (
            f"{spec_file}: privacy.key: {spec.privacy.key!r} is a test key, which everybody has: the release protects "
            "nobody and says NOT FOR RELEASE; for a release leave it out, and a key is drawn"
        )


def _check_records(
    universe: Universe,
    spine: Spine | None,
    linked: Sequence[Query],
    facilities: Sequence[IntArray],
    result: Validation,
) -> _Answers | None:
    """Every row of the records, and whether a release can keep the constraints.

    Of records that are not the truth, what sees them says what is wrong.

    Returns:
        The answers of the `linked` queries in the leaves, and others; None where something is wrong.
    """
    if universe.input is None:
        return None
    if not universe.source.has_truth:
        if spine is not None:
            found = part_of(universe.source).inspected(universe, spine)
            result.findings += [] if found.mistakes is None else _findings(found.mistakes)
            result.remarks += found.remarks
            result.n_counted += found.n_counted
            result.n_rows += found.n_rows
        return None
    before = len(result.findings)
    records = universe.input
    missing = _missing_columns(universe, records)
    answers = None if spine is None or missing else _Answers.of(universe, spine, linked)
    log: MistakeLog | None = None
    total = 0
    if missing:
        with result.noted("records"):
            open_cells(records, universe.schema, spine)
    with result.noted("records"):
        opened = open_cells(records, universe.schema, spine, skip=missing)
        log = opened.log
        for chunk in opened.chunks():
            if not missing:
                _note_impossible(universe, chunk, log)
            if answers is not None:
                answers.add(chunk)
            if not universe.name or universe.together is None:  # else these are the rows that were counted before
                result.n_rows += chunk.n_rows
                result.n_counted += int(chunk.keys.size if chunk.persons is None else chunk.persons.sum())
            total += int(chunk.keys.size if chunk.persons is None else np.abs(chunk.persons).sum())
        check_total(universe, total)
    if log is not None:
        result.findings += _findings(log)
        _note_person_numbers(records, result)
    bounded = len(facilities) == len(universe.bounds)
    if spine is None or answers is None or not bounded or len(result.findings) > before:
        if universe.invariants or universe.bounds:
            result.remarks.append(
                f"{_called(universe)}: whether invariants and bounds can be kept is not known until the rest is right"
            )
        return None
    _check_constraints(universe, spine, facilities, answers, result)
    return answers


def _check_links(
    links: Sequence[tuple[Link, LinkChecks]],
    spine: Spine,
    answers: Mapping[str, _Answers | None],
    result: Validation,
) -> None:
    """Remarks on what the records do not keep of links between universes: a release keeps it all the same."""
    leaves = spine.levels[-1]
    for link, checks in links:
        of, by = answers.get(link.of), answers.get(link.by)
        if of is None or by is None:
            continue

        def pairs(own: Query, other: Query, of: _Answers = of, by: _Answers = by) -> list[tuple[Any, Any]]:
            return [(of.sums[leaves.name, own], by.sums[leaves.name, other])]

        result.remarks += checks.broken(link, pairs, leaves.name, leaves.geocodes)


def _over_periods(own: Sequence[Universe], spine: Spine, files: Sequence[Path | None]) -> tuple[str, ...]:
    """What the records of several periods say together.

    Args:
        own: the release's own universe; nothing where something is wrong with its records.
        spine: the geography.
        files: of the periods before, and the release's own records.

    Raises:
        InputError: the spec is of one release, or cannot say who a record is of; or a file cannot be read.
    """
    before = [file for file in files[:-1] if file is not None]
    if not before or not own:
        return ()
    if own[0].series is None:
        raise InputError("--before: the spec is of one release; only a series has periods before")
    if missing := [file for file in before if not file.is_file()]:
        raise InputError(f"--before {missing[0]}: no such file")
    part = part_of(own[0].source)
    return part.over_periods([supplied for file in files for supplied in with_data(own, file)], spine)


def _note_person_numbers(records: RecordSource, result: Validation) -> None:
    """A remark on each column which shows that persons have several records; only microdata can have such a column."""
    if records.form != "microdata":
        return
    with suppress(InputError):  # a file that cannot be read is reported elsewhere
        known = (records.geocode, records.unit)  # a unit is stated, and may have several records
        names = [name for name in column_names(records.file, text=records.text_format) if name not in known]
        numbers = find_person_numbers(records.file, names, text=records.text_format)
        result.remarks += [f"{records.file}: {warning}" for warning in numbers]
        if similar := find_similar_units(records):
            result.remarks.append(f"{records.file}: {similar}")


def _missing_columns(universe: Universe, records: RecordSource) -> frozenset[str]:
    """The needed columns that a readable file of rows does not have; the others can still be checked."""
    if records.form == "wide":
        return frozenset()
    try:
        return frozenset(needed_columns(records, universe.schema)) - set(
            column_names(records.file, text=records.text_format)
        )
    except InputError:
        return frozenset()


def _called(universe: Universe) -> str:
    return f"companions.{universe.name}" if universe.name else "the release"


def _note_impossible(universe: Universe, chunk: CellChunk, log: MistakeLog) -> None:
    """Note records in cells that are impossible by the spec."""
    if not universe.structural_zeros.any():
        return
    cells = chunk.keys % universe.schema.n_cells
    wrong = universe.structural_zeros[cells]
    if chunk.persons is not None:
        wrong &= chunk.persons > 0
    places = np.flatnonzero(wrong)
    if not places.size:
        return
    rows = places if chunk.rows is None else chunk.rows[places]
    labels = universe.schema.cell_labels()
    log.add(
        universe.key("structural_zeros"),
        "a combination that the spec declares impossible",
        chunk.first_row + np.unique(rows) + 1,
        (labels[cell] for cell in dict.fromkeys(cells[places].tolist())),
        "correct the records or the spec",
    )


def _findings(log: MistakeLog) -> list[SpecFinding]:
    lines = log.lines()
    return [
        SpecFinding(
            "records",
            f"{log.file}, {problem.message(lines)}",
            str(log.file),
            problem.where,
            problem.what,
            problem.n_rows,
            tuple(problem.first_rows),
            tuple(lines[row] for row in problem.first_rows if row in lines),
            tuple(problem.found),
            problem.allowed,
        )
        for problem in log.mistakes
    ]


@dataclass(frozen=True, eq=False)
class _Answers:
    """The records' answers to the queries of invariants, bounds and joins, added up chunk by chunk.

    Attributes:
        n_cells: of the schema.
        of_level: level -> the level's geounit of each leaf, `(n_leaves,)`.
        sums: (level, query) -> `(n_geounits, size)` int64 persons.
    """

    n_cells: int
    of_level: Mapping[str, IntArray]
    sums: Mapping[tuple[str, Query], IntArray]

    @classmethod
    def of(cls, universe: Universe, spine: Spine, linked: Sequence[Query]) -> _Answers:
        queries = [*universe.invariants, *((bound.level, bound.query) for bound in universe.bounds)]
        queries += [(spine.levels[-1].name, query) for query in linked]
        levels = {level: spine.index_of(level) for level, _ in queries}
        sums = {
            (level, query): np.zeros((len(spine.levels[levels[level]]), query.size), dtype=np.int64)
            for level, query in queries
        }
        ancestors = {level: spine.leaf_ancestors(index) for level, index in levels.items()}
        return cls(universe.schema.n_cells, ancestors, sums)

    def add(self, chunk: CellChunk) -> None:
        if not self.sums:
            return
        leaves, cells = np.divmod(chunk.keys, self.n_cells)
        persons = 1 if chunk.persons is None else chunk.persons
        for (level, query), sums in self.sums.items():
            np.add.at(sums, (self.of_level[level][leaves], query.cell_answer[cells]), persons)


def _check_constraints(
    universe: Universe,
    spine: Spine,
    facilities: Sequence[IntArray],
    answers: _Answers,
    result: Validation,
) -> None:
    invariants = {(level, query.name): answers.sums[level, query] for level, query in universe.invariants}
    with result.noted("constraints"):
        declared = declared_constraints(universe, spine, facility_bounds(universe, facilities), invariants)
        result.remarks += check_constraints(universe, spine, declared)
    for bound, counts in zip(universe.bounds, facilities, strict=True):
        geocodes = spine.level(bound.level).geocodes
        if sentence := broken_bound(bound, counts, answers.sums[bound.level, bound.query], geocodes):
            result.remarks.append(sentence)
