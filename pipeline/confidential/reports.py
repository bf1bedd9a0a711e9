"""The confidential stages of a release from reports: they are counted, and their totals published without more noise.

The reports were randomised by their senders, so that the totals of any group of them may be published. They are
confidential input all the same: which report came from where is nobody's business, and the file may hold more.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geography.codes import counted
from geography.spine import Spine
from pipeline.collect.collected import Collected
from pipeline.collect.collected_words import CollectedWords
from pipeline.collect.unlisted import UNLISTED, bits_of, unlisted_of
from pipeline.errors import RecordsError
from pipeline.execution.job import Job
from pipeline.model.allocation import allocations
from pipeline.model.strategy import Central
from pipeline.model.universe import Universe
from pipeline.privacy.budget import farthest
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.public_inputs import CENTRAL
from pipeline.records.reports import CountedReports, count_reports
from pipeline.release.measurements import (
    MeasurementHeader,
    MeasurementWriter,
    exact_header,
    header_of,
    read_measurement,
)
from pipeline.storage.files import write_json
from pipeline.survey.survey import survey_of

#: Half of the share of releases of the same persons that are refused: tails of whole numbers are up to twice as heavy.
_FALSE_ALARM: Final = 5e-7


def tabulate_reports(job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
    """Count the reports of each leaf, and keep what is counted in restricted/.

    Returns:
        The keyed fingerprint of what is counted, and a sentence on reports that are not used.

    Raises:
        RecordsError: the file cannot be read, or has reports that cannot be used and the spec does not say to count
            them; the message may show what is in the file, and names no respondent.
    """
    records, collected = universe.require_input(), survey_of(universe).collected
    drawing = key.keyed_hash(f"one report of each respondent/{universe.name}", b"")
    found = count_reports(records, collected, job.spine, bytes.fromhex(drawing), whole=bits_of(collected))
    if records.bad_reports != "count":
        found.log.raise_if_any()
    if not found.reports.any():
        raise RecordsError(f"{records.file}: no report can be used; at least one is needed")
    if (wrong := _contradiction(universe, job.spine, job.inputs.of(CENTRAL)[0], found.reports)) is not None:
        raise RecordsError(wrong)
    digest = hashlib.sha256(b"spinewise reports 1\0")
    for part in (found.totals, found.reports, np.array(list(found.unused.values())), found.whole):
        digest.update(np.array([*part.shape], dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    _keep(job, universe, found, _beside(collected, found))
    unused = sum(found.unused.values())
    remarks = [f"{universe.key('input')}: {counted(unused, 'report')} cannot be used"] if unused else []
    return key.keyed_hash(f"input/{universe.name}", digest.digest()), remarks


def measure_reports(job: Job, universe: Universe, level: str) -> None:
    """Publish the totals of the reports of each leaf, how many there are, and what is said beside them."""
    folder, leaves = job.folder(universe), job.spine.levels[-1]
    totals, reports = (read_measurement(folder.counted_reports(name)).values for name in ("totals", "numbers"))
    allocation = allocations(universe, job.spine, reports[:, 0])[-1]
    (measured,) = allocation.strategy.queries
    (invariant,) = (query for name, query in universe.invariants if name == level)
    header = header_of(universe, allocation, measured)
    with MeasurementWriter.open(folder.measurement(level, measured.query.name), job.run.staging, header) as writer:
        writer.write(leaves.geocodes, totals, allocation.kinds)
    header = exact_header(level, invariant)
    with MeasurementWriter.open(folder.invariant(level, invariant.name), job.run.staging, header) as writer:
        writer.write(leaves.geocodes, reports)
    beside = json.loads(folder.counted_reports("beside").read_bytes())
    write_json(job.run.reports, {"mechanism": survey_of(universe).mechanism.name, **beside}, job.run.staging)
    job.progress.advance(len(leaves))


def _beside(collected: Collected, found: CountedReports) -> dict[str, object]:
    """How many reports are used, and how many not; of words, whether frequent ones seem to be missing."""
    numbers: dict[str, object] = {"used": int(found.reports.sum()), "not used": found.unused}
    if not isinstance(collected, CollectedWords):
        return numbers
    unlisted = unlisted_of(collected, found.totals, found.whole)
    return {**numbers, UNLISTED: None if unlisted is None else unlisted.data(collected)}


def _keep(job: Job, universe: Universe, found: CountedReports, beside: Mapping[str, object]) -> None:
    folder = job.folder(universe)
    for name, values in (("totals", found.totals), ("numbers", found.reports[:, None])):
        _write(job, folder.counted_reports(name), values)
    write_json(folder.counted_reports("beside"), beside, job.run.staging, private=True)
    job.progress.advance(job.n_geounits)


def _write(job: Job, target: Path, values: NDArray[np.int64]) -> None:
    leaves = job.spine.levels[-1]
    header = MeasurementHeader(leaves.name, target.stem, values.shape[1], "exact", Fraction(0), 0.0)
    with MeasurementWriter.open(target, job.run.staging, header, private=True) as writer:
        writer.write(leaves.geocodes, values)


def _contradiction(
    universe: Universe, spine: Spine, counts: Mapping[str, NDArray[np.int64]], reports: NDArray[np.int64]
) -> str | None:
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
    variance = float(noise.scale) if noise.mechanism == "discrete_gaussian" else 2 * float(noise.scale) ** 2
    return farthest(central.framework, areas, _FALSE_ALARM) * math.sqrt(cells * variance)
