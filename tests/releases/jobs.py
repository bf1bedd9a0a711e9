"""A small town of jobs: a person has up to six, each with place, sort, wage and hours, and two of each are counted.

The wages of a person are bounded in all: by 500, in units of 10; the hours of each job by 40. One person has six jobs
of 400 each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from releases.small import changed

#: Jobs of a person that are counted.
JOBS = 2
BLOCKS = tuple(f"A{tract}{block}" for tract in range(2) for block in range(3))
SORTS = ("part", "full")
SPEC = f"""
name = "jobs"
privacy = {{ rho = "2", key = "insecure-test:1", unit = "person", at_most = {JOBS} }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ county = 1, tract = 2, block = 3 }} }}
schema.attributes = {{ sex = ["f", "m"], sort = ["part", "full"] }}
input = {{ file = "jobs.csv", form = "microdata", geocode = "block" }}
publish = {{ replicates = 2, microdata = false }}

[strategy]
queries = {{ total = "1/4", sex = "1/4", detailed = "1/2" }}
levels = {{ county = "1/4", tract = "1/4", block = "1/2" }}

[companions.wages]
amount = "wage"
between = ["0", "500"]
unit = "10"
ends = "total"
privacy = {{ rho = "1" }}
schema.attributes = {{ sort = ["part", "full"] }}
strategy.queries = {{ total = "1/2", detailed = "1/2" }}
strategy.levels = {{ county = "1/4", tract = "1/4", block = "1/2" }}

[companions.hours]
amount = "hours"
between = ["0", "40"]
unit = "1"
privacy = {{ rho = "1" }}
schema.attributes = {{ sort = ["part", "full"] }}
strategy.queries = {{ detailed = "1" }}
strategy.levels = {{ county = "1/4", tract = "1/4", block = "1/2" }}
"""

#: Person, block, sex, sort, wage in tens and hours of a job.
Job = tuple[str, str, str, str, int, int]


def jobs() -> list[Job]:
    """Every job, in the order of the file."""
    rng = np.random.default_rng(11)
    rows: list[Job] = [
        (
            f"p{person}", BLOCKS[int(rng.integers(6))], "fm"[person % 2], SORTS[int(rng.integers(2))],
            int(rng.integers(1, 60)), int(rng.integers(5, 50)),
        )
        for person in range(120)
        for _ in range(int(rng.integers(1, 5)))
    ]  # fmt: skip
    return [*rows, *(("rich", "A12", "m", sort, 40, 40) for sort in SORTS * 3)]


def write_jobs(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the files and the spec; `changes` are texts of the spec and what stands in their place."""
    (folder / "blocks.csv").write_text("block\n" + "\n".join(BLOCKS) + "\n", encoding="utf-8")
    lines = [
        f"{block},{sex},{sort},{10 * wage}.00,{hours},{person}" for person, block, sex, sort, wage, hours in jobs()
    ]
    (folder / "jobs.csv").write_text("\n".join(["block,sex,sort,wage,hours,person", *lines]) + "\n", encoding="utf-8")
    path = folder / "jobs.toml"
    path.write_text(changed(SPEC, changes), encoding="utf-8")
    return path
