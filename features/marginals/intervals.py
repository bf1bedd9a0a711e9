"""90 % intervals of the tables of cliques, from simulated releases, as the core makes them for its own tables.

A release stands in for the truth: new noise of the same strategy is added to it, publicly, and the same estimation
repeated. How far these releases are from it, by clique, level and size, is what the intervals are made of
(`postprocess.downward.intervals`), with the exact variances of linear estimates for large counts.

Where areas are expected to be alike, the release is smoother than the truth, and would show too small errors of areas
unlike their siblings. There the release that expects nothing of the kind, of the same measurements, stands in for the
truth: its areas differ by more than they do in truth, by what noise adds, and so do not by less.

A number that crosses cliques has none: no simulation says how far the model of independence is from the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from features.marginals.design import Design, Release, Tables
from features.marginals.linear import Level
from features.marginals.residuals import marginal
from features.marginals.whole import Seed
from pipeline.model.public_key import public_key
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray
from postprocess.downward.intervals import Intervals
from postprocess.downward.simulated_margins import ErrorCounts, PublishedTable, count_errors
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal, MarginalKey, detail_of

__all__ = ["SimulatedErrors", "noisy_again", "simulated_errors"]

#: Simulated releases that the intervals of a release are made of.
REPLICATES = 5


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """The errors of simulated releases.

    Attributes:
        design: of the release.
        release: that stands in for the truth.
        errors: of each level, of each bag, by the query's key.
    """

    design: Design
    release: Release
    errors: list[list[dict[MarginalKey, ErrorCounts]]]

    def ends(
        self, level: int, bag: int, query: Marginal | None = None, counts: IntArray | None = None, first: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """The least and the most that the true numbers may be, `(n, size)`.

        Args:
            level: of the areas.
            bag: in whose table the numbers are.
            query: of some of its attributes; by default all.
            counts: released numbers `(n, size)` of areas from number `first` on; by default of all areas.
            first: see `counts`.
        """
        view = _view(self.design, self.release.estimates[level], level, bag, query or _detail(self.design, bag))
        intervals = Intervals(view.table, self.errors[level][bag][view.table.marginal.key])
        if counts is None:
            counts = view.table.marginal.answer_csr(sp.csr_array(self.release.whole[level][bag]))
        return intervals.ends(view.basis, view.variances, counts, slice(first, first + len(counts)))


@dataclass(frozen=True, eq=False)
class _View:
    """A table of some attributes of a bag as the core's intervals see it: the bag's are the schema, each kept whole."""

    table: PublishedTable
    basis: Basis
    variances: AnswerVariances


def _detail(design: Design, bag: int) -> Marginal:
    clique, domain = design.tree.bags[bag], design.tree.domain
    return Marginal(domain.text(clique), detail_of(domain.shape(clique)).groups)


def _view(design: Design, estimates: Level, level: int, bag: int, query: Marginal) -> _View:
    clique, domain = design.tree.bags[bag], design.tree.domain
    kept = tuple(a for a, size in zip(clique, query.sizes, strict=True) if size > 1)
    if any(size not in (1, domain.sizes[a]) for a, size in zip(clique, query.sizes, strict=True)):
        raise ValueError(f"{query.name}: variances are of whole attributes")
    variances = estimates.variances(kept)
    values, classes = np.unique(np.where(np.isinf(variances), np.nan, variances), return_inverse=True)
    by_class = np.broadcast_to(values[:, None], (len(values), query.size)).copy()
    return _View(
        PublishedTable(query.name, level, query),
        Basis.of(domain.shape(clique), [query]),
        AnswerVariances(classes.ravel().astype(np.int64), {query.key: by_class}),
    )


def simulated_errors(
    design: Design,
    measured: Sequence[Tables],
    release: Release,
    seed: Seed,
    replicates: int = REPLICATES,
    queries: Callable[[int, int], Sequence[Marginal]] | None = None,
) -> SimulatedErrors:
    """The errors of so many simulated releases.

    Args:
        design: of the release.
        measured: what it was made of.
        release: whose intervals are wanted.
        seed: public.
        replicates: how many.
        queries: level and bag -> those of which intervals are wanted; by default of all attributes of each bag.
    """
    levels, bags = range(len(design.sizes)), range(len(design.tree.bags))
    views = [
        [
            [
                _view(design, release.estimates[level], level, bag, query)
                for query in ([_detail(design, bag)] if queries is None else queries(level, bag))
            ]
            for bag in bags
        ]
        for level in levels
    ]
    errors = [
        [
            {view.table.marginal.key: ErrorCounts.empty(view.table, view.basis, view.variances) for view in of_bag}
            for of_bag in of_level
        ]
        for of_level in views
    ]
    truth = replace(design, alike=False).release(measured, seed).whole if design.alike else release.whole
    for again in _releases(design, truth, seed, replicates):
        for level in levels:
            for bag in bags:
                pair = [sp.csr_array(tables[level][bag]) for tables in (truth, again)]
                for view in views[level][bag]:
                    errors[level][bag][view.table.marginal.key] += count_errors(
                        view.table, view.basis, view.variances, *pair
                    )
    return SimulatedErrors(design, release, errors)


def _releases(
    design: Design, truth: Sequence[Sequence[IntArray]], seed: Seed, replicates: int
) -> Iterator[list[list[IntArray]]]:
    for replicate in range(replicates):
        own = Seed(int.from_bytes(public_key("spinewise marginals ties 1", seed.value, "", replicate)[:8], "big"))
        noisy = [noisy_again(design, whole, level, seed, replicate) for level, whole in enumerate(truth)]
        yield design.release(noisy, own).whole


def noisy_again(design: Design, whole: Sequence[IntArray], level: int, seed: Seed, replicate: int) -> Tables:
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
