"""Noisy answers that are drawn only where the released parent is positive; no true count decides where that is.

Which answers these are follows from the released histogram of the level above, by a function that is given nothing
else (`postprocess.positive`). So all that is published is a function of what the mechanism gives that draws every
answer, which is what was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from geography.spine import Level
from pipeline.confidential.measure import ANSWERS_AT_ONCE, true_histogram
from pipeline.execution.job import Job
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.histograms import read_histogram
from pipeline.release.measurements import header_of, write_positive
from postprocess.arrays import IntArray
from postprocess.positive import PositivePlaces


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
    context = (fingerprint, job.spine.fingerprint(), universe.privacy_fingerprint())
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
