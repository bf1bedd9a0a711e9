"""The report of a release is written from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from functools import partial

from features.report.page import report_page
from features.report.sources import ReportSources
from features.report.workers import ReportNumbers
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.published import published_names
from pipeline.publishing.answers import used_answers
from pipeline.publishing.promises import promises_of
from pipeline.publishing.public_inputs import named_inputs
from pipeline.storage.files import write_bytes

#: Effort of the report of a release of some ten thousand geounits; and at most so much for each.
_EFFORT, _OF_GEOUNIT = 30_000.0, 4.0


def report_step(job: Job) -> Step:
    """The step that writes the report, after all other public files but the manifest."""
    effort = min(_EFFORT, _OF_GEOUNIT * job.n_geounits) + 0.2 * job.n_geounits
    files = (job.run.report,)
    return Step("report", partial(write_report, job), effort=effort, files=files, more=job.run.report_files)


def write_report(job: Job) -> None:
    """Write public/report.html from tables, names, polygons, the spec, and the notes of the previous steps.

    What is too large for it is written beside it; files of an earlier start are removed first.
    """
    run = job.run
    for path in run.report_files():
        path.unlink()

    def write(number: int, text: str) -> None:
        write_bytes(run.report_file(number), text.encode(), run.staging)

    write_bytes(run.report, report_page(report_sources(job), write).encode(), run.staging)
    job.progress.advance(1)


def report_sources(job: Job) -> ReportSources:
    """What the report of a release is made from."""
    answers = used_answers(job.run, job.readable, job.spec)  # that a version was made with
    return ReportSources(
        run=job.run,
        spec=job.spec,
        status=job.status,
        receipts=(*job.receipts, *(receipt for one in answers for receipt in one.receipts)),
        universes=job.universes,
        spine=job.spine,
        promises=promises_of(job),
        notes=job.notes,
        numbers=ReportNumbers(job),
        names=published_names(job.run, job.readable, job.spec, job.spine),
        origins={one.name: one.origin(job.spec) for one in named_inputs(job.spec)},
    )
