"""The measurements of a finished release, estimated by the other estimator: what the choice of one has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from pipeline.execution.batches import Batches
from pipeline.execution.job import Job, perform_steps
from pipeline.execution.steps import Progress
from pipeline.execution.workers import Workers
from pipeline.model.texts.message import Message, message
from pipeline.published import open_finished
from pipeline.publishing.files import input_files
from pipeline.publishing.steps import publications
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import make_run_folders
from pipeline.storage.durable import make_folder
from pipeline.storage.files import temporary_folder

#: (name of an estimator, what it is) -> universe -> histograms `(n_geounits, n_cells)` of each level.
Estimates = Mapping[tuple[Message, Message], Mapping[str, Sequence[sp.csr_array]]]

_ABOUT: Final = {
    "topdown": message("The same measurements, from the top down as in 2020: each area by its own measurements alone."),
    "full": message("The same measurements, estimated from those of all levels together."),
}


def estimated_otherwise(run: RunDirectory, workers: int, progress: Progress) -> Estimates:
    """Estimate a release again, by "topdown" if it is "full" and the reverse; only public files are read."""
    release = open_finished(run.root, check_hashes=False)
    settings = release.spec.postprocess
    other = "topdown" if settings.estimator == "full" else "full"
    spec = release.spec.model_copy(update={"postprocess": settings.model_copy(update={"estimator": other})})
    with temporary_folder("fitness") as folder, Workers(workers) as pool, threadpool_limits(1):
        again = RunDirectory(folder / "release")
        make_run_folders(again)
        batches = Batches(again, about="fitness")
        job = Job(again, spec, release.universes, release.spine, pool, progress, batches)
        for path in input_files(job):
            target = run.public / path.relative_to(again.public)
            make_folder(path.parent)
            path.symlink_to(release.unchanged(target))
        parts = publications(job)
        progress.begin(tuple(step for part in parts for step in part.estimating()))
        for part in parts:
            with part:
                perform_steps(job, part.estimating())
        histograms = {
            universe.name: [
                read_histogram(
                    job.readable(again.universe(universe.name).histogram(level.name)),
                    level.geocodes,
                    universe.schema,
                    signed=universe.measure.signed,
                )
                for level in release.spine.levels
            ]
            for universe in release.universes
        }
    return {(message("estimator {name}", name=other), _ABOUT[other]): histograms}
