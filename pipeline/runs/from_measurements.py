"""A release from noisy measurements that were made elsewhere, or from numbers that others published.

There are no records, no key, no ledger, and no process that sees them: nothing in it is confidential.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from pipeline.cost.memory import check_memory, fitting
from pipeline.errors import InputError
from pipeline.exchange.nmf import LevelMeasurements, Wanted, level_files
from pipeline.execution.batches import Batches
from pipeline.execution.job import Job
from pipeline.execution.settings import load_settings, memory_for_a_run
from pipeline.execution.steps import Progress, listener_of
from pipeline.execution.workers import Workers
from pipeline.model.draw import by_level
from pipeline.model.universe import Universe
from pipeline.publishing.promises import check_statements
from pipeline.publishing.provenance import check_provenance
from pipeline.publishing.public_inputs import write_public_inputs
from pipeline.release.layout import file_name
from pipeline.release.measurements import MeasurementWriter, exact_header, header_of
from pipeline.release.run_directory import open_run
from pipeline.release.status import MADE_ELSEWHERE, RECEIVED
from pipeline.run import DrawSource, ReleaseRun
from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.runs.request import stated_checks, universe_checks
from pipeline.spec.release_spec import ReleaseSpec, as_spec


def estimate_release(
    measurements: Path, stated: Path | ReleaseSpec, out: Path, workers: int, progress: Progress
) -> Path:
    """Post-process noisy measurement files into a complete public release directory; returns the directory.

    Args:
        measurements: folder in the layout of `pipeline.exchange.nmf`.
        stated: the spec, or its file, which states what was measured with which budget; its records are not read.
        out: the folder in which the release's directory is made.
        workers: number of processes.
        progress: receives how far the run is.

    Raises:
        InputError: the measurements are not those that the spec calls for; the message names file and place.
    """
    spec = as_spec(stated)
    check_provenance(spec)
    universes = spec.universes()
    for universe in universes:
        if reason := universe.source.refusal("elsewhere"):
            raise InputError(f"{spec.source}: {reason}")
        if universe.strategy.where_positive:
            raise InputError(
                f'{spec.source}: {universe.key("strategy")}: where = "parent positive": which answers these are '
                "follows from the release that is made here, and files of measurements have none of them; leave it out"
            )
        if universe.selections:
            key = universe.key("select")
            raise InputError(
                f"{spec.source}: {key}: how detailed a table is can be chosen from records only, and there are none "
                "here; leave the section out"
            )
        for check in universe_checks(spec, universe):
            check()
    check_statements(spec, universes)
    public = open_listed(spec, universes)
    spec, universes = public.spec, public.universes
    root = out / spec.name
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root}: is not empty; name another folder with --out, or remove it")
    _check_folder(measurements, spec, universes)
    try:
        with _job(public, root, {"estimated": spec.name}, workers, progress) as job:
            _take_in(job, measurements)
            _publish(replace(job, status=MADE_ELSEWHERE))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


def received_release(stated: Path | ReleaseSpec, out: Path, workers: int, progress: Progress) -> Path:
    """A release from the numbers that others published and its spec names; returns its directory.

    The same call goes on with one that was stopped.

    Args:
        stated: the spec, or its file, of which nobody is promised anything.
        out: the folder in which the release's directory is made.
        workers: number of processes.
        progress: receives how far the run is.

    Raises:
        InputError: something in the spec or in its files is wrong, the directory holds another release, or memory is
            short.
    """
    spec = as_spec(stated)
    universes = spec.universes()
    for check in stated_checks(spec, universes):
        check()
    public, root = open_listed(spec, universes), out / spec.name
    fit = fitting(spec, public.spine, workers, memory_for_a_run(load_settings()), engine=False)
    check_memory(spec, fit)
    with _job(public, root, public.identity(), fit.memory.workers, progress) as job:
        job = replace(job, status=RECEIVED, batches=Batches(job.run))
        _publish(replace(job, most_cells=fit.most_cells, part_cells=fit.part_cells), resumed=True)
    return root


@contextmanager
def _job(
    public: PublicSide, root: Path, identity: Mapping[str, object], workers: int, progress: Progress
) -> Iterator[Job]:
    """What the steps have in common, in a directory that is held for them."""
    with threadpool_limits(1), Workers(workers, told=listener_of(progress)) as pool, open_run(root, identity) as run:
        public.keep_remarks(run)
        yield public.job(run, pool, progress)


def _publish(job: Job, *, resumed: bool = False) -> None:
    """All that follows from measurements and public inputs, once the former are there or are among the latter."""
    write_public_inputs(job)
    going = ReleaseRun(job, DrawSource(), resumed=resumed)
    going.perform()
    going.finish()


def _check_folder(folder: Path, spec: ReleaseSpec, universes: tuple[Universe, ...]) -> None:
    """Refuse, before anything is computed, a folder in which files are missing."""
    for universe in universes:
        place, measured = _place(folder, universe), {draw.level for draw in universe.draws() if draw.own}
        for level in universe.level_names:
            exact = any(name == level for name, _ in universe.invariants)
            if (level in measured or exact) and not level_files(place, level):
                raise InputError(
                    f"{place}: no file {level}.parquet, nor a folder {level} with Parquet files; the spec "
                    f"{spec.source} has measurements at that level"
                )


def _place(folder: Path, universe: Universe) -> Path:
    return folder / "companions" / file_name("companion", universe.name) if universe.name else folder


def _take_in(job: Job, folder: Path) -> None:
    """Write the measurements in the layout of a release, level by level."""
    for universe in job.universes:
        directory = job.folder(universe)
        drawn = by_level(universe.draws(job.spine), job.spine.level_names)
        for level, draws in zip(job.spine.levels, drawn, strict=True):
            expected = [
                Wanted(
                    draw.query,
                    header_of(draw),
                    draw.measured(level.geocodes),
                    None if draw.kinds is None else draw.kinds[draw.kinds >= 0],
                )
                for draw in draws
                if draw.own
            ]
            expected += [
                Wanted(query, exact_header(level.name, query), level.geocodes)
                for name, query in universe.invariants
                if name == level.name
            ]
            measurements = LevelMeasurements(level.name, universe.schema, expected)
            for path in level_files(_place(folder, universe), level.name) if expected else ():
                measurements.read(path)
            for measured, values in measurements.answers():
                place = directory.invariant if measured.exact else directory.measurement
                if measured.exact and (values < 0).any():
                    raise InputError(f"level {level.name!r}: an exact answer of {measured.query.name!r} is negative")
                with MeasurementWriter.open(
                    place(level.name, measured.query.name), job.run.staging, measured.header
                ) as writer:
                    writer.write(measured.geocodes, values, measured.kinds)
