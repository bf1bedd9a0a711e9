"""The report of a release as a step: from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flows.publishing.manifest import account_of, households_of, joint_of
from geography.spine import Spine
from pipeline.execution.job import Job
from pipeline.model.universe import Table
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import Receipt
from pipeline.release.spine import read_public_names
from pipeline.report.moments import PackedMoments
from pipeline.report.page import report_page
from pipeline.report.polygons import Area, PolygonSource, read_areas
from pipeline.report.sources import ReportSources
from pipeline.report.table_numbers import PackedTable
from pipeline.spec.sections import ReportSection
from pipeline.storage.files import write_bytes


class ReportNumbers(Protocol):
    """What the report needs of areas and tables, as `ReportSources` has it."""

    def exact(self, universe: str, level: int, table: Table) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
        """Which numbers are certain."""

    def moments(self, universe: str, level: int, table: Table) -> PackedMoments | None:
        """How errors go together."""

    def packed(self, universe: str, level: int, table: Table) -> PackedTable | None:
        """The numbers of a table."""


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


def write_report(job: Job, numbers: ReportNumbers, further: Sequence[Receipt] = ()) -> None:
    """Write public/report.html from tables, names, polygons, the spec, and the notes of the previous steps.

    What is too large for it is written beside it; files of an earlier start are removed first. `further` receipts are
    those of answers that a version was made with.
    """
    run = job.run
    for path in run.report_files():
        path.unlink()

    def write(number: int, text: str) -> None:
        write_bytes(run.report_file(number), text.encode(), run.staging)

    write_bytes(run.report, report_page(report_sources(job, numbers, further), write).encode(), run.staging)
    job.progress.advance(1)


def report_sources(job: Job, numbers: ReportNumbers, further: Sequence[Receipt] = ()) -> ReportSources:
    """What the report of a release is made from; `further` receipts are of answers that a version was made with."""
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
        households=households_of(job.universes, job.links),
        notes=job.notes,
        exact=numbers.exact,
        moments=numbers.moments,
        packed=numbers.packed,
        names={
            level: read_public_names(job.run.names(level), level, job.spine.level(level).geocodes, tuple(section.name))
            for level, section in (job.spec.geography.names or {}).items()
        },
    )
