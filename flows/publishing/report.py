"""The report of a release as a step: from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from flows.estimation.marginals import marginal_of
from flows.execution.job import Job
from flows.plan.cost.size import basis_of_spec
from flows.plan.expectation import Expectation
from flows.publishing.alike_areas import table_moments
from flows.publishing.manifest import account_of, households_of, joint_of
from geography.spine import Spine
from pipeline.model.query import Query
from pipeline.model.universe import Table, Universe
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import Receipt
from pipeline.release.spine import read_public_names
from pipeline.report.moments import TableMoments
from pipeline.report.page import report_page
from pipeline.report.polygons import Area, PolygonSource, read_areas
from pipeline.report.sources import ReportSources
from pipeline.spec.sections import ReportSection
from pipeline.storage.files import write_bytes
from postprocess.linear.expected import LevelCovariances

#: Bytes of a matrix for each geounit, beyond which covariances are left out of the page: several are held at once.
_MOST_HELD = 4_000_000_000


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
    of_universes = _Expectations(job)
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
        exact=of_universes.exact,
        moments=of_universes.moments,
        names={
            level: read_public_names(job.run.names(level), level, job.spine.level(level).geocodes, tuple(section.name))
            for level, section in (job.spec.geography.names or {}).items()
        },
    )


class _Expectations:
    """What each universe fixes and how its errors go together, worked out once and when first needed.

    Of very many areas neither is worked out: each may be unlike all others, and have matrices of its own.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._fits = cache(self._can_be_held)
        self._lock = RLock()
        self._once = cache(self._expected)
        self._planned_once = cache(lambda name: self._once(name).planned())

    def exact(self, universe: str, level: int, query: Query) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
        """Which numbers are certain, as `ReportSources` has it."""
        return self._of(universe).exact(level, marginal_of(query)) if self._fits(universe) else None

    def moments(self, universe: str, level: int, table: Table) -> TableMoments | None:
        """The covariances of a table at a level, as `ReportSources` has them."""
        if not self._fits(universe):
            return None
        return table_moments(self._of(universe), self._planned(universe), level, table)

    def _of(self, name: str) -> Expectation:
        with self._lock:  # several threads ask
            return self._once(name)

    def _planned(self, name: str) -> tuple[LevelCovariances, ...]:
        with self._lock:
            return self._planned_once(name)

    def _universe(self, name: str) -> Universe:
        return next(candidate for candidate in self._job.universes if candidate.name == name)

    def _can_be_held(self, name: str) -> bool:
        basis = basis_of_spec(self._universe(name))
        return 8 * self._job.n_geounits * basis.n_blocks * basis.n_asymmetric**2 <= _MOST_HELD

    def _expected(self, name: str) -> Expectation:
        job, universe = self._job, self._universe(name)
        return Expectation.of_published(universe, job.folder(universe), job.spine, job.spec.postprocess.estimator)
