"""From what is drawn to the bytes of a release: read it from the top. Every command that makes a release comes here.

The commands differ by the `DrawSource`: a run has records, key and ledger (`pipeline.runs.run`); a rerun has them too
and charges nothing; `verify`, `update` and `run --measurements` take over what is there, and need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.execution.batches import Batches
from pipeline.execution.job import Checkpoints, Job, perform_steps
from pipeline.execution.steps import Perform, Step, perform_here
from pipeline.plan import plan_of
from pipeline.publishing.manifest import manifest_of
from pipeline.publishing.steps import Publication, begin_areas, last_steps, publications
from pipeline.release.manifest import KeyStatement, Manifest, write_manifest
from pipeline.signatures.statement import drop_stale_signature


class DrawSource:
    """Where what is drawn comes from. Of this one all is under public/ already: nothing is counted, charged or drawn.

    Args:
        said: what is said in public of key and records.
    """

    def __init__(self, said: KeyStatement | None = None) -> None:
        self._said = said or KeyStatement()

    def counting(self) -> Sequence[Step]:
        """Count and check the records; nothing is published by these steps, and nothing is spent."""
        return ()

    def counted(self) -> None:
        """The records are counted: bind the directory to them; InputError if it is of others."""

    def charging(self) -> Sequence[Step]:
        """Reserve the budget before it is spent; repeating the same run is not charged."""
        return ()

    def drawing(self) -> Sequence[Step]:
        """Publish the measurements, and the public inputs beside them."""
        return ()

    def drawing_between(self) -> Sequence[Step]:
        """What depends on a released level, each step to be performed before its own level is estimated."""
        return ()

    def closing(self) -> Sequence[Step]:
        """Record in the ledger that everything that was charged for is drawn."""
        return ()

    def end(self) -> None:
        """All is drawn: records, key and ledger are needed no more, and whoever held them ends."""

    def comparing(self) -> Sequence[Step]:
        """Compare the release with the truth, for the agency alone; none where nobody has it."""
        return ()

    def said(self) -> KeyStatement:
        """What is said in public of key and records, once all is drawn."""
        return self._said

    def finished(self) -> None:
        """The manifest is written."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a run as people know it, which performs its steps.

    Attributes:
        name: such as "estimate"; `universe`: the companion's that it is of, "" for the release's own and for all.
    """

    name: str
    perform: Callable[[], None]
    universe: str = ""


class ReleaseRun:
    """A run in progress. Steps that an interrupted run has completed are skipped.

    Args:
        job: its directory, spec, geography and workers.
        source: where what is drawn comes from.
        perform: performs one step.
        resumed: whether what was done before an interruption is gone on with.
    """

    def __init__(self, job: Job, source: DrawSource, perform: Perform = perform_here, *, resumed: bool = False) -> None:
        self.job, self.source = job, source
        self._perform, self._resumed = perform, resumed
        self._publications = publications(job, source.drawing_between())
        drawing = [publication for publication in self._publications if publication.draws_between]
        self._last_that_draws = drawing[-1] if drawing else None
        self._checkpoints: Checkpoints | None = None
        plan_of(job)  # or nothing is counted, charged or drawn

    def stages(self) -> Iterator[Stage]:
        """The stages, each to be performed before the next is asked for."""
        self.job.progress.begin(tuple(self._steps()))
        yield Stage("count", self._count)
        yield Stage("charge", self._charge)
        yield Stage("measure", self._measure)
        for publication in self._publications:
            name = publication.universe.name
            with publication:
                yield Stage("estimate", partial(self._estimate, publication), name)
                yield Stage("simulate", partial(self._perform_all, publication.simulating()), name)
                yield Stage("publish", partial(self._perform_all, publication.publishing()), name)
        yield Stage("report", partial(self._perform_all, last_steps(self.job)))
        yield Stage("compare", partial(self._perform_all, self.source.comparing()))

    def perform(self) -> None:
        """Perform all stages, one after the other."""
        for stage in self.stages():
            stage.perform()

    def manifest(self) -> Manifest:
        """What the release is, once all stages are performed."""
        return manifest_of(self.job, self.source.said())

    def finish(self, manifest: Manifest | None = None) -> None:
        """Write the manifest: the release is complete."""
        write_manifest(self.job.run, manifest or self.manifest())
        drop_stale_signature(self.job.run)
        Batches(self.job.run).forget()
        self.source.finished()

    def _steps(self) -> Iterator[Step]:
        """All steps in their order, for the progress."""
        source = self.source
        yield from (*source.counting(), *source.charging())
        yield from source.drawing()
        if self._last_that_draws is None:
            yield from source.closing()
        for publication in self._publications:
            yield from publication.estimating()
            if publication is self._last_that_draws:
                yield from source.closing()
            yield from (*publication.simulating(), *publication.publishing())
        yield from (*last_steps(self.job), *source.comparing())

    def _count(self) -> None:
        self._perform_all(self.source.counting())
        self.source.counted()

    def _charge(self) -> None:
        """Before anything is drawn."""
        self._perform_all(self.source.charging())

    def _measure(self) -> None:
        """Draw the noise and publish the measurements, but for what depends on a released level."""
        # From here on the directory changes; without a manifest it cannot be taken for a complete release.
        self.job.run.manifest.unlink(missing_ok=True)
        self.job.run.finished.unlink(missing_ok=True)
        if self._resumed:
            self._checkpoints = Checkpoints(self.job.run)
        self._perform_all(self.source.drawing())
        if self._last_that_draws is None:
            self._close()
        self.job.inputs.forget()
        begin_areas(self.job)

    def _estimate(self, publication: Publication) -> None:
        self._perform_all(publication.estimating())
        if publication is self._last_that_draws:
            self._close()

    def _close(self) -> None:
        """All is drawn: what follows is computed from public files alone."""
        self._perform_all(self.source.closing())
        self.source.end()

    def _perform_all(self, steps: Sequence[Step]) -> None:
        perform_steps(self.job, steps, self._perform, self._checkpoints)
