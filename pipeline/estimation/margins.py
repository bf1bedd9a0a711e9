"""Margins of error beside the numbers of the tables: new runs are simulated from the released histograms.

The variances of the numbers in tables: at once, or below a cut part by part.

Those of joined households are what the persons leave of them: less where it is known how many members they have, and
not less where many are of an open size. Simulated errors in such standard errors are alike in all geounits of a level.

The simulations see public data only, and their noise comes from the public seed: they cost no budget, and anyone can
repeat them.

The simulated runs of one universe: how many, of which geounits, and everything that each of them needs.

All of it follows from public files and the public seed, and not from where or how the release is computed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.disclosure.method import KEYS, DisclosureMethod
from pipeline.estimation.around_estimates import AroundEstimates
from pipeline.estimation.constraints import IntervalRule
from pipeline.estimation.measurement_files import checked, require
from pipeline.estimation.problem import stored_in_leaves
from pipeline.estimation.subtree_answers import LinearParts
from pipeline.execution.batches import run_kept
from pipeline.execution.threads import give_memory_back
from pipeline.model.draw import ReportNoise, by_level, everywhere, kinds_of
from pipeline.model.public_key import public_key
from pipeline.model.source import CountErrors
from pipeline.model.universe import Table, Universe
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.streams import Stream
from postprocess.arrays import Arrays, BoolArray, Ends, FloatArray, IntArray, runs
from postprocess.downward.batch import members_expected
from postprocess.downward.intervals import Intervals, ReportedIntervals
from postprocess.downward.simulated_margins import ENOUGH, ErrorCounts, PublishedTable, SizedErrors, n_owners
from postprocess.downward.simulation import (
    GROUP_CELLS,
    Rates,
    Simulated,
    Stretch,
    needed_of,
    rates_of,
    simulate_run,
    sizes_of,
    summarised,
    visited,
    work_of,
)
from postprocess.downward.subtrees import Cut, above_cut, chosen_subtrees, cut_level, without_values
from postprocess.linear.downward import (
    AnswerVariances,
    Asked,
    LevelVariances,
    SumCovariances,
    answer_variances_of,
    variances_of,
)
from postprocess.linear.upward import LevelEstimate, silent_of
from postprocess.marginal import Marginal
from postprocess.members import Implied
from postprocess.problem import Problem

if TYPE_CHECKING:
    from pipeline.estimation.by_subtree import ComputedBySubtree
    from pipeline.estimation.whole_spine import Estimation


class TableVariances:
    """The variances of one universe's tables.

    Args:
        estimation: of the universe.
        tables: each table at each of its levels.
        step: the name under which those of parts are kept.
    """

    def __init__(self, estimation: Estimation, tables: Sequence[PublishedTable], step: str) -> None:
        self._estimation = estimation
        self._cut = estimation.cut
        self._step = f"{step} variances"
        self._tables: tuple[tuple[Marginal, ...], ...] = tuple(
            tuple({table.marginal.key: table.marginal for table in tables if table.level == level}.values())
            for level in range(estimation.job.spine.n_levels)
        )
        self._last: tuple[tuple[int, int], AnswerVariances] | None = None
        self._implied: tuple[int, Implied] | None = None

    @cached_property
    def _queries(self) -> tuple[tuple[Asked, ...], ...]:
        """Per level the queries of its tables; and of joined households, how they vary with the members to expect."""
        implied = self._estimation.known.implied(0)
        if implied is None or not len(implied.counted.expected):
            return self._tables
        kinds, expected = implied.counted.households, implied.counted.expected
        return tuple(
            (*own, kinds, *(SumCovariances(query, expected) for query in (*own, kinds))) if own else ()
            for own in self._tables
        )

    def _given_persons(self, level: int, rows: slice, found: AnswerVariances) -> AnswerVariances:
        """The tables' variances of some geounits, once the persons are a measurement of the households."""
        tables, queries = self._tables[level], self._queries[level]
        if queries == tables:
            return found
        implied = self._members_of(level).of_rows(rows)
        pairs, first, classes = np.unique(
            np.stack([found.classes, implied.kinds[1]]), axis=1, return_index=True, return_inverse=True
        )
        values = [found.by_query[query.key][pairs[0]] for query in queries]
        n, kinds = len(first), values[len(tables)]
        *covariances, of_kinds = (
            each.reshape(n, query.query.size, -1)
            for each, query in zip(values, queries, strict=True)
            if isinstance(query, SumCovariances)
        )
        determined = ~np.isnan(kinds).any(axis=1, keepdims=True)
        by_query = {
            query.key: np.where(determined, implied.variances_given(first, own, each, of_kinds), own)
            for query, own, each in zip(tables, values, covariances, strict=False)
        }
        return AnswerVariances(classes.ravel(), by_query)

    def _members_of(self, level: int) -> Implied:
        """The members that households of a level were to have when they were released; those of the last are kept."""
        if self._implied is None or self._implied[0] != level:
            (_, upward), problem = self._estimation.computed.combined(), self._estimation.simulated
            parents = self._estimation.released(level - 1) if level else None
            own = upward[min(level, len(upward) - 1)]
            implied = members_expected(problem, self._estimation.basis, level, own, parents)
            assert implied is not None
            self._implied = level, implied
        return self._implied[1]

    @cached_property
    def _held(self) -> tuple[tuple[AnswerVariances, ...], LevelVariances | None]:
        """Those of the levels that are held at once, and all covariances at the cut, which its parts begin with."""
        (problem, upward), basis = self._estimation.computed.combined(), self._estimation.basis
        if self._cut is None:
            found = answer_variances_of(problem, basis, upward, self._queries)
            return tuple(self._given_persons(level, slice(None), own) for level, own in enumerate(found)), None
        answers, at_cut = [], None
        for level, (variances, queries) in enumerate(zip(variances_of(problem, upward), self._queries, strict=False)):
            answers.append(self._given_persons(level, slice(None), variances.of_queries(basis, queries)))
            at_cut = variances
        return tuple(answers), at_cut

    @cached_property
    def _below(self) -> LinearParts:
        """Those of the levels below the cut, which are computed at first use."""
        computed, at_cut = cast("ComputedBySubtree", self._estimation.computed), self._held[1]
        assert at_cut is not None
        parts = LinearParts(computed, at_cut, self._queries[computed.cut.level + 1 :], self._step)
        parts.compute()
        return parts

    def _rows(self, level: int) -> list[slice]:
        """The rows of a level that are held together, and those of each part of it below a cut."""
        if self._cut is None or level <= self._cut.level:
            return [slice(0, len(self._estimation.job.spine.levels[level]))]
        return [self._below.rows(level, number) for number in range(len(self._cut.parts))]

    def _of_part(self, level: int, number: int) -> AnswerVariances:
        """The variances of these rows; those of the last part are kept."""
        if self._cut is None or level <= self._cut.level:
            return self._held[0][level]
        if self._last is None or self._last[0] != (level, number):
            found = self._below.level(level, number).variances
            self._last = (level, number), self._given_persons(level, self._below.rows(level, number), found)
        return self._last[1]

    def stretches(self, level: int) -> Iterator[tuple[slice, AnswerVariances]]:
        """The variances of a level, some successive geounits at a time."""
        for number, rows in enumerate(self._rows(level)):
            yield rows, self._of_part(level, number)

    def largest(self, level: int) -> AnswerVariances:
        """Of each answer the largest variance of the level, as one class without geounits."""
        parts = [variances.largest() for _, variances in self.stretches(level)]
        return AnswerVariances.joined(parts).largest()

    def of_rows(self, level: int, rows: slice) -> AnswerVariances:
        """The variances of some geounits, and classes of others."""
        own = self._rows(level)
        numbers = [n for n, part in enumerate(own) if part.start < rows.stop and rows.start < part.stop]
        first = own[numbers[0]].start
        joined = AnswerVariances.joined([self._of_part(level, number) for number in numbers])
        return joined.with_rows(slice(rows.start - first, rows.stop - first))

    def of_groups(self, level: int, groups: Sequence[IntArray]) -> list[AnswerVariances]:
        """The variances of several groups of geounits, whose rows increase."""
        pieces: list[list[AnswerVariances]] = [[] for _ in groups]
        for part, variances in self.stretches(level):
            for rows, found in zip(groups, pieces, strict=True):
                own = rows[np.searchsorted(rows, part.start) : np.searchsorted(rows, part.stop)]
                if len(own):
                    found.append(variances.of_rows(own - part.start))
        return [AnswerVariances.joined(found) for found in pieces]


#: Simulations of a level for the errors of each cell, at most: more of the same areas say little of others.
_MOST_VISITS = 8.0


@dataclass(frozen=True, eq=False)
class SampledRuns:
    """The simulated runs of one universe.

    Attributes:
        estimation: of the universe, whose histograms are written.
        tables: each table at each of its levels.
        variances: of the tables' numbers.
        most: simulated runs at most.
        stand_ins: per level, what stands in for the truth; the released histograms by default.
    """

    estimation: Estimation
    tables: tuple[PublishedTable, ...]
    variances: TableVariances
    most: int
    stand_ins: tuple[sp.csr_array, ...] | None = None

    @property
    def _spine(self) -> Spine:
        return self.estimation.job.spine

    def rates(self) -> Rates:
        """How often each level is simulated."""
        needed: list[float] = []
        filled: list[FloatArray | IntArray] = []
        n_cells = self.estimation.stated.n_cells
        cut = cut_level(self._spine)
        for level in range(self._spine.n_levels):
            released = self._truth(level)
            filled.append(np.diff(released.indptr))
            leaves = self._spine.n_leaves if cut is not None and level > cut else 0
            needed.append(max(self._needed(level, released, leaves), self._of_each(level)))
        return rates_of(self._spine, needed, work_of(self._spine, n_cells, filled[:-1]), self.most)

    def _truth(self, level: int) -> sp.csr_array:
        """What stands in for the truth, `(n, n_cells)`."""
        return self.estimation.released(level) if self.stand_ins is None else self.stand_ins[level]

    def _of_each(self, level: int) -> float:
        """Simulations by which each cell has errors enough, of counts of 0 and of others; 0 where all share them."""
        enough = min(_MOST_VISITS, 2 * ENOUGH / len(self._spine.levels[level]))
        return enough if self.stand_ins is not None and self._has_tables(level) else 0.0

    def _has_tables(self, level: int) -> bool:
        return any(table.level == level for table in self.tables)

    def _needed(self, level: int, released: sp.csr_array, leaves: int) -> float:
        tables = [table for table in self.tables if table.level == level]
        if not tables:
            return 0.0
        origin = self.estimation.known.origin(level)
        if origin is not None:
            released = sp.csr_array(released - origin)
        sizes: list[IntArray] = [np.zeros(1, dtype=np.int64)] * len(tables)
        for rows, variances in self.variances.stretches(level):
            part = released[rows]
            for i, table in enumerate(tables):
                sizes[i] = sizes[i] + sizes_of(table.marginal, variances, part)
        return needed_of(sizes, leaves)

    def tasks(self, rates: Rates) -> Iterator[Simulated]:
        """The runs, in order."""
        estimation, stated = self.estimation, self.estimation.simulated
        flags = visited(self._spine, rates, self._key("sample"))
        last = self._spine.n_levels - 1 if rates.cut is None else rates.cut
        upper = stated if rates.cut is None else above_cut(stated, Cut(last, ()))
        upper_released = tuple(self._truth(level) for level in range(last + 1))
        variances = tuple(
            self.variances.of_rows(level, slice(0, len(own))) if self._has_tables(level) else None
            for level, own in enumerate(upper.spine.levels)
        )
        at_cut: LevelEstimate | None = None
        if rates.cut is not None and stated.estimator == "full":
            at_cut = summarised(estimation.computed.combined()[1][last])
        nothing = tuple(ErrorCounts.empty(table, self.variances.largest(table.level)) for table in self.tables)
        silent = tuple(silent_of(stated)[: last + 1])
        for run, groups in enumerate(self._groups(rates, flags)):
            yield Simulated(
                replicate=run,
                basis=estimation.basis,
                passes=estimation.computed.passes,
                upper=Stretch(
                    _bare(upper),
                    tuple(np.arange(len(level)) for level in upper.spine.levels),
                    upper_released,
                    tuple(flags[level][run] for level in range(last)),
                    variances,
                ),
                silent=silent,
                at_cut=at_cut,
                drawn_by=self._key("summary", run),
                groups=groups,
                tables=self.tables,
                nothing=nothing,
                key=self._key("members", run),
            )

    def _groups(self, rates: Rates, flags: list[BoolArray]) -> list[tuple[Stretch, ...]]:
        """Of each run its subtrees below the cut, some at a time."""
        if rates.cut is None:
            return [()] * rates.runs
        simulated, leaves = self.estimation.simulated, self._spine.leaf_offsets(rates.cut)
        found: dict[bytes, tuple[Problem, list[IntArray]]] = {}
        of_runs: list[list[bytes]] = []
        for chosen in map(np.flatnonzero, flags[rates.cut]):
            of_runs.append([])
            cells = (leaves[chosen + 1] - leaves[chosen]) * simulated.n_cells
            for first, last in runs(np.append(0, np.cumsum(cells)), GROUP_CELLS):
                tops = chosen[first:last]
                of_runs[-1].append(tops.tobytes())
                if of_runs[-1][-1] not in found:
                    found[of_runs[-1][-1]] = chosen_subtrees(simulated, rates.cut, tops)
        levels: list[list[tuple[sp.csr_array, AnswerVariances | None]]] = []
        for i, level in enumerate(range(rates.cut, self._spine.n_levels)):
            truth, rows = self._truth(level), [own[i] for _, own in found.values()]
            below = i > 0 and self._has_tables(level)
            known = self.variances.of_groups(level, rows) if below else [None] * len(rows)
            levels.append([(truth[own], of_group) for own, of_group in zip(rows, known, strict=True)])
        stretches = {}
        for (key, (problem, own_rows)), pairs in zip(found.items(), zip(*levels, strict=True), strict=True):
            everywhere = tuple(np.ones(len(own), dtype=bool) for own in own_rows[:-1])
            released, variances = zip(*pairs, strict=True)
            stretches[key] = Stretch(problem, tuple(own_rows), released, everywhere, variances)
        return [tuple(stretches[key] for key in keys) for keys in of_runs]

    def _key(self, purpose: str, *numbers: int) -> int:
        """128 bits that follow from the public seed, the universe and what they are for."""
        seed, universe = self.estimation.stated.seed, self.estimation.universe.name
        return int.from_bytes(public_key(f"spinewise simulated {purpose} 1", seed, universe, *numbers)[:16], "big")


def _bare(problem: Problem) -> Problem:
    """A problem without the values of its measurements."""
    return replace(problem, measured=tuple(without_values(queries) for queries in problem.measured))


@dataclass(frozen=True, eq=False)
class PublicNoise:
    """Noise of simulated runs: the distributions of the real one, drawn from a public seed.

    Attributes:
        seed: public.
        universe: its name; universes and replicates do not share noise.
        noise: per level, of each query in the order of the problem, for each kind of geounit.
        kinds: per level, as in `Problem`.
        queries: per level, in the order of the problem; needed where there are keys.
        keys: per level, the sums of the records' keys `(n, n_cells)`; empty where no error follows from them.
    """

    seed: int
    universe: str
    noise: tuple[tuple[tuple[NoiseSpec | DisclosureMethod, ...], ...], ...]
    kinds: tuple[NDArray[np.signedinteger] | None, ...]
    queries: tuple[tuple[Marginal, ...], ...] = ()
    keys: tuple[sp.csr_array, ...] = ()

    @classmethod
    def of(cls, seed: int, universe: Universe, spine: Spine, truth: Callable[[], sp.csr_array]) -> Self:
        """That of a universe's draws; reports the source simulates. `truth` gives what stands for true leaves."""
        levels = by_level(everywhere(universe.draws(spine)), spine.level_names)
        noise = tuple(
            tuple(
                tuple(
                    one if isinstance(one, NoiseSpec) else one.simulated
                    for one in draw.noises
                    if not isinstance(one, ReportNoise)
                )
                for draw in level
            )
            for level in levels
        )
        kinds = (kinds_of(level) if any(here) else None for level, here in zip(levels, noise, strict=True))
        keys = universe.source.record_keys(spine, seed, truth)
        queries = () if keys is None else tuple(tuple(draw.query for draw in level) for level in levels)
        return cls(seed, universe.name, noise, tuple(kinds), queries, keys or ())

    def draw(self, replicate: int, level: int, query: int, first: int, answers: IntArray) -> IntArray:
        """Noise on a query's `answers` `(n, size)` in the geounits of a level from `first` on, in one simulated run.

        It depends on the position in the level, and not on how many geounits are requested at a time.
        """
        key = public_key("spinewise simulation 1", self.seed, self.universe, replicate, level, query)
        position = first * answers.shape[1]
        drawn = [
            sampler_for(noise).draw(key, position, answers.size).reshape(answers.shape)
            if isinstance(noise, NoiseSpec)
            else noise.publish(answers, self._keys(noise, replicate, level, query, first, answers)) - answers
            for noise in self.noise[level][query]
        ]
        if (kinds := self.kinds[level]) is not None:
            own = kinds[first : first + len(answers)]
            for kind, noise_of_kind in enumerate(drawn[1:], start=1):
                drawn[0][own == kind] = noise_of_kind[own == kind]
        return drawn[0]

    def _keys(
        self, method: DisclosureMethod, replicate: int, level: int, query: int, first: int, answers: IntArray
    ) -> IntArray:
        """The keys `(n, size)` of answers: sums of the records' keys, or of each number its own."""
        if method.by_records:
            sums = self.queries[level][query].answer_csr(self.keys[level][first : first + len(answers)])
            of_run = public_key("spinewise record keys 1", self.seed, self.universe, replicate)
            factor = 1 + int.from_bytes(of_run[:8], "big") % (KEYS - 1)
            return sums % KEYS * factor % KEYS
        key = public_key("spinewise number keys 1", self.seed, self.universe, replicate, level, query)
        words = Stream(key).words(first * answers.shape[1], answers.size)
        return (words % KEYS).astype(np.int64).reshape(answers.shape)


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated run, as it is sent to a worker or to another machine; it needs no files."""

    run: Simulated
    noise: PublicNoise

    def packed(self) -> Simulation:
        """The task itself."""
        return self

    def arrays_of(self, result: list[ErrorCounts]) -> Arrays:
        """Its errors as arrays, on the machine that worked on it."""
        return packed_errors(result)

    def result_of(self, arrays: Arrays) -> list[ErrorCounts]:
        """Its errors again; WorkerError where the arrays are not those of errors."""
        expected = packed_errors(list(self.run.nothing))
        checked(arrays, {name: (array.dtype.type, (None,) * array.ndim) for name, array in expected.items()})
        result = unpacked_errors(arrays)
        for errors, empty, table in zip(result, self.run.nothing, self.run.tables, strict=True):
            require(self._alike(errors, empty, table), table.name)
        return result

    def _alike(self, errors: ErrorCounts, empty: ErrorCounts, table: PublishedTable) -> bool:
        """Whether counts of errors have the form of those of their table."""
        n = table.marginal.size if self.run.own is None else n_owners(table.marginal)
        return errors.unit == empty.unit and all(getattr(errors, name).is_of(n) for name in _SIZED)


def _share(whole: int, number: int, parts: int) -> int:
    """Of a whole in so many parts, that of one number; together they are the whole."""
    return (number + 1) * whole // parts - number * whole // parts


def run_simulation(task: Simulation) -> list[ErrorCounts]:
    """The errors of one simulated run in each table."""
    return simulate_run(task.run, task.noise.draw)


class Margins:
    """The margins of error of one universe's tables; simulated once, then looked up table by table."""

    def __init__(self, estimation: Estimation) -> None:
        self.estimation = estimation
        self.errors: dict[tuple[str, int], ErrorCounts] = {}
        self._of_rows: tuple[tuple[int, slice], AnswerVariances] | None = None
        self._begun: dict[tuple[str, int], Callable[[], Intervals]] = {}
        self._repeated: dict[tuple[str, int], IntervalRule] = {}

    @property
    def replicates(self) -> int:
        """Simulated runs at most; 0 where no margins are published."""
        publish = self.estimation.job.spec.publish
        return publish.replicates if publish.margins else 0

    @cached_property
    def tables(self) -> tuple[PublishedTable, ...]:
        """Each table at each of its levels, with what features publish beside them."""
        spine = self.estimation.job.spine
        return tuple(
            PublishedTable(table.name, spine.index_of(level), table.query)
            for table in self.estimation.universe.tabulated
            for level in table.levels
        )

    @cached_property
    def variances(self) -> TableVariances:
        """Of the tables' numbers; computed at first use."""
        return TableVariances(self.estimation, self.tables, self._step)

    @property
    def _step(self) -> str:
        return f"simulate {self.estimation.universe.name}".rstrip()

    def simulate(self) -> None:
        """Simulate as many runs as the margins need, and add up their errors."""
        job = self.estimation.job
        seed, truth = self.estimation.stated.seed, self._truth()
        leaves_of = self._released_leaves if truth is None else partial(operator.getitem, truth, -1)
        noise = PublicNoise.of(seed, self.estimation.universe, job.spine, leaves_of)
        sampled = SampledRuns(self.estimation, self.tables, self.variances, self.replicates, truth)
        rates, leaves = sampled.rates(), job.spine.n_levels - 1
        reported = self.estimation.universe.source.simulated(seed, self.estimation.universe.name)
        tasks = [
            Simulation(replace(run, reported=reported, leaves=leaves, own=self._own), noise)
            for run in sampled.tasks(rates)
        ]
        self._around.compute()
        if not self._estimates_needed():
            self.estimation.computed.forget()
        give_memory_back()  # of the estimates and variances above: the runs take long
        self.errors.clear()  # those of an earlier attempt that failed
        runs = run_kept(
            job.workers, job.batches, self._step, run_simulation, tasks,
            named=lambda task: str(task.run.replicate), packed=packed_errors, unpacked=unpacked_errors,
            done=lambda task: job.progress.advance(_share(job.n_geounits, task.run.replicate, rates.runs)),
        )  # fmt: skip
        for run_errors in runs:
            for table, errors in zip(self.tables, run_errors, strict=True):
                key = (table.name, table.level)
                self.errors[key] = self.errors[key] + errors if key in self.errors else errors

    def _estimates_needed(self) -> bool:
        """Whether something else follows from the linear estimates later on, so that they are kept."""
        job, universe = self.estimation.job, self.estimation.universe
        publish = job.spec.publish
        return bool(publish.unbiased or publish.draws or universe.facts or job.links)

    def _truth(self) -> tuple[sp.csr_array, ...] | None:
        """What stands in for the truth; None for the released histograms."""
        job, universe = self.estimation.job, self.estimation.universe
        read = partial(stored_in_leaves, job, universe)
        seed = self.estimation.stated.seed
        return universe.source.truth_for_simulation(job.spine, read, seed, self._released_leaves)

    def _released_leaves(self) -> sp.csr_array:
        return self.estimation.released(self.estimation.job.spine.n_levels - 1)

    @cached_property
    def _own(self) -> CountErrors | None:
        """How errors depend on the counts themselves, where they do."""
        return self.estimation.universe.source.errors()

    def rule(self, table: Table, level: int) -> IntervalRule | None:
        """The 90 % intervals of the released counts of a level, in persons; None if no margins are published.

        Where all areas of a level are only children, its numbers are those of the level above. So are its intervals,
        if that has the table: it may be seen in more simulated runs, and what is measured there counts as well.
        """
        if not self.replicates:
            return None
        spine, highest = self.estimation.job.spine, self._highest(table, level)
        place = table.name, highest
        published = PublishedTable(table.name, highest, table.query)
        rule = self._repeated.get(place) or self._around.rule(partial(self._of_runs, published), table, highest)
        if level + 1 < spine.n_levels and spine.repeats(level + 1):
            self._repeated[place] = rule
        return self.estimation.known.intervals(rule, partial(self._standard, table.query, highest), table, level)

    def _highest(self, table: Table, level: int) -> int:
        """The highest level that has the table and the same areas as this one."""
        spine, highest = self.estimation.job.spine, level
        while spine.repeats(level):
            level -= 1
            if spine.level_names[level] in table.levels:
                highest = level
        return highest

    @cached_property
    def _around(self) -> AroundEstimates:
        return AroundEstimates(self.estimation)

    def _standard(self, query: Marginal, level: int, rows: slice) -> FloatArray:
        """Standard errors `(n, size)` of a query's answers in some rows of a level; NaN where nothing is determined.

        The variances of the last rows are kept, which are asked for more than once.
        """
        if self._of_rows is None or self._of_rows[0] != (level, rows):
            self._of_rows = (level, rows), self.variances.of_rows(level, rows)
        return self._of_rows[1].standard_errors(query)[self._of_rows[1].classes]

    def _of_runs(self, table: PublishedTable, *, pooled: bool = False) -> IntervalRule:
        """The intervals of a table by the errors of simulated runs, for those who know nothing else.

        Args:
            table: at one level.
            pooled: narrowed by what all cells of the table show together; not of reports.
        """
        query, level, own = table.marginal, table.level, self._own
        if own is None:
            errors = self.errors[table.name, level]
            found = Intervals(table, errors, self._of_sums, pooled=True) if pooled else self._of_table(table)
            return lambda counts, rows: found.ends(counts, self._standard(query, level, rows))
        intervals = ReportedIntervals(table, self.errors[table.name, level], own, self._areas(level))

        def by_reports(counts: IntArray, rows: slice) -> Ends:
            """With what the stored numbers of each geounit say alone."""
            alone = query.answer(own.alone(*self.stored_of(level, rows)))
            return intervals.ends(counts, self._standard(query, level, rows), alone)

        return by_reports

    @property
    def _of_sums(self) -> bool:
        return not self.estimation.universe.measure.counts

    def _of_table(self, table: PublishedTable) -> Intervals:
        """The intervals of a table; other processes work on those of the tables after it."""
        key = table.name, table.level
        if key not in self._begun:
            of_sums, begin = self._of_sums, self.estimation.job.workers.begin
            after = sorted((each for each in self.tables if each.level >= table.level), key=lambda each: each.level)
            intervals = [Intervals(each, self.errors[each.name, each.level], of_sums) for each in after]
            self._begun = {(each.table.name, each.table.level): begin(Intervals.prepared, each) for each in intervals}
        return self._begun.pop(key)()

    @cached_property
    def _totals(self) -> tuple[IntArray, IntArray]:
        """What is stored of each leaf, and its size."""
        return stored_in_leaves(self.estimation.job, self.estimation.universe)

    def _areas(self, level: int) -> int:
        """Geounits of a level that have records."""
        offsets = self.estimation.job.spine.leaf_offsets(level)
        return int(np.count_nonzero(np.add.reduceat(self._totals[1], offsets[:-1])))

    def stored_of(self, level: int, rows: slice) -> tuple[IntArray, IntArray]:
        """What is stored of the leaves of each of a level's `rows` together, `(n, size)`, and their sizes, `(n,)`."""
        offsets = self.estimation.job.spine.leaf_offsets(level)[rows.start : rows.stop + 1]
        stored, sizes = (
            np.add.reduceat(each[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0], axis=0) for each in self._totals
        )
        return stored, sizes

    def close(self) -> None:
        """Free what was computed."""
        self.errors.clear()
        self._begun.clear()
        self._repeated.clear()
        self._of_rows = None
        self.__dict__.pop("_totals", None)
        self.__dict__.pop("variances", None)
        if "_around" in self.__dict__:
            self._around.forget()
        self.__dict__.pop("_around", None)


# -- errors as named arrays, and back: the form in which a resumed run finds them -------------------------------------


#: What is counted of errors, each by size.
_SIZED = ("by_truth", "by_release", "large")


def packed_errors(result: Sequence[ErrorCounts]) -> Arrays:
    """The errors of one simulated run, table by table."""
    arrays = {f"{i}.unit": np.array(errors.unit) for i, errors in enumerate(result)}
    for i, errors in enumerate(result):
        for name in _SIZED:
            sized: SizedErrors = getattr(errors, name)
            arrays |= {f"{i}.{name} places": sized.places, f"{i}.{name} times": sized.times}
    return arrays


def unpacked_errors(arrays: Arrays) -> list[ErrorCounts]:
    """What `packed_errors` packed."""

    def sized(i: int, name: str) -> SizedErrors:
        return SizedErrors(arrays[f"{i}.{name} places"], arrays[f"{i}.{name} times"])

    n = len(arrays) // (1 + 2 * len(_SIZED))
    return [
        ErrorCounts(sized(i, "by_truth"), sized(i, "by_release"), sized(i, "large"), int(arrays[f"{i}.unit"]))
        for i in range(n)
    ]
