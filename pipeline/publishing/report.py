"""The report of a release as a step: from public files alone, so that `verify` computes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.execution.job import Job
from pipeline.model.universe import Table
from pipeline.published import published_names
from pipeline.publishing.manifest import account_of, households_of, joint_of
from pipeline.publishing.public_inputs import named_inputs
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import Receipt
from pipeline.report.moments import PackedMoments
from pipeline.report.page import report_page
from pipeline.report.sources import ReportSources
from pipeline.report.table_numbers import PackedTable
from pipeline.storage.files import write_bytes


class ReportNumbers(Protocol):
    """What the report needs of areas and tables, as `ReportSources` has it."""

    def exact(self, universe: str, level: int, table: Table) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
        """Which numbers are certain."""

    def moments(self, universe: str, level: int, table: Table) -> PackedMoments | None:
        """How errors go together."""

    def whole(self, universe: str) -> float | None:
        """Half the width of the interval of the whole."""

    def packed(self, universe: str, level: int, table: Table) -> PackedTable | None:
        """The numbers of a table."""


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
        whole=numbers.whole,
        names=published_names(job.run, job.spec, job.spine),
        origins={one.name: one.origin(job.spec) for one in named_inputs(job.spec)},
    )
