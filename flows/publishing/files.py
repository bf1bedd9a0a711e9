"""The public files that everything else under public/ is computed from."""

from __future__ import annotations

from pathlib import Path

from pipeline.execution.job import Job
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.release.layout import ANSWER_FILES


def answer_paths(job: Job, universe: Universe, level: str) -> tuple[Path, ...]:
    """The files of one level that the measuring stage writes: noisy answers and invariants."""
    folder = job.folder(universe)
    exact = [folder.invariant(level, query.name) for name, query in universe.invariants if name == level]
    noisy = [folder.measurement(level, measured.query.name) for measured in universe.strategy.level(level).queries]
    beside = universe.source.files(job.run) if noisy else ()
    return (*noisy, *exact, *beside)


def selected_path(job: Job, universe: Universe, selection: Selection) -> Path:
    """The file of a private choice and the answers of what was chosen; nothing else is computed from it."""
    return job.folder(universe).selected(selection.name, selection.level)


def public_input_files(job: Job) -> tuple[Path, ...]:
    """Spine, names, polygons, facilities, numbers of shares, central counts: what is from public files elsewhere."""
    constraints = [
        job.folder(universe).constraint(number) for universe in job.universes for number in range(len(universe.bounds))
    ]
    shares = [job.folder(universe).shares(share.name) for universe in job.universes for share in universe.shares]
    return (job.run.spine, *name_files(job), *polygon_files(job), *constraints, *shares, *central_files(job))


def central_files(job: Job) -> tuple[Path, ...]:
    """The measurements that another release has made, and which release that is."""
    counts = tuple(
        job.folder(universe).measurement(level, query.name)
        for universe in job.universes
        for level, query in universe.source.given(universe.strategy)
    )
    return (*counts, job.run.central) if counts else ()


def answer_files(job: Job) -> tuple[Path, ...]:
    """The public files of the answers that a version was made with."""
    names = () if job.spec.update is None else tuple(one.name for one in job.spec.update.answers)
    return tuple(job.run.answer(name) / file for name in names for file in ANSWER_FILES)


def replaced_files(job: Job) -> tuple[Path, ...]:
    """Of a version that was made with answers the files of the one before: its manifest and its tables."""
    if job.spec.update is None:
        return ()
    return (job.run.before(job.run.manifest), *(job.run.before(path) for *_, path in published_tables(job)))


def published_tables(job: Job) -> list[tuple[Universe, str, Path]]:
    """Every table at each of its levels: universe, level, file."""
    return [
        (universe, level, job.folder(universe).table(table.name, level))
        for universe in job.universes
        for table in universe.tables
        for level in table.levels
    ]


def input_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ from which the rest is computed."""
    measured = [
        path
        for universe in job.universes
        for level in job.spine.level_names
        for path in answer_paths(job, universe, level)
    ]
    selected = [
        selected_path(job, universe, selection) for universe in job.universes for selection in universe.selections
    ]
    return (*public_input_files(job), *measured, *selected, *answer_files(job), *replaced_files(job))


def name_files(job: Job) -> tuple[Path, ...]:
    """The public files of areas' names."""
    return tuple(job.run.names(level) for level in job.spec.geography.names or {})


def polygon_files(job: Job) -> tuple[Path, ...]:
    """The public files of polygons."""
    return tuple(job.run.polygons(level) for level in job.spec.report.polygons)
