"""What the levels above a cut learn of the subtrees below it, in a simulated run: measured, or drawn at once.

Above a level, a subtree counts only by the precision H of its top's estimate and by the linear term eta. From
measurements of a histogram x, eta has the mean H x and the covariance H. So where a subtree is not simulated, eta is
drawn from the normal distribution of these moments, block by block: eta = H x + (sum_B C_B (x) P_B) z, with
C_B C_B' = H_B off the known and the unmeasured directions, and z standard normal. The estimate b = V eta then is
N(x, V) there. The measured eta is a sum of many independent noises, and normal as nearly as they make it.

Of randomised reports, V is that of an average answer. What the leaves below say is the sum of their debiased counts y,
which depends on the answers there alone: so y is drawn from its own distribution, and eta = H y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis, chunks, symmetrise
from postprocess.arrays import FloatArray, IntArray, adding_up
from postprocess.linear.information import Information, rank_and_scale
from postprocess.linear.upward import (
    CHUNK_CELLS,
    ChildrenSum,
    LevelEstimate,
    everything,
    own_terms,
)
from postprocess.problem import Problem


def summarised(at_cut: LevelEstimate) -> LevelEstimate:
    """A level's estimate for its matrices and for what is fixed, as it is sent with a run, which is large enough.

    Without what its children say, which is drawn anew in each run; and with the unmeasured directions of the first
    class alone where no class has any.
    """
    info = at_cut.info
    if not info.blind.any():
        info = replace(info, unmeasured=info.unmeasured[:1])
    return replace(at_cut, info=info, children=None)


def factors_of(info: Information) -> FloatArray:
    """C with C C' = H off the known and the unmeasured directions, and 0 on these: `(n_classes, n_blocks, a, a)`.

    Raises:
        numpy.linalg.LinAlgError: never for a precision of the upward pass; a defect.
    """
    out, unmeasured = np.empty_like(info.precision), np.broadcast_to(info.unmeasured, info.known.shape)
    for rows in chunks(len(out), out[0].size):
        excluded = info.known[rows] + unmeasured[rows]
        kept = np.eye(excluded.shape[-1]) - excluded
        precision = kept @ info.precision[rows] @ kept
        rank, scale = rank_and_scale(kept, precision)
        nothing = (rank < 0.5) | (scale <= 0)
        scale = np.where(nothing, 1.0, scale)
        factor = np.linalg.cholesky(symmetrise(np.where(nothing, 0.0, precision) / scale + excluded + nothing * kept))
        out[rows] = np.where(nothing, 0.0, kept @ factor * np.sqrt(scale))
    return out


def drawn_terms(
    basis: Basis, at_cut: LevelEstimate, factors: FloatArray, counts: sp.csr_array, generator: np.random.Generator
) -> FloatArray:
    """Linear terms `(n, n_cells)` of a level's geounits, as new measurements of the histograms `counts` would give.

    Args:
        basis: of the release.
        at_cut: the level's estimate, for its matrices.
        factors: of `factors_of`.
        counts: `(n, n_cells)`.
        generator: of public random numbers; it gives n_cells to each geounit, in order.
    """
    out = np.empty(counts.shape)
    for rows in chunks(out.shape[0], out.shape[1], CHUNK_CELLS):
        classes = at_cut.classes[rows]
        mean = basis.apply(at_cut.info.precision, basis.fold(counts[rows].toarray().astype(np.float64)), classes)
        normal = basis.fold(generator.standard_normal((len(classes), counts.shape[1])))
        out[rows] = basis.unfold(mean + basis.apply(factors, normal, classes))
    return out


def reported_terms(
    basis: Basis, at_cut: LevelEstimate, counts: sp.csr_array, reported: Callable[[int, IntArray], FloatArray]
) -> FloatArray:
    """The same, as new reports of the persons in `counts` would give.

    Args:
        basis: of the release.
        at_cut: the level's estimate, for its matrices.
        counts: `(n, n_cells)`.
        reported: (first row, answers `(n, n_cells)`) -> debiased counts of new reports.
    """
    out = np.empty(counts.shape)
    for rows in chunks(out.shape[0], out.shape[1], CHUNK_CELLS):
        answers = counts[rows].toarray()
        drawn = adding_up(reported(rows.start, np.rint(answers).astype(np.int64)), answers.sum(axis=1))
        out[rows] = basis.unfold(basis.apply(at_cut.info.precision, basis.fold(drawn), at_cut.classes[rows]))
    return out


def measured_terms(problem: Problem, basis: Basis, top: LevelEstimate) -> FloatArray:
    """The same of the tops of subtrees, from all measurements of them: `(n, n_cells)`.

    Args:
        problem: of the subtrees.
        basis: of the release.
        top: their tops' estimate, from the upward pass.
    """
    out = np.zeros((len(top.classes), problem.n_cells))
    if problem.measured[0]:
        own = own_terms(basis, problem.measured[0], slice(None), everything(basis), problem.kinds_of(0))
        out += basis.unfold(own)
    if top.children is not None:
        out += top.children.term
    return out


def with_terms(at_cut: LevelEstimate, terms: FloatArray) -> LevelEstimate:
    """A level's estimate whose linear terms, of its own measurements and of its children, are `terms` together."""
    return replace(at_cut, children=ChildrenSum(terms[:0], at_cut.info.precision[:0], terms))
