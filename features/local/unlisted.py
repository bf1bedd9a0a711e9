"""Whether RAPPOR reports are explained by the words of a list and many rare others, or hold frequent unlisted words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from features.local.collect.mechanism import Counts, Reals, Reports
from features.local.collect.rappor import Rappor
from features.local.collected import Collected
from features.local.collected_words import CollectedWords
from pipeline.storage.readable import Readable

#: How the public file of the reports calls it.
UNLISTED: Final = "unlisted words"
#: The probability of signs where every unlisted word is rare.
FALSE_ALARM: Final = 0.001
#: Reports that are needed, for each cohort: with fewer the sums of bits are not normal.
_REPORTS_OF_A_COHORT: Final = 5
#: Bits of all cohorts that no word explains, at least: the distribution of few is not known well enough.
_LEAST_DEGREES: Final = 10
#: Products that the test may take: some 10 seconds.
_MOST_PRODUCTS: Final = 1 << 33
#: A pivot below so much of the largest number is nothing but rounding.
_NOTHING: Final = 1e-9


@dataclass(frozen=True)
class CohortBits:
    """Counts the bits of each cohort, and behind them the reports of each: all that the words are told by.

    Attributes:
        mechanism: of the reports.
    """

    mechanism: Rappor

    @property
    def n_cells(self) -> int:
        """Numbers that are counted."""
        return self.mechanism.n_outputs + self.mechanism.n_cohorts

    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """`(n_groups, n_cells)` int64."""
        parts = (self.mechanism.totals, self.mechanism.n_reports)
        return np.hstack([part(reports, groups, n_groups) for part in parts])

    def apart(self, totals: Counts) -> tuple[Counts, Counts]:
        """Of one group's totals `(n_cells,)` those of the bits, and the numbers of reports."""
        bits, cohorts = np.split(totals, [self.mechanism.n_outputs])
        return bits, cohorts


@dataclass(frozen=True)
class Unlisted:
    """What the bits of all reports together say of words that are not listed.

    Attributes:
        excess: by what part the bits vary more between words and cohorts than they do where unlisted words are rare;
            so much larger are the variances of the words' counts of all reports. About 0 without frequent ones.
        degrees: of freedom of the chi-square that this is from.
        reports: how many.
    """

    excess: float
    degrees: int
    reports: int

    @property
    def limit(self) -> float:
        """Beyond which there are signs of frequent unlisted words; by chance in 1 of 1,000 surveys without them.

        Source: Wilson and Hilferty 1931, for the quantile of chi-square.
        """
        part = 2 / (9 * self.degrees)
        return float((1 - part + NormalDist().inv_cdf(1 - FALSE_ALARM) * math.sqrt(part)) ** 3 - 1)

    @property
    def signs(self) -> bool:
        """Whether there are signs of frequent unlisted words."""
        return self.excess > self.limit

    def like_one_word(self, collected: CollectedWords) -> int:
        """How many reports one unlisted word would have that does the same."""
        return round(math.sqrt(collected.told(self.excess, self.reports).unlisted) * self.reports)

    def data(self, collected: CollectedWords) -> dict[str, Any]:
        """JSON-able."""
        return {
            "excess variance": self.excess,
            "degrees of freedom": self.degrees,
            "limit": round(self.limit, 4),
            "signs of frequent ones": self.signs,
            "as of one word in": self.like_one_word(collected),
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any], reports: int) -> Unlisted:
        """From `data`."""
        return cls(float(data["excess variance"]), int(data["degrees of freedom"]), reports)


def bits_of(collected: Collected) -> CohortBits | None:
    """What is counted of all reports together, beside their totals by leaf; None where all answers are listed."""
    return CohortBits(collected.rappor) if isinstance(collected, CollectedWords) else None


def unlisted_of(collected: CollectedWords, totals: NDArray[np.int64], whole: Counts) -> Unlisted | None:
    """`unlisted_words`, of totals `(n_leaves, n_cells)` of each leaf and of the bits of all reports."""
    bits, cohorts = CohortBits(collected.rappor).apart(whole)
    added = totals.sum(axis=0, keepdims=True)
    counts = collected.debiased(added, cohorts.sum(keepdims=True))[0, :-1]
    return unlisted_words(collected, counts, bits, cohorts)


def remarks_of(collected: Collected, totals: NDArray[np.int64], whole: Counts) -> list[str]:
    """What to tell of the reports of a survey, as `signs_of`."""
    if not isinstance(collected, CollectedWords) or not totals.any():
        return []
    found = unlisted_of(collected, totals, whole)
    return [] if found is None else signs_of({UNLISTED: found.data(collected)})


def signs_of(reports: Mapping[str, Any]) -> list[str]:
    """What to tell of signs of frequent words that are not listed, and what to do; nothing where there are none.

    Args:
        reports: what a release says of its reports.
    """
    found = reports.get(UNLISTED)
    if not found or not found["signs of frequent ones"]:
        return []
    times = math.sqrt(1 + float(found["excess variance"]))
    return [
        "the reports hold signs of frequent words that are not listed, as of one word in "
        f"{found['as of one word in']:,} of them; 1 in 1,000 surveys without such words has these signs. They make "
        f"errors of counts of all reports {times:.2f} times as large, for which intervals are wider. `spinewise words` "
        "finds words to be listed"
    ]


def signs_in(file: Readable) -> list[str]:
    """`signs_of`, of the public file of a release; nothing where it is none of reports of words."""
    try:
        return signs_of(json.loads(file.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def unlisted_words(
    collected: CollectedWords, counts: NDArray[np.float64], bits: Counts, cohorts: Counts
) -> Unlisted | None:
    """Compare the bits of all reports with those of the listed words and of many rare others.

    Let y_g be the debiased bits of the n_g reports of cohort g, less their mean: how many ones there are says nothing
    of words. If s are the shares of the listed words and C_g their filters, less h / bits everywhere, y_g has the mean
    n_g C_g s, and a covariance n_g V_g that follows from s, where each other word is rare: its filter is as good as a
    new one for each report. Generalised least squares for s leave a chi-square with cohorts (bits - 1) - words degrees
    of freedom. A word with c of n reports that is not listed adds c^2 / n / (the variance per report of a count) to it
    on average, and shifts the counts of listed words accordingly (`CollectedWords.shift`): the excess over the
    degrees, as a part of them, is by what their variance is larger than stated.

    All sums and products are of single numbers, in a fixed order, so that every computer has the same result.

    Args:
        collected: how answers were randomised, and which words are listed.
        counts: (words,) unbiased numbers of reports of each.
        bits: (cohorts x bits,) how many reports of each cohort have each bit.
        cohorts: (cohorts,) reports of each.

    Returns:
        None where it cannot be told: few reports, or so many bits that it would take long.
    """
    rappor, n_words = collected.rappor, len(collected.words)
    products = rappor.n_outputs * (rappor.bits**2 + n_words**2)
    if cohorts.sum() < _REPORTS_OF_A_COHORT * rappor.cohorts or products > _MOST_PRODUCTS:
        return None
    gap = float(rappor.q_star - rappor.p_star)
    shares = _shares(counts, int(cohorts.sum()))
    gram, right = np.zeros((n_words, n_words)), np.zeros(n_words)
    squares: list[float] = []
    for cohort in np.flatnonzero(cohorts).tolist():
        filters = np.zeros((rappor.bits, n_words))
        filters[collected.ones[cohort], np.arange(n_words)[:, None]] = 1
        seen = bits[cohort * rappor.bits : (cohort + 1) * rappor.bits]
        debiased = (seen - int(seen.sum()) / rappor.bits) / gap
        columns = np.hstack([filters - rappor.hashes / rappor.bits, debiased[:, None]])
        eliminated = _eliminated(_covariance(collected, cohort, shares), columns)
        if eliminated is None:
            return None
        number = int(cohorts[cohort])
        for pivot, row in zip(*eliminated, strict=True):
            scaled = row[:-1] / pivot
            gram += (number * scaled)[:, None] * row[:-1][None, :]
            right += scaled * row[-1]
            squares.append(float(row[-1]) ** 2 / pivot / number)
    degrees = int(np.count_nonzero(cohorts)) * (rappor.bits - 1) - n_words
    eliminated = _eliminated(gram, right[:, None]) if degrees >= _LEAST_DEGREES else None
    if eliminated is None:
        return None  # too few cohorts have reports to tell the words apart
    explained = [float(row[0]) ** 2 / pivot for pivot, row in zip(*eliminated, strict=True)]
    chi_square = math.fsum(squares) - math.fsum(explained)
    return Unlisted(round(chi_square / degrees - 1, 4), degrees, int(cohorts.sum()))


def _shares(counts: NDArray[np.float64], reports: int) -> list[float]:
    """Of the listed words in all reports, and last of all others; from 0 up, and 1 in all."""
    positive = [max(0.0, count) for count in counts.tolist()]
    whole = max(float(reports), math.fsum(positive))
    shares = [count / whole for count in positive]
    return [*shares, max(0.0, 1 - math.fsum(shares))]


def _covariance(collected: CollectedWords, cohort: int, shares: list[float]) -> Reals:
    """(bits, bits) of the debiased bits of a report of the cohort, less their mean; 1 / bits is added everywhere.

    The sum of a report's bits has the same mean for all words. So the covariance of a bit with it is the mean variance
    of the bit given the word, and its variance that of h bits which are set and of the others. What is added makes the
    matrix regular, and tells nothing: what it is used on has the sum 0.
    """
    rappor = collected.rappor
    p, q = float(rappor.p_star), float(rappor.q_star)
    size, hashes = rappor.bits, rappor.hashes
    both = np.full((size, size), shares[-1] * hashes * (hashes - 1) / (size * (size - 1)))
    mean = np.full(size, shares[-1] * hashes / size)
    for share, ones in zip(shares, collected.ones[cohort], strict=False):
        mean[ones] += share
        both[ones[:, None], ones[None, :]] += share
    covariance = (q - p) ** 2 * (both - mean[:, None] * mean[None, :])
    rate = p + (q - p) * mean
    np.fill_diagonal(covariance, rate * (1 - rate))
    given = p * (1 - p) + (q * (1 - q) - p * (1 - p)) * mean
    whole = hashes * q * (1 - q) + (size - hashes) * p * (1 - p)
    centred = covariance - given[:, None] / size - given[None, :] / size + whole / size**2
    return np.asarray(centred / (q - p) ** 2 + 1 / size)


def _eliminated(matrix: Reals, columns: Reals) -> tuple[list[float], Reals] | None:
    """Gaussian elimination of a symmetric positive definite matrix, and of columns with it.

    Returns:
        (n,) the pivots d, and (n, k) rows x, so that columns' matrix^-1 columns = sum of x' x / d; None where the
        matrix is singular, to the digits of floating point.
    """
    n, pivots = len(matrix), list[float]()
    smallest = float(np.diag(matrix).max()) * _NOTHING
    work = np.hstack([matrix, columns])
    for place in range(n):
        pivots.append(float(work[place, place]))
        if not pivots[-1] > smallest:
            return None
        below = work[place + 1 :, place] / pivots[-1]
        work[place + 1 :, place + 1 :] -= below[:, None] * work[place, place + 1 :][None, :]
    return pivots, work[:, n:]
