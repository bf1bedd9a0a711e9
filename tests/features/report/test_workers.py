"""What other processes work out for the report ahead of it: the report is the same, whoever does it and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import QUICK, run, write_town

from features.report.page import report_page
from features.report.workers import begin_alike, begin_tables
from features.report.written import report_sources
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.published import open_finished


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workers")
    return run(write_town(folder, *QUICK), folder / "out")


def job_of(root: Path, workers: Workers) -> Job:
    release = open_finished(root, check_hashes=False)
    return Job(release.run, release.spec, release.universes, release.spine, workers, Silent())


def test_the_report_is_the_same(root: Path) -> None:
    """Alone; begun ahead in other processes, tables too; and begun with the report."""
    alone = job_of(root, Workers(1))
    pages = [report_page(report_sources(alone))]
    with Workers(2, start_after=0) as workers:
        workers.prepare("features.report.workers")
        assert workers.started
        before, beside = job_of(root, workers), job_of(root, workers)
        begin_alike(before)
        begin_tables(before)
        assert any(name.startswith("alike") for name in before.begun)
        assert any(name.startswith("table") for name in before.begun)
        for job in (before, beside):
            pages.append(report_page(report_sources(job)))
    assert pages[1:] == [pages[0]] * 2
    assert len([name for name in beside.begun if name.startswith("table")]) == 0
