"""An exact sampler, slow and in whole numbers and fractions only, which redraws noise from the words of a stream.

The noise is X = min {x: U < P(X <= x)}, U in [0, 1) having the words of the stream as its digits in base 2^64. Words
are taken until U is surely on one side of every boundary. A choice is drawn in the same way from P(candidate <= j), and
by permute-and-flip as its name says: the candidates in a random order, a coin for each, until one shows heads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from auditor.mechanisms import law_of

#: Rising numbers, each with its lower and upper end at 2^bits.
Ends = tuple[list[int], list[int]]

WORD = 64
_GUARD = 64
_MOST_WORDS = 16
#: Boundaries above which a distribution is not tabulated here; sigma up to about 7,000, b up to about 1,000.
MOST_OUTCOMES = 200_000
#: Weights below this, in units of 2^-(bits + 2 guard), are not tabulated.
_NO_WEIGHT = 1 << (_GUARD - 8)


class TooWideError(ValueError):
    """The noise has more outcomes than this sampler computes."""


def exponential(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits exp(-x), x >= 0: the series at x / 2^n, squared n times."""
    n = max(0, (x.numerator // x.denominator).bit_length()) + 4
    work = bits + n + 12
    if x >= work:
        return 0, 1
    one = 1 << work
    low_x, high_x = (x.numerator << work) // (x.denominator << n), -(-(x.numerator << work) // (x.denominator << n))

    def series(y: int, error: int) -> int:
        total, term, k = one, one, 0
        while term:
            k += 1
            term = term * y // (k << work)
            total += -term if k % 2 else term
        return total + error * (k + 2)

    low, high = series(high_x, -2), series(low_x, 2)
    for _ in range(n):
        low, high = low * low >> work, -(-high * high >> work)
    return max(low >> (work - bits), 0), -(-high >> (work - bits))


@lru_cache(maxsize=64)
def boundaries(mechanism: str, scale: Fraction, bits: int) -> Ends:
    """P(X <= x) for x = -K, ..., K - 1, where P(X > K) is below 2^-bits.

    Args:
        mechanism: of the noise.
        scale: sigma^2 or b.
        bits: the ends are in units of 2^-(bits + guard).

    Raises:
        TooWideError: there are more than `MOST_OUTCOMES` boundaries.
    """
    work = bits + 2 * _GUARD
    law = law_of(mechanism)
    lows, highs = [], []
    for k in range(MOST_OUTCOMES // 2 + 2):
        low, high = exponential(law.distance(k) / (law.unit * scale), work)
        lows.append(low)
        highs.append(high)
        if high < _NO_WEIGHT:
            break
    else:
        raise TooWideError(f"{mechanism} with the scale {scale} has too many outcomes to be redrawn here")
    # Weights beyond the last: fewer than 2^32 times it, since ratios fall, or stay exp(-1 / b) <= 1 - 2^-32.
    beyond = highs[-1] << 32
    total = 2 * sum(lows[1:]) + lows[0], 2 * (sum(highs[1:]) + beyond) + highs[0]
    tails_low, tails_high = list(accumulate(reversed(lows[1:]))), list(accumulate(reversed(highs[1:]), initial=beyond))
    shift = bits + _GUARD
    below_low = [(low << shift) // total[1] for low in tails_low]  # P(X <= -K), ..., P(X <= -1)
    below_high = [-((-high << shift) // total[0]) for high in tails_high[1:]]
    one = 1 << shift
    # P(X <= x) = 1 - P(X <= -x - 1) for x >= 0
    all_low = below_low + [one - end for end in reversed(below_high)]
    all_high = below_high + [one - end for end in reversed(below_low)]
    return all_low, all_high


def is_wide(mechanism: str, scale: Fraction) -> bool:
    """Whether a distribution has too many outcomes to be tabulated by `boundaries`."""
    law = law_of(mechanism)
    x = law.distance(MOST_OUTCOMES // 2 + 1) / (law.unit * scale)
    return exponential(x, WORD + 2 * _GUARD)[1] >= _NO_WEIGHT


def fits(mechanism: str, scale: Fraction, noise: int, words: Iterator[int]) -> bool:
    """Whether the words of one draw give this noise; of wide noise to within one, by a formula.

    The formula is that of the distribution on the real numbers, whose differences from the discrete one are far below
    one where noise is wide. The nearer end of the first word counts, so that floats are exact enough.
    """
    if not is_wide(mechanism, scale):
        return drawn(mechanism, scale, words) == noise
    word = next(words)
    sign, beyond = (-1, word) if word < 1 << (WORD - 1) else (1, (1 << WORD) - 1 - word)
    tail = (beyond + 0.5) / 2.0**WORD
    far_out = law_of(mechanism).quantile(tail, float(scale))
    return abs(noise - sign * far_out) <= 1 + 1e-6 * far_out


def drawn(mechanism: str, scale: Fraction, words: Iterator[int]) -> int:
    """The noise (persons) that the words of one draw give."""
    number, ends = decided(lambda bits: boundaries(mechanism, scale, bits), words, open_ended=True)
    return number - len(ends) // 2


@lru_cache(maxsize=4096)
def choices(epsilon: Fraction, losses: tuple[int, ...], bits: int) -> Ends:
    """P(candidate <= j) for all j but the last; probabilities are in proportion to exp(-epsilon loss / 2)."""
    work = bits + 2 * _GUARD
    least = min(losses)
    weights = [exponential(epsilon * (loss - least) / 2, work) for loss in losses]
    shift = bits + _GUARD
    lows, highs = (list(accumulate(ends)) for ends in zip(*weights, strict=True))
    low, high = [], []
    for low_in, high_in in zip(lows[:-1], highs[:-1], strict=True):
        low.append((low_in << shift) // (low_in + highs[-1] - high_in))
        high.append(-((-high_in << shift) // (high_in + lows[-1] - low_in)))
    return low, high


def chosen(epsilon: Fraction, losses: Sequence[int], words: Iterator[int]) -> int:
    """The number of the candidate that the words of one draw choose."""
    return decided(lambda bits: choices(epsilon, tuple(losses), bits), words, open_ended=False)[0]


def flipped(epsilon: Fraction, losses: Sequence[int], words: Callable[[int], Iterator[int]], position: int) -> int:
    """The number of the candidate that is the first in a random order whose coin shows heads.

    Args:
        epsilon: a coin shows heads with probability exp(-epsilon loss / 2), the loss less the least of them.
        losses: of the k candidates.
        words: those that belong to a number of the stream; 2 (k position + j) is the coin of j, the next its turn.
        position: of the draw.
    """
    first, least = 2 * len(losses) * position, min(losses)
    coming = [words(first + 2 * j + 1) for j in range(len(losses))]
    turns: list[tuple[int, ...]] = [(next(one),) for one in coming]
    while len(set(turns)) < len(turns):
        turns = [(*turn, next(one)) for turn, one in zip(turns, coming, strict=True)]

    def heads(j: int) -> bool:
        x = epsilon * (losses[j] - least) / 2

        def boundary(bits: int) -> Ends:
            low, high = exponential(x, bits + _GUARD)
            return [low], [high]

        return not x or decided(boundary, words(first + 2 * j), open_ended=False)[0] == 0

    return next(j for j in sorted(range(len(losses)), key=turns.__getitem__) if heads(j))


def decided(table: Callable[[int], Ends], words: Iterator[int], *, open_ended: bool) -> tuple[int, list[int]]:
    """How many boundaries are at or below U, and the boundaries.

    Args:
        table: the boundaries at a precision.
        words: of the draw.
        open_ended: there are further boundaries below the first and above the last, at a higher precision.

    Raises:
        RuntimeError: sixteen words did not decide, which no sound stream makes happen.
    """
    digits = bits = 0
    for _ in range(_MOST_WORDS):
        digits, bits = digits << WORD | next(words), bits + WORD
        low, high = table(bits)
        first, last = digits << _GUARD, (digits + 1) << _GUARD
        surely = bisect_right(high, first)  # boundaries <= U
        perhaps = bisect_left(low, last)  # boundaries that may be
        if surely == perhaps and (not open_ended or 0 < surely < len(low)):
            return surely, low
    raise RuntimeError("sixteen words left a draw undecided: the stream is not random")
