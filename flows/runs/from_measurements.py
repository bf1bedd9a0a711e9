"""A release from noisy measurements that were made elsewhere: no records, no key, nothing confidential."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from flows.execution.job import Job
from flows.execution.progress import Progress
from flows.execution.workers import Workers
from flows.publishing.inputs import write_public_inputs
from flows.publishing.manifest import manifest_of
from flows.publishing.steps import perform_public_steps, public_steps
from flows.runs.open_public import open_listed
from flows.runs.request import universe_checks
from pipeline.errors import InputError
from pipeline.exchange.nmf import LevelMeasurements, Wanted, level_files
from pipeline.model.allocation import allocations
from pipeline.model.universe import Universe
from pipeline.release.layout import file_name
from pipeline.release.manifest import MADE_ELSEWHERE, write_manifest
from pipeline.release.measurements import MeasurementWriter, exact_header, header_of
from pipeline.release.run_directory import open_run
from pipeline.spec.release_spec import ReleaseSpec, as_spec


def estimate_release(
    measurements: Path, stated: Path | ReleaseSpec, out: Path, workers: int, progress: Progress
) -> Path:
    """Post-process noisy measurement files to a whole public release directory; the directory.

    Args:
        measurements: folder in the layout of `pipeline.exchange.nmf`.
        stated: the spec, or its file, that says what was measured with which budget; its records are not read.
        out: the folder that the release's directory is made in.

    Raises:
        InputError: the measurements are not those that the spec calls for; the message names file and place.
    """
    spec = as_spec(stated)
    universes = spec.universes()
    for universe in universes:
        if universe.selections:
            key = universe.key("select")
            raise InputError(
                f"{spec.source}: {key}: choices of how detailed a table is are made from records, and there are none "
                "here; leave the section out"
            )
        for check in universe_checks(universe):
            check()
    public = open_listed(spec, universes)
    spec, universes = public.spec, public.universes
    root = out / spec.name
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
    _check_folder(measurements, spec, universes)
    try:
        with threadpool_limits(1), Workers(workers) as pool, open_run(root, {"estimated": spec.name}) as run:
            public.keep_remarks(run)
            job = replace(public.job(run, pool, progress), status=MADE_ELSEWHERE)
            _take_in(job, measurements)
            write_public_inputs(job, public.facilities, public.polygons)
            progress.begin(tuple(public_steps(job)))
            notes = perform_public_steps(job)
            write_manifest(run, manifest_of(job, notes, "", {}))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


def _check_folder(folder: Path, spec: ReleaseSpec, universes: tuple[Universe, ...]) -> None:
    """Say at once which files are missing."""
    for universe in universes:
        for level in universe.strategy.levels:
            place = _place(folder, universe)
            exact = [query for name, query in universe.invariants if name == level.level]
            if (level.queries or exact) and not level_files(place, level.level):
                raise InputError(
                    f"{place}: no file {level.level}.parquet, nor a folder {level.level} with Parquet files; the spec "
                    f"{spec.source} has measurements at that level"
                )


def _place(folder: Path, universe: Universe) -> Path:
    return folder / "companions" / file_name("companion", universe.name) if universe.name else folder


def _take_in(job: Job, folder: Path) -> None:
    """Write the measurements as a release has them, level by level."""
    for universe in job.universes:
        directory = job.folder(universe)
        for level, allocation in zip(job.spine.levels, allocations(universe, job.spine), strict=True):
            geocodes = allocation.measured(level.geocodes)
            kinds = None if allocation.kinds is None else allocation.kinds[allocation.kinds >= 0]
            wanted = [
                Wanted(one.query, header_of(universe, allocation, one), geocodes, kinds)
                for one in allocation.strategy.queries
            ]
            wanted += [
                Wanted(query, exact_header(level.name, query), level.geocodes)
                for name, query in universe.invariants
                if name == level.name
            ]
            found = LevelMeasurements(level.name, universe.schema, wanted)
            for path in level_files(_place(folder, universe), level.name) if wanted else ():
                found.read(path)
            for one, values in found.found():
                place = directory.invariant if one.exact else directory.measurement
                if one.exact and (values < 0).any():
                    raise InputError(f"level {level.name!r}: an exact answer of {one.query.name!r} is negative")
                with MeasurementWriter.open(place(level.name, one.query.name), job.run.staging, one.header) as writer:
                    writer.write(one.geocodes, values, one.kinds)
