"""How far the release is from the confidential counts: accuracy.json and accuracy.html, for the agency alone."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from geography.spine import Level
from pipeline.confidential.measure import true_histogram
from pipeline.confidential.refusals import shielded
from pipeline.confidential.truth import TableErrors, accuracy_page
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.job import Job
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.universe import Table, Universe
from pipeline.pages.words import Called
from pipeline.release.spine import read_public_names
from pipeline.release.tables import read_table_parts, small_parts
from pipeline.storage.files import write_bytes, write_json

#: Answers in memory at a time.
_AT_ONCE = 1 << 24


def write_accuracy(job: Job) -> None:
    """Write to restricted/ how far the release is from the truth.

    accuracy.json has, for each universe, table and level, the mean over geounits of the L1 error, in persons: the sum
    over the table's numbers of |released - true|. accuracy.html shows the rest, see `pipeline.confidential.truth`.
    """
    shielded(job.run, "accuracy", lambda: _write(job))


def _write(job: Job) -> None:
    write_json(job.run.accuracy, accuracy_of(job), job.run.staging, private=True)
    texts = texts_in(job.spec.report.language)
    universes = [
        (job.spec.labels(universe.name).records or universe.name or texts("people"), errors_of(job, universe))
        for universe in job.universes
    ]
    page = accuracy_page(job.spec.name, job.status, universes, texts)
    write_bytes(job.run.accuracy_page, page.encode(), job.run.staging, private=True)


def errors_of(job: Job, universe: Universe) -> list[TableErrors]:
    """The errors of each published table at each of its levels."""
    all_errors = []
    for level in job.spine.levels:
        truth = true_histogram(job, universe, level.name)
        for table in universe.tables:
            if level.name not in table.levels:
                continue
            errors = TableErrors(table.name, level.name, _called(job, universe, table, level))
            start = 0
            file = job.readable(job.folder(universe).table(table.name, level.name))
            for part in small_parts(read_table_parts(file, geocodes=level.geocodes)):
                stop = start + len(part.geocodes)
                errors.add(part, table.query.answer_csr(truth[start:stop]))
                start = stop
            all_errors.append(errors)
    return sorted(
        all_errors, key=lambda errors_of_table: [table.name for table in universe.tables].index(errors_of_table.table)
    )


def _called(job: Job, universe: Universe, table: Table, level: Level) -> Called:
    """By the published names and labels, in the language of the report."""
    labels, stated = job.spec.labels(universe.name), (job.spec.geography.names or {}).get(level.name)
    names: list[str] = []
    if stated is not None:
        found = read_public_names(
            job.readable(job.run.names(level.name)), level.name, level.geocodes, tuple(stated.name)
        )
        names = found.in_language(job.spec.report.language or "")
    return Called(
        table=labels.table(table.name),
        level=labels.level(level.name),
        labels=labels.columns(table.query),
        names=dict(zip(level.geocodes.tolist(), names, strict=False)),
    )


def accuracy_of(job: Job) -> dict[str, dict[str, dict[str, float]]]:
    """Universe -> table -> level -> mean L1 error."""
    mean_errors: dict[str, dict[str, dict[str, float]]] = {}
    for universe in job.universes:
        estimation = Estimation(job, universe)
        tables: dict[str, dict[str, float]] = {table.name: {} for table in universe.tables}
        for number, level in enumerate(job.spine.levels):
            difference = (estimation.released(number) - true_histogram(job, universe, level.name)).tocsr()
            for table in universe.tables:
                tables[table.name][level.name] = _mean_error(table.query, difference)
            job.progress.advance(len(level))
        mean_errors[universe.name] = tables
    return mean_errors


def _mean_error(query: Query, difference: sp.csr_array) -> float:
    """Mean over geounits of the L1 norm of a query's answers, computed for some geounits at a time."""
    step = max(1, _AT_ONCE // query.size)
    parts = range(0, difference.shape[0], step)
    total = sum(int(np.abs(query.answer_csr(difference[start : start + step])).sum()) for start in parts)
    return total / difference.shape[0]
