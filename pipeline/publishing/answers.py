"""Of a version that replaces another: counts of answers as measurements, and what changed against the version before.

Both follow from public files: the answers in `answers/`, and the tables of the version before in `replaced/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipeline.errors import ReleaseError
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.model.universe import Universe
from pipeline.publishing.files import published_tables
from pipeline.questions.manifest import MANIFEST, MEASUREMENTS, AnswerManifest, read_answer_file
from pipeline.questions.tables import read_measurements
from pipeline.release.changes import AnswerUsed, Changes, TextChange, changes_bytes, table_changes
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import MeasurementWriter, header_of
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.wording.corrections import text_changes
from pipeline.storage.files import write_bytes
from pipeline.storage.paths import Readable


def used_answers(
    run: RunDirectory, readable: Callable[[Path], Readable], spec: ReleaseSpec
) -> tuple[AnswerManifest, ...]:
    """The manifests of the answers that a version was made with, in order; ReleaseError where one is damaged.

    Args:
        readable: gives a file to be read, see `UniverseFiles`.
    """
    stated = () if spec.update is None else spec.update.answers
    return tuple(read_answer_file(readable(run.answer(one.name) / MANIFEST)) for one in stated)


def answer_steps(job: Job, universe: Universe) -> list[Step]:
    """The step that makes measurements of a universe's answers, if it has some."""
    folder = job.folder(universe)
    files = tuple(folder.measurement(one.level, one.query.name) for one in universe.added)
    if not files:
        return []
    return [Step("answers", partial(_take_in, job, universe), universe.name, geounits=len(files), files=files)]


def _take_in(job: Job, universe: Universe) -> None:
    """Write the counts of the answers as measurements of their levels."""
    folder = job.folder(universe)
    for one in universe.draws(job.spine):
        if one.asked is None:
            continue
        place = job.run.answer(one.query.name)
        plan = read_answer_file(job.readable(place / MANIFEST)).plan()
        measured = read_measurements(job.readable(place / MEASUREMENTS), plan)
        question, geocodes = plan.question, job.spine.level(one.level).geocodes
        found = plan.columns, sorted(question.terms), question.size, len(measured.geocodes)
        due = ["count"], sorted(one.query.terms), one.query.n_asked, len(geocodes)
        if found != due or (question.level and [*measured.geocodes] != geocodes.tolist()):
            raise ReleaseError(f"{place}: its numbers are not those that the spec states")
        # The terms stand in the order of the question, and have that of the schema.
        order = [1 + question.terms.index(term) for term in one.query.terms]
        counts = measured.numbers["count"].reshape(len(geocodes), *question.sizes).transpose(0, *order)
        counts = counts.reshape(len(geocodes), -1)
        target = folder.measurement(one.level, one.query.name)
        with MeasurementWriter.open(target, job.run.staging, header_of(one)) as writer:
            writer.write(geocodes, counts)
        job.progress.advance(1)


def change_steps(job: Job) -> list[Step]:
    """The step that compares a version with the one before, after all of its tables are written."""
    if job.spec.update is None:
        return []
    return [
        Step("changes", partial(_write_changes, job), geounits=len(published_tables(job)), files=(job.run.changes,))
    ]


def _write_changes(job: Job) -> None:
    update = job.spec.update
    assert update is not None
    tables = tuple(
        table_changes(universe, job.readable(job.run.before(path)), job.readable(path), len(job.spine.level(level)))
        for universe, level, path in published_tables(job)
    )
    before = ReleaseSpec.from_public_dict(read_manifest(job.run.before(job.run.manifest)).spec)
    known = {one.sha256 for one in before.update.answers} if before.update is not None else set()
    new = tuple(
        AnswerUsed(name=one.query.name, question=one.question, cost=str(one.cost), sha256=one.sha256)
        for one in job.universes[0].added
        if one.sha256 not in known
    )
    texts = tuple(
        TextChange(key=key, before=old, after=text)
        for key, old, text in text_changes(before.public_dict(), job.spec.public_dict())
    )
    changes = Changes(
        release=job.spec.name,
        version=update.version,
        replaces=update.replaces,
        answers=new,
        tables=tables,
        texts=texts,
    )
    write_bytes(job.run.changes, changes_bytes(changes), job.run.staging)
    job.progress.advance(len(tables))
