"""What is known exactly of a level's histograms: impossible cells and invariants, as projectors on known directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray
from postprocess.linear.information import inverse_off, null_projector, range_projector
from postprocess.problem import GroupBounds, Problem


def invariants_of(bounds: Sequence[GroupBounds]) -> list[GroupBounds]:
    """The bounds that fix their answers in every geounit of the level."""
    return [bound for bound in bounds if bound.invariant]


def zero_masks(problem: Problem, basis: Basis, level: int) -> BoolArray:
    """Which asymmetric cells are impossible in each geounit of a level, `(n, a)`."""
    n = len(problem.spine.levels[level].geocodes)
    cell = basis.fold(problem.constraints.structural_zeros[None, :].astype(np.float64))[0]
    mask = np.broadcast_to(cell.reshape(basis.n_asymmetric, -1).min(axis=1) > 0, (n, basis.n_asymmetric)).copy()
    for bound in problem.constraints.bounds[level]:
        if not basis.kept(bound.marginal).any() or all(n_j == 1 for n_j in basis.symmetric_shape):
            answer = basis.recode(bound.marginal).argmax(axis=0)
            mask |= (bound.upper == 0)[:, answer]
    return mask


def zero_projector(basis: Basis, masks: BoolArray) -> FloatArray:
    """Projectors `(n, n_blocks, a, a)` on the impossible cells of masks `(n, a)`."""
    zeros = np.zeros((len(masks), basis.n_blocks, basis.n_asymmetric, basis.n_asymmetric))
    if masks.any():  # an array that nothing is written to takes no memory
        diagonal = np.arange(basis.n_asymmetric)
        zeros[:, :, diagonal, diagonal] = masks[:, None, :]
    return zeros


def with_invariants(
    basis: Basis, zeros: FloatArray, invariants: Sequence[GroupBounds], inherited: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Directions fixed by invariants, and by `inherited` ones, beyond the zeros.

    Returns the projectors on all known directions, and the inverses `(n, n_blocks, a, a)` that turn the summed
    right-hand sides into the least-norm histograms.
    """
    kept = np.eye(basis.n_asymmetric) - zeros
    precision = basis.precision([(bound.marginal, 1.0) for bound in invariants])[None]
    if inherited is not None:
        precision = precision + inherited
    used = range_projector(kept @ precision @ kept)
    inverse = inverse_off(precision + np.zeros_like(zeros), np.eye(basis.n_asymmetric) - used)
    return zeros + used, inverse


def invariant_terms(
    basis: Basis, invariants: Sequence[GroupBounds], answers: Sequence[np.ndarray], keep: BoolArray
) -> FloatArray:
    """Sum of A'g over the invariants, summed to `keep`: `(n, a, n_1 or 1, ...)`."""
    terms = [basis.back_project(b.marginal, a, keep) for b, a in zip(invariants, answers, strict=True)]
    return np.sum(terms, axis=0)


def common_known(sum_of_kept: FloatArray, *, plain: bool) -> FloatArray:
    """Projectors on the directions that every child knows, from the sums of the children's I - Q."""
    if not plain:
        return null_projector(sum_of_kept, size=1.0)
    known = np.zeros_like(sum_of_kept)
    diagonal = np.arange(known.shape[-1])
    known[..., diagonal, diagonal] = sum_of_kept[..., diagonal, diagonal] == 0
    return known
