"""What a run will cost in time and memory: a small model, calibrated on whole runs of many shapes.

Seconds of one core, of the calibrating machine, by the sizes of the work (`Size`):

    pass = PER_GEOUNIT geounits + PER_NUMBER measured + PER_MATRIX matrices + PER_SQUARE squares + PER_CUBE cubes
    run  = START + PER_PUBLISHED published + PER_USE uses + PER_COLUMN columns + what cvxpy checks + pass
           + PER_BESIDE beside
           + (REPLICATE pass + PER_SIMULATED geounits + PER_COUNTED simulated) for each pass that is simulated
           + SIMULATED for each level of each simulated run
           + what joint draws cost (`draw_cost`)
           + what features cost that add to every release (`HasCosts`), such as the report

Memory is an upper bound on the peak of all processes together, with pages that they share counted once (PSS). It
follows from the sizes of the arrays that are alive at once, with each record in a cell of its own:

    main   = MAIN + bytes of what one process holds, and of the largest table while it is read for the report
    worker = WORKER + bytes of its batches, or of the run that it simulates

Three figures in it are no bounds: how many cells are positive in the families of a schema of more than 256, taken to be
`MORE_CELLS` times what is assumed for the seconds (of one of more than `WIDE` the squares `MORE_POSITIVE` times); the
records of a leaf where the spec does not state the population (`size.WIDE_RECORDS`); and what the records of a spine
that is cut take while they are counted.

Universes that are estimated together are all held by one process, which also simulates their runs.

Constants were fitted on whole runs of the command, and tested on others; docs/planning.md has the figures.

What the simulated runs behind the margins will cost: how often each level is simulated, and what a run holds.

A plan knows neither which sizes are published nor how many cells are filled. It takes it that every level with tables
has numbers of a size that is just notable, which need the most, and fills cells as `size` does.

What joint draws cost: by the numbers that are drawn, and by those that are published of each draw.

The attributes that no published table of a level or below keeps are summed out before anything is drawn; see
`postprocess/linear/draws.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from geography.spine import Spine
from pipeline.cost.size import Size, basis_of_spec
from pipeline.estimation.by_sums import is_by_sums
from pipeline.execution.workers import START_AFTER
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.downward.samples import ERRORS, GROUP_CELLS, NOTABLE, NOTABLE_LEAVES, rates_of, work_of
from postprocess.downward.simulated_margins import CHUNK_NUMBERS
from postprocess.downward.subtrees import HELD, MOST_CELLS, PART_CELLS, Cut, cut_level, cut_of
from postprocess.linear.draws import kept_by

#: Seconds of a draw per number drawn and per published number.
PER_DRAWN, PER_DRAWN_PUBLISHED = 2.2e-7, 3.5e-7
#: Bytes that each process holds per number drawn above the lowest level, and per published number; and MB besides.
DRAWN_BYTES, PUBLISHED_BYTES, BESIDE_MB = 24.0, 40.0, 60.0
#: MB at the cut of a spine that is cut, `MOST_AT_CUT` numbers and what is made of them.
AT_CUT_MB = 400.0


def draw_cost(spec: ReleaseSpec, spine: Spine, workers: int, cut: Cut | None = None) -> tuple[float, float]:
    """Core seconds of all draws of a release, and the MB that all processes together hold for them; see `cost_of`."""
    draws = spec.publish.draws
    if not draws:
        return 0.0, 0.0
    sizes = [_sizes(universe, spine) for universe in spec.universes()]
    seconds = draws * sum(PER_DRAWN * size.drawn + PER_DRAWN_PUBLISHED * size.published for size in sizes)
    if cut is not None:
        return seconds, AT_CUT_MB + workers * BESIDE_MB
    if not pays_workers(seconds):
        workers = 1
    each = max(DRAWN_BYTES * size.above + PUBLISHED_BYTES * size.published for size in sizes) / 1e6 + BESIDE_MB
    return seconds, (1 if workers == 1 else 1 + min(workers, draws)) * each


def pays_workers(seconds: float) -> bool:
    """Whether other processes are counted on for so many seconds of one core, which are rather under-estimated."""
    return seconds > 0.77 * START_AFTER


@dataclass(frozen=True)
class _Sizes:
    """Numbers of one draw of a universe: that are drawn, above the lowest level alone, and that are published."""

    drawn: int
    above: int
    published: int


def _sizes(universe: Universe, spine: Spine) -> _Sizes:
    basis = basis_of_spec(universe)
    asked = [[table.query for table in universe.tables if level in table.levels] for level in spine.level_names]
    drawn, published = [], 0
    for number, level in enumerate(spine.levels):
        below = [query for queries in asked[number:] for query in queries]
        if below:
            kept = [n for n, keep in zip(basis.symmetric_shape, kept_by(basis, below), strict=True) if keep]
            drawn.append(len(level) * basis.n_asymmetric * math.prod(kept))
            published += len(level) * sum(query.size for query in asked[number])
    return _Sizes(sum(drawn), sum(drawn[:-1]), published)


@dataclass(frozen=True)
class Simulations:
    """The simulated runs of one universe.

    Attributes:
        runs: how many.
        passes: as much work as so many passes over everything.
        leaves: how often a leaf is simulated.
        share: of the spine that a run works on at a time.
    """

    runs: int
    passes: float
    leaves: float
    share: float

    @classmethod
    def of(cls, size: Size, spine: Spine, most: int) -> Simulations:
        """Those that a run of the spec would make, with at most `most` runs; none where that is 0."""
        if not most:
            return cls(0, 0.0, 0.0, 0.0)
        cut = cut_level(spine)
        needed = [
            0.0 if not has_tables else ERRORS / max(NOTABLE, _leaves_of(spine, cut, level) // NOTABLE_LEAVES)
            for level, has_tables in enumerate(size.tables)
        ]
        filled = [np.full(len(level), k) for level, k in zip(spine.levels, size.filled_cells, strict=False)]
        work = work_of(spine, size.cells, filled)
        rates = rates_of(spine, needed, work, most)
        passes = float(np.dot(rates.visits, work) / work.sum())
        share = 1.0
        if cut is not None:
            largest = float(np.diff(spine.leaf_offsets(cut)).max()) / spine.n_leaves
            group = GROUP_CELLS / (float(spine.n_leaves) * size.cells)
            share = min(1.0, max(largest, min(group, rates.visits[-1] / rates.runs)))
        return cls(rates.runs, passes, rates.visits[-1], share)


def _leaves_of(spine: Spine, cut: int | None, level: int) -> int:
    return spine.n_leaves if cut is not None and level > cut else 0


#: Seconds of one core: an empty run, the engine that records it (`benchmarks/bench_small_run.py`), a worker's start.
START, ENGINE, WORKER_START = 1.7, 2.0, 0.7
#: Seconds per geounit, measured number, published number, and per unit of the sums of squares and cubes.
PER_GEOUNIT, PER_NUMBER, PER_PUBLISHED, PER_SQUARE, PER_CUBE = 2.3e-5, 5.0e-8, 1.4e-7, 8.0e-8, 5.8e-11
#: Seconds per unit of the squares of a schema of more cells than `WIDE`, most of whose families are large; of England.
PER_WIDE_SQUARE, WIDE = 2.7e-7, 2_048
#: Seconds per number of the matrices of the upward pass.
PER_MATRIX = 5.2e-7
#: Seconds for each query of a level whose privacy losses are composed; and for each column of a table at a level (three
#: of an answer with an interval), which is written, read again for the report and compared, beyond those of the
#: smallest runs; and bytes for each of these columns.
PER_USE, PER_COLUMN, COLUMN_BYTES, COLUMNS = 0.068, 3.8e-4, 8.0e3, 1000
#: Seconds for each query of a level that features publish beside the tables, mostly for its intervals: of 100 queries
#: at three levels, with 300 and with 3,000 geounits.
PER_BESIDE = 0.01
#: Seconds that cvxpy takes for each family that it solves again, and per square of these.
CHECK, PER_CHECKED = 0.0043, 4.0e-7
#: A simulated run: in passes, and seconds for each of its levels beside that, per geounit and per published number.
REPLICATE, SIMULATED, PER_SIMULATED, PER_COUNTED = 1.0, 7.6e-3, 3.0e-5, 1.0e-7
#: Part of a pass that only one process works on.
SERIAL = 0.5
#: MB of the main process, of the engine's, and of each worker.
MAIN_MB, ENGINE_MB, WORKER_MB = 240.0, 220.0, 95.0
#: Seconds that a run takes at most, in those that are foretold: workers that start count for its memory.
MORE_SECONDS = 10.0
#: Bytes per geounit, measured number, cell that can have persons (a histogram, its copy, and the numbers of its rows
#: and cells while it is written), cell above the leaves, number of the matrices, cell of a batch, number of its
#: matrices, number of the largest table, and per square of the number of cells.
GEOUNIT_BYTES, MEASURED_BYTES, FILLED_BYTES = 4_000.0, 2.0, 60.0
ABOVE_BYTES, MATRIX_BYTES, BATCH_BYTES, STACK_BYTES, TABLE_BYTES = 60.0, 140.0, 50.0, 36.0, 70.0
SQUARE_BYTES, FAMILY_BYTES = 15.0, 4.5
#: Numbers of a table with margins that are read at a time.
MOST_READ = 1 << 24
#: Squares of the positive cells of a wide schema, in those that are assumed.
MORE_POSITIVE = 1.5
#: Bytes per answer of a level that is drawn where the area above is positive, while the level is estimated.
POSITIVE_BYTES = 20.0
#: Bytes per number of the matrices where nothing but estimates follows from them.
ONLY_MATRIX_BYTES = 65.0
#: Of a spine that is cut into subtrees: bytes per geounit while the records are counted and checked, and while parts
#: are worked on (5.9 and 1.05 GB of 7.8 million); bytes per cell of the geounits at the cut, and per number of the
#: matrices there, of which no two parts share any; the factor of the second upward pass, and what the variances of the
#: parts, and their unbiased estimates, take of a pass.
CUT_COUNTED_BYTES, CUT_GEOUNIT_BYTES, CUT_TOP_BYTES, CUT_MATRIX_BYTES = 720.0, 140.0, 110.0, 48.0
CUT_AGAIN, CUT_VARIANCES, CUT_ESTIMATES = 1.2, 0.1, 0.4
#: Bytes of a number of the measurements that are held for all parts: most need two.
VALUE_BYTES = 2.0
#: Bytes per number with an interval around its unbiased estimate, in the part of a spine that is cut: an estimate and a
#: variance, from subtrees and from all. Of a spine that is not cut few are held at a time.
ESTIMATED_BYTES = 48.0
#: Bytes per cell of all geounits of universes that are estimated together, and of a simulated run of these: every cell
#: is there, in some arrays at a time. Of a run of 13 universes with 34 million cells (features/marginals/README.md).
TOGETHER_BYTES, TOGETHER_SIMULATED_BYTES = 66.0, 72.0
#: Arrays of `CHUNK_NUMBERS` while errors are counted.
COUNTING = 1.3
#: Leaf cells from which on workers are used from the start; else after some seconds of work (`START_AFTER`).
SMALL = 200_000


@dataclass(frozen=True)
class Cost:
    """What a run is expected to cost.

    Attributes:
        core_seconds: of all processes together.
        seconds: elapsed, with `workers` processes on as many free cores.
        peak_mb: memory of all processes together at most; pages that they share count once.
        margins_mb: the part of it that is for the margins: simulated runs, and the report's covariances; 0 without.
        workers: processes.
        parts: parts that the spine is worked on in; 1 where it is worked on at once.
    """

    core_seconds: float
    seconds: float
    peak_mb: float
    margins_mb: float
    workers: int
    parts: int

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return vars(self) | {
            "accuracy": "seconds within a factor of 1.5 in 20 runs whose records fill as many cells as a census does; "
            "memory is an upper bound"
        }


class FurtherCost(Protocol):
    """What a feature costs besides, for one universe.

    Attributes:
        ahead: whether it is worked out beside other steps, else after them.
        seconds: of one core.
        bytes: that the process holds which does it.
    """

    ahead: bool

    @property
    def seconds(self) -> float:
        """See above."""

    @property
    def bytes(self) -> float:
        """See above."""


@runtime_checkable
class HasCosts(Protocol):
    """What a feature adds to a spec, or to every release, and takes time and memory for."""

    def costs(self, spec: ReleaseSpec, spine: Spine) -> Sequence[FurtherCost]:
        """What it costs, universe by universe."""


def sizes_of(spec: ReleaseSpec, spine: Spine) -> tuple[Size, ...]:
    """The sizes of the work on each universe."""
    moved = any(link.moves_top for stated in spec.stated_links() for link in stated.links(stated.universes))
    estimator = spec.postprocess.estimator
    return tuple(Size.of(universe, spine, moved=moved, estimator=estimator) for universe in spec.universes())


def cost_of(
    spec: ReleaseSpec,
    spine: Spine,
    workers: int,
    *,
    sizes: tuple[Size, ...] | None = None,
    most_cells: int = MOST_CELLS,
    part_cells: int = PART_CELLS,
    engine: bool = True,
) -> Cost:
    """The cost of a run of the spec.

    Args:
        spec: of the release.
        spine: the geography.
        workers: number of processes.
        sizes: of `sizes_of`, if they are known already.
        most_cells: leaf cells from which the spine is cut.
        part_cells: leaf cells of a part.
        engine: whether an engine records the run.
    """
    sizes = sizes or sizes_of(spec, spine)
    universes = spec.universes()
    # Universes that are estimated together are so at once, in one process.
    together = [size for size, one in zip(sizes, universes, strict=True) if one.together is not None]
    estimating = 1 if together else workers
    most = spec.publish.replicates if spec.publish.margins else 0
    simulations = [Simulations.of(size, spine, most) for size in sizes]
    passes = sum(pass_seconds(size) for size in sizes)
    start = START + (ENGINE if engine else 0.0)
    start += sum(
        PER_PUBLISHED * size.published + PER_USE * size.uses + CHECK * size.n_checked + PER_CHECKED * size.checked
        for size in sizes
    )
    columns = max(0, (3 if most else 1) * sum(size.columns for size in sizes) - COLUMNS)
    start += PER_COLUMN * columns
    start += PER_BESIDE * bool(most) * sum(size.beside for size in sizes)
    main = MAIN_MB + (ENGINE_MB if engine else 0.0) + COLUMN_BYTES * columns / 1e6
    seconds = [_simulated_seconds(size, of) for size, of in zip(sizes, simulations, strict=True)]
    simulated = sum(seconds)
    # Every worker does whole runs.
    waited = sum(
        one / of.runs * math.ceil(of.runs / estimating) for one, of in zip(seconds, simulations, strict=True) if of.runs
    )
    runs = max(of.runs for of in simulations)
    passed_on = bool(runs or spec.publish.unbiased or spec.publish.draws)
    simulating = max(_simulated(size, of) for size, of in zip(sizes, simulations, strict=True)) / 1e6
    uncut = bool(together) or any(is_by_sums(one) or one.strategy.where_positive for one in universes)
    cut = None if uncut else cut_of(spine, max(size.cells for size in sizes), most_cells, part_cells)
    drawn, of_draws = draw_cost(spec, spine, workers, cut)
    costly = [part for part in spec.of_features if isinstance(part, HasCosts)]
    further = [cost for part in costly for cost in part.costs(spec, spine)]
    besides = sum(cost.seconds for cost in further)
    # Where this is little, it is worked out while the other steps are; else after them.
    beside = sum(cost.bytes for cost in further if cost.ahead) / 1e6
    after = max((0.0 if cost.ahead else cost.bytes for cost in further), default=0.0) / 1e6
    tables = max(_published(size, margins=bool(most)) for size in sizes) / 1e6
    if cut is not None:
        # The parts depend on each other at two points only, and a worker holds one at a time.
        passes *= CUT_AGAIN + CUT_VARIANCES * bool(most) + CUT_ESTIMATES * spec.publish.unbiased
        counted = CUT_COUNTED_BYTES * sizes[0].geounits / 1e6
        sampled = counted * min(1.0, simulations[0].leaves)
        each = max(CUT_TOP_BYTES * size.cells + CUT_MATRIX_BYTES * size.block for size in sizes)
        held = (CUT_GEOUNIT_BYTES * sizes[0].geounits + each * len(spine.levels[cut.level])) / 1e6
        largest = cut.largest(spine)
        share = largest / spine.n_leaves
        parts = workers * (
            WORKER_MB
            + max(
                _held(size, share, below=cut.level, passes=passed_on)
                + share * ESTIMATED_BYTES * size.estimated
                + _batches(size, 1)
                for size in sizes
            )
            / 1e6
        )
        parts = max(parts, max(_largest_family(size, 0, cut.level + 1) for size in sizes) / 1e6)
        parts += max(VALUE_BYTES * min(HELD * largest * size.cells, size.measured) for size in sizes) / 1e6
        at_once = sampled + min(workers, runs) * (WORKER_MB + simulating)
        begun = WORKER_START * (workers if workers > 1 else 0)
        return Cost(
            core_seconds=start + begun + passes + simulated + drawn + besides,
            seconds=start + (passes + drawn) / workers + waited + besides,
            peak_mb=main + max(counted, held + beside + max(parts + of_draws, at_once, after, tables)),
            margins_mb=beside + max(0.0, max(at_once, after) - parts) if most else 0.0,
            workers=workers,
            parts=len(cut.parts),
        )
    elapsed = start + passes * (SERIAL + (1 - SERIAL) / estimating) + waited
    elapsed += drawn / min(workers, max(1, spec.publish.draws))
    elapsed += sum(cost.seconds / (workers if cost.ahead else 1) for cost in further)
    large = spine.n_leaves * max(size.cells for size in sizes) > SMALL
    paid = (1 - SERIAL) * passes + simulated
    used, most_used = (workers if large or pays_workers(times * paid) else 1 for times in (1.0, MORE_SECONDS))
    processes = WORKER_MB * most_used if most_used > 1 else 0.0
    linear = bool(spec.publish.unbiased or spec.publish.draws)
    held = max(_held(size, passes=linear) for size in sizes) / 1e6
    kept = max(_kept(size) for size in sizes) / 1e6
    if linear:
        kept = held = held + 8.0 * max(size.final for size in sizes) / 1e6
    batches = max(_batches(size, most_used) for size in sizes) / 1e6
    at_once = min(most_used, runs) * simulating
    if together:
        cells = sum(size.geounits * size.cells for size in together) / 1e6
        held = kept = TOGETHER_BYTES * cells
        batches, at_once = 0.0, TOGETHER_SIMULATED_BYTES * cells * bool(runs)
    # What is worked out beside other steps is so while the others estimate, and is there before runs are simulated.
    peak = main + processes + max(held + batches + beside, kept + max(at_once, of_draws, after, tables))
    drawing = min(workers, spec.publish.draws) if pays_workers(drawn) else 1
    started = max(used, drawing)
    begun = WORKER_START * started if started > 1 else 0.0
    core = start + begun + passes + simulated + drawn + besides
    return Cost(core, elapsed, peak, max(at_once, after, beside), workers, 1)


def _published(size: Size, *, margins: bool) -> float:
    """Bytes of the largest table while the report reads it: with margins in parts, if it has many numbers."""
    return TABLE_BYTES * (min(3 * size.largest_table, MOST_READ) if margins else size.largest_table)


def _batches(size: Size, workers: int) -> float:
    """Bytes of the batches that so many processes work on."""
    return workers * (BATCH_BYTES * size.batch + STACK_BYTES * size.stack)


def pass_seconds(size: Size) -> float:
    """Seconds of one core for one pass over a universe."""
    of_numbers = PER_GEOUNIT * size.geounits + PER_NUMBER * size.measured + PER_MATRIX * size.matrices
    square = PER_WIDE_SQUARE if size.cells > WIDE else PER_SQUARE
    return of_numbers + square * size.squares + PER_CUBE * size.cubes


def _held(size: Size, share: float = 1.0, *, below: int = 0, passes: bool = True) -> float:
    """Bytes that the process which estimates a universe, or a share of it below a level, holds.

    Args:
        size: of the universe.
        share: of it.
        below: the cut, where it is one.
        passes: whether all matrices are needed for more than the estimates: unbiased estimates, draws, or in a part of
            a spine that is cut margins.
    """
    return share * (
        GEOUNIT_BYTES * size.geounits
        + MEASURED_BYTES * size.measured
        + POSITIVE_BYTES * size.positive
        + FILLED_BYTES * size.filled
        + ABOVE_BYTES * size.above
        + (MATRIX_BYTES if passes else ONLY_MATRIX_BYTES) * size.matrices
    ) + _largest_family(size, below, len(size.at_once))


def _kept(size: Size) -> float:
    """Bytes of a universe that are held while its runs are simulated, and nothing but margins follows any more."""
    return GEOUNIT_BYTES * size.geounits + FILLED_BYTES * size.filled


def _largest_family(size: Size, above: int, below: int) -> float:
    """Bytes of the matrices of the largest family whose children are of the levels from `above` to before `below`."""
    top = 0.0 if above else SQUARE_BYTES * size.top_matrix
    largest = max(top, FAMILY_BYTES * max(size.at_once[above and above + 1 : below], default=0.0))
    return largest * (MORE_POSITIVE if size.at_top < size.possible else 1.0)


def _simulated_seconds(size: Size, simulations: Simulations) -> float:
    """Seconds of one core for all simulated runs of a universe."""
    once = REPLICATE * pass_seconds(size) * simulations.passes
    counted = simulations.leaves * (PER_SIMULATED * size.geounits + PER_COUNTED * size.simulated)
    return once + counted + SIMULATED * simulations.runs * len(size.tables)


def _simulated(size: Size, simulations: Simulations) -> float:
    """Bytes that a simulated run takes in its process."""
    if not simulations.runs:
        return 0.0
    errors = 48.0 * size.widest
    counted = 8.0 * COUNTING * min(float(CHUNK_NUMBERS), float(size.simulated))
    upper = (1.0 - simulations.share) * ONLY_MATRIX_BYTES * size.upper
    held = _held(size, simulations.share, passes=False) + upper
    return held + max(_batches(size, 1), 2 * errors + counted)
