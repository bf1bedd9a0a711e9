"""A new version of a finished release, made from its measurements alone or with those of answers: no records, no key.

One without new answers corrects texts for readers, and no number is another. It is checked that a version is what its
public files make it. Whether answers and release are of the same records, public files cannot prove: what both state of
their records is keyed and salted, so that nobody can compare records by it. Numbers can be compared. Two that are of
the same records differ by noise alone, whose size both state.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from pipeline.errors import InputError, ReleaseError, SpinewiseError
from pipeline.estimation.question_answers import PartByPartError
from pipeline.execution.batches import Batches
from pipeline.execution.faults import interruption_of, may_be_retried
from pipeline.execution.job import Job
from pipeline.execution.steps import Progress, listener_of
from pipeline.execution.workers import Workers
from pipeline.metadata.products import REPLACED, files_of
from pipeline.published import PublishedRelease, open_finished
from pipeline.publishing.answers import used_answers
from pipeline.publishing.files import input_files
from pipeline.publishing.steps import last_steps
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest, read_answer_file
from pipeline.questions.released.added import added_section, refuse_drawn_twice
from pipeline.release.changes import Changes, read_changes
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement, Manifest, read_manifest, version_differences
from pipeline.release.run_directory import open_run, recorded_identity
from pipeline.run import DrawSource, ReleaseRun
from pipeline.runs.answers import answer_problems, put_together
from pipeline.signatures.signing_keys import PublicKey
from pipeline.signatures.statement import require_signer
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.update import UpdateSection
from pipeline.spec.wording.corrections import Corrections, corrected, read_corrections, split_texts
from pipeline.storage.durable import make_folder
from pipeline.storage.files import differing_keys, json_sha256, sha256_file
from pipeline.storage.paths import unchecked


def updated_spec(
    before: PublishedRelease,
    used: Sequence[AnswerManifest],
    replaces: str,
    given: Sequence[tuple[AnswerManifest, str, str]],
) -> ReleaseSpec:
    """The spec of the next version of a release.

    Args:
        before: the version that it replaces.
        used: the answers that it was made with.
        replaces: SHA-256 of its manifest.
        given: of each answer that is added its manifest, the hash of it, and what messages call it.

    Raises:
        InputError: an answer cannot be used with this release, or is used already.
    """
    draws = [draw for universe in before.spec.universes() for draw in universe.draws()]
    if given and (drawn := [draw.query.name for draw in draws if draw.where_positive]):
        raise InputError(
            f"{before.run.root}: no version with answers is made of it: {drawn[0]!r} was drawn only where the released "
            "area above is positive, which such a version may change; use the answer beside the release"
        )
    earlier = before.spec.update
    refuse_drawn_twice([*used, *(manifest for manifest, _, _ in given)])
    sections = [] if earlier is None else list(earlier.answers)
    for manifest, sha256, path in given:
        if manifest.answer in {one.name for one in sections}:
            raise InputError(f"{path}: an answer called {manifest.answer!r} is used already; give it another --name")
        try:
            sections.append(added_section(manifest, sha256, before))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    section = UpdateSection(
        version=2 if earlier is None else earlier.version + 1,
        replaces=replaces,
        answers=tuple(sections),
    )
    return before.spec.updated(section)


@dataclass(frozen=True)
class Updated:
    """A new version.

    Attributes:
        root: its directory.
        changes: what changed in it.
        beyond_limits: what of its promise is beyond what is usual, a sentence each.
        doubts: of answers that may be of other records than the release, a sentence each.
        done_before: whether an earlier start had finished it, so that nothing was computed.
    """

    root: Path
    changes: Changes
    beyond_limits: tuple[str, ...]
    doubts: tuple[str, ...]
    done_before: bool = False


@dataclass(frozen=True, eq=False)
class _Given:
    """An answer that is to be added: where it is, its public files, and what they state."""

    path: Path
    folder: Path
    manifest: AnswerManifest
    sha256: str

    @property
    def run(self) -> RunDirectory:
        """The answer's directory."""
        return RunDirectory(self.folder.resolve().parent)


def update_release(
    release: Path,
    answers: Sequence[Path],
    out: Path,
    workers: int,
    progress: Progress,
    signed_by: PublicKey | None = None,
    texts: Path | None = None,
) -> Updated:
    """Make a new version of a release: from all of its measurements and those of answers, or with corrected texts.

    Args:
        release: finished; it is not changed.
        answers: directories that `spinewise ask` made.
        out: the folder in which the new version's directory is made. One that was stopped there, by a signal or by what
            may pass, such as a full disk, is gone on with; one that is finished is checked and returned.
        workers: number of processes.
        progress: receives how far it is.
        signed_by: the key that release and answers must be signed by; needed where the release is signed.
        texts: a file of corrections, in place of answers; see `read_corrections`.

    Raises:
        InputError: an answer cannot be used, is of other records, or is not signed as the release is; the release is
            not finished; the directory holds something else; or with corrected texts a number would be another.
        SpecError: the file has something else than texts for readers.
        ReleaseError: a file of the release, or of the finished version, was changed.
    """
    corrections = _corrections(answers, texts)
    before = open_finished(release, check_hashes=True)
    given = [_given(path) for path in answers]
    require_signer(before.run, [one.run for one in given], signed_by)
    replaces = sha256_file(before.run.manifest)
    used = used_answers(before.run, before.unchanged, before.spec)
    spec = updated_spec(before, used, replaces, [(one.manifest, one.sha256, str(one.path)) for one in given])
    if corrections is not None:
        spec = corrected(spec, corrections, str(texts))
    root = out / spec.name
    # A start that was stopped has left what it did, and only the same update goes on with it.
    identity: dict[str, object] = {"updated": spec.name, "replaces": replaces, "answers": [one.sha256 for one in given]}
    if corrections is not None:
        identity["texts"] = json_sha256(split_texts(spec.public_dict())[0])
    made = RunDirectory(root)
    done = made.manifest.exists() and _was_begun(made, identity)
    if not done and not _can_begin(made, identity):
        raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
    existed, resumed = root.exists(), made.record.exists()
    found = [doubt_of_records(one.path, one.folder, one.manifest, before) for one in given]
    doubts = tuple(doubt for doubt in found if doubt is not None)
    if done:
        version = open_finished(root, check_hashes=True)
        changes = read_changes(version.unchanged(version.run.changes))
        return Updated(root, changes, version.manifest.beyond_limits, doubts, done_before=True)
    with threadpool_limits(1), Workers(workers, told=listener_of(progress)) as pool, open_run(root, identity) as run:
        # Again, now that no other process can change it.
        if run.manifest.exists() or (not resumed and any(run.public.iterdir())):
            raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
        try:
            job = replace(
                Job(run, spec, spec.universes(), before.spine, pool, progress, Batches(run)),
                status=before.manifest.status,
                receipts=list(before.manifest.receipts),
            )
            _take_over(job, before, given)
            # Of the key and the records that the release was measured with, which are those of every version.
            stated = before.manifest
            key = KeyStatement(stated.key_salt, stated.key_commitment, stated.input_fingerprints)
            going = ReleaseRun(job, DrawSource(key), resumed=True)
            going.perform()
            manifest = going.manifest()
            if corrections is not None and (names := _others(job, before.manifest, manifest)):
                versions = "; ".join(version_differences(before.manifest)) or "spinewise verify may say why"
                raise InputError(
                    f"{before.run.root}: public/{names[0]} is computed otherwise than it was published, and a "
                    f"correction of texts changes no number; {versions}"
                )
            going.finish(manifest)
            return Updated(root, read_changes(job.readable(run.changes)), manifest.beyond_limits, doubts)
        except Exception as error:
            if interruption_of(error) is None and not may_be_retried(error):  # the same start would end so again
                for folder in (run.public, run.restricted, *(() if existed else (root,))):
                    shutil.rmtree(folder, ignore_errors=True)
            raise


def _corrections(answers: Sequence[Path], texts: Path | None) -> Corrections | None:
    """What is to be corrected; InputError where a version would have no reason, or two."""
    if answers and texts is not None:
        raise InputError(f"--texts: found {texts} together with --with; a version has new answers or corrected texts")
    if not answers and texts is None:
        raise InputError(
            "no answer was given; name at least one with --with, or a file of corrected texts for readers with --texts"
        )
    return None if texts is None else read_corrections(texts)


def _others(job: Job, before: Manifest, manifest: Manifest) -> list[str]:
    """The files that differ from those of the version before, but for what describes it and what it replaced."""
    describing = {job.run.name_of(path) for step in last_steps(job) for path in step.files}
    folders = tuple(
        f"{job.run.name_of(path.parent)}/" for path in (job.run.report_file(0), job.run.before(job.run.manifest))
    )
    differing = differing_keys(before.files, manifest.files)
    return [name for name in differing if name not in describing and not name.startswith(folders)]


def _can_begin(run: RunDirectory, identity: Mapping[str, object]) -> bool:
    """Whether a version may be made in a directory: it is empty, or holds what a stopped start of the same left."""
    if not run.root.exists() or (run.root.is_dir() and not any(run.root.iterdir())):
        return True
    if run.manifest.exists() or not run.restricted.is_dir():
        return False
    if run.record.exists():
        return _was_begun(run, identity)
    return not any(run.public.glob("*")) and not run.key.exists()


def _was_begun(run: RunDirectory, identity: Mapping[str, object]) -> bool:
    """Whether the directory holds this version, finished or not."""
    return run.record.exists() and recorded_identity(run) == identity


def _given(path: Path) -> _Given:
    """An answer, its files checked; InputError where there is none, or it was changed."""
    folder = path if (path / MANIFEST).is_file() else path / "public"
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{path}: no answer is here; the directory of one is needed, as spinewise ask prints it")
    try:
        manifest = read_answer_file(unchecked(folder / MANIFEST))
        problems = answer_problems(folder, manifest)
    except ReleaseError as error:
        raise InputError(str(error)) from None
    if problems:
        raise InputError(f"{path}: this answer does not verify: {problems[0]}")
    return _Given(path, folder, manifest, sha256_file(folder / MANIFEST))


def _take_over(job: Job, before: PublishedRelease, given: Sequence[_Given]) -> None:
    """Copy everything that the new version is computed from."""
    added = {one.manifest.answer: one.folder for one in given}
    for name, folder in added.items():
        for file in (MANIFEST, MEASUREMENTS, ANSWER):
            _copy(folder / file, job.run.answer(name) / file)
    replaced = set(files_of(job, REPLACED))
    for path in input_files(job):
        place = path.relative_to(job.run.public)
        if path in replaced:
            _copy(before.run.public / place.relative_to("replaced"), path)
        elif place.parts[0] != "answers" or place.parts[1] not in added:
            _copy(before.run.public / place, path)


def _copy(source: Path, target: Path) -> None:
    make_folder(target.parent)
    shutil.copyfile(source, target)


#: The share of answers of the same records that are refused.
_REFUSED: Final = 1e-9


def doubt_of_records(path: Path, folder: Path, manifest: AnswerManifest, release: PublishedRelease) -> str | None:
    """Why an answer and a release may be of other records, a sentence; None where nothing speaks for it.

    Args:
        path: what messages call the answer.
        folder: with its public files.
        manifest: of the answer.
        release: finished.

    Raises:
        InputError: they are of other records, but for a probability of one in a billion.
        ReleaseError: a file of either is damaged.
    """
    root = release.run.root
    try:
        combined = put_together(folder, manifest, release)
    except PartByPartError:
        return f"{path} was not compared with {root}, which is estimated part by part: are both of the same records?"
    surely, usual = combined.agreement(manifest.framework, _REFUSED), combined.agreement(manifest.framework)
    if not surely.agree:
        raise InputError(
            f"{path}: its counts are not of the records of {root}: the largest distance of {surely.numbers:,} numbers "
            f"is {surely.largest:g} standard deviations of their noise, and {surely.allowed:g} is exceeded with a "
            "probability of one in a billion"
        )
    if not usual.agree:
        return (
            f"{path} may not be of the records of {root}: the largest distance of {usual.numbers:,} numbers is "
            f"{usual.largest:g} standard deviations of their noise, and {usual.allowed:g} is exceeded with a "
            "probability of 0.1 %"
        )
    return None


#: What a version states as the one before does: it has the same noise, of the same records, charged once.
_KEPT = ("release", "status", "key_salt", "key_commitment", "input_fingerprints", "charging", "receipts")


def update_problems(job: Job, manifest: Manifest) -> list[str]:
    """What is wrong with a version that replaces another, a sentence each; empty for a first release.

    Args:
        job: a run with the version's public inputs.
        manifest: of the version.
    """
    if job.spec.update is None:
        return []
    try:
        return list(_problems(job, manifest))
    except SpinewiseError as error:
        return [f"the version that it replaces, or an answer, cannot be read: {error}"]


def _problems(job: Job, manifest: Manifest) -> Iterator[str]:
    update = job.spec.update
    assert update is not None
    path = job.run.before(job.run.manifest)
    before = read_manifest(path)
    if sha256_file(path) != update.replaces:
        yield f"public/{job.run.name_of(path)} is not the manifest of the version that the spec says it replaces"
        return
    replaced = set(files_of(job, REPLACED))
    for file in input_files(job):
        name = job.run.name_of(file)
        of = name.removeprefix("replaced/") if file in replaced else name
        if of == "manifest.json" or (of.startswith("answers/") and of not in before.files):
            continue
        if of not in before.files or before.files[of].sha256 != manifest.files[name].sha256:
            yield f"public/{name} is not that of the version before"
    for name in _KEPT:
        if getattr(before, name) != getattr(manifest, name):
            yield f"public/manifest.json: {name} is not that of the version before"
    used = used_answers(job.run, job.readable, job.spec)
    for one, stated in zip(used, update.answers, strict=True):
        yield from (
            f"public/answers/{stated.name}: {problem}" for problem in answer_problems(job.run.answer(stated.name), one)
        )
    spec = ReleaseSpec.from_public_dict(before.spec, "the manifest of the version before")
    new = len(update.answers) - (0 if spec.update is None else len(spec.update.answers))
    if not new:
        yield from (
            f"public/{name} is not that of the version before, of which texts alone were corrected"
            for name in _others(job, before, manifest)
        )
    yield from _spec_problems(job, before, spec, used)


def _spec_problems(job: Job, before: Manifest, spec: ReleaseSpec, used: tuple[AnswerManifest, ...]) -> Iterator[str]:
    """Whether the spec is that of the version before, `spec`, and states just what the answers are.

    Where there are no new ones, its texts for readers may be others.
    """
    update = job.spec.update
    assert update is not None
    known = 0 if spec.update is None else len(spec.update.answers)
    opened = PublishedRelease(job.run, before, spec, spec.universes(), job.spine)
    new = [
        (one, sha256_file(job.run.answer(stated.name) / MANIFEST), f"public/answers/{stated.name}")
        for one, stated in zip(used[known:], update.answers[known:], strict=True)
    ]
    expected, found = updated_spec(opened, used[:known], update.replaces, new).public_dict(), job.spec.public_dict()
    if not new:
        (_, expected), (_, found) = split_texts(expected), split_texts(found)
    if expected != found:
        yield "public/manifest.json: the spec is not that of the version before with these answers"
