"""The memory that a run takes at most, how it is made to fit into what there is, and the refusal where it does not.

An upper bound on the peak of all processes together, with pages that they share counted once (PSS). It follows from the
sizes of the arrays that are alive at once (`Size`), with each record in a cell of its own:

    main   = MAIN + bytes of what one process holds, and of the largest table while it is read for the report
    worker = WORKER + bytes of its batches, or of the run that it simulates

Every worker counts, also in a run that ends before it starts one. Three figures are no bounds: how many cells are
positive in the families of a schema of more than `MOST_TOGETHER` (`size.MORE_CELLS` times a typical number); the
records of a leaf where the spec does not state the population (`size.WIDE_RECORDS`); and what the records of a spine
that is cut take while they are counted.

Universes that are estimated together are all held by one process, which also simulates their runs.

A run that does not fit is worked on in parts and by fewer workers. No published number depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geography.spine import Spine
from pipeline.cost.size import WIDE_RECORDS, Size, basis_of_spec
from pipeline.errors import InputError
from pipeline.estimation.whole_spine import is_by_sums
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.downward.simulated_margins import counting_bytes
from postprocess.downward.simulation import GROUP_CELLS, LEAST_RUNS, most_visits
from postprocess.downward.subtrees import MOST_CELLS, PART_CELLS, Cut, cut_level, cut_of, held_bytes, tops_bytes
from postprocess.linear.draws import draw_bytes

#: MB of the main process, of the engine's, and of each worker.
MAIN_MB, ENGINE_MB, WORKER_MB = 240.0, 220.0, 95.0
#: Bytes for each column of a table at a level (three of an answer with an interval), beyond those of the smallest runs.
COLUMN_BYTES, COLUMNS = 8.0e3, 1000
#: Bytes per geounit, measured number, cell that can have persons (a histogram, its copy, and the numbers of its rows
#: and cells while it is written), cell above the leaves, number of the matrices, and number of the largest table.
GEOUNIT_BYTES, MEASURED_BYTES, FILLED_BYTES = 4_000.0, 2.0, 60.0
ABOVE_BYTES, MATRIX_BYTES, TABLE_BYTES = 60.0, 140.0, 70.0
#: Numbers of a table with margins that are read at a time.
MOST_READ = 1 << 24
#: Bytes per answer of a level that is drawn where the area above is positive, while the level is estimated.
POSITIVE_BYTES = 20.0
#: Bytes per number of the matrices where nothing but estimates follows from them.
ONLY_MATRIX_BYTES = 65.0
#: Of a spine that is cut into subtrees: bytes per geounit while the records are counted and checked, and while parts
#: are worked on (5.9 and 1.05 GB of 7.8 million).
CUT_COUNTED_BYTES, CUT_GEOUNIT_BYTES = 720.0, 140.0
#: Bytes per number with an interval around its unbiased estimate, in the part of a spine that is cut: an estimate and a
#: variance, from subtrees and from all. Of a spine that is not cut few are held at a time.
ESTIMATED_BYTES = 48.0
#: Bytes per cell of all geounits of universes that are estimated together, and of a simulated run of these: every cell
#: is there, in some arrays at a time. Of a run of 13 universes with 34 million cells (features/marginals/README.md).
TOGETHER_BYTES, TOGETHER_SIMULATED_BYTES = 66.0, 72.0
#: MB of a process with joint draws besides these, and MB at the cut of a spine that is cut: `MOST_AT_CUT` numbers, and
#: what is made of them.
BESIDE_MB, AT_CUT_MB = 60.0, 400.0
#: Leaf cells of the smallest parts that a spine is cut into to save memory.
LEAST_PART_CELLS = 1 << 18


@dataclass(frozen=True)
class Memory:
    """What a run takes at most.

    Attributes:
        peak_mb: of all processes together; pages that they share count once.
        margins_mb: the part of it that is for the margins: simulated runs, and the report's covariances; 0 without.
        workers: processes.
        parts: parts that the spine is worked on in; 1 where it is worked on at once.
    """

    peak_mb: float
    margins_mb: float
    workers: int
    parts: int


def sizes_of(spec: ReleaseSpec, spine: Spine) -> tuple[Size, ...]:
    """The sizes of the arrays of each universe."""
    moved = any(link.moves_top for stated in spec.stated_links() for link in stated.links(stated.universes))
    estimator = spec.postprocess.estimator
    return tuple(Size.of(universe, spine, moved=moved, estimator=estimator) for universe in spec.universes())


def memory_of(
    spec: ReleaseSpec,
    spine: Spine,
    workers: int,
    *,
    sizes: tuple[Size, ...] | None = None,
    most_cells: int = MOST_CELLS,
    part_cells: int = PART_CELLS,
    engine: bool = True,
) -> Memory:
    """The memory that a run of the spec takes at most.

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
    runs = spec.publish.replicates if spec.publish.margins else 0
    main = MAIN_MB + (ENGINE_MB if engine else 0.0)
    columns = (3 if runs else 1) * sum(size.columns for size in sizes)
    main += COLUMN_BYTES * max(0, columns - COLUMNS) / 1e6
    together = [size for size, one in zip(sizes, universes, strict=True) if one.together is not None]
    uncut = bool(together) or any(is_by_sums(one) or one.strategy.where_positive for one in universes)
    cut = None if uncut else cut_of(spine, max(size.cells for size in sizes), most_cells, part_cells)
    further = [part.memory(spec, spine) for part in spec.of_features]
    reserved = sum(bytes_reserved for bytes_reserved, _ in further) / 1e6
    after = max((bytes_after for _, bytes_after in further), default=0.0) / 1e6
    tables = max(_table(size, intervals=bool(runs)) for size in sizes) / 1e6
    simulating = max(_simulated(size, spine, runs) for size in sizes) / 1e6 if runs else 0.0
    draws = _draws_mb(spec, spine, workers, cut)
    if cut is not None:
        # The parts depend on each other at two points only, and a worker holds one at a time.
        counted = CUT_COUNTED_BYTES * sizes[0].geounits / 1e6
        sampled = counted * min(1.0, runs, most_visits(spine.n_leaves, sizes[0].cells))
        at_once = sampled + min(workers, runs) * (WORKER_MB + simulating)
        passes = bool(runs or spec.publish.unbiased or spec.publish.draws)
        parts = _parts_mb(sizes, spine, cut, workers, passes=passes)
        held = _top_mb(sizes, len(spine.levels[cut.level]))
        peak = main + max(counted, held + reserved + max(parts + draws, at_once, after, tables))
        margins = reserved + max(0.0, max(at_once, after) - parts) if runs else 0.0
        return Memory(peak, margins, workers, len(cut.parts))
    passes = bool(spec.publish.unbiased or spec.publish.draws)
    held = max(_held(size, passes=passes) for size in sizes) / 1e6
    # While runs are simulated nothing but margins follows any more.
    kept = max(GEOUNIT_BYTES * size.geounits + FILLED_BYTES * size.filled for size in sizes) / 1e6
    if passes:
        kept = held = held + 8.0 * max(size.final for size in sizes) / 1e6
    batches = max(_batches(size, workers) for size in sizes) / 1e6
    at_once = min(workers, runs) * simulating
    if together:
        cells = sum(size.geounits * size.cells for size in together) / 1e6
        held = kept = TOGETHER_BYTES * cells
        batches, at_once = 0.0, TOGETHER_SIMULATED_BYTES * cells * bool(runs)
    # What is worked out beside other steps is so while the others estimate, and is there before runs are simulated.
    processes = WORKER_MB * workers if workers > 1 else 0.0
    peak = main + processes + max(held + batches + reserved, kept + max(at_once, draws, after, tables))
    return Memory(peak, max(at_once, after, reserved), workers, 1)


def _table(size: Size, *, intervals: bool) -> float:
    """Bytes of the largest table while the report reads it: with intervals in parts, if it has many numbers."""
    return TABLE_BYTES * (min(3 * size.largest_table, MOST_READ) if intervals else size.largest_table)


def _batches(size: Size, workers: int) -> float:
    """Bytes of the batches that so many processes work on."""
    return workers * (size.batch + size.stack)


def _held(size: Size, share: float = 1.0, *, passes: bool = True) -> float:
    """Bytes that the process which estimates a universe, or a share of it below a level, holds.

    Args:
        size: of the universe.
        share: of it.
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
    )


def _simulated(size: Size, spine: Spine, runs: int) -> float:
    """Bytes that a simulated run takes in its process, of as many subtrees as it works on at a time."""
    share, level = 1.0, cut_level(spine)
    if level is not None:
        largest = float(np.diff(spine.leaf_offsets(level)).max()) / spine.n_leaves
        visited = most_visits(spine.n_leaves, size.cells) / min(runs, LEAST_RUNS)
        share = min(1.0, max(largest, min(visited, GROUP_CELLS / (float(spine.n_leaves) * size.cells))))
    counted = counting_bytes(size.simulated, size.widest)
    upper = (1.0 - share) * ONLY_MATRIX_BYTES * size.upper
    return _held(size, share, passes=False) + upper + max(_batches(size, 1), counted)


def _top_mb(sizes: tuple[Size, ...], n_subtrees: int) -> float:
    """MB of the process that hands out the parts of a spine that is cut, above them."""
    tops = max(tops_bytes(n_subtrees, size.cells, size.block) for size in sizes)
    return (CUT_GEOUNIT_BYTES * sizes[0].geounits + tops) / 1e6


def _parts_mb(sizes: tuple[Size, ...], spine: Spine, cut: Cut, workers: int, *, passes: bool) -> float:
    """MB of the workers of a spine that is cut, each with one part, and of what is held for all parts."""
    largest = cut.largest(spine)
    share = largest / spine.n_leaves
    one = max(
        _held(size, share, passes=passes) + share * ESTIMATED_BYTES * size.estimated + _batches(size, 1)
        for size in sizes
    )
    held = max(held_bytes(largest, size.cells, size.measured) for size in sizes)
    return workers * (WORKER_MB + one / 1e6) + held / 1e6


def _draws_mb(spec: ReleaseSpec, spine: Spine, workers: int, cut: Cut | None) -> float:
    """MB that all processes together hold for joint draws: of what is drawn above the leaves, and published."""
    draws = spec.publish.draws
    if not draws:
        return 0.0
    if cut is not None:
        return AT_CUT_MB + workers * BESIDE_MB
    each = max(_drawn(universe, spine) for universe in spec.universes()) / 1e6 + BESIDE_MB
    return (1 if workers == 1 else 1 + min(workers, draws)) * each


def _drawn(universe: Universe, spine: Spine) -> float:
    """Bytes of one draw of a universe."""
    asked = [[table.query for table in universe.tables if level in table.levels] for level in spine.level_names]
    return draw_bytes(basis_of_spec(universe), [len(level) for level in spine.levels], asked)


@dataclass(frozen=True)
class Fitting:
    """How a run is done.

    Attributes:
        memory: of the run as it is done.
        requested: of the run as it was asked for.
        available: bytes of memory.
        most_cells, part_cells: leaf cells from which the spine is cut, and of a part.
        bare: megabytes of the run without margins and unbiased estimates.
    """

    memory: Memory
    requested: Memory
    available: int
    most_cells: int
    part_cells: int
    bare: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the most that it can take is within the available memory."""
        return self.memory.peak_mb * 1e6 <= self.available

    @property
    def summary(self) -> str:
        """How the run is done: "at most 3.1 GB of 8.0 GB, in 12 parts, with 2 workers"."""
        parts = f"in {self.memory.parts:,} parts" if self.memory.parts > 1 else "the spine at once"
        return (
            f"at most {gigabytes(self.memory.peak_mb)} of {gigabytes(self.available / 1e6)}, {parts}, with "
            f"{counted_workers(self.memory.workers)}"
        )

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return vars(self.memory) | {"available_mb": self.available / 1e6, "fits": self.fits}


def fitting(spec: ReleaseSpec, spine: Spine, workers: int, available: int, *, engine: bool = True) -> Fitting:
    """The way of doing a run that fits and changes least; if none fits, the one that takes the least memory.

    Args:
        spec: of the release.
        spine: the geography.
        workers: processes that were asked for.
        available: bytes of memory.
        engine: whether an engine records the run.
    """
    sizes = sizes_of(spec, spine)
    asked = memory_of(spec, spine, workers, sizes=sizes, engine=engine)
    least: Fitting | None = None
    for count, most, part in _ways(workers, sizes, spine):
        memory = memory_of(spec, spine, count, sizes=sizes, most_cells=most, part_cells=part, engine=engine)
        candidate = Fitting(memory, asked, available, most, part)
        if candidate.fits:
            return candidate
        if least is None or memory.peak_mb < least.memory.peak_mb:
            least = candidate
    assert least is not None
    if not (spec.publish.margins or spec.publish.unbiased):
        return least
    publish = spec.publish.model_copy(update={"margins": False, "unbiased": False})
    bare = fitting(spec.model_copy(update={"publish": publish}), spine, workers, available, engine=engine)
    return replace(least, bare=bare.memory.peak_mb)


def _ways(workers: int, sizes: tuple[Size, ...], spine: Spine) -> Iterator[tuple[int, int, int]]:
    """Workers, leaf cells from which the spine is cut, and leaf cells of a part, from the most to the least memory."""
    cells = spine.n_leaves * max(size.cells for size in sizes)
    for count in range(workers, 0, -1):
        yield count, MOST_CELLS, PART_CELLS
        part = PART_CELLS
        while part > LEAST_PART_CELLS:
            part //= 2
            if part < cells:
                yield count, part, part


def check_memory(spec: ReleaseSpec, fit: Fitting) -> None:
    """Refuse a run that may not fit, before anything is charged or written.

    Raises:
        InputError: it may not fit; the message has the figures and what helps.
    """
    if fit.fits:
        return
    memory = fit.memory
    margins = f" ({gigabytes(memory.margins_mb)} of it for the margins of error)" if memory.margins_mb else ""
    parts = f" in {memory.parts:,} parts" if memory.parts > 1 else ""
    raise InputError(
        f"{spec.name}: the run can take up to {gigabytes(memory.peak_mb)} of memory{margins} with "
        f"{counted_workers(memory.workers)}{parts}, and {gigabytes(fit.available / 1e6)} are available; what helps: "
        f"{'; '.join(_help(spec, fit))}"
    )


def _help(spec: ReleaseSpec, fit: Fitting) -> Iterator[str]:
    """What would make the run fit, with figures."""
    if spec.privacy.population is None:
        yield (
            f"[privacy] population, if that is public: without it {WIDE_RECORDS:,.0f} records in an area of the lowest "
            "level are taken for granted, each in a cell of its own"
        )
    yield "a machine, or a limit of the control group, with more memory"
    if fit.bare:
        yield f"[publish] margins = false and unbiased = false, which take {gigabytes(fit.bare)}"
    yield "the setting memory (SPINEWISE_MEMORY), in gigabytes, if you know that more is available"


def counted_workers(workers: int) -> str:
    """ "1 worker", "2 workers"."""
    return f"{workers} worker{'s' if workers > 1 else ''}"


def gigabytes(megabytes: float) -> str:
    """ "3.1 GB"."""
    return f"{megabytes / 1000:.1f} GB"
