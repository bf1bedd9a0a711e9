"""Quantiles of an amount on its public grid, chosen by rank: mechanism, losses, how far a record moves them, cost.

The number asked for is a quantile of the amounts in each group: the least step of the grid with at least q n of the n
records at or below it. Of a candidate v with L records below it and M at or below it, the loss is

    max(L + q c - q n, q n - M + (1 - q) c, 0),   c the lesser of M - L and `ties`,

so that a step with few records stands for their middle, and one with many for all of the ranks that it has, but `ties`
at either side. The first term is left out for the lowest candidate and the second for the highest, so that some
candidate always has a loss of at most `ties`. With q = a / b losses are whole numbers in units of 1 / b of a record. A
record more or less moves them by at most max(a, b - a); one that changes its amount within its group, by at most b; one
that changes its group, those of two groups by at most max(a, b - a). A loss moved up by c and another down by c cost as
if c were moved (`Exponential`, `PermuteAndFlip`), so that R with m R >= the sum over the groups (pure) or m R^2 >= the
sum of the squares (zcdp) is what a charge states. R is a whole number, and the root of 2 is none: where one is needed,
all losses are taken 70 times (99 / 70 is the root of 2 to 5 digits).

Under zcdp the mechanism is the exponential one. Under pure budgets it is permute-and-flip, which is never further off
at the same epsilon; its rho is four times as large.

A maximum is no number that can be told: it is one person's amount. Asked for it is the least step that at most t
records are above, and of a minimum the highest that at most t are below, with a public t: q n is then n - t, or t,
which moves as far as q n with q = 1, or 0. Ties are not looked at, so that some candidate has no loss, and all k
candidates with losses of t or more are chosen with a probability of k exp(-e t / 2) at most, or half of that
(`Choice.loss_within`). t is the least for which that is 10 %: with 90 % the number is not beyond the largest amount,
and fewer than 2 t records are above it.

A clip is chosen among listed ends: the least that at most t records are above, or a share q of them, or else the last.
It is a maximum among the ends, or a quantile 1 - q: a record counts at the first end that it is not above, and all
that is said above holds of ends in place of steps. Unless t or q is given, t is as of a maximum.

An interval cannot be had from this choice, since what lies between two ranks is what the records know: see `windows`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from pipeline.errors import InputError
from pipeline.model.promise import Promise
from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.noise.choices import Choice, affordable_epsilon
from pipeline.privacy.noise.mechanisms import CHOICE
from postprocess.arrays import IntArray

#: The statistics that are chosen by rank, with the fraction of the records at or below the number, where it is fixed.
RANKS: Final = {"median": Fraction(1, 2), "quantile": None, "max": Fraction(1), "min": Fraction(0), "clip": None}
#: Of these, nearly the largest and the smallest amount.
EXTREMES: Final = ("max", "min")
CLIP: Final = "clip"

#: Times which losses are taken where a root of 2 is needed.
_FINER: Final = 70
#: Times the deviation of the rank that is chosen, up to which records of one step are told apart.
_TIES: Final = 3
#: Losses that are computed: beyond them a candidate is never chosen, and numbers stay within 64 bits.
_LARGEST_LOSS: Final = 2**60


@dataclass(frozen=True)
class Rank:
    """Numbers that are chosen together, one for each group of each place, from the same candidates.

    Attributes:
        quantile: the fraction q, above 0 and below 1; or 1 of a maximum, and 0 of a minimum.
        candidates: steps of the grid that there are to choose from.
        first: the lowest of them, in units; of the ends of a clip the number of the first, 0.
        above: of a clip the records that at most are to be above it, where so many are named.
    """

    quantile: Fraction
    candidates: int
    first: int
    name: Literal["quantile", "clip"] = "quantile"
    above: int | None = None

    @property
    def extreme(self) -> bool:
        """Whether it is of a maximum or a minimum."""
        return self.quantile in (0, 1)


@dataclass(frozen=True)
class Ranked:
    """A choice with its mechanism.

    Attributes:
        part: what is chosen.
        reach: see `rank_reach`; of losses times `times`.
        budget: that it costs, rho or epsilon, exact.
        mechanism: what it is chosen with, for losses that move by one.
        times: that losses are taken.
        ties: records of one step of which the middle is taken; see the head of this file.
        beyond: of a maximum, minimum or clip, the records t that at most are above or below the number asked for.
    """

    part: Rank
    reach: int
    budget: Fraction
    mechanism: Choice
    times: int
    ties: int
    beyond: int

    @property
    def within(self) -> int:
        """Records between the number chosen and the true one, at most, with a probability of 90 %."""
        steps = self.mechanism.loss_within(self.part.candidates, self.times)
        return math.ceil(Fraction(steps, self.part.quantile.denominator)) + self.ties

    @property
    def shift(self) -> int:
        """What is added to q n, for the number of records that are to be at or below."""
        return -self.beyond if self.part.quantile == 1 else self.beyond


def rank_of(statistic: str, number: Fraction | None, candidates: int, first: int) -> Rank:
    """What a statistic of `RANKS` chooses, with its number."""
    if statistic != CLIP:
        fixed = RANKS[statistic]
        return Rank((number or Fraction(0)) if fixed is None else fixed, candidates, first)
    if number is not None and number < 1:
        return Rank(1 - number, candidates, first, CLIP)
    return Rank(Fraction(1), candidates, first, CLIP, None if number is None else int(number))


def rank_reach(quantile: Fraction, framework: Framework, neighbours: Neighbours) -> tuple[int, int]:
    """R of the losses, and how many times they are taken; see the head of this file.

    >>> rank_reach(Fraction(1, 2), "zcdp", "change-one"), rank_reach(Fraction(1, 4), "pure", "add-remove")
    ((99, 70), (3, 1))
    """
    one, whole = max(quantile.numerator, quantile.denominator - quantile.numerator), quantile.denominator
    if framework == "pure" or neighbours == "add-remove" or 2 * one**2 >= whole**2:
        return one, 1
    within = (_FINER * whole) ** 2
    root = math.isqrt(within // 2)
    while MOVED[neighbours] * root**2 < within:
        root += 1
    return root, _FINER


def ranked(part: Rank, promise: Promise) -> Ranked:
    """The mechanism of a choice, which costs the budget, or a little less, since a root is no fraction.

    Args:
        part: what is chosen.
        promise: what its budget buys.

    Raises:
        InputError: the budget is not above 0, or too little to choose with.
    """
    framework, neighbours, budget = promise.framework, promise.neighbours, promise.budget
    if budget <= 0:
        raise InputError(f"budget: found {budget}; it must be above 0")
    reach, times = rank_reach(part.quantile, framework, neighbours)
    try:
        epsilon = affordable_epsilon(framework, budget, neighbours)
    except InputError:
        raise InputError(f"budget: found {budget}, which is too little to choose a quantile with") from None
    chooser = CHOICE[framework](epsilon / (reach * promise.records))
    scale = chooser.scale
    ties = (
        0 if part.extreme or part.name == CLIP else math.ceil(_TIES * 2 / (scale * times * part.quantile.denominator))
    )
    beyond = chooser.loss_within(part.candidates, times) if part.extreme else 0
    beyond = beyond if part.above is None else part.above
    if max(ties * times, beyond) > _LARGEST_LOSS // 2:
        raise InputError(f"budget: found {budget}, which is too little to choose a quantile with")
    return Ranked(part, reach, replace(promise, reach=reach).cost(chooser), chooser, times, ties, beyond)


def losses(histogram: IntArray, one: Ranked) -> IntArray:
    """Of each candidate in each group, `(n_groups, n_candidates)`, for the records by candidate, of the same shape.

    Raises:
        ValueError: more records than losses can be computed of; their number is not shown.
    """
    q = one.part.quantile
    upto = np.cumsum(histogram, axis=1)
    below = upto - histogram
    if upto.size and int(upto[:, -1].max()) * q.denominator > _LARGEST_LOSS // one.times:
        raise ValueError("quantile: too many records in a group")
    target = upto[:, -1:] * q.numerator + one.shift * q.denominator
    few = np.minimum(histogram, one.ties)
    lacking = q.denominator * below - target + q.numerator * few
    lacking[:, :1] = 0
    spare = target - q.denominator * upto + (q.denominator - q.numerator) * few
    spare[:, -1:] = 0
    found: IntArray = np.maximum(np.maximum(lacking, spare), 0) * one.times
    return found
