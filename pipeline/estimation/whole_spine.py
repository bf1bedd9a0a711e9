"""From the public problem to whole-number histograms, level by level; of a wide schema on the sums that it measures.

The intermediate results of one universe's estimation.

Results of batches as named arrays, and back: as a resumed run finds them, or as they come from another machine.

The names, types and shapes of what another machine sends are checked before use.

The estimation of a schema of more than a million cells: on the few sums that its lower levels measure.

Only the levels at which the detail is measured have arrays over cells, one of a geounit at a time; see
`postprocess.sums`. What such a schema has to be, and what is not published of it, says `pipeline.cost.limits`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property, partial
from weakref import proxy

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Level
from pipeline.estimation.constraints import Known, Results, released_histogram
from pipeline.estimation.measurement_files import SourceFiles, require
from pipeline.estimation.problem import measurement_files, stated_problem, with_positive, with_values
from pipeline.execution.batches import run_kept
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Step
from pipeline.model.universe import Universe
from pipeline.release.histograms import write_histogram
from postprocess.algebra import Basis
from postprocess.arrays import Arrays, BoolArray
from postprocess.downward.batch import Batch, Pass, SolverReport, passes_of
from postprocess.downward.level import checked_parents, downward_level
from postprocess.downward.subtrees import Cut, joined_blocks
from postprocess.linear.information import Information
from postprocess.linear.upward import ChildrenSum, LevelEstimate, basis_of, upward_pass
from postprocess.problem import Problem
from postprocess.sums.downward import downward_sums
from postprocess.sums.upward import KnownSums


class Computed:
    """The intermediate results of one universe's estimation, each computed at first use.

    Args:
        job: the run.
        universe: that is estimated.
        results: gives the intermediate results of another universe, by its name; by default computed at once.
        full: by the full estimator, whichever the spec names.
    """

    def __init__(
        self, job: Job, universe: Universe, results: Callable[[str], Results] | None = None, *, full: bool = False
    ) -> None:
        self.job = job
        self.universe = universe
        self.full = full
        self._results = results or partial(_computed_at_once, job)

    @cached_property
    def known(self) -> Known:
        """What is known of the universe besides its measurements."""
        # A proxy, so that what is computed is freed at once, and not when cycles are collected.
        return Known.of(self.job, self.universe, proxy(self), self._results)

    @cached_property
    def stated(self) -> Problem:
        """The problem without the values of its measurements; ReleaseError where a file is not what the spec says."""
        stated = stated_problem(self.job, self.universe, self.known)
        return replace(stated, estimator="full") if self.full else stated

    @cached_property
    def problem(self) -> Problem:
        """Read from public/; ReleaseError where a file is not what the spec says."""
        return with_values(self.stated, measurement_files(self.job, self.universe))

    @cached_property
    def basis(self) -> Basis:
        """The basis of the stated problem."""
        return basis_of(self.stated)

    @cached_property
    def upward(self) -> list[LevelEstimate]:
        """The upward pass of the whole spine, top level first."""
        return upward_pass(self.problem, self.basis)

    @cached_property
    def known_sums(self) -> KnownSums:
        """What the measurements say of every level of a wide schema; nothing over its cells is asked for then."""
        return KnownSums(self.problem)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The passes of every level, the detail last."""
        return passes_of(self.stated)

    @cached_property
    def checked(self) -> list[BoolArray]:
        """Per level, which parents' children are solved again."""
        return checked_parents(self.job.spine, self.stated.seed)

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels that are solved one by one, and their estimates from the upward pass."""
        return self.problem, self.upward

    def forget(self) -> None:
        """Free the values of the measurements and what follows from them; they are computed again where needed."""
        for name in ("problem", "upward"):
            self.__dict__.pop(name, None)

    def parts(self) -> list[tuple[int, Problem, SourceFiles | None, Basis]]:
        """Of each part below a cut its number, problem without values, files of measurements, and the basis."""
        return []


def _computed_at_once(job: Job, universe: str) -> Results:
    return Computed(job, next(one for one in job.universes if one.name == universe))


#: The arrays of `Information` and of `ChildrenSum`.
INFORMATION = ("precision", "known", "unmeasured", "covariance")
CHILDREN = ("mean", "precision", "term")
#: Of the longest report of a solver, in bytes.
_LONGEST_REPORT = 10_000


def packed_level(result: tuple[sp.csr_array, SolverReport]) -> Arrays:
    """The whole-number histograms of a batch of families, and what the solvers did."""
    counts, report = result
    return {**packed_csr("counts", counts), "report": _text(asdict(report))}


def unpacked_level(arrays: Arrays) -> tuple[sp.csr_array, SolverReport]:
    """What `packed_level` packed."""
    return unpacked_csr("counts", arrays), SolverReport(**json.loads(arrays["report"].tobytes()))


def packed_top(estimate: LevelEstimate) -> Arrays:
    """The estimate of a part's geounits at the cut."""
    arrays: dict[str, np.ndarray] = {"classes": estimate.classes}
    arrays |= {f"info_{name}": getattr(estimate.info, name) for name in INFORMATION}
    if estimate.fixed is not None:
        arrays["fixed"] = estimate.fixed
    if estimate.children is not None:
        arrays |= {f"children_{name}": getattr(estimate.children, name) for name in CHILDREN}
    return arrays


def unpacked_top(arrays: Arrays) -> LevelEstimate:
    """What `packed_top` packed."""
    children = None
    if "children_mean" in arrays:
        children = ChildrenSum(*(arrays[f"children_{name}"] for name in CHILDREN))
    return LevelEstimate(
        classes=arrays["classes"],
        info=Information(*(joined_blocks([arrays[f"info_{name}"]]) for name in INFORMATION)),
        fixed=arrays.get("fixed"),
        children=children,
    )


def packed_csr(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    """A sparse matrix as arrays whose names begin with `name`."""
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}.{part}": values for part, values in parts.items()}


def unpacked_csr(name: str, arrays: Arrays) -> sp.csr_array:
    """What `packed_csr` packed."""
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = arrays[f"{name}.shape"].tolist()
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _text(content: object) -> np.ndarray:
    return np.frombuffer(json.dumps(content, sort_keys=True).encode(), dtype=np.uint8)


def check_counts(arrays: Mapping[str, NDArray[np.generic]], n: int, n_cells: int) -> None:
    """Raises WorkerError where these are no histograms `(n, n_cells)` of non-negative whole numbers."""
    shape = arrays["counts.shape"]
    require(shape.dtype.kind == "i" and shape.tolist() == [n, n_cells], "counts.shape")
    data, indices, starts = (arrays[f"counts.{name}"] for name in ("data", "indices", "indptr"))
    for name, array in (("data", data), ("indices", indices), ("indptr", starts)):
        require(array.dtype.kind == "i" and array.ndim == 1, f"counts.{name}")
    require(data.dtype == np.int64 and bool((np.asarray(data) >= 0).all()), "counts.data")
    rows = np.asarray(starts, dtype=np.int64)
    whole = len(rows) == n + 1 and rows[0] == 0 and rows[-1] == len(data) == len(indices)
    require(bool(whole and (np.diff(rows) >= 0).all()), "counts.indptr")
    cells = np.asarray(indices, dtype=np.int64)
    require(bool(((cells >= 0) & (cells < n_cells)).all()), "counts.indices")


def check_report(array: NDArray[np.generic]) -> None:
    """Raises WorkerError where this is no report of solvers."""
    require(array.dtype == np.uint8 and array.ndim == 1 and array.size <= _LONGEST_REPORT, "report")
    try:
        content = json.loads(array.tobytes())
    except ValueError:
        content = None
    require(isinstance(content, dict), "report")
    empty = asdict(SolverReport())
    require(
        content.keys() == empty.keys() and all(_is_like(content[name], own) for name, own in empty.items()), "report"
    )


def _is_like(value: object, own: object) -> bool:
    """Whether a value is of the kind of another: finite, how many, or how many by printable names."""
    if isinstance(own, dict):
        return isinstance(value, dict) and all(name.isprintable() and _is_like(n, 0) for name, n in value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return bool(np.isfinite(value)) if isinstance(own, float) else isinstance(value, int) and value >= 0


def batch_name(task: Batch) -> str:
    """The name of a batch: its first and last parent, by their numbers in their level."""
    return f"{task.first_parent}-{task.first_parent + len(task.offsets) - 2}"


class Estimation:
    """The estimation of one universe from public files.

    Intermediate results are kept for later steps until the estimation is closed, or freed where a step failed.

    Args:
        job: the run.
        universe: that is estimated.
        results: gives the intermediate results of another universe, by its name; by default computed at once.

    Attributes:
        computed: the intermediate results.
        cut: where the spine is cut; None where it is worked on at once.
    """

    cut: Cut | None = None

    def __init__(self, job: Job, universe: Universe, results: Callable[[str], Results] | None = None) -> None:
        self.job = job
        self.universe = universe
        self._results = results
        self.computed = self._nothing_computed()

    @property
    def basis(self) -> Basis:
        """The basis that the problem is stated in."""
        return self.computed.basis

    @property
    def stated(self) -> Problem:
        """The problem without the values of its measurements."""
        return self.computed.stated

    @property
    def simulated(self) -> Problem:
        """The stated problem with what its simulated runs know."""
        return self.known.put(self.stated, range(self.stated.spine.n_levels), simulated=True)

    def steps(self) -> list[Step]:
        """The steps that write the histograms of all levels."""
        levels = self.job.spine.levels
        files = [self.job.folder(self.universe).histogram(level.name) for level in levels]
        name, geounits = self.universe.name, sum(len(level) for level in levels)
        steps = [Step("combine", self.combine, name, geounits=geounits, effort=2.0, prepares=tuple(files))]
        for number, (level, file) in enumerate(zip(levels, files, strict=True)):
            estimate = partial(self.estimate_level, number)
            steps.append(Step("estimate", estimate, name, level.name, len(level), effort=5.0, files=(file,)))
        return steps

    def combine(self) -> None:
        """The upward pass, as a step of its own."""
        self.computed.combined()
        self.job.progress.advance(sum(len(level) for level in self.job.spine.levels))

    def released(self, level: int) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)` int64; ReleaseError where its file is not there."""
        return released_histogram(self.job, self.universe, level)

    def estimate_level(self, level: int) -> Notes:
        """Solve and round one level, given the released level above; writes its histogram.

        Returns:
            What the solvers did.

        Raises:
            SolverError: a family was not solved to its tolerance; the message names its parent.
        """
        above = self.released(level - 1) if level else None
        counts, report = self._solved(level, above)
        self._write(self.job.spine.levels[level], counts)
        return report.public() | self.known.notes(level)

    def _solved(self, level: int, above: sp.csr_array | None) -> tuple[sp.csr_array, SolverReport]:
        """The whole-number histograms of a level, given those of the level above."""
        problem, estimates = self.computed.combined()
        counts, report = downward_level(
            with_positive(self.known.put(problem, {level}), self.job, self.universe, level, above),
            self.basis,
            level,
            estimates[level],
            above,
            self._runner(level),
            checked=self.computed.checked[level],
            passes=self.computed.passes,
        )
        return (counts if level else self.known.at_top(problem, counts)), report

    @property
    def known(self) -> Known:
        """What is known of the universe besides its measurements."""
        return self.computed.known

    def _runner(self, level: int) -> Callable[..., Iterator[tuple[sp.csr_array, SolverReport]]]:
        """A function that works on the batches of a level, and keeps their results for a run that is resumed."""
        return partial(
            run_kept,
            self.job.workers,
            self.job.batches,
            self.steps()[1 + level].name,
            named=batch_name,
            packed=packed_level,
            unpacked=unpacked_level,
            done=self._advance,
        )

    def _advance(self, task: Batch) -> None:
        self.job.progress.advance(int(task.offsets[-1]))

    def _write(self, level: Level, counts: sp.csr_array) -> None:
        target = self.job.folder(self.universe).histogram(level.name)
        place = (level.name, level.geocodes, self.universe.schema)
        write_histogram(target, self.job.run.staging, *place, counts, signed=self.universe.measure.signed)

    def free(self) -> None:
        """Free the intermediate results; they are recomputed where they are needed."""
        self.computed = self._nothing_computed()

    def close(self) -> None:
        """Free the intermediate results and those kept for a resumed run; all files of the universe are written."""
        self.free()

    def linear(self) -> Computed:
        """The results that linear estimates start from: those of the full estimator."""
        return self.computed if self.stated.estimator == "full" else self._nothing_computed(full=True)

    def _nothing_computed(self, *, full: bool = False) -> Computed:
        return Computed(self.job, self.universe, self._results, full=full)


#: Possible cells above which a universe is estimated on sums.
MOST_CELLS_AT_ONCE = 1_000_000


def is_by_sums(universe: Universe) -> bool:
    """Whether a universe has too many cells for numbers of each of them in each geounit."""
    if universe.schema.n_cells <= MOST_CELLS_AT_ONCE:
        return False
    return universe.schema.n_cells - int(np.count_nonzero(universe.structural_zeros)) > MOST_CELLS_AT_ONCE


class SumsEstimation(Estimation):
    """The estimation of such a universe; see `Estimation`."""

    def combine(self) -> None:
        """The upward pass, as a step of its own."""
        _ = self.computed.known_sums.levels
        self.job.progress.advance(sum(len(level) for level in self.job.spine.levels))

    def _solved(self, level: int, above: sp.csr_array | None) -> tuple[sp.csr_array, SolverReport]:
        problem = with_positive(self.computed.problem, self.job, self.universe, level, above)
        return downward_sums(
            self.computed.known_sums,
            level,
            above,
            self.computed.checked[level],
            self._runner(level),
            problem.positive_of(level),
        )
