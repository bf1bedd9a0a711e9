"""The report of a release as a step: from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from collections.abc import Sequence

from flows.execution.job import Job
from flows.publishing.ahead import Ahead
from flows.publishing.manifest import account_of, households_of, joint_of
from geography.spine import Spine
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import Receipt
from pipeline.release.spine import read_public_names
from pipeline.report.page import report_page
from pipeline.report.polygons import Area, PolygonSource, read_areas
from pipeline.report.sources import ReportSources
from pipeline.spec.sections import ReportSection
from pipeline.storage.files import write_bytes


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
    ahead = Ahead(job)
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
        exact=ahead.exact,
        moments=ahead.moments,
        packed=ahead.packed,
        names={
            level: read_public_names(job.run.names(level), level, job.spine.level(level).geocodes, tuple(section.name))
            for level, section in (job.spec.geography.names or {}).items()
        },
    )
