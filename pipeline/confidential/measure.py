"""The stages that see the confidential records, up to noisy measurements and private choices; no later one does.

Some noisy answers are drawn only where the released parent is positive (`measure_positive`); no true count decides
where that is. Which answers these are follows from the released histogram of the level above, by a function that is
given nothing else (`postprocess.positive`). So all that is published is a function of what the mechanism gives that
draws every answer, which is what was charged.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Level, counted
from geography.sums import roll_up
from pipeline.errors import RecordsError
from pipeline.estimation.constraints import (
    broken_bounds,
    carried_constraints,
    check_constraints,
    check_records_possible,
    check_total,
    declared_constraints,
    facility_bounds,
)
from pipeline.execution.job import Job
from pipeline.model.draw import everywhere
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.schema import AmountAttribute
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import Sampler, sampler_for
from pipeline.records.tabulate import LeftOutRecords, tabulate, tabulate_units, update_with_counts
from pipeline.release.histograms import read_histogram, write_histogram
from pipeline.release.measurements import (
    MeasurementHeader,
    MeasurementWriter,
    Selected,
    answered,
    exact_header,
    header_of,
    write_positive,
    write_selected,
)
from pipeline.release.run_directory import is_of_others
from postprocess.arrays import IntArray
from postprocess.positive import PositivePlaces
from postprocess.problem import Constraints

#: Answers with noise in memory at a time.
ANSWERS_AT_ONCE = 1 << 22


def tabulate_universe(job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
    """Write the confidential histogram of every level to restricted/, unless the run was begun on other records.

    Returns:
        The keyed fingerprint of the leaves' histogram, and a confidential sentence on records that were not counted,
        since their units have more than are.

    Raises:
        RecordsError: the records cannot be read or counted; the message may show what is in them.
    """
    records, left_out = universe.require_input(), LeftOutRecords(0, 0)
    if records.unit is None:
        leaves = tabulate(records, universe.schema, job.spine)
    else:
        label = f"unit/{universe.name}"
        whole, amounts = universe.schema, _further_sums(job, universe)
        if amounts:
            label, whole = "unit/", job.universes[0].schema
        leaves, left_out = tabulate_units(
            records, universe.schema, job.spine, lambda data: key.keyed_hash(label, data).encode(),
            whole=whole, amounts=amounts,
        )  # fmt: skip
    digest = hashlib.sha256()
    update_with_counts(digest.update, leaves)
    fingerprint = key.keyed_hash(f"input/{universe.name}", digest.digest())
    folder, of_others = job.folder(universe), is_of_others(job.run, universe.name, fingerprint)
    for level, counts in () if of_others else zip(job.spine.levels, roll_up(job.spine, leaves), strict=True):
        target = folder.true_histogram(level.name)
        place = (level.name, level.geocodes, universe.schema)
        write_histogram(target, job.run.staging, *place, counts, private=True, signed=universe.measure.signed)
        job.progress.advance(len(level))
    remarks = []
    if left_out.records:
        remarks.append(
            f"{universe.key('privacy.unit')}: {counted(left_out.records, 'record')} of "
            f"{counted(left_out.units, 'unit')} with more than {records.at_most} were left out"
        )
    if left_out.taken_down:
        remarks.append(
            f"{universe.key('ends')}: the amounts of {counted(left_out.taken_down, 'unit')} with more than the ends of "
            "a total were taken down"
        )
    return fingerprint, remarks


def _further_sums(job: Job, universe: Universe) -> tuple[AmountAttribute, ...]:
    """The amounts of the release, where the universe counts or sums its own records: all are of the same of a unit."""
    if universe.name and not universe.measure.own_records:
        return ()
    return tuple(dict.fromkeys(amount for each in job.universes for amount in each.measure.amounts))


def true_histogram(job: Job, universe: Universe, level: str) -> sp.csr_array:
    """The confidential histogram of a level, `(n, n_cells)` int64."""
    geocodes = job.spine.level(level).geocodes
    path = job.folder(universe).true_histogram(level)
    return read_histogram(path, geocodes, universe.schema, signed=universe.measure.signed)


#: Of a query on either of two linked universes, answers `(n, size)` of the records, some geounits after the others.
AnswerPairs = Callable[[Query, Query], Iterable[tuple[IntArray, IntArray]]]


class LinkChecks(ABC):
    """What a feature finds in the records of two linked universes; the release keeps their link all the same."""

    @abstractmethod
    def queries(self, link: Any, universe: str) -> tuple[Query, ...]:
        """The queries on a universe whose answers are compared."""

    @abstractmethod
    def broken(self, link: Any, answers: AnswerPairs, level: str, geocodes: NDArray[np.str_]) -> list[str]:
        """What the records do not keep, in confidential sentences.

        Args:
            link: between the universes.
            answers: of the records, to a query on `of` and one on `by`, in the geounits of a level.
            level: its name.
            geocodes: `(n_geounits,)`.
        """

    @abstractmethod
    def check_top(self, link: Any, top: Level, of: Constraints, by: Constraints) -> None:
        """Refuse what is exact of both universes at the top where the link cannot be kept.

        Args:
            link: between the universes.
            top: level of the spine.
            of, by: what either universe keeps, carried up the spine.

        Raises:
            InfeasibleError: the message names a geounit, and shows confidential invariants.
        """


def link_checks(link: Link) -> LinkChecks | None:
    """What checks the records of two linked universes; None where nothing of a feature compares them."""
    return cast("LinkChecks | None", import_module("features.confidential_registry").link_checks(type(link)))


def check_universe(job: Job, universe: Universe, facilities: Mapping[str, Sequence[IntArray]]) -> list[str]:
    """Refuse, before anything is spent, impossible records and constraints that no release could keep.

    Args:
        job: the run.
        universe: whose records and constraints are checked; the release's own after all others are counted.
        facilities: universe -> of each of its bounds, `(n_geounits, n_columns)`.

    Returns:
        What is odd, one sentence each; the sentences show confidential counts.

    Raises:
        RecordsError: there are impossible records; the message shows confidential counts.
        InfeasibleError: the constraints contradict each other; the message shows confidential counts.
    """
    by_name = {one.name: one for one in job.universes}
    found = [(link, by_name[link.by], link_checks(link)) for link in job.links if link.of == universe.name]
    links = [(link, other, checks) for link, other, checks in found if checks is not None]
    own, leaves = facilities[universe.name], job.spine.levels[-1]
    at = {level for level, _ in universe.invariants} | {bound.level for bound in universe.bounds} | {leaves.name}
    invariants: dict[tuple[str, str], IntArray] = {}
    broken: dict[int, str] = {}
    of_links: list[str] = []
    for level in job.spine.levels:  # one histogram after the other: those of a country are large
        if level.name not in at:
            continue
        counts = true_histogram(job, universe, level.name)
        if level is leaves:
            check_total(universe, int(np.abs(counts.data).sum()))
            check_records_possible(universe, counts)
            _check_same_records(job, universe, counts)
            for link, other, checks in links:
                pairs = partial(_answer_pairs, counts, true_histogram(job, other, leaves.name))
                of_links += checks.broken(link, pairs, leaves.name, leaves.geocodes)
        invariants |= {
            (name, query.name): query.answer_csr(counts) for name, query in universe.invariants if name == level.name
        }
        broken |= broken_bounds(universe, level, own, counts)
        del counts
    declared = declared_constraints(universe, job.spine, facility_bounds(universe, own), invariants)
    gaps = check_constraints(universe, job.spine, declared)
    if links:
        carried = carried_constraints(job.spine, declared)
        for link, other, checks in links:
            checks.check_top(link, job.spine.levels[0], carried, _carried_of(job, other, facilities))
    return [*gaps, *(broken[number] for number in sorted(broken)), *of_links]


def _check_same_records(job: Job, universe: Universe, counts: sp.csr_array) -> None:
    """Refuse records that changed between the readings for universes that are estimated together.

    Each is compared with the one before it with which it has the most attributes in common, by what the records say of
    these; so all have as many records in every leaf. What holds in the leaves holds in all geounits above them.

    Args:
        job: the run.
        universe: one that is counted, as are those before it.
        counts: its confidential histogram of the leaves.

    Raises:
        RecordsError: they differ; the message shows confidential counts.
    """
    before = job.universes[: [one.name for one in job.universes].index(universe.name)]
    if universe.together is None or not before:
        return
    shared = [[name for name in universe.schema.names if name in one.schema.names] for one in before]
    names, other = max(zip(shared, before, strict=True), key=lambda pair: len(pair[0]))
    text, leaves = " * ".join(names) or "total", job.spine.levels[-1]
    own, others = Query.parse(text, universe.schema), Query.parse(text, other.schema)
    other_counts = true_histogram(job, other, leaves.name)
    step = max(1, ANSWERS_AT_ONCE // own.size)
    for start in range(0, len(leaves), step):
        rows = slice(start, start + step)
        found, needed = own.answer_csr(counts[rows]), others.answer_csr(other_counts[rows])
        if (found != needed).any():
            row, answer = (int(place[0]) for place in np.nonzero(found != needed))
            raise RecordsError(
                f"{universe.key('input')}: these are not the records that were counted for {other.key('input')}: first "
                f"in {leaves.geocodes[start + row]}, {own.answer_labels()[answer]!r}, "
                f"{counted(int(found[row, answer]), 'record')} and there {int(needed[row, answer]):,}. The file was "
                "changed while it was read, once for each universe: run again when nothing writes to it"
            )


def _carried_of(job: Job, universe: Universe, facilities: Mapping[str, Sequence[IntArray]]) -> Constraints:
    """What a universe keeps, carried up the spine; its invariants are confidential until they are published."""
    invariants = {
        (level, query.name): query.answer_csr(true_histogram(job, universe, level))
        for level, query in universe.invariants
    }
    bounds = facility_bounds(universe, facilities[universe.name])
    return carried_constraints(job.spine, declared_constraints(universe, job.spine, bounds, invariants))


def _answer_pairs(of: sp.csr_array, by: sp.csr_array, own: Query, other: Query) -> Iterator[tuple[IntArray, IntArray]]:
    """See `AnswerPairs`; `of` and `by` are confidential histograms of a level, `(n_geounits, n_cells)`."""
    step = max(1, ANSWERS_AT_ONCE // max(own.size, other.size))
    for start in range(0, of.shape[0], step):
        rows = slice(start, start + step)
        yield own.answer_csr(of[rows]), other.answer_csr(by[rows])


@dataclass(frozen=True, eq=False)
class Carried:
    """What a release in a series adds to its noisy answers, which are multiplied: periods before, public and true.

    Attributes:
        times: by how much true answers are multiplied.
        answers: those `(stop - start, size)` of a query, of the geounits of the level from `start` to `stop`.
    """

    times: int
    answers: Callable[[Query, int, int], IntArray]


def _context(job: Job, fingerprint: str, universe: Universe) -> tuple[str, str, str]:
    """What all noise of a universe is bound to: records, spine and all that its distribution depends on."""
    return fingerprint, job.spine.fingerprint(), universe.privacy_fingerprint()


def measure_level(
    job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str, carried: Carried | None = None
) -> None:
    """Publish the noisy answers of every query of which all are drawn at a level, and the exact ones of its invariants.

    The noise on answer a of geounit g is that at position g * size + a of the query's stream, whatever the batches and
    whichever geounits are bypassed. The stream's key depends on the records, the spine, and all that the distribution
    of the noise depends on.

    Args:
        job: the run.
        key: the run's master key.
        fingerprint: of the records, keyed, from `bound_fingerprints`.
        universe: the release's own, or a companion.
        level: name of the level.
        carried: of a release in a series whose numbers mix periods, what is added of the others.
    """
    folder = job.folder(universe)
    context = _context(job, fingerprint, universe)
    answers = [
        _Answers(folder.invariant(level, query.name), exact_header(level, query), query)
        for name, query in universe.invariants
        if name == level
    ]
    answers += [
        _Answers(
            folder.measurement(level, draw.query.name),
            header_of(draw),
            draw.query,
            tuple(sampler_for(noise) for noise in draw.drawn),
            key.stream_key(context, level, draw.query.name),
            draw.kinds,
            carried,
        )
        for draw in everywhere(universe.draws(job.spine))
        if draw.level == level and draw.drawn
    ]
    _write_answers(job, level, true_histogram(job, universe, level), answers)


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers to be written: the query, the file and the noise; without samplers they are exact.

    Attributes:
        samplers: one for each kind of geounit.
        kinds: `(n,)` the kind of each geounit of the level, -1 where it is not measured; None: all are of the first.
        carried: see `measure_level`.
    """

    target: Path
    header: MeasurementHeader
    query: Query
    samplers: tuple[Sampler, ...] = ()
    stream_key: bytes = b""
    kinds: NDArray[np.signedinteger] | None = None
    carried: Carried | None = None

    def of(self, counts: sp.csr_array, start: int) -> IntArray:
        """`(n_measured, size)` answers for the histograms of the geounits from `start` on, by whole numbers only.

        True answers of those that are not measured never leave this function.
        """
        shape = (counts.shape[0], self.query.size)
        if self.samplers and self.carried is None and self.kinds is None:  # most: the noise's own array is used
            answers = self._noise(0, start, shape)
            self.query.add_answers(counts, answers)
            return answers
        answers = self.query.answer_csr(counts)
        if self.samplers and self.carried is not None:
            answers = self.carried.times * answers + self.carried.answers(self.query, start, start + len(answers))
        if self.kinds is None:
            return answers + self._noise(0, start, shape) if self.samplers else answers
        kinds = self.kinds[start : start + len(answers)]
        for kind in np.unique(kinds[kinds >= 0]).tolist():
            rows = kinds == kind
            answers[rows] += self._noise(kind, start, shape)[rows]
        return answers[kinds >= 0]

    def _noise(self, kind: int, start: int, shape: tuple[int, int]) -> IntArray:
        """The noise at the positions of the geounits from `start` on, as if all were of one kind."""
        return self.samplers[kind].draw(self.stream_key, start * self.query.size, shape[0] * shape[1]).reshape(shape)

    def write(self, writer: MeasurementWriter, geocodes: NDArray[np.str_], start: int, answers: IntArray) -> None:
        """Append what `of` gives for the geounits from `start` on, whose codes are given."""
        if self.kinds is None:
            writer.write(geocodes, answers)
            return
        kinds = self.kinds[start : start + len(geocodes)]
        writer.write(geocodes[kinds >= 0], answers, kinds[kinds >= 0])


def _write_answers(job: Job, level: str, counts: sp.csr_array, answers: Sequence[_Answers]) -> None:
    """Write the answers of all geounits of a level, a lot of geounits at a time.

    While threads write a lot, each file in its order, others draw the next; so two lots are in memory. The largest file
    comes first: to write it takes most of the time, and it waits for no other.
    """
    geocodes = job.spine.level(level).geocodes
    answers = sorted(answers, key=lambda file: -file.query.size)
    step = max(1, ANSWERS_AT_ONCE // max([1, *(file.query.size for file in answers)]))
    with ExitStack() as stack:
        writers = [
            stack.enter_context(MeasurementWriter.open(file.target, job.run.staging, file.header)) for file in answers
        ]
        threads = ThreadPoolExecutor(job.workers.count)
        stack.callback(threads.shutdown, cancel_futures=True)  # before the files are closed
        drawn = [threads.submit(file.of, counts[:step], 0) for file in answers]
        for start in range(0, len(geocodes), step):
            codes, following = geocodes[start : start + step], counts[start + step : start + 2 * step]
            lot, drawn, written = drawn, [], []
            for file, writer, values in zip(answers, writers, lot, strict=True):
                written.append(threads.submit(file.write, writer, codes, start, values.result()))
                if following.shape[0]:
                    drawn.append(threads.submit(file.of, following, start + step))
            for one in written:
                one.result()
            job.progress.advance(len(codes))


def select_versions(job: Job, key: MasterKey, fingerprint: str, universe: Universe, selection: Selection) -> None:
    """Publish the version that each geounit of the selection's level chose, and its noisy answers.

    The choice of geounit g is drawn at position g of its stream, and the noise on answer a at g * size + a of another,
    size being that of the most detailed version, whichever is chosen. Both keys depend on all that those of
    measurements depend on (see `measure_level`).

    Args:
        job: the run.
        key: the run's master key.
        fingerprint: of the records, keyed, from `bound_fingerprints`.
        universe: the release's own, or a companion.
        selection: what is chosen, at which level.
    """
    context = _context(job, fingerprint, universe)
    select, level, size = selection.select, selection.level, selection.size
    choosing = key.stream_key(context, level, select.stream_name)
    measuring = key.stream_key(context, level, select.measured_name)
    sampler = sampler_for(selection.noise)
    counts = true_histogram(job, universe, level)
    geocodes = job.spine.level(level).geocodes
    step = max(1, ANSWERS_AT_ONCE // size)

    def parts() -> Iterator[Selected]:
        for start in range(0, len(geocodes), step):
            part = counts[start : start + step]
            n = part.shape[0]
            chosen = select.choose(choosing, np.asarray(part.sum(axis=1), dtype=np.int64).reshape(n), start)
            values = sampler.draw(measuring, start * size, n * size).reshape(n, size)
            for number, query in enumerate(selection.versions):
                rows = chosen == number
                values[rows, : query.size] += query.answer_csr(part[rows])
            values[~answered(selection, chosen)] = 0
            yield Selected(geocodes[start : start + step], chosen, values)
            job.progress.advance(n)

    target = job.folder(universe).selected(selection.name, selection.level)
    write_selected(target, job.run.staging, selection, parts())


def measure_positive(job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
    """Publish of a level's queries with `where_positive` the noisy answers that are positive in the released parent.

    The noise on answer a of geounit g is that at position g * size + a of the query's stream, as where all are drawn.

    Args:
        job: the run, whose level above is released.
        key: the run's master key.
        fingerprint: of the records, keyed, from `bound_fingerprints`.
        universe: the release's own, or a companion.
        level: name of the level.
    """
    folder = job.folder(universe)
    context = _context(job, fingerprint, universe)
    above = job.spine.levels[job.spine.index_of(level) - 1]
    released = read_histogram(folder.readable(folder.histogram(above.name)), above.geocodes, universe.schema)
    counts, geounits = true_histogram(job, universe, level), job.spine.level(level)
    for own in universe.draws(job.spine):
        if own.level != level or not own.where_positive:
            continue
        query, (noise,) = own.query, own.drawn
        draw = partial(sampler_for(noise).draw_at, key.stream_key(context, level, query.name))
        parts = _drawn(counts, geounits, query, PositivePlaces.of(released, query), draw)
        target = folder.positive(level, query.name)
        write_positive(target, job.run.staging, header_of(own), geounits.geocodes, parts)
    job.progress.advance(len(geounits))


def _drawn(
    counts: sp.csr_array, geounits: Level, query: Query, places: PositivePlaces, draw: Callable[[IntArray], IntArray]
) -> Iterator[sp.csr_array]:
    """The noisy answers at `places` of the parents of a level's geounits, `(n, size)`, some geounits at a time."""
    ends = np.cumsum(np.diff(places.starts)[geounits.parents])
    for first, last in pairwise(_lots(ends)):
        part = places.below(geounits.parents[first:last])
        noise = draw((first + part.rows) * query.size + part.answers)
        values = true_answers(counts[first:last], query, part) + noise
        yield sp.csr_array((values, part.answers, part.starts), shape=(last - first, query.size))


def _lots(ends: IntArray) -> list[int]:
    """The first geounit of each lot that is in memory at a time, and their number; given how many answers end there."""
    return [0, *(int(at) + 1 for at in np.flatnonzero(np.diff(ends // ANSWERS_AT_ONCE))), len(ends)]


def true_answers(counts: sp.csr_array, query: Query, due: PositivePlaces) -> IntArray:
    """The confidential answers of a query at some places of histograms `(n, n_cells)`, `(n_places,)` int64."""
    rows = np.repeat(np.arange(counts.shape[0], dtype=np.int64), np.diff(counts.indptr))
    found, place = np.unique(rows * query.size + query.cell_answer[counts.indices], return_inverse=True)
    sums = np.zeros(len(found) + 1, dtype=np.int64)
    np.add.at(sums, place.ravel(), counts.data)
    wanted = due.rows * query.size + due.answers
    at = np.searchsorted(found, wanted)
    there = np.append(found, -1)[at] == wanted
    return np.where(there, sums[at], 0)
