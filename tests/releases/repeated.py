"""Reruns in the process of the test, where its patches hold; as `spinewise verify --records` otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.confidential.custody import Keyholder, KeySource, key_of_release
from pipeline.confidential.parts import RecordQuestion, answering, installed_parts
from pipeline.confidential.repeat import RepeatedSteps
from pipeline.confidential.steps import MeasuringSteps
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.rerun import Rerun, rerun_release, universes_to_rerun


class RepeatedHere:
    """See `Repeating`."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def check_key(self, run: RunDirectory) -> None:
        key_of_release(run, self._source)

    def question(self, work: RecordQuestion) -> Mapping[str, object]:
        return answering(work)(work, Keyholder(self._source, None), self._source)

    def repeat(self, run: RunDirectory, job: Job) -> MeasuringSteps:
        return RepeatedSteps(run, job, key_of_release(run, self._source), installed_parts())


def rerun(root: Path, data: Path | None = None, spec: Path | None = None, source: KeySource | None = None) -> Rerun:
    """What a rerun of the release finds."""
    directory = RunDirectory(root)
    universes = universes_to_rerun(directory, data, spec)
    return rerun_release(directory, universes, RepeatedHere(source or KeySource()), 1, Silent())
