"""How far the release is from the confidential counts: restricted/accuracy.json, for the agency alone."""

from __future__ import annotations

import numpy as np

from flows.confidential import true_histogram
from flows.estimate import Estimation
from flows.job import Job
from flows.refusals import shielded
from pipeline.files import write_json


def write_accuracy(job: Job) -> None:
    """Write, for each universe, table and level, the mean over geounits of the L1 error, in persons.

    The L1 error of a geounit is the sum over the table's numbers of |released - true|.
    """
    shielded(job.run, "accuracy", lambda: write_json(job.run.accuracy, accuracy_of(job), job.run.staging, private=True))


def accuracy_of(job: Job) -> dict[str, dict[str, dict[str, float]]]:
    """Universe -> table -> level -> mean L1 error."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for universe in job.universes:
        estimation = Estimation(job, universe)
        tables: dict[str, dict[str, float]] = {table.name: {} for table in universe.tables}
        for number, level in enumerate(job.spine.levels):
            difference = (estimation.released(number) - true_histogram(job, universe, level.name)).tocsr()
            for table in universe.tables:
                errors = np.abs(table.query.answer_csr(difference)).sum(axis=1)
                tables[table.name][level.name] = float(errors.mean())
            job.progress.advance(len(level))
        found[universe.name] = tables
    return found
