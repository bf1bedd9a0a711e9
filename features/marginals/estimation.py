"""The run of a release of marginals: from the measurements of all cliques to histograms, intervals and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from features.marginals.cliques import Clique, JunctionTree
from features.marginals.intervals import REPLICATES, CliqueDesign, CliqueRelease, SimulatedErrors, simulated_errors
from features.marginals.linear import summed
from features.marginals.records import WholeRecords, draw_records, drawn_numbers
from features.marginals.section import Bins
from features.marginals.whole import ExactTable, Seed
from pipeline.estimation.constraints import IntervalRule
from pipeline.estimation.problem import invariants_of, measurement_files
from pipeline.estimation.together import JointEstimation
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.draw import by_level
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Table, Universe
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.release.form import Values
from pipeline.release.histograms import LabelColumns, read_histogram, write_histogram
from pipeline.release.microdata import microdata_form
from postprocess.arrays import IntArray
from postprocess.marginal import Marginal

#: Records that are drawn at a time, about.
_AT_ONCE = 1 << 19


@dataclass(eq=False)
class CliqueEstimation(JointEstimation):
    """The joint estimation of the cliques: what is computed is so at first use, and kept.

    Args:
        tree: of the cliques, a universe for each bag.
        universes: their names, in the tree's order.
        attributes: all, in the tree's order.
        job: the run.
        amounts: the attributes whose values are bins.
        alike: whether the parts of an area are expected to be alike.
    """

    tree: JunctionTree
    universes: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    job: Job
    amounts: tuple[Bins, ...]
    alike: bool

    @cached_property
    def left(self) -> set[str]:
        """See `JointEstimation.left`."""
        return set(self.universes)

    @property
    def seed(self) -> Seed:
        """The public seed."""
        return Seed(self.job.spec.postprocess.seed)

    @cached_property
    def design(self) -> CliqueDesign:
        """All that the release follows from besides its measurements."""
        job = self.job
        noise: list[dict[Clique, NoiseSpec]] = [{} for _ in job.spine.levels]
        for universe in job.universes:
            for draw in universe.draws(job.spine):
                (drawn,) = draw.drawn
                noise[job.spine.index_of(draw.level)][self.tree.domain.clique(draw.query.terms)] = drawn
        parents = [level.parents for level in job.spine.levels[1:]]
        zeros = {
            bag: ~universe.structural_zeros
            for bag, universe in zip(self.tree.bags, job.universes, strict=True)
            if universe.structural_zeros.any()
        }
        return CliqueDesign(self.tree, parents, noise, self._exact, zeros, alike=self.alike)

    @property
    def _exact(self) -> Sequence[ExactTable | None]:
        """The published invariants of the release's own universe, of which all others' are sums.

        What is exact of a level is exact of those above it, as sums.
        """
        job, own = self.job, self.job.universes[0]
        if not own.invariants:
            return ()
        answers = invariants_of(job.folder(own), own, job.spine)
        exact: list[ExactTable | None] = []
        below: ExactTable | None = None
        for level in reversed(job.spine.levels):
            number = job.spine.index_of(level.name)
            if below is not None:
                parents = job.spine.levels[number + 1].parents
                below = ExactTable(below.clique, summed(below.numbers, parents, len(level)))
            for name, query in own.invariants:
                if name == level.name and (below is None or len(query.terms) > len(below.clique)):
                    clique = self.tree.domain.table(query.terms)
                    below = ExactTable(clique, answers[name, query.name])
            exact.insert(0, below)
        return exact

    @cached_property
    def measured(self) -> list[dict[Clique, IntArray]]:
        """The noisy tables of each level; ReleaseError where a file is not what the spec says."""
        job = self.job
        out: list[dict[Clique, IntArray]] = [{} for _ in job.spine.levels]
        for universe in job.universes:
            draws = by_level(universe.draws(), job.spine.level_names)
            places = zip(job.spine.levels, draws, measurement_files(job, universe), strict=True)
            for number, (level, measured, files) in enumerate(places):
                for draw, file in zip(measured, files, strict=True):
                    values = file.read(level.geocodes).values
                    out[number][self.tree.domain.clique(draw.query.terms)] = values.astype(np.int64)
        return out

    @cached_property
    def release(self) -> CliqueRelease:
        """Linear estimates and whole numbers of all areas."""
        return self.design.release(self.measured, self.seed)

    @cached_property
    def errors(self) -> SimulatedErrors:
        """Of simulated releases, for the tables of all universes."""
        replicates = min(REPLICATES, self.job.spec.publish.replicates)
        return simulated_errors(self.design, self.measured, self.release, self.seed, replicates, self._queries)

    def estimate(self, universe: Universe) -> Notes:
        """See `JointEstimation.estimate`."""
        bag, folder = self.universes.index(universe.name), self.job.folder(universe)
        for level, whole in zip(self.job.spine.levels, self.release.whole, strict=True):
            place = (level.name, level.geocodes, universe.schema)
            write_histogram(folder.histogram(level.name), self.job.run.staging, *place, sp.csr_array(whole[bag]))
        return {}

    def simulate(self) -> None:
        """See `JointEstimation.simulate`."""
        _ = self.errors

    def rule(self, universe: Universe, table: Table, level: int) -> IntervalRule:
        """See `JointEstimation.rule`."""
        return partial(self.errors.ends, level, self.universes.index(universe.name), table.query)

    def write_records(self, universe: Universe) -> None:
        """See `JointEstimation.write_records`: whole records, from the released histograms of the leaves."""
        job, leaves = self.job, self.job.spine.leaf_level
        schema = Schema(self.attributes)
        numbers = [one.column.name for one in self.amounts]
        labels = LabelColumns(leaves.geocodes, schema)

        def made(leaf: IntArray, codes: IntArray, inside: IntArray) -> list[Values]:
            return [*labels.of_values(leaf, codes.T.astype(np.int32)), *inside.T]

        form = microdata_form(schema, leaves.name, numbers)
        with form.writer(job.folder(universe).microdata, job.run.staging, made) as out:
            for part in self._records():
                out.add(part.leaf, part.values, drawn_numbers(part, self.amounts, self.tree.domain, self.seed))

    def _records(self) -> Iterator[WholeRecords]:
        """The records of all leaves, some leaves at a time, in the order of their values."""
        job, leaves = self.job, self.job.spine.leaf_level
        tables = [
            read_histogram(job.readable(job.folder(one).histogram(leaves.name)), leaves.geocodes, one.schema)
            for one in job.universes
        ]
        many = np.asarray(tables[0].sum(axis=1)).ravel()
        cells = max(table.shape[1] for table in tables)
        parts = np.cumsum(many + max(1, cells // 8)) // _AT_ONCE
        starts = np.flatnonzero(np.diff(parts, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(many)], strict=True):
            dense = [table[start:stop].toarray() for table in tables]
            drawn = draw_records(self.tree, dense, self.seed, first_leaf=int(start))
            order = np.lexsort((*reversed(drawn.values.T), drawn.leaf))
            yield WholeRecords(drawn.leaf[order] + start, drawn.values[order])

    def free(self) -> None:
        """See `JointEstimation.free`."""
        for name in ("design", "measured", "release", "errors"):
            self.__dict__.pop(name, None)

    def _queries(self, level: int, bag: int) -> list[Marginal]:
        """What is published of a bag at a level; each query once."""
        name = self.job.spine.levels[level].name
        tables = [table for table in self.job.universes[bag].tables if name in table.levels]
        return list({table.query.key: table.query for table in tables}.values())
