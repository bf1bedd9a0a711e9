"""What a run will cost in time and memory: a small model, calibrated on whole runs of Rhode Island.

One pass of the post-processing takes, on one core of the calibrating machine,

    pass = PER_GEOUNIT geounits + PER_NUMBER measured numbers + PER_CELL_CUBED cells^3        seconds,

the last for the dense solve at the top. A run is START + pass, and each simulated run behind the margins of error
REPLICATE of a pass. `benchmarks/bench_plan.py` compares it with measured runs; docs/planning.md has the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from geography.spine import Spine
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.downward.subtrees import cut_of

#: Seconds of one core: a run of nothing, with the engine that records it.
START = 11.0
#: Seconds a geounit, a measured number, and the cube of the number of cells.
PER_GEOUNIT, PER_NUMBER, PER_CELL_CUBED = 1.6e-4, 2.8e-7, 9.5e-10
#: A simulated run, in passes.
REPLICATE = 0.47
#: Part of a pass that only one process works on.
SERIAL = 0.5
#: MB of the main process and the engine's, and of each worker.
MAIN_MB, WORKER_MB = 660.0, 230.0
#: MB a measured number, and the square of the number of cells.
NUMBER_MB, CELL_SQUARED_MB = 6.0e-6, 5.4e-5
#: Of a spine that is cut into subtrees: MB a geounit of the whole, and what the second upward pass adds to the time.
GEOUNIT_MB, CUT_AGAIN = 2.2e-3, 1.2
#: MB that each worker needs to simulate: a measured number, a number of a published table.
SIMULATED_MB, TABLE_MB = 1.5e-5, 0.115
#: Leaf cells from which on workers are used from the start.
SMALL = 200_000


@dataclass(frozen=True)
class Cost:
    """What a run is expected to cost.

    Attributes:
        core_seconds: of all processes together.
        seconds: elapsed, with `workers` processes on as many free cores.
        peak_mb: resident memory of all processes together; pages that they share count in each.
    """

    core_seconds: float
    seconds: float
    peak_mb: float
    workers: int

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return vars(self) | {"accuracy": "within a factor of 1.5 on the calibrating machine"}


def cost_of(spec: ReleaseSpec, spine: Spine, workers: int) -> Cost:
    """The cost of a run of the spec."""
    universes = spec.universes()
    replicates = spec.publish.replicates if spec.publish.margins else 0
    passes = sum(_pass_seconds(one, spine) for one in universes)
    cells = max(one.schema.n_cells for one in universes)
    numbers = max(_numbers(one, spine) for one in universes)
    cut = cut_of(spine, cells)
    if cut is not None and not replicates:
        # The parts need each other at two moments only, and a worker holds one at a time.
        passes *= CUT_AGAIN
        leaves = spine.leaf_offsets(cut.level)
        largest = max(int(leaves[last] - leaves[first]) for first, last in cut.parts) / spine.n_leaves
        peak = MAIN_MB + GEOUNIT_MB * sum(map(len, spine.levels))
        peak += workers * (WORKER_MB + NUMBER_MB * numbers * largest)
        return Cost(START + passes, START + passes / workers, peak, workers)
    simulated = REPLICATE * passes
    elapsed = START + passes * (SERIAL + (1 - SERIAL) / workers) + simulated * math.ceil(replicates / workers)
    peak = MAIN_MB + NUMBER_MB * numbers + CELL_SQUARED_MB * cells**2
    if workers > 1 and (replicates or spine.n_leaves * cells > SMALL):
        peak += WORKER_MB * workers
    if replicates:
        table = max((table.query.size for one in universes for table in one.tables), default=0)
        peak += min(workers, replicates) * (SIMULATED_MB * numbers + TABLE_MB * table)
    return Cost(START + passes + simulated * replicates, elapsed, peak, workers)


def _pass_seconds(universe: Universe, spine: Spine) -> float:
    geounits = sum(len(level) for level in spine.levels)
    return PER_GEOUNIT * geounits + PER_NUMBER * _numbers(universe, spine) + PER_CELL_CUBED * universe.schema.n_cells**3


def _numbers(universe: Universe, spine: Spine) -> int:
    """Numbers that are measured."""
    return sum(
        len(level) * one.query.size
        for level, strategy in zip(spine.levels, universe.strategy.levels, strict=True)
        for one in strategy.queries
    )
