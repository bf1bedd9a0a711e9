"""What is known of the geounits of one level: precisions and linear terms in the block-diagonal basis; what is exact.

Every geounit has three kinds of directions in the space of its histogram:

- *known*: fixed by structural zeros, facilities that are absent, invariants (variance zero);
- *unmeasured*: no query of the subtree depends on them (precision zero);
- the rest, on which precision and covariance are inverse to each other.

F is the projector on the known directions (`known`) and U that on the unmeasured ones (`unmeasured`). With Q = F + U
the covariance is ((I - Q) H (I - Q) + Q)^-1 - Q: one well-conditioned positive definite solve.

What is known exactly of a level's histograms: impossible cells and invariants, as projectors on known directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postprocess.algebra import CHUNK_NUMBERS, Basis, chunks, symmetrise
from postprocess.arrays import BoolArray, FloatArray
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds, Problem

#: Eigenvalues below this, relative to the largest, count as zero when directions are classified.
RANK_TOLERANCE = 1e-9
#: The part of an answer that nothing was measured of, from which on it has no variance.
BLIND = 1e-9
#: The squared length of the part of an answer that is not fixed, below which it is rounding.
FREE = 1e-6
TINY = float(np.finfo(float).tiny)
#: What rounding leaves of a matrix where it is zero, relative to its trace, is below this.
ROUNDING = 1e-13


def inverse_off(matrices: FloatArray, excluded: FloatArray) -> FloatArray:
    """Inverse of stacked positive semidefinite matrices on the complement of `excluded`, zero on `excluded`.

    Both `(..., a, a)`; `excluded` holds orthogonal projectors. The matrices are scaled to unit diagonal first and
    inverted by their Cholesky factors.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular outside `excluded`.
    """
    if matrices.ndim == 4 and matrices.shape == excluded.shape and matrices.size > CHUNK_NUMBERS:
        # Half a dozen arrays of this size are needed on the way.
        out = np.empty_like(matrices)
        for rows in chunks(len(matrices), matrices[0].size):
            out[rows] = _inverse_off(matrices[rows], excluded[rows])
        return out
    return _inverse_off(matrices, excluded)


def rank_and_scale(kept: FloatArray, matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ranks of stacked projectors and, of matrices on their ranges, the mean eigenvalues: `(..., 1, 1)` each."""
    rank = np.trace(kept, axis1=-2, axis2=-1)[..., None, None]
    return rank, np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / np.maximum(rank, 1.0)


def _inverse_off(matrices: FloatArray, excluded: FloatArray) -> FloatArray:
    size = matrices.shape[-1]
    identity = np.eye(size)
    kept = identity - excluded
    projected = kept @ matrices @ kept
    rank, scale = rank_and_scale(kept, projected)
    nothing_left = np.broadcast_to(rank < 0.5, scale.shape)
    scale = np.where((scale > 0) & ~nothing_left, scale, 1.0)
    projected = np.where(nothing_left, 0.0, projected)
    factor = np.linalg.cholesky(symmetrise(projected / scale + excluded))
    inverse_factor = np.linalg.solve(factor, np.broadcast_to(identity, factor.shape))
    inverse = np.swapaxes(inverse_factor, -1, -2) @ inverse_factor - excluded
    return np.where(nothing_left, 0.0, symmetrise(kept @ inverse @ kept) / scale)


def factors_off(matrices: FloatArray, excluded: FloatArray) -> FloatArray:
    """C with C C' = M of stacked positive semidefinite matrices M that are 0 on `excluded`; both `(..., a, a)`.

    M + Q, with the projectors Q on what is excluded, is positive definite and has one Cholesky factor; I - Q takes
    away what it has on Q. So C is as well defined to the last digits as M is.

    Raises:
        numpy.linalg.LinAlgError: never for a precision or covariance of the upward pass; a defect.
    """
    kept = np.eye(excluded.shape[-1]) - excluded
    rank, scale = rank_and_scale(kept, matrices)
    nothing = (rank < 0.5) | (scale <= 0)
    scale = np.where(nothing, 1.0, scale)
    factor = np.linalg.cholesky(symmetrise(np.where(nothing, 0.0, matrices) / scale + excluded + nothing * kept))
    return np.where(nothing, 0.0, kept @ factor * np.sqrt(scale))


def null_projector(
    matrices: FloatArray, excluded: FloatArray | None = None, size: float | FloatArray = TINY
) -> FloatArray:
    """Projectors on the null spaces of stacked positive semidefinite matrices, outside `excluded`.

    `size` `(...)`: the least size of what is not rounding; eigenvalues count as zero relative to it, at least.
    """
    values, vectors = np.linalg.eigh(symmetrise(matrices))
    largest = np.maximum(values.max(axis=-1, keepdims=True), np.asarray(size)[..., None])
    null = (values <= RANK_TOLERANCE * largest).astype(float)
    projector: FloatArray = (vectors * null[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    if excluded is None:
        return projector
    kept = np.eye(matrices.shape[-1]) - excluded
    return range_projector(kept @ projector @ kept)


def known_with_family(known: FloatArray, known_above: FloatArray, unknown_of_family: FloatArray) -> FloatArray:
    """Projectors on what is known of a child in the end: by itself, or since parent and siblings are known.

    What the parent and all siblings know exactly, the child has exactly too; an only child knows what its parent does.

    Args:
        known: of each child by itself, `(n, n_blocks, a, a)` projectors.
        known_above: in the end, of its parent; the same shape.
        unknown_of_family: the sums over the children of each parent of I - known; the same shape.
    """
    identity = np.eye(known.shape[-1])
    further = learns_from_family(known, known_above)
    if not further.any():
        return known
    out = known.copy()
    siblings = unknown_of_family[further] - (identity - known[further])
    given = null_projector(siblings + identity - known_above[further], size=1.0)
    out[further] = range_projector(known[further] + given)
    return out


def learns_from_family(known: FloatArray, known_above: FloatArray) -> BoolArray:
    """`(n,)`: whether a parent knows directions exactly that its child by itself does not, from stacked projectors."""
    further = np.einsum("...ij,...ji->...", known_above, np.eye(known.shape[-1]) - known)
    return further.max(axis=-1, initial=0.0) > RANK_TOLERANCE


def off_known(unmeasured: FloatArray, known: FloatArray) -> FloatArray:
    """What stays unmeasured of the `unmeasured` directions where `known` ones are fixed; stacked projectors, or one."""
    if not unmeasured.any():
        return unmeasured
    known = np.broadcast_to(known, unmeasured.shape)
    touched = np.abs(unmeasured @ known).max(axis=(-3, -2, -1), initial=0.0) > BLIND
    if not touched.any():
        return unmeasured
    out = unmeasured.copy()
    out[touched] = null_projector(np.eye(known.shape[-1]) - unmeasured[touched] + known[touched], size=1.0)
    return out


def fixed_answers(basis: Basis, known: FloatArray, marginal: Marginal) -> BoolArray:
    """Which answers `(n, size)` of a query the `known` directions `(n, n_blocks, a, a)` fix."""
    fixed = np.empty((len(known), marginal.size), dtype=bool)
    for rows in chunks(len(known), known[0].size if len(known) else 1):
        free = basis.answer_variances(np.eye(known.shape[-1]) - known[rows], marginal)
        # An answer is a sum of cells: the part of it that is not fixed is 0, or far larger than rounding.
        fixed[rows] = free < FREE
    return fixed


def range_projector(matrices: FloatArray) -> FloatArray:
    """Projectors on the ranges of stacked positive semidefinite matrices."""
    values, vectors = np.linalg.eigh(symmetrise(matrices))
    largest = np.maximum(values.max(axis=-1, keepdims=True), ROUNDING / RANK_TOLERANCE)
    used = (values > RANK_TOLERANCE * largest).astype(float)
    projector: FloatArray = (vectors * used[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return projector


def with_unmeasured(known: FloatArray, unmeasured: FloatArray) -> FloatArray:
    """Projectors on what the classes of a level know or have `unmeasured` below them, as sums over their children.

    Each class by itself: one of which all is measured keeps the projector that it would have without the others.

    Args:
        known: `(n, n_blocks, a, a)` projectors.
        unmeasured: the same shape, sums of the children's projectors.
    """
    some = unmeasured.any(axis=(-3, -2, -1))
    if not some.any():
        return known
    out = known.copy()
    out[some] = range_projector(unmeasured[some] + known[some])
    return out


def full_rank(blocks: FloatArray) -> BoolArray:
    """Of which stacked positive semidefinite matrices `(..., a, a)` the rank is full: `(...)`."""
    values = np.linalg.eigvalsh(blocks)
    return values[..., 0] > RANK_TOLERANCE * np.maximum(values[..., -1], np.finfo(float).tiny)


def is_full(blocks: FloatArray) -> bool:
    """Whether stacked positive semidefinite matrices all have full rank."""
    return bool(full_rank(blocks).all())


@dataclass(frozen=True, eq=False)
class Information:
    """Precision and what it cannot see, of the geounits (or of the classes of alike geounits) of one level.

    Attributes:
        precision: `(n, n_blocks, a, a)`; of own measurements and, in the full estimator, of the subtree's.
        known: `(n, n_blocks, a, a)` projector on the directions that are fixed.
        unmeasured: the same for the directions that nothing was measured of.
        covariance: `(n, n_blocks, a, a)`; zero on known and on unmeasured directions.
    """

    precision: FloatArray
    known: FloatArray
    unmeasured: FloatArray
    covariance: FloatArray

    def __reduce__(self) -> tuple[object, ...]:
        """For another process: projectors that are 0, as they are in most releases, take no room and no memory."""
        sent = (_unless_zero(self.known), _unless_zero(self.unmeasured))
        return _received, (self.precision, *sent, self.covariance)

    @property
    def blind(self) -> BoolArray:
        """Of which classes some direction is measured nowhere, `(n,)`."""
        return np.broadcast_to(self.unmeasured.any(axis=(-3, -2, -1)), len(self.known))


def _unless_zero(projectors: FloatArray) -> FloatArray | tuple[int, ...]:
    return projectors if projectors.any() else projectors.shape


def _received(
    precision: FloatArray,
    known: FloatArray | tuple[int, ...],
    unmeasured: FloatArray | tuple[int, ...],
    covariance: FloatArray,
) -> Information:
    """What `Information.__reduce__` sent; an array of zeros that nothing is written to takes no memory."""
    of_known, of_unmeasured = (np.zeros(one) if isinstance(one, tuple) else one for one in (known, unmeasured))
    return Information(precision, of_known, of_unmeasured, covariance)


def information(precision: FloatArray, known: FloatArray, own_is_full: bool) -> Information:
    """Complete the covariance of `precision` given the `known` directions.

    `own_is_full` says that the precision has full rank outside the known directions, so that no rank has to be
    found by eigenvalues.
    """
    kept = np.eye(precision.shape[-1]) - known
    if own_is_full:
        unmeasured = np.zeros(precision.shape)  # takes no memory until it is written to
    else:
        # Where all that is measured is known, the precision that is left is rounding, and no direction of it counts.
        size = np.maximum(np.trace(precision, axis1=-2, axis2=-1) * (ROUNDING / RANK_TOLERANCE), TINY)
        unmeasured = null_projector(kept @ precision @ kept, known, size)
    covariance = inverse_off(precision, known + unmeasured)
    return Information(precision, known, unmeasured, covariance)


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
