"""An answer combined with a published release: post-processing of public files, which costs nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.estimation.question_answers import estimated_together
from pipeline.execution.settings import load_settings
from pipeline.published import PublishedRelease, open_finished
from pipeline.publishing.answers import used_answers
from pipeline.questions.manifest import (
    MANIFEST,
    MEASUREMENTS,
    AnswerManifest,
    read_answer,
    unchanged_answer_file,
)
from pipeline.questions.released.added import refuse_drawn_twice
from pipeline.questions.released.cells import sums_of_answer
from pipeline.questions.released.combined import (
    COMBINED,
    SUMMARY,
    Combination,
    Combined,
    combined_bytes,
    read_combination,
    summary_bytes,
    summary_of,
)
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.tables import read_measurements
from pipeline.release.layout import RunDirectory
from pipeline.release.software import software
from pipeline.storage.files import sha256_file, write_bytes


def combine_answer(run: RunDirectory, release: Path) -> Combination:
    """Write combined.csv and combined.json of an answer and a finished release into the answer's public/.

    Raises:
        NoSumOfCellsError: the answer's numbers are no sums of the release's counts.
        InputError: the release is of other areas, another schema or dataset, or too large.
        ReleaseError: a file of answer or release was changed.
    """
    table, stated = combination(run, open_finished(release, check_hashes=True))
    write_bytes(run.public / COMBINED, table, run.staging)
    write_bytes(run.public / SUMMARY, summary_bytes(stated), run.staging)
    return stated


def combination(run: RunDirectory, release: PublishedRelease) -> tuple[bytes, Combination]:
    """combined.csv and what combined.json states, of an answer's public files and a release."""
    manifest = read_answer(run)
    try:
        refuse_drawn_twice([*used_answers(release.run, release.unchanged, release.spec), manifest])
    except InputError as error:
        raise InputError(f"{release.run.root}: was made with this answer, which says nothing more: {error}") from None
    combined = put_together(run.public, manifest, release)
    table = combined_bytes(combined)
    return table, summary_of(
        combined,
        manifest.framework,
        answer=manifest.answer,
        answer_sha256=sha256_file(run.public / MANIFEST),
        release=release.manifest.release,
        release_sha256=sha256_file(release.run.manifest),
        question=manifest.question,
        files={COMBINED: hashlib.sha256(table).hexdigest()},
        software=software(),
    )


def put_together(folder: Path, manifest: AnswerManifest, release: PublishedRelease) -> Combined:
    """The counts of an answer and those of a release.

    Args:
        folder: with the answer's public files.
        manifest: of the answer.
        release: finished.

    Raises:
        NoSumOfCellsError: the answer's numbers are no sums of the release's counts.
        InputError: the release is of other areas, another schema or dataset.
        PartByPartError: it is too large.
        ReleaseError: a file of answer or release is damaged.
    """
    sums, plan = sums_of_answer(manifest, release), manifest.plan()
    path = unchanged_answer_file(folder / MEASUREMENTS, manifest)
    measured = read_measurements(path, plan)
    if plan.question.level and [*measured.geocodes] != release.spine.level(sums.level).geocodes.tolist():
        raise ReleaseError(f"{path}: its rows are not the areas and groups of the question")
    counts, (part,) = measured.numbers["count"], plan.parts
    assert isinstance(part, MeasuredPart)
    found = estimated_together(release, sums, counts, part.noise.variance)
    histogram = release.histogram(release.universes[0], release.spine.level(sums.level))
    return Combined(
        measured.header, measured.keys, counts.ravel(), part.noise.variance,
        found.release.values.ravel(), found.release.variances.ravel(),
        found.both.values.ravel(), found.both.variances.ravel(),
        sums.picked(sums.query.answer_csr(histogram)).ravel(),
    )  # fmt: skip


def is_combined(run: RunDirectory) -> bool:
    """Whether an answer is combined with a release."""
    return (run.public / SUMMARY).is_file()


def release_of(run: RunDirectory, given: Path | None) -> Path | None:
    """The release that an answer is combined with: as given, or where `run` puts it; None where it is not there."""
    manifest = read_answer(run)
    folder = load_settings().out / manifest.release if given is None else given
    if given is None:
        public = RunDirectory(folder).manifest
        if not public.is_file() or sha256_file(public) != read_combination(run).release_sha256:
            return None
    return folder


def combination_problems(run: RunDirectory, manifest: AnswerManifest, release: Path | None) -> list[str]:
    """What is wrong with the combined numbers of an answer, a sentence each; without the release, as far as seen."""
    try:
        stated = read_combination(run)
    except ReleaseError as error:
        return [str(error)]
    path, problems = run.public / COMBINED, []
    if set(stated.files) != {COMBINED} or not path.is_file() or sha256_file(path) != stated.files[COMBINED]:
        problems.append(f"{COMBINED}: is not the file that {SUMMARY} states")
    own = (manifest.answer, sha256_file(run.public / MANIFEST), manifest.question)
    if own != (stated.answer, stated.answer_sha256, stated.question):
        problems.append(f"{SUMMARY}: is of another answer")
    if problems or release is None:
        return problems
    try:
        opened = open_finished(release, check_hashes=True)
        if sha256_file(opened.run.manifest) != stated.release_sha256:
            return [f"{SUMMARY}: is of another release than {release}"]
        table, again = combination(run, opened)
    except (InputError, ReleaseError) as error:
        return [f"{COMBINED}: cannot be computed again: {error}"]
    if table != path.read_bytes():
        problems.append(f"{COMBINED}: does not follow from {MEASUREMENTS} and the release")
    if again.model_copy(update={"software": stated.software}) != stated:
        problems.append(f"{SUMMARY}: does not follow from {MEASUREMENTS} and the release")
    return problems
