"""A new version of a finished release, estimated from its measurements and those of answers: no records, no key."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from pipeline.errors import InputError, ReleaseError
from pipeline.execution.batch_store import Batches
from pipeline.execution.checkpoints import Checkpoints
from pipeline.execution.job import Job
from pipeline.execution.progress import Progress
from pipeline.execution.workers import Workers
from pipeline.published import PublishedRelease, open_finished
from pipeline.publishing.files import input_files, replaced_files
from pipeline.publishing.manifest import manifest_of
from pipeline.publishing.steps import perform_public_steps, public_steps
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest, read_answer_file
from pipeline.release.key_statement import KeyStatement
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import write_manifest
from pipeline.release.run_directory import open_run, recorded_identity
from pipeline.release.stated_beacon import stated_beacon
from pipeline.release.versions.changes import Changes, read_changes
from pipeline.runs.questions.public_files import answer_problems
from pipeline.runs.signers import require_signer
from pipeline.runs.updates.same_records import doubt_of_records
from pipeline.runs.updates.stated import updated_spec
from pipeline.signatures.signing_keys import PublicKey
from pipeline.storage.files import make_folder, sha256_file

__all__ = ["Updated", "update_release"]


@dataclass(frozen=True)
class Updated:
    """A new version.

    Attributes:
        root: its directory.
        changes: what changed in it.
        beyond_limits: what of its promise is beyond what is usual, a sentence each.
        doubts: of answers that may be of other records than the release, a sentence each.
    """

    root: Path
    changes: Changes
    beyond_limits: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


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
) -> Updated:
    """Make a new version of a release from all of its measurements and those of answers.

    Args:
        release: finished; it is not changed.
        answers: directories that `spinewise ask` made.
        out: the folder in which the new version's directory is made; one that was killed there is gone on with.
        workers: number of processes.
        progress: receives how far it is.
        signed_by: the key that release and answers must be signed by; needed where the release is signed.

    Raises:
        InputError: an answer cannot be used, is of other records, or is not signed as the release is; the release is
            not finished; or the directory is not empty.
        ReleaseError: a file of the release was changed.
    """
    before = open_finished(release, check_hashes=True)
    given = [_given(path) for path in answers]
    require_signer(before.run, [one.run for one in given], signed_by)
    replaces = sha256_file(before.run.manifest)
    spec = updated_spec(before, replaces, [(one.manifest, one.sha256, str(one.path)) for one in given])
    root = out / spec.name
    # A start that was killed has left what it did, and only the same update goes on with it.
    identity = {"updated": spec.name, "replaces": replaces, "answers": [one.sha256 for one in given]}
    if not _can_begin(RunDirectory(root), identity):
        raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
    existed, resumed = root.exists(), RunDirectory(root).record.exists()
    doubts = [doubt_of_records(one.path, one.folder, one.manifest, before) for one in given]
    with threadpool_limits(1), Workers(workers) as pool, open_run(root, identity) as run:
        # Again, now that no other process can change it.
        if run.manifest.exists() or (not resumed and any(run.public.iterdir())):
            raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
        try:
            job = replace(
                Job(run, spec, spec.universes(), before.spine, pool, progress, Batches(run)),
                status=before.manifest.status,
                receipts=list(before.manifest.receipts),
                beacon=stated_beacon(before.manifest),
            )
            _take_over(job, before, given)
            progress.begin(tuple(public_steps(job)))
            notes = perform_public_steps(job, checkpoints=Checkpoints(run))
            manifest = manifest_of(job, notes, _key_of(before))
            write_manifest(run, manifest)
            Batches(run).forget()
            said = tuple(doubt for doubt in doubts if doubt is not None)
            return Updated(root, read_changes(run.changes), manifest.beyond_limits, said)
        except BaseException:
            for made in (run.public, run.restricted, *(() if existed else (root,))):
                shutil.rmtree(made, ignore_errors=True)
            raise


def _can_begin(run: RunDirectory, identity: Mapping[str, object]) -> bool:
    """Whether a version may be made in a directory: it is empty, or holds the same one as a killed start left it."""
    if not run.root.exists() or (run.root.is_dir() and not any(run.root.iterdir())):
        return True
    if run.manifest.exists() or not run.restricted.is_dir():
        return False
    if run.record.exists():
        return recorded_identity(run) == identity
    return not any(run.public.glob("*")) and not run.key.exists()


def _given(path: Path) -> _Given:
    """An answer, its files checked; InputError where there is none, or it was changed."""
    folder = path if (path / MANIFEST).is_file() else path / "public"
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{path}: no answer is here; the directory of one is needed, as spinewise ask prints it")
    try:
        manifest = read_answer_file(folder / MANIFEST)
        problems = answer_problems(folder, manifest, of_release=True)
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
    replaced = set(replaced_files(job))
    for path in input_files(job):
        place = path.relative_to(job.run.public)
        if path in replaced:
            _copy(before.run.public / place.relative_to("replaced"), path)
        elif place.parts[0] != "answers" or place.parts[1] not in added:
            _copy(before.run.public / place, path)


def _copy(source: Path, target: Path) -> None:
    make_folder(target.parent)
    shutil.copyfile(source, target)


def _key_of(before: PublishedRelease) -> KeyStatement:
    """Of the key and the records that the release was measured with, which are those of every version."""
    manifest = before.manifest
    return KeyStatement(manifest.key_salt, manifest.key_commitment, manifest.input_fingerprints)
