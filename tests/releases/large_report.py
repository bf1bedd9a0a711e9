"""The report of many areas, without a run: made-up counts with intervals, as tables of a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from features.registry import part_of
from geography.spine import Level
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import make_run_folders
from pipeline.release.tables import ReleasedTable, rows_at_once, write_table
from pipeline.runs.open_public import open_listed
from releases.small import request_of

_SPEC = """
name = "large"
[privacy]
rho = "2"
key = "insecure-test:1"
[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 2, tract = 5, block = 9 }}
[schema.attributes]
age = [{ages}]
[strategy.queries]
total = "1/2"
age = "1/2"
[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"
[input]
file = "blocks.csv"
form = "microdata"
geocode = "block"
[tables]
total = "total"
age = "age"
"""


def large_report(folder: Path, tracts: int, blocks: int, cells: int) -> Job:
    """The job whose public/ has tables of all levels and their report.

    Args:
        tracts, blocks: tracts of the release, and blocks of each; a hundred tracts are a county.
        cells: answers of the table `age`.
    """
    folder.mkdir(parents=True)
    codes = [f"{t // 100:02d}{t % 1000:03d}{b:04d}" for t in range(tracts) for b in range(blocks)]
    ages = [f"a{age:02d}" for age in range(cells)]
    pd.DataFrame({"block": codes, "age": ages[0]}).to_csv(folder / "blocks.csv", index=False)
    (folder / "spec.toml").write_text(_SPEC.format(ages=", ".join(f'"{age}"' for age in ages)))
    checked = request_of(folder / "spec.toml", folder / "out")
    public = open_listed(checked.spec, checked.universes)
    run = RunDirectory(folder / "out" / "large")
    make_run_folders(run)
    job = Job(run, public.spec, public.universes, public.spine, Workers(1), Silent())
    counts = np.random.default_rng(7).poisson(3, (len(codes), cells)).astype(np.int64)
    for number in range(job.spine.n_levels - 1, -1, -1):
        level = job.spine.levels[number]
        _write(job, level, "age", counts, tuple(ages))
        _write(job, level, "total", counts.sum(axis=1, keepdims=True), ("total",))
        if number:
            counts = np.add.reduceat(counts, job.spine.child_offsets(number - 1)[:-1])
    part_of("report", "written").write_report(job)
    return job


def _write(job: Job, level: Level, name: str, counts: np.ndarray, labels: tuple[str, ...]) -> None:
    """A table with intervals of 1 to 8 persons below and above, but not below 0."""
    lows, highs = np.random.default_rng(len(level)).integers(1, 9, (2, *counts.shape))
    step = rows_at_once(labels, with_margins=True)
    write_table(
        job.run.main.table(name, level.name),
        job.run.staging,
        (
            ReleasedTable(
                name, level.name, name, level.geocodes[at : at + step], labels, counts[at : at + step],
                np.maximum(counts - lows, 0.0)[at : at + step], (counts + highs + 0.0)[at : at + step],
            )
            for at in range(0, len(level), step)
        ),
    )  # fmt: skip
