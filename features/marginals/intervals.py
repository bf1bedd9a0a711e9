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

from collections.abc import Iterator, Sequence
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
from postprocess.marginal import Marginal, detail_of

__all__ = ["SimulatedErrors", "noisy_again", "simulated_errors"]

#: Simulated releases that the intervals of a release are made of.
REPLICATES = 5


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """The errors of simulated releases.

    Attributes:
        design: of the release.
        release: that stands in for the truth.
        errors: of each level, of each bag.
    """

    design: Design
    release: Release
    errors: list[list[ErrorCounts]]

    def ends(self, level: int, bag: int) -> tuple[FloatArray, FloatArray]:
        """The least and the most that the true numbers may be, of all areas of a level, `(n, cells)`."""
        view = _view(self.design, self.release.estimates[level], level, bag)
        intervals = Intervals(view.table, self.errors[level][bag])
        released = self.release.whole[level][bag]
        return intervals.ends(view.basis, view.variances, released, slice(0, len(released)))


@dataclass(frozen=True, eq=False)
class _View:
    """The table of a bag as the core's intervals see it: a schema of its own attributes, kept whole."""

    table: PublishedTable
    basis: Basis
    variances: AnswerVariances


def _view(design: Design, estimates: Level, level: int, bag: int) -> _View:
    clique, domain = design.tree.bags[bag], design.tree.domain
    shape = domain.shape(clique)
    whole = detail_of(shape)
    query = Marginal(domain.text(clique), whole.groups)
    variances = estimates.variances(clique)
    values, classes = np.unique(np.where(np.isinf(variances), np.nan, variances), return_inverse=True)
    by_class = np.broadcast_to(values[:, None], (len(values), query.size)).copy()
    by_query = {query.key: by_class}
    return _View(
        PublishedTable(query.name, level, query),
        Basis.of(shape, [query]),
        AnswerVariances(classes.ravel().astype(np.int64), by_query),
    )


def simulated_errors(
    design: Design, measured: Sequence[Tables], release: Release, seed: Seed, replicates: int = REPLICATES
) -> SimulatedErrors:
    """The errors of so many simulated releases.

    Args:
        design: of the release.
        measured: what it was made of.
        release: whose intervals are wanted.
        seed: public.
        replicates: how many.
    """
    levels, bags = range(len(design.sizes)), range(len(design.tree.bags))
    views = [[_view(design, release.estimates[level], level, bag) for bag in bags] for level in levels]
    errors = [[ErrorCounts.empty(view.table, view.basis, view.variances) for view in of_level] for of_level in views]
    truth = replace(design, alike=False).release(measured, seed).whole if design.alike else release.whole
    for again in _releases(design, truth, seed, replicates):
        for level in levels:
            for bag in bags:
                view = views[level][bag]
                pair = (sp.csr_array(tables[level][bag]) for tables in (truth, again))
                errors[level][bag] += count_errors(view.table, view.basis, view.variances, *pair)
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
