"""Private choice of how detailed a table is in each geounit of a level, and the measurement of the chosen version."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.confidential.measure import true_histogram
from pipeline.execution.job import Job
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.selected import Selected, answered, write_selected

#: Answers with noise in memory at a time.
_AT_ONCE = 1 << 22


def select_versions(job: Job, key: MasterKey, fingerprint: str, universe: Universe, selection: Selection) -> None:
    """Publish the version that each geounit of the selection's level chose, and its noisy answers.

    The choice of geounit g is drawn at position g of its stream, and the noise on answer a at g * size + a of another,
    size being that of the most detailed version, whichever is chosen. Both keys depend on all that those of
    measurements depend on (see `confidential.measure_level`).

    Args:
        job: the run.
        key: the run's master key.
        fingerprint: of the records, keyed.
        universe: the release's own, or a companion.
        selection: what is chosen, at which level.
    """
    target = job.folder(universe).selected(selection.name, selection.level)
    write_selected(target, job.run.staging, selection, _parts(job, key, fingerprint, universe, selection))


def _parts(job: Job, key: MasterKey, fingerprint: str, universe: Universe, selection: Selection) -> Iterator[Selected]:
    context = (fingerprint, job.spine.fingerprint(), universe.privacy_fingerprint())
    select, level, size = selection.select, selection.level, selection.size
    choosing = key.stream_key(context, level, select.stream_name)
    measuring = key.stream_key(context, level, select.measured_name)
    sampler = sampler_for(selection.noise)
    counts = true_histogram(job, universe, level)
    geocodes = job.spine.level(level).geocodes
    step = max(1, _AT_ONCE // size)
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
