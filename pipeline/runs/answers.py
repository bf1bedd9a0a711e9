"""The public files of an answer: whether they are those of its manifest and follow from what was drawn.

And an answer combined with a published release: post-processing of public files, which costs nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from pipeline.errors import InputError, ReleaseError
from pipeline.estimation.question_answers import estimated_together
from pipeline.execution.settings import load_settings
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.published import PublishedRelease, open_finished
from pipeline.publishing.answers import used_answers
from pipeline.questions.manifest import (
    ANSWER,
    MANIFEST,
    MEASUREMENTS,
    AnswerManifest,
    fields_of,
    manifest_bytes,
    read_answer,
    unchanged_answer_file,
)
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.released.added import refuse_drawn_twice
from pipeline.questions.released.cells import sums_of_answer
from pipeline.questions.released.combined import (
    COMBINED,
    SUMMARY,
    Combination,
    Combined,
    combined_bytes,
    read_combination,
    summary_of,
)
from pipeline.questions.resolved import RECORDS
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.stated_domain import compared_by_order, stated_domain
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.questions.text import parse
from pipeline.release.layout import RunDirectory
from pipeline.release.software import software
from pipeline.storage.files import sha256_file, write_bytes, write_json
from pipeline.storage.paths import unchecked

#: Fields of an answer's manifest that no public file implies, so that their form is all that is compared; all but
#: "release" and "software" are compared by an audit with the key and the ledger, and the areas with those of a release.
FORM_ALONE: Final = (
    "answer", "release", "geography", "key_salt", "key_commitment", "input_fingerprint",
    "receipts (ledger, number, hash)", "software",
)  # fmt: skip


def form_alone(manifest: AnswerManifest, release: Path | None = None) -> tuple[str, ...]:
    """Fields of an answer of which the form is all that is compared, with the release given beside it, if one is."""
    recodes = {one.name for one in manifest.domain.recodes}
    labels = ("domain.recodes (labels that are compared by order)",)
    return (
        *(field for field in FORM_ALONE if field != "geography" or release is None),
        *(labels if recodes & compared_by_order(parse(manifest.question)) else ()),
    )


def verify_answer(run: RunDirectory, release: Path | None = None) -> list[str]:
    """What is wrong with an answer, by its public files alone: a sentence each; empty if nothing is.

    Args:
        run: the answer.
        release: that it is combined with, or of the same areas; without it combined numbers are not computed again.

    Raises:
        ReleaseError: the manifest cannot be read.
    """

    manifest, combined = read_answer(run), is_combined(run)
    problems = [*answer_problems(run.public, manifest), *_unlisted(run, manifest, combined)]
    if problems or not combined:
        return problems + ([] if problems or release is None else _areas_problems(manifest, release))
    return combination_problems(run, manifest, release)


def _areas_problems(manifest: AnswerManifest, release: Path) -> list[str]:
    if open_finished(release, check_hashes=True).spine.fingerprint() == manifest.geography:
        return []
    return [f"{MANIFEST}: geography: is not that of the areas of {release}"]


def _unlisted(run: RunDirectory, manifest: AnswerManifest, combined: bool) -> list[str]:
    listed = {*manifest.files, MANIFEST, run.answer_signature.name, *((COMBINED, SUMMARY) if combined else ())}
    found = sorted(run.public.iterdir())
    links = [f"{path.name}: is a link" for path in found if path.name in listed and path.is_symlink()]
    return [*links, *(f"{path.name}: is not listed" for path in found if path.name not in listed)]


def answer_problems(folder: Path, manifest: AnswerManifest) -> list[str]:
    """What is wrong with the public files of an answer in a folder, and with its costs.

    All of answer.json is computed again from its question, domain, budget and noisy numbers, and compared byte by byte.
    Stated, and not computed, are the fields of `FORM_ALONE`: these are bound by a signature, by the ledger and by
    `rerun`.

    Args:
        folder: with the files.
        manifest: of the answer, as it was read from them.
    """
    if problems := [*_file_problems(folder, manifest), *statement_problems(manifest)]:
        return problems
    try:
        stated = manifest.plan()
        measured = read_measurements(unchecked(folder / MEASUREMENTS), stated)  # just hashed
        # As rows say it, and not as the question: a unit has the same number of records in all of them.
        apart = [number for number, name in enumerate(measured.header) if name != RECORDS]
        plan = replace(stated, numbers=len({tuple(key[n] for n in apart) for key in measured.keys}))
        recomputed = answer_bytes(plan, measured)
    except ReleaseError as error:
        return [str(error)]
    problems = _unlike_plan(manifest, plan)
    if manifest_bytes(manifest) != (folder / MANIFEST).read_bytes():
        problems.append(f"{MANIFEST}: is not written as this program writes it: it has other bytes than what it states")
    if recomputed != (folder / ANSWER).read_bytes():
        problems.append(f"{ANSWER}: does not follow from {MEASUREMENTS}")
    return problems


def statement_problems(manifest: AnswerManifest) -> list[str]:
    """What the manifest of an answer states otherwise than its question gives, and the ledger was charged.

    Of units that are counted, in how many numbers they can be follows from the measurements.
    """
    unit = BUDGET_NAMES[manifest.framework]
    charged = [(one.dataset, one.unit, one.cost, one.exact) for one in manifest.receipts]
    problems = []
    if charged != [(manifest.dataset, unit, str(manifest.cost), ())]:
        found = "; ".join(f"{cost} ({unit}) to {dataset!r}" for dataset, unit, cost, _ in charged) or "nothing"
        problems.append(f"it costs {manifest.cost} ({unit}) of {manifest.dataset!r}, and charged was {found}")
    if manifest.cost > Fraction(manifest.budget):
        problems.append(f"it costs {manifest.cost} ({unit}), and its budget is {manifest.budget}")
    try:
        return problems + _unlike_plan(manifest, manifest.plan())
    except ReleaseError as error:
        return [*problems, str(error)]


def _unlike_plan(manifest: AnswerManifest, plan: QuestionPlan) -> list[str]:
    """The fields of a manifest that are other than its question and domain give."""
    domain = stated_domain(parse(manifest.question), plan.question, manifest.known())
    return [
        f"{MANIFEST}: {name}: is not what its question and domain give"
        for name, due in fields_of(plan, domain).items()
        if getattr(manifest, name) != due
    ]


def _file_problems(folder: Path, manifest: AnswerManifest) -> list[str]:
    problems = []
    if sorted(manifest.files) != sorted([ANSWER, MEASUREMENTS]):
        return [f"{MANIFEST}: lists {', '.join(sorted(manifest.files))}; {ANSWER} and {MEASUREMENTS} are needed"]
    for name, stated in sorted(manifest.files.items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"{name}: is missing")
        elif sha256_file(path) != stated:
            problems.append(f"{name}: was changed: it has not the hash that the manifest states")
    return problems


def combine_answer(run: RunDirectory, release: Path) -> Combination:
    """Write combined.csv and combined.json of an answer and a finished release into the answer's public/.

    Raises:
        NoSumOfCellsError: the answer's numbers are no sums of the release's counts.
        InputError: the release is of other areas, another schema or dataset, or too large.
        ReleaseError: a file of answer or release was changed.
    """
    table, stated = combination(run, open_finished(release, check_hashes=True))
    write_bytes(run.public / COMBINED, table, run.staging)
    write_json(run.public / SUMMARY, stated.model_dump(mode="json"), run.staging)
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
    found = estimated_together(release, sums, counts, part.mechanism.variance)
    histogram = release.histogram(release.universes[0], release.spine.level(sums.level))
    return Combined(
        measured.header, measured.keys, counts.ravel(), part.mechanism.variance,
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
