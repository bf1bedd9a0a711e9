"""Reruns in the process of the test, where its patches hold; as `spinewise rerun` otherwise."""

from __future__ import annotations

from pathlib import Path

from flows.confidential.custody import KeySource, key_of_release
from flows.confidential.repeat import RepeatedSteps
from flows.confidential.steps import MeasuringSteps
from flows.execution.job import Job
from flows.execution.progress import Silent
from flows.publishing.inputs import Facilities, Polygons
from flows.runs.record_sources import universes_to_rerun
from flows.runs.rerun import Rerun, rerun_release
from pipeline.release.layout import RunDirectory


class RepeatedHere:
    """See `Repeating`."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def check_key(self, run: RunDirectory) -> None:
        key_of_release(run, self._source)

    def repeat(self, run: RunDirectory, job: Job, facilities: Facilities, polygons: Polygons) -> MeasuringSteps:
        return RepeatedSteps(run, job, key_of_release(run, self._source), facilities, polygons)


def rerun(root: Path, data: Path | None = None, spec: Path | None = None, source: KeySource | None = None) -> Rerun:
    """What a rerun of the release finds."""
    directory = RunDirectory(root)
    universes = universes_to_rerun(directory, data, spec)
    return rerun_release(directory, universes, RepeatedHere(source or KeySource()), 1, Silent())
