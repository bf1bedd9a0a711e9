"""What the feature adds to every release, whatever its spec states: files, the step that writes them, its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pipeline.spec.kind import Kind

if TYPE_CHECKING:
    from geography.spine import Spine
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.metadata.products import Product, ReleaseScope
    from pipeline.publishing.promises import Promises
    from pipeline.spec.release_spec import ReleaseSpec


@dataclass(frozen=True)
class Report(Kind):
    """The report, as those ask for it who make a release."""

    @classmethod
    def products(cls) -> Sequence[Product]:
        """See `Kind.products`."""
        from features.report.files import FURTHER, PAGE

        return PAGE, FURTHER

    def check_statement(self, scope: ReleaseScope, promises: Promises) -> object:
        """See `Kind.check_statement`."""
        from features.report.page import promised
        from pipeline.model.texts.catalogue import texts_in

        texts = texts_in(scope.spec.report.language)
        return promised(scope.spec, scope.universes, promises, texts)

    def begin_areas(self, job: Job) -> None:
        """See `Kind.begin_areas`."""
        from features.report.workers import begin_alike  # brings the solvers

        begin_alike(job)

    def begin_tables(self, job: Job) -> None:
        """See `Kind.begin_tables`."""
        from features.report.workers import begin_tables

        begin_tables(job)

    def last_steps(self, job: Job) -> list[Step]:
        """See `Kind.last_steps`."""
        from features.report.written import report_step

        return [report_step(job)]

    def memory(self, spec: ReleaseSpec, spine: Spine) -> tuple[float, float]:
        """See `Kind.memory`."""
        from features.report.moments import Reported

        found = [Reported.of(universe, spine, margins=spec.publish.margins) for universe in spec.universes()]
        after = max((one.bytes for one in found if not one.ahead), default=0.0)
        return sum(one.bytes for one in found if one.ahead), after


REPORT: Final = Report()
