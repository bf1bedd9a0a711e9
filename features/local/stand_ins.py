"""Answers that stand in for the truth in simulated runs of a release from reports.

A release of other records is near enough the truth to stand in for it. One from reports is not: in a small area the
noise of the reports is far larger than the differences between areas, and what is released there has its peaks. So the
stand-ins are drawn by what the reports say of these differences. At each level, with s the shares of the answers in the
parent, those of a child with n reports are taken to vary around s with the variance rho s (1 - s), as the shares of a
Dirichlet distribution. The debiased counts y of the children have, summed over answers,

    E sum (y - n s)^2 = sum n s (1 - s) + rho sum n (n - 1) s (1 - s) + noise,   noise = n x a known number,

from which rho follows (method of moments; Kleinman 1973). Each child is then drawn around its best linear prediction
s + w (y / n - s), w = between / (between + within), with the variance that is left, rho (1 - w). So stand-ins differ
as much as true areas do, and follow the reports as far as these can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from features.local.collected import Collected
from geography.spine import Spine
from pipeline.model.public_key import public_key
from postprocess.arrays import BoolArray, FloatArray, IntArray

#: Differences of areas that are taken to exist in any case, and the most there can be.
_LEAST, _MOST = 1e-6, 0.999
#: Share of an answer that nothing is taken to have less of.
_RAREST = 1e-9


def stand_ins(
    collected: Collected, spine: Spine, totals: IntArray, reports: IntArray, seed: int
) -> tuple[sp.csr_array, ...]:
    """Answers of respondents, `(n, n_cells)` of each level, top first; levels add up, and each leaf has its reports.

    Args:
        collected: how answers were randomised.
        spine: the geography.
        totals: `(n_leaves, n_cells)` of the reports.
        reports: `(n_leaves,)` how many there are.
        seed: public.
    """
    key = public_key("spinewise stand-ins 1", seed, "")
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
    counts = _summed_up(spine, collected.debiased(totals, reports))
    numbers = [level[:, 0] for level in _summed_up(spine, reports[:, None].astype(np.float64))]
    cells = collected.counted
    # Of the cells that are counted by themselves: the rest of the reports says nothing more.
    noise = float(collected.counted_noise)
    shares = _positive(counts[0] / np.maximum(numbers[0], 1)[:, None])
    for level in range(1, spine.n_levels):
        above = shares[spine.levels[level].parents]
        shares = _drawn(counts[level], numbers[level], above, cells, noise, generator)
    answers = generator.multinomial(reports, shares)
    return tuple(sp.csr_array(level.astype(np.int64)) for level in _summed_up(spine, answers.astype(np.float64)))


def _summed_up(spine: Spine, leaves: FloatArray) -> Sequence[FloatArray]:
    """Numbers of the leaves, `(n_leaves, m)`, added up to every level, top first."""
    levels = [leaves]
    for level in range(spine.n_levels - 2, -1, -1):
        levels.insert(0, np.add.reduceat(levels[0], spine.child_offsets(level)[:-1], axis=0))
    return levels


def _drawn(
    counts: FloatArray,
    reports: FloatArray,
    above: FloatArray,
    cells: BoolArray,
    noise: float,
    generator: np.random.Generator,
) -> FloatArray:
    """Shares `(n, n_cells)` of the answers in the areas of a level, given those `above` of their parents."""
    spread = (above * (1 - above))[:, cells].sum(axis=1)
    seen = ((counts - reports[:, None] * above)[:, cells] ** 2).sum()
    pairs = (reports * (reports - 1) * spread).sum()
    between = (seen - noise * reports.sum() - (reports * spread).sum()) / pairs if pairs > 0 else 0.0
    between = min(max(between, _LEAST), _MOST)
    some = np.maximum(reports, 1)
    within = (noise + (1 - between) * spread) / some
    trusted = np.where(reports > 0, between * spread / (between * spread + within), 0.0)
    mean = _positive(above + trusted[:, None] * (counts / some[:, None] - above))
    left = np.clip(between * (1 - trusted), _LEAST, _MOST)
    drawn = generator.standard_gamma(mean * ((1 - left) / left)[:, None])
    return _positive(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def _positive(shares: FloatArray) -> FloatArray:
    """Shares that are not negative and add up to 1."""
    clipped = np.maximum(shares, _RAREST)
    out: FloatArray = clipped / clipped.sum(axis=1, keepdims=True)
    return out
