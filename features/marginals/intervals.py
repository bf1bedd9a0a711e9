"""What a release of marginals is made by, and 90 % intervals of the tables of its cliques from simulated ones.

A release stands in for the truth: new noise of the same strategy is added to it, publicly, and the same estimation
repeated. How far these releases are from it, by clique, level and size, is what the intervals of small counts are made
of (`postprocess.downward.intervals`).

A release is smoother than the truth where areas are expected to be alike, and else rougher, by the noise; and it has
few of the counts that noise hides. So what stands in for the truth is drawn from what the truth may be given what is
measured (`transport`, `whole_numbers(drawn=True)`): its areas differ by as much as they do in truth, and it has as many
small counts.

Where a level has few areas, errors of all cells of a table are taken together. The core takes cells that are about as
frequent together, over all areas; of few areas that would be those that were released alike, and those of a truth that
was released as 0 would be thought to be like those of zeros.

A large count has the interval of its linear estimate, stretched to the released count: what is measured of it holds
nine of ten truths whatever the truth is, and a simulation only where it errs as the release did. It does not where a
cell is unlike all others: beside thousands of cells that are nearly all empty, what noise hides there is counted in the
one large cell of the table, as many as it hides; and where a large cell is by itself, alike areas tell less of it than
a simulated release, in which all is as the mixture has it, makes of them. Where a small count is released though its
estimate is large, the interval is the union of both.

A number that crosses cliques has none: no simulation says how far the model of independence is from the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from features.marginals.cliques import Clique, JunctionTree, marginal
from features.marginals.linear import NoisyTable, ResidualsOfLevel, downward, upward
from features.marginals.whole import ExactTable, Seed, whole_numbers
from features.marginals.zeros import any_cell, possible_cells
from pipeline.model.public_key import public_key
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray
from postprocess.downward.intervals import Intervals
from postprocess.downward.simulated_margins import (
    LARGE,
    ErrorCounts,
    PublishedTable,
    count_errors,
    is_large,
)
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal, MarginalKey, detail_of
from postprocess.statistics import around, is_exact

#: Noisy tables of a level: clique -> `(n, cells)`.
Tables = Mapping[Clique, IntArray]


@dataclass(frozen=True, eq=False)
class CliqueRelease:
    """What is published of all areas.

    Attributes:
        estimates: of each level, linear and unbiased, with exact variances.
        whole: of each level a table `(n, cells)` of each bag, in the order of the tree.
    """

    estimates: list[ResidualsOfLevel]
    whole: list[list[IntArray]]


@dataclass(frozen=True, eq=False)
class CliqueDesign:
    """All that a release follows from besides its measurements.

    Attributes:
        tree: of the cliques.
        parents: of each level but the top, the parent of each area.
        noise: of each level, clique -> the noise in each cell of its table; not all cliques need be at each level.
        first: what is known of the first tables.
        zeros: clique -> which of its cells can be positive, `(cells,)`.
        alike: whether the parts of an area are expected to be alike (`transport`).
    """

    tree: JunctionTree
    parents: Sequence[IntArray]
    noise: Sequence[Mapping[Clique, NoiseSpec]]
    exact: Sequence[ExactTable | None] = ()
    zeros: Mapping[Clique, BoolArray] = field(default_factory=dict)
    alike: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of areas of each level."""
        return (1 + int(self.parents[0].max()) if self.parents else 1, *map(len, self.parents))

    def release(self, measured: Sequence[Tables], seed: Seed, *, drawn: bool = False) -> CliqueRelease:
        """The release of noisy tables of each level.

        Args:
            measured: of each level those of `noise`.
            seed: public, for ties.
            drawn: see `whole_numbers`.
        """
        levels = [self._measurements(number, tables) for number, tables in enumerate(measured)]
        up = upward(levels, self.parents, self.tree.domain, self.sizes)
        whole = whole_numbers(self.tree, up, self.parents, seed, self.exact, self.zeros, alike=self.alike, drawn=drawn)
        return CliqueRelease(downward(up, self.parents), whole)

    def _measurements(self, level: int, tables: Tables) -> list[NoisyTable]:
        n = self.sizes[level]
        out = [
            NoisyTable(clique, tables[clique], np.full(n, noise.variance))
            for clique, noise in self.noise[level].items()
        ]
        if self.exact and (exact := self.exact[level]) is not None:
            out.append(NoisyTable(exact.clique, exact.numbers, np.zeros(n)))
        return out


#: Simulated releases that the intervals of a release are made of.
REPLICATES = 5
#: Areas of a level from which on cells are about as frequent over them as in truth.
FEW_AREAS = 100


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """The errors of simulated releases.

    Attributes:
        design: of the release.
        release: that stands in for the truth.
        errors: of each level, of each bag, by the query's key.
    """

    design: CliqueDesign
    release: CliqueRelease
    errors: list[list[dict[MarginalKey, ErrorCounts]]]

    def ends(self, level: int, bag: int, query: Marginal, counts: IntArray, areas: slice) -> Ends:
        """The least and the most that the true numbers may be, `(n, size)`.

        Args:
            level: of the areas.
            bag: in whose table the numbers are.
            query: of some of its attributes.
            counts: released numbers `(n, size)`.
            areas: of the level, whose they are.
        """
        view = _view(self.design, self.release.estimates[level], level, bag, query)
        intervals = Intervals(view.table, self.errors[level][bag][view.query.key])
        low, high = intervals.ends(view.shaped(counts), view.standard_errors(areas))
        low, high = low.reshape(counts.shape), high.reshape(counts.shape)
        estimates = self.release.estimates[level]
        standard = np.sqrt(estimates.variances(view.kept)[areas])[:, None]
        _reach_estimates(low, high, counts, estimates.table(view.kept, areas), standard)
        if self.design.zeros:
            clique, domain = self.design.tree.bags[bag], self.design.tree.domain
            never = ~any_cell(self._possible[bag], clique, view.kept, domain)
            low[:, never] = high[:, never] = 0
        return low, high

    @cached_property
    def _possible(self) -> list[BoolArray]:
        """Of each bag the cells that some record can have."""
        return possible_cells(self.design.tree, self.design.zeros)


@dataclass(frozen=True, eq=False)
class _View:
    """A table of some attributes of a bag as the core's intervals see it.

    The bag's attributes are the schema, each kept whole; or, at a level with few areas, each cell of each area is an
    area of a schema of one cell.

    Attributes:
        query: the table's.
        kept: the attributes that it has.
        table, variances: as the core sees them.
        together: whether cells are areas.
    """

    query: Marginal
    kept: Clique
    table: PublishedTable
    variances: AnswerVariances
    together: bool

    def shaped(self, answers: IntArray) -> IntArray:
        """Answers `(n, size)` as the core sees them."""
        return answers.reshape(-1, 1) if self.together else answers

    def standard_errors(self, areas: slice) -> FloatArray:
        """Those of the answers of some areas, as the core sees them."""
        size = self.query.size if self.together else 1
        classes = self.variances.classes[areas.start * size : areas.stop * size]
        return self.variances.standard_errors(self.table.marginal)[classes]

    def tables(self, whole: IntArray) -> sp.csr_array:
        """A bag's tables of all areas."""
        counts = sp.csr_array(whole)
        return sp.csr_array(self.shaped(self.query.answer_csr(counts))) if self.together else counts


def _view(design: CliqueDesign, estimates: ResidualsOfLevel, level: int, bag: int, query: Marginal) -> _View:
    clique, domain = design.tree.bags[bag], design.tree.domain
    kept = tuple(a for a, size in zip(clique, query.sizes, strict=True) if size > 1)
    if any(size not in (1, domain.sizes[a]) for a, size in zip(clique, query.sizes, strict=True)):
        raise ValueError(f"{query.name}: variances are of whole attributes")
    variances = estimates.variances(kept)
    values, classes = np.unique(np.where(np.isinf(variances), np.nan, variances), return_inverse=True)
    classes = classes.ravel().astype(np.int64)
    seen = query
    if together := len(variances) < FEW_AREAS:
        seen, classes = detail_of((1,)), np.repeat(classes, query.size)
    by_class = np.broadcast_to(values[:, None], (len(values), seen.size)).copy()
    return _View(
        query,
        kept,
        PublishedTable(query.name, level, seen),
        AnswerVariances(classes, {seen.key: by_class}),
        together,
    )


def _reach_estimates(
    low: FloatArray, high: FloatArray, released: IntArray, estimate: FloatArray, standard: FloatArray
) -> None:
    """The ends of large counts, by what is measured of them; in place.

    Args:
        low, high: `(n, size)` of simulated errors.
        released: `(n, size)`.
        estimate: linear, `(n, size)`.
        standard: its standard errors `(n, 1)`; infinite where nothing is known.
    """
    is_small: BoolArray = ~is_large(released, standard)
    large = (~is_small | (estimate > LARGE * standard)) & ~is_exact(standard) & np.isfinite(standard)
    least, most = around(released[large], estimate[large], np.broadcast_to(standard, released.shape)[large])
    united = is_small[large]
    low[large] = np.where(united, np.minimum(least, low[large]), least)
    high[large] = np.where(united, np.maximum(most, high[large]), most)


def simulated_errors(
    design: CliqueDesign,
    measured: Sequence[Tables],
    release: CliqueRelease,
    seed: Seed,
    replicates: int,
    queries: Callable[[int, int], Sequence[Marginal]],
) -> SimulatedErrors:
    """The errors of so many simulated releases.

    Args:
        design: of the release.
        measured: what it was made of.
        release: whose intervals are wanted.
        seed: public.
        replicates: how many.
        queries: level and bag -> those of which intervals are wanted.
    """
    levels, bags = range(len(design.sizes)), range(len(design.tree.bags))
    views = [
        [[_view(design, release.estimates[level], level, bag, query) for query in queries(level, bag)] for bag in bags]
        for level in levels
    ]
    errors = [
        [{view.query.key: ErrorCounts.empty(view.table, view.variances) for view in of_bag} for of_bag in of_level]
        for of_level in views
    ]
    truth = replace(design, alike=True).release(measured, seed, drawn=True).whole
    for replicate in range(replicates):
        ties = Seed(int.from_bytes(public_key("spinewise marginals ties 1", seed.value, "", replicate)[:8], "big"))
        noisy = [noisy_again(design, whole, level, seed, replicate) for level, whole in enumerate(truth)]
        again = design.release(noisy, ties).whole
        for level in levels:
            for bag in bags:
                for view in views[level][bag]:
                    pair = [view.tables(tables[level][bag]) for tables in (truth, again)]
                    errors[level][bag][view.query.key] += count_errors(view.table, view.variances, *pair)
    return SimulatedErrors(design, release, errors)


def noisy_again(design: CliqueDesign, whole: Sequence[IntArray], level: int, seed: Seed, replicate: int) -> Tables:
    """New measurements of a level of a release: its tables with new noise, drawn by a public key."""
    tree, out = design.tree, {}
    for number, (clique, noise) in enumerate(design.noise[level].items()):
        bag = tree.bag_of(clique)
        if bag is None:
            raise ValueError(f"no bag of the tree has {tree.domain.text(clique)}")
        counts = marginal(whole[bag], tree.bags[bag], clique, tree.domain)
        key = public_key("spinewise marginals noise 1", seed.value, "", replicate, level, number)
        out[clique] = counts + sampler_for(noise).draw(key, 0, counts.size).reshape(counts.shape)
    return out
