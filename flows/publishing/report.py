"""The report of a release as a step: from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flows.execution.job import Job
from flows.plan.cost.size import basis_of_spec
from flows.publishing.alike_areas import AlikeAreas, AlikeNumbers, alike_numbers
from flows.publishing.manifest import account_of, households_of, joint_of
from geography.spine import Spine
from pipeline.model.universe import Table, Universe
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import Receipt
from pipeline.release.spine import read_public_names
from pipeline.report.moments import PackedMoments
from pipeline.report.page import report_page
from pipeline.report.polygons import Area, PolygonSource, read_areas
from pipeline.report.sources import ReportSources
from pipeline.spec.sections import ReportSection
from pipeline.storage.files import write_bytes

#: Bytes of a matrix for each geounit, beyond which covariances are left out of the page: several are held at once.
_MOST_HELD = 4_000_000_000
#: Those up to which they are worked out beside other steps.
_MOST_AHEAD = 400_000_000


def read_polygons(report: ReportSection, spine: Spine) -> dict[str, list[Area]]:
    """The polygons that the spec names, by level.

    Raises:
        InputError: a file cannot be read, or does not fit its level.
    """
    return {
        level: read_areas(
            PolygonSource(f"report.polygons.{level}", section.file, section.code, section.name),
            spine.level(level).geocodes,
        )
        for level, section in report.polygons.items()
    }


def write_report(job: Job, further: Sequence[Receipt] = ()) -> None:
    """Write public/report.html from tables, names, polygons, the spec, and the notes of the previous steps.

    What is too large for it is written beside it; files of an earlier start are removed first. `further` receipts are
    those of answers that a version was made with.
    """
    run = job.run
    for path in run.report_files():
        path.unlink()

    def write(number: int, text: str) -> None:
        write_bytes(run.report_file(number), text.encode(), run.staging)

    write_bytes(run.report, report_page(report_sources(job, further), write).encode(), run.staging)
    job.progress.advance(1)


def report_sources(job: Job, further: Sequence[Receipt] = ()) -> ReportSources:
    """What the report of a release is made from; `further` receipts are of answers that a version was made with."""
    alike = _Alike(job)
    return ReportSources(
        run=job.run,
        spec=job.spec,
        status=job.status,
        receipts=(*job.receipts, *further),
        universes=job.universes,
        spine=job.spine,
        statements=tuple(privacy_statement(universe) for universe in job.universes),
        accounts=tuple(account_of(universe) for universe in job.universes),
        joint=joint_of(job.universes),
        households=households_of(job.universes, job.spec.joins()),
        notes=job.notes,
        exact=alike.exact,
        moments=alike.moments,
        names={
            level: read_public_names(job.run.names(level), level, job.spine.level(level).geocodes, tuple(section.name))
            for level, section in (job.spec.geography.names or {}).items()
        },
    )


def begin_report(job: Job) -> None:
    """Begin in other processes what the report takes from the areas alone, while this one goes on with other steps.

    Called when the public inputs are written. Where it takes much memory it is not begun before the report is.
    """
    for universe in job.universes:
        if _held(job, universe) <= _MOST_AHEAD:
            _begin(job, universe, at_once=False)


def _begin(job: Job, universe: Universe, *, at_once: bool) -> None:
    if job.spec.publish.margins and _held(job, universe) <= _MOST_HELD and universe.name not in job.begun:
        job.begun[universe.name] = [job.workers.begin(alike_numbers, task) for task in _tasks(job, universe, at_once)]


class _Alike:
    """What each universe fixes and how its errors go together, worked out in other processes while tables are read.

    Of very many areas neither is worked out: each may be unlike all others, and have matrices of its own.
    """

    def __init__(self, job: Job) -> None:
        for universe in job.universes:
            _begin(job, universe, at_once=job.workers.started)
        self._begun: Mapping[str, Sequence[Callable[[], AlikeNumbers]]] = job.begun

    def exact(self, universe: str, level: int, table: Table) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
        """Which numbers are certain, as `ReportSources` has it."""
        begun = self._begun.get(universe)
        return begun[0]().certain[level, table.name] if begun else None

    def moments(self, universe: str, level: int, table: Table) -> PackedMoments | None:
        """The covariances of a table at a level, as `ReportSources` has them."""
        found = (begun().moments.get((level, table.name)) for begun in self._begun.get(universe, ()))
        return next((moments for moments in found if moments is not None), None)


def _tasks(job: Job, universe: Universe, at_once: bool) -> list[AlikeAreas]:
    """One task, which leaves a core to other steps, or two `at_once`.

    What is certain is needed first, with covariances of the levels above, which are few beside those of the last.
    """
    levels = tuple(range(job.spine.n_levels))
    task = AlikeAreas(universe, job.folder(universe), job.spine, job.spec.postprocess.estimator, levels, levels)
    return [replace(task, moments=levels[:-1]), replace(task, certain=(), moments=levels[-1:])] if at_once else [task]


def _held(job: Job, universe: Universe) -> int:
    """Bytes of a matrix for each geounit."""
    basis = basis_of_spec(universe)
    return 8 * job.n_geounits * basis.n_blocks * basis.n_asymmetric**2
