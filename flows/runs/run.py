"""A whole run, from the request to the manifest; the engine that performs the steps is a parameter."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flows.confidential.accuracy import write_accuracy
from flows.execution.checkpoints import Batches, Checkpoints
from flows.execution.job import Job
from flows.execution.run_log import Logged, RunLog
from flows.execution.steps import Perform, Progress, Step, perform_here
from flows.execution.workers import Workers
from flows.publishing.manifest import manifest_of
from flows.publishing.report import read_polygons
from flows.publishing.steps import Records, input_files, output_files, perform_steps, public_steps
from flows.runs.request import CheckedRequest, key_identity, master_key
from flows.runs.rerun import inputs_to_keep
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.inputs.facilities import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.release.manifest import status, write_manifest
from pipeline.release.run_directory import open_run
from pipeline.report.polygons import Area, fingerprint
from pipeline.storage.files import json_sha256, write_json

#: Leaf cells from which a run is sure to have work for all its processes.
_LARGE = 200_000


def run_release(checked: CheckedRequest, progress: Progress, perform: Perform = perform_here) -> Path:
    """Run a release, or go on with one that was interrupted; the directory of the release.

    Raises:
        SpinewiseError: something is wrong; nothing that looks like a whole release is left then.
    """
    spine = read_spine(checked.spec.geography)
    facilities = {one.name: [read_facilities(bound, spine) for bound in one.bounds] for one in checked.universes}
    polygons = read_polygons(checked.spec.report, spine)
    identity = identity_of(checked, spine, facilities, polygons)
    with (
        threadpool_limits(1),
        open_run(checked.run.root, identity) as run,
        RunLog.open(run) as log,
        _workers(checked) as workers,
    ):
        if spine.n_leaves * max(universe.schema.n_cells for universe in checked.universes) > _LARGE:
            workers.prepare()
        job = Job(run, checked.spec, checked.universes, spine, workers, Logged(progress, log), Batches(run))
        _run_in(job, checked, facilities, polygons, perform)
    return checked.run.root


def _workers(checked: CheckedRequest) -> Workers:
    """The processes, or the cluster, that the request names."""
    request, engine = checked.request, checked.request.engine
    if engine.scheduler is None:
        return Workers(request.workers)
    from flows.execution.cluster import ClusterWorkers

    scratch = str(checked.run.staging.resolve()) if engine.scratch is None else engine.scratch
    return ClusterWorkers(request.workers, engine.scheduler, scratch)


def _run_in(
    job: Job,
    checked: CheckedRequest,
    facilities: dict[str, list[NDArray[np.int64]]],
    polygons: dict[str, list[Area]],
    perform: Perform,
) -> None:
    run = job.run
    run.refusal.unlink(missing_ok=True)
    _refuse_other_files(job)
    key = master_key(checked, run)
    job = replace(job, status=status(insecure_key=key.insecure))
    records = Records(job, key, facilities, polygons)
    counting, charging = records.before_measuring(), records.charging()
    measuring, publishing = [*records.measuring(), *records.charged()], public_steps(job)
    ending = [Step("accuracy", partial(write_accuracy, job), geounits=spine_size(job), effort=0.2)]
    job.progress.begin((*counting, *charging, *measuring, *publishing, *ending))
    perform_steps(job, counting, perform)
    records.record()
    write_json(run.input, inputs_to_keep(job.universes), run.staging, private=True)
    perform_steps(job, charging, perform)
    # From here on the directory changes; without a manifest nobody takes it for a whole release.
    run.manifest.unlink(missing_ok=True)
    checkpoints = Checkpoints(run)
    perform_steps(job, measuring, perform, checkpoints)
    told = perform_steps(job, publishing, perform, checkpoints)
    perform_steps(job, ending, perform)
    write_manifest(run, manifest_of(job, told, key, records.fingerprints))
    Batches(run).forget()


def identity_of(
    checked: CheckedRequest,
    spine: Spine,
    facilities: Mapping[str, Sequence[NDArray[np.int64]]],
    polygons: Mapping[str, Sequence[Area]],
) -> dict[str, str]:
    """What makes it the same run: hashes of each part of the public spec, of spine, bounds, polygons, and of the key.

    The names of the parts are what a refusal tells the user.
    """
    identity = {f"the spec's {part}": json_sha256(content) for part, content in checked.spec.public_dict().items()}
    identity["the geography"] = spine.fingerprint()
    identity["the facilities of the bounds"] = json_sha256(
        [
            [name, [hashlib.sha256(np.ascontiguousarray(one).data).hexdigest() for one in counts]]
            for name, counts in sorted(facilities.items())
        ]
    )
    identity["the polygons"] = json_sha256({level: fingerprint(areas) for level, areas in polygons.items()})
    identity["the key"] = key_identity(checked)
    return identity


def _refuse_other_files(job: Job) -> None:
    """Raises InputError where public/ holds a file that this run would not write."""
    expected = {job.run.manifest, *input_files(job), *output_files(job)}
    found = [path for path in job.run.public.rglob("*") if not path.is_dir() and path not in expected]
    if found:
        names = ", ".join(str(path.relative_to(job.run.root)) for path in sorted(found)[:3])
        raise InputError(
            f"{job.run.root}: {len(found)} files under public/ are not of this run: {names}; remove them, or name "
            "another directory"
        )


def spine_size(job: Job) -> int:
    return sum(len(level) for level in job.spine.levels)
