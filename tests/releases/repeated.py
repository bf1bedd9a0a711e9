"""Reruns in the process of the test, where its patches hold; as `spinewise verify --records` otherwise."""

from __future__ import annotations

from pathlib import Path

from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import RecordHolder
from pipeline.execution.steps import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.rerun import Rerun, rerun_release, universes_to_rerun


def rerun(root: Path, data: Path | None = None, spec: Path | None = None, source: KeySource | None = None) -> Rerun:
    """What a rerun of the release finds."""
    directory = RunDirectory(root)
    universes = universes_to_rerun(directory, data, spec)
    return rerun_release(directory, universes, RecordHolder(source or KeySource()), 1, Silent())
