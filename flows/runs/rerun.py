"""Rerun a release from its records and its key, compare every public file, and report the first difference of each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from flows.confidential.key_statement import key_statement
from flows.confidential.steps import ConfidentialSteps
from flows.execution.job import Job
from flows.execution.perform import perform_steps
from flows.execution.progress import Progress
from flows.execution.steps import Perform, perform_here
from flows.execution.workers import Workers
from flows.publishing.manifest import manifest_of
from flows.publishing.steps import perform_public_steps, public_steps
from flows.runs.drawn_before import refuse_other_records, refuse_other_run, refuse_uncharged
from flows.runs.open_public import open_published
from flows.runs.status import status_of
from flows.runs.versions import version_differences
from pipeline.errors import InputError, RefusedError
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.published import open_finished
from pipeline.release.differences import Difference, compare_public
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, read_manifest, write_manifest
from pipeline.release.run_directory import empty_staging, held, make_run_folders
from pipeline.storage.files import write_bytes
from pipeline.storage.temporary import temporary_folder
from pipeline.witness.stated_beacon import stated_beacon


@dataclass(frozen=True)
class Rerun:
    """What a rerun found.

    Attributes:
        files: how many public files were compared, the manifest among them.
        differences: in the order in which a run writes the files; empty if all are the same to the last byte.
        remarks: what a reader of the differences has to know, such as different versions of the software.
    """

    files: int
    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether all public files are the same."""
        return not self.differences


def rerun_release(
    run: RunDirectory,
    universes: Sequence[Universe],
    key: MasterKey,
    workers: int,
    progress: Progress,
    perform: Perform = perform_here,
) -> Rerun:
    """Recompute all of public/ in a folder that only its owner can enter, and compare it with the release.

    This draws the noise that was drawn before, and costs no budget: records other than the release's are refused before
    anything is drawn. The folder holds true counts; it is in restricted/ if that can be written, and is removed at the
    end.

    Args:
        run: the release.
        universes: with their records; see `universes_to_rerun`.
        key: the release's; see `flows.confidential.custody.key_of_release`.
        workers: number of processes.
        progress: receives how far the rerun is.
        perform: performs one step.

    Raises:
        InputError: the release or the records are not those that were run here, or the run was never charged.
        RefusedError: the records cannot be read; the reason is in a file that only its owner can read.
        SpinewiseError: the release cannot be recomputed.
    """
    manifest = read_manifest(run.manifest)
    with _closed_folder(run) as folder, Workers(workers) as pool, threadpool_limits(1):
        again = RunDirectory(folder / "release")
        with _keeping_refusal(run):
            computed = _compute(run, again, manifest, universes, key, pool, progress, perform)
        differences = compare_public(run, again, [level.name for level in computed.spine.levels])
        files = len(read_manifest(again.manifest).files) + 1
    return Rerun(files, tuple(differences), tuple(version_differences(manifest)))


def _compute(
    run: RunDirectory,
    again: RunDirectory,
    manifest: Manifest,
    universes: Sequence[Universe],
    key: MasterKey,
    pool: Workers,
    progress: Progress,
    perform: Perform,
) -> Job:
    public = open_published(open_finished(run.root, check_hashes=False), universes)
    refuse_other_run(run, public)
    make_run_folders(again)
    charged = bool(manifest.receipts) or not manifest.charging  # the latter: made before there were receipts
    stated = status_of(public.spec, insecure_key=key.insecure, charged=charged)
    job = replace(public.job(again, pool, progress), status=stated, receipts=list(manifest.receipts))
    job = replace(job, beacon=stated_beacon(manifest))
    confidential = ConfidentialSteps(job, key, public.facilities, public.polygons)
    counting, measuring = confidential.counting(), confidential.measuring()
    progress.begin((*counting, *measuring, *public_steps(job)))
    perform_steps(job, counting, perform)
    stated_key = key_statement(key, manifest.key_salt, confidential.fingerprints)
    _refuse_other_records(run, manifest, stated_key.fingerprints)
    refuse_other_records(run, confidential.fingerprints)
    refuse_uncharged(run, job, key, confidential.fingerprints, public.facilities)
    # Not charged: the noise that is drawn again is the noise that was charged for.
    perform_steps(job, measuring, perform)
    notes = perform_public_steps(job, perform)
    write_manifest(again, manifest_of(job, notes, stated_key))
    return job


def _refuse_other_records(run: RunDirectory, manifest: Manifest, fingerprints: Mapping[str, str]) -> None:
    """Raises InputError where noise would be drawn for other records, which was never charged."""
    changed = [
        name or manifest.release
        for name, fingerprint in fingerprints.items()
        if manifest.input_fingerprints.get(name) != fingerprint
    ]
    if changed:
        refusal = f"the records are not those that {run.root} was made from: {', '.join(changed)}"
        reason = "nothing was drawn, since other records would make another release, with its own charge"
        raise InputError("; ".join([refusal, reason, *version_differences(manifest)]))


def _has_restricted(run: RunDirectory) -> bool:
    return run.restricted.is_dir() and os.access(run.restricted, os.R_OK | os.W_OK | os.X_OK)


@contextmanager
def _closed_folder(run: RunDirectory) -> Iterator[Path]:
    """A folder for true counts, removed at the end; in restricted/ if possible, so a kill leaves none elsewhere."""
    if _has_restricted(run):
        with held(run):
            empty_staging(run)
            with tempfile.TemporaryDirectory(prefix="rerun-", dir=run.staging) as folder:
                yield Path(folder)
    else:
        with temporary_folder("rerun") as folder:
            yield folder


@contextmanager
def _keeping_refusal(run: RunDirectory) -> Iterator[None]:
    """Keep the reason of a refusal beyond the folder, in restricted/ or in a folder that only its owner can enter."""
    try:
        yield
    except RefusedError as error:
        if _has_restricted(run):
            details = run.refusal
            write_bytes(details, error.details.read_bytes(), run.staging, private=True)
        else:
            details = Path(tempfile.mkdtemp(prefix="spinewise-refused-")) / error.details.name
            shutil.copy(error.details, details)
        stage = str(error).split(":")[0]
        raise RefusedError(stage, details, error.exit_status) from None
