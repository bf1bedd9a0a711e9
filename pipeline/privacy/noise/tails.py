"""Tail probabilities of the noise, enclosed as tightly as required, and the 64-bit boundaries made of them.

Both distributions are symmetric, so they are given by T(k) = P(X <= -k) = P(X >= k), k = 0, 1, 2, ...:

    P(X <= x) = T(-x) for x < 0,    P(X <= x) = 1 - T(x + 1) for x >= 0.

No float takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.noise.fixed_point import divide, exp_minus, multiply

__all__ = ["WORD_BITS", "Tails", "boundaries", "tails"]

WORD_BITS = 64
_GUARD_BITS = 128  # precision beyond the bits of the uniform; the recurrences lose fewer than 64 of them
_NEGLIGIBLE_BITS = 32  # a weight of at most 2^32 units is left to the bound on the tail


@dataclass(frozen=True, eq=False)
class Tails:
    """`lower[k] <= 2^bits T(k) <= upper[k]` for k = 0, 1, ..., both falling in k; the last T(k) is below 2^-depth."""

    depth: int
    bits: int
    lower: list[int]
    upper: list[int]


def tails(spec: NoiseSpec, depth: int) -> Tails:
    """The tails as far as 2^-depth, each enclosed within about 2^-(depth + 64) in absolute terms."""
    if spec.mechanism == "discrete_gaussian":
        return _gaussian_tails(spec.scale, depth)
    return _laplace_tails(spec.scale, depth)


def boundaries(spec: NoiseSpec) -> NDArray[np.uint64]:
    """Integers B with B <= 2^64 P(X <= x) <= B + 1 for x = -K, ..., K - 1, `(2K,)` uint64, rising from 0 to 2^64 - 1.

    B is the floor of 2^64 P(X <= x), so it does not depend on the precision it was computed with. K is the first k with
    T(k) < 2^-64: every further boundary would be another 0 or 2^64 - 1.
    """
    depth = WORD_BITS
    while True:
        floors = _floors(tails(spec, depth))
        if floors is not None:
            break
        depth *= 2  # an enclosure held a multiple of 2^-64
    below = np.array(floors[::-1], dtype=np.uint64)  # T(K), ..., T(1)
    above = ~below[::-1]  # 1 - T(1), ..., 1 - T(K): the floor of 2^64 - t is 2^64 - 1 - floor(t)
    return np.concatenate([below, above])


def _floors(table: Tails) -> list[int] | None:
    """Floors of 2^64 T(k) for k = 1, ..., K; None where an enclosure is not within two neighbouring integers."""
    shift = table.bits - WORD_BITS
    floors: list[int] = []
    for lower, upper in zip(table.lower[1:], table.upper[1:], strict=True):
        floor = lower >> shift
        if upper > (floor + 1) << shift:
            return None
        floors.append(floor)
        if floor == 0:
            break
    return floors


def _gaussian_tails(sigma2: Fraction, depth: int) -> Tails:
    """T(k) = S(k) / (S(0) + S(1)), S(k) the sum over j >= k of w(j) = exp(-j^2 / (2 sigma^2)).

    w(j + 1) = w(j) r(j) and r(j + 1) = r(j) g, with r(0) = exp(-1 / (2 sigma^2)) and g = exp(-1 / sigma^2). Since r
    falls, the weights from J on sum to at most w(J) / (1 - r(J)).
    """
    bits = depth + _GUARD_BITS
    one = 1 << bits
    ratio, step = exp_minus(1 / (2 * sigma2), bits), exp_minus(1 / sigma2, bits)
    weight = (one, one)
    lower: list[int] = []
    upper: list[int] = []
    while weight[1] >> _NEGLIGIBLE_BITS:
        lower.append(weight[0])
        upper.append(weight[1])
        weight = multiply(weight, ratio, bits)
        ratio = multiply(ratio, step, bits)
    lower.append(weight[0])
    upper.append(divide(weight, (one - ratio[1], one), bits)[1])
    for k in range(len(lower) - 2, -1, -1):
        lower[k] += lower[k + 1]
        upper[k] += upper[k + 1]
    total = (lower[0] + lower[1], upper[0] + upper[1])
    for k in range(len(lower)):
        lower[k], upper[k] = divide((lower[k], upper[k]), total, bits)
    return Tails(depth, bits, lower, upper)


def _laplace_tails(b: Fraction, depth: int) -> Tails:
    """T(k) = a^k / (1 + a) with a = exp(-1 / b)."""
    bits = depth + _GUARD_BITS
    one = 1 << bits
    ratio = exp_minus(1 / b, bits)
    tail = divide((one, one), (one + ratio[0], one + ratio[1]), bits)
    lower, upper = [tail[0]], [tail[1]]
    while tail[1] >> _GUARD_BITS:
        tail = multiply(tail, ratio, bits)
        lower.append(tail[0])
        upper.append(tail[1])
    return Tails(depth, bits, lower, upper)
