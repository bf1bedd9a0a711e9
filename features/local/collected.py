"""How answers were randomised before they were sent, and what that says of counts made from the reports.

Answers of a list have counts by randomised response and unary encoding, words of a list by RAPPOR.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from features.local.collect.listed import ListedMechanism
from features.local.collect.mechanism import LocalMechanism
from features.local.collect.rappor import Rappor
from features.local.collect.reports import Reports
from pipeline.errors import InputError
from pipeline.model.draw import ReportNoise
from postprocess.arrays import BoolArray, FloatArray, IntArray


class Collected(ABC):
    """How answers were randomised: from reports to counts of the cells of the schema, and their errors.

    Attributes:
        mechanism: that every respondent used.
        respondents: how many are expected in a leaf, where the spec says so; for plans alone.
    """

    mechanism: LocalMechanism
    respondents: int | None

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Values that a respondent may have."""

    @property
    def counted(self) -> BoolArray:
        """`(n_cells,)`: which cells' counts are measured by themselves; one that is not is the rest of the reports."""
        return np.ones(self.n_cells, dtype=np.bool_)

    @property
    def shift(self) -> float | None:
        """By how much a report of one answer that is not listed typically moves a count; None where all are listed."""
        return None

    @property
    @abstractmethod
    def noise_per_report(self) -> Fraction:
        """The sum of the variances of the debiased counts, for one report; see `unit_variance`."""

    @property
    def counted_noise(self) -> Fraction:
        """The same of the cells whose counts are measured by themselves."""
        return self.noise_per_report

    @property
    @abstractmethod
    def unit_variance(self) -> Fraction:
        """The variance per report that stands for the covariance of the debiased counts, exact."""

    def noise(self, reports: int) -> ReportNoise:
        """The noise on the counts of so many reports; where there are none, that of one, on zeros."""
        return ReportNoise(max(reports, 1) * self.unit_variance)

    @abstractmethod
    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """(n_groups, n_cells) int64: what is published of the reports of each group, from which counts are made.

        Args:
            reports: as the mechanism decodes them.
            groups: (n,) numbers of groups.
        """

    @abstractmethod
    def debiased(self, totals: IntArray, reports: IntArray) -> FloatArray:
        """Unbiased counts `(n, n_cells)` from totals `(n, n_cells)` and numbers of reports `(n,)`.

        Number by number, so that no computer has another last digit.
        """

    @abstractmethod
    def totals_of(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """Totals `(n, n_cells)` of reports that respondents with the values `counts` `(n, n_cells)` might have sent."""

    def own_errors(self, answers: IntArray, cells: IntArray, counts: IntArray, reports: IntArray) -> FloatArray:
        """By what the standard errors of counts differ from those that `unit_variance` says.

        Args:
            answers: (n_cells,) the number of the answer of a query that each cell is summed in.
            cells: the number of the answer that each count is of.
            counts: in whole persons.
            reports: in the areas of the counts; the arrays are broadcast against each other.
        """
        stated = self._stated(answers)[cells]
        variances = self._exact(answers, cells, np.clip(counts / np.maximum(reports, 1), 0, 1))
        known = (stated > 0) & (variances > 0)
        return np.asarray(np.sqrt(np.where(known, variances, 1) / np.where(known, stated, 1)))

    def stated_variances(self, answers: IntArray, cells: IntArray, reports: IntArray) -> FloatArray:
        """Variances of the counts of answers by `unit_variance`, given the numbers of reports; as `own_errors`."""
        return np.asarray(reports * self._stated(answers)[cells])

    @abstractmethod
    def _stated(self, answers: IntArray) -> FloatArray:
        """(n_answers,) the variance of each answer's count by `unit_variance`, for one report."""

    @abstractmethod
    def _exact(self, answers: IntArray, cells: IntArray, share: FloatArray) -> FloatArray:
        """The variances of the counts of the answers `cells`, for one report, given the `share` of reports they are."""


# -- answers of a list -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CollectedAnswers(Collected):
    """Reports that were randomised by a mechanism whose values are the cells of the schema.

    Attributes:
        mechanism, respondents: see `Collected`.
    """

    mechanism: ListedMechanism
    respondents: int | None = None

    @property
    def n_cells(self) -> int:
        """Values that a respondent may have."""
        return self.mechanism.values

    @property
    def noise_per_report(self) -> Fraction:
        """The sum of the variances of the debiased counts, for one report; see `unit_variance`."""
        p, q = self.mechanism.chances
        return (self.n_cells * q * (1 - q) + (p - q) * (1 - p - q)) / (p - q) ** 2

    @cached_property
    def unit_variance(self) -> Fraction:
        """The variance per report that stands for the covariance of the debiased counts, exact.

        Given the true counts x of n reports, those of an output with probabilities p and q have the variance
        (n q (1 - q) + x (p - q)(1 - p - q)) / (p - q)^2. Summed over the cells it depends on n alone. Estimation has
        the number of reports as an invariant; on the counts that add up to it, the covariance is taken to be
        s (I - 11' / k) with this sum: exactly right for two values and p + q = 1, and right on average over cells else.
        """
        # Counts that add up by themselves have all of it there; independent ones have a part of it in their sum.
        return self.noise_per_report / (self.n_cells - 1 if self.mechanism.exclusive else self.n_cells)

    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """How many reports of each group have each output."""
        return self.mechanism.totals(reports, groups, n_groups)

    def debiased(self, totals: IntArray, reports: IntArray) -> FloatArray:
        """See `Collected.debiased`."""
        return self.mechanism.debias(totals, reports)

    def totals_of(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """See `Collected.totals_of`."""
        p, q = (float(chance) for chance in self.mechanism.chances)
        out = np.zeros(counts.shape, dtype=np.int64)
        if self.mechanism.exclusive:
            for value in range(self.n_cells):
                shares = np.full(self.n_cells, q)
                shares[value] = p
                out += generator.multinomial(counts[:, value], shares / shares.sum())
            return out
        out += generator.binomial(counts, p)
        out += generator.binomial(counts.sum(axis=1, keepdims=True) - counts, q)
        return out

    def _stated(self, answers: IntArray) -> FloatArray:
        """Of m of the k cells s m (k - m) / k."""
        cells = np.bincount(answers)
        return np.asarray(float(self.unit_variance) * cells * (1 - cells / self.n_cells))

    def _exact(self, answers: IntArray, cells: IntArray, share: FloatArray) -> FloatArray:
        """See `Collected._exact`.

        Given the truth x, the count of m of the k cells that adds up to n by itself has the variance
        (n Q (1 - Q) + x (P - Q)(1 - P - Q)) / (p - q)^2, with Q = m q and P = p + (m - 1) q. Independent
        outputs have m times that of one, and made to add up to n, V (1 - 2 m / k) + W (m / k)^2, W that of all cells.
        """
        m = np.bincount(answers)[cells]
        p, q = (float(chance) for chance in self.mechanism.chances)
        if self.mechanism.exclusive:
            low, high = m * q, p + (m - 1) * q
            return np.asarray((low * (1 - low) + share * (high - low) * (1 - high - low)) / (p - q) ** 2)
        own, slope, part = q * (1 - q) / (p - q) ** 2, (1 - p - q) / (p - q), m / self.n_cells
        whole = self.n_cells * own + slope
        return np.asarray((m * own + share * slope) * (1 - 2 * part) + whole * part**2)


# -- words of a list ---------------------------------------------------------------------------------------------------


#: What is published is in units of so small a part of a person.
UNIT: Final = 1 << 20
#: Words that estimation keeps apart: it holds a square matrix of them for each kind of area.
MOST_WORDS: Final = 256
#: Bits that a word needs, in all cohorts together, to be told apart from the others.
_BITS_OF_A_WORD: Final = 4
#: Reports that are simulated at once.
_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True, eq=False)
class CollectedWords(Collected):
    """RAPPOR reports of the words of a list; the last cell of the schema is any other word.

    Let C_g be the filters of the words in cohort g, less h / bits everywhere, and x the bits of a report of that
    cohort. With G = sum over the m cohorts of C_g' C_g / m, the vector G^-1 C_g' x / (q* - p*) has, over the cohort at
    random and both responses, the mean e_v for a report of word v, and 0 for one of another word, whose filter is taken
    for h / bits everywhere as it is on average over its hashes. Its sums over the reports of an area are counts of the
    words; all other words are the rest of the reports, whose number is exact. So the counts of words have the variances
    of their own reports and nearly no covariances, and their rest has that of their sum.

    The vectors are rounded to whole numbers of `UNIT` parts, so that totals are exact whole numbers and add up over
    areas. All steps to them are sums and products of single numbers, in a fixed order: no computer has other ones.

    Attributes:
        words: different texts.
        mechanism, respondents: see `Collected`.
    """

    mechanism: Rappor
    words: tuple[str, ...]
    respondents: int | None = None

    def __post_init__(self) -> None:
        cohorts, bits = self.mechanism.cohorts, self.mechanism.bits
        most = min(MOST_WORDS, cohorts * bits // _BITS_OF_A_WORD)
        if not 1 <= len(self.words) <= most:
            raise InputError(
                f"words: found {len(self.words)}; from 1 to {most} can be told apart by {cohorts} cohorts of {bits} "
                "bits"
            )
        if len(set(self.words)) < len(self.words):
            raise InputError("words: one is listed twice")
        self._inverse  # noqa: B018 - refuses words with the same bits

    @property
    def n_cells(self) -> int:
        """The words, and any other."""
        return len(self.words) + 1

    @property
    def counted(self) -> BoolArray:
        """All but the last: other words are the rest of the reports."""
        return np.arange(self.n_cells) < len(self.words)

    @cached_property
    def unit_variance(self) -> Fraction:
        """The variance per report of each word, of reports of other words, on average over hashes.

        The bits of such reports are 1 with the probability r = p* + (q* - p*) h / bits. Were the filters of words at
        right angles, the variance would be r (1 - r) / (q* - p*)^2 / (h (1 - h / bits)). Least squares on w words has
        1 / (1 - w / n) of it, of n = cohorts (bits - 1) free bits, as of random directions.
        """
        rappor, p, q = self.mechanism, self.mechanism.p_star, self.mechanism.q_star
        density = Fraction(rappor.hashes, rappor.bits)
        rate = p + (q - p) * density
        apart = rate * (1 - rate) / (q - p) ** 2 / (rappor.hashes * (1 - density))
        free = rappor.cohorts * (rappor.bits - 1)
        return apart * free / (free - len(self.words))

    @property
    def shift(self) -> float:
        """By how much a report of one word that is not listed typically moves the count of a listed word.

        That is a standard deviation over words. All reports of such a word have the same filters, of which only the
        mean over words tells nothing: with a share c of n reports it moves a count by c n times this, as n grows, where
        noise grows as its root. Stated errors are of many rare words. Each cohort moves the count by a number of its
        own, with n free bits in all and w words 1 / (n - w) squared, as `unit_variance`.
        """
        return float(self.mechanism.cohorts * (self.mechanism.bits - 1) - len(self.words)) ** -0.5

    @property
    def noise_per_report(self) -> Fraction:
        """See `Collected.noise_per_report`; the rest has the variances of all words."""
        return 2 * self.counted_noise

    @property
    def counted_noise(self) -> Fraction:
        """See `Collected.counted_noise`."""
        return len(self.words) * self.unit_variance

    @cached_property
    def ones(self) -> IntArray:
        """(cohorts, words, hashes) the bits of each word."""
        return self.mechanism.filters(self.words)

    @cached_property
    def _inverse(self) -> FloatArray:
        """G^-1, (words, words), number by number."""
        rappor, n_words = self.mechanism, len(self.words)
        shared = np.zeros((n_words, n_words))
        for cohort in range(rappor.cohorts):
            bits = np.zeros((rappor.bits, n_words))
            bits[self.ones[cohort], np.arange(n_words)[:, None]] = 1
            shared += bits.T @ bits  # whole numbers: exact in any order
        gram = (shared - float(rappor.cohorts * rappor.hashes**2) / rappor.bits) / rappor.cohorts
        return _inverse_of(gram)

    @cached_property
    def _parts(self) -> FloatArray:
        """(cohorts, bits, words) float64 of whole numbers: what each bit adds to each word's total."""
        rappor, inverse = self.mechanism, self._inverse
        gap = float(rappor.q_star - rappor.p_star)
        parts = np.zeros((rappor.cohorts, rappor.bits, len(self.words)))
        everywhere = np.zeros(len(self.words))
        cohorts = np.arange(rappor.cohorts)
        for word in range(len(self.words)):
            everywhere += inverse[word]
            for hashed in range(rappor.hashes):
                parts[cohorts, self.ones[:, word, hashed]] += inverse[word]
        parts -= everywhere * (rappor.hashes / rappor.bits)
        return np.rint(parts * (UNIT / gap))

    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """(n_groups, n_cells) int64: the counts in units of 1 / `UNIT`; each row adds up to its reports."""
        out = np.zeros((n_groups, self.n_cells), dtype=np.int64)
        cohorts = reports[:, 0].astype(np.int64)
        order = np.argsort(cohorts, kind="stable")
        edges = np.searchsorted(cohorts[order], np.arange(self.mechanism.cohorts + 1))
        added = np.zeros((len(reports), len(self.words)))
        for cohort in range(self.mechanism.cohorts):
            rows = order[edges[cohort] : edges[cohort + 1]]
            # Whole numbers far below 2^53: exact in any order.
            added[rows] = reports[rows, 1:].astype(np.float64) @ self._parts[cohort]
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        if len(present):
            out[present, :-1] = np.add.reduceat(added[order], starts, axis=0).astype(np.int64)
        numbers = np.bincount(groups, minlength=n_groups).astype(np.int64)
        out[:, -1] = UNIT * numbers - out[:, :-1].sum(axis=1)
        return out

    def debiased(self, totals: IntArray, reports: IntArray) -> FloatArray:  # noqa: ARG002
        """See `Collected.debiased`."""
        return totals / float(UNIT)

    def totals_of(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """See `Collected.totals_of`; of another word, bits are drawn as those of a word of its own."""
        out = np.zeros(counts.shape, dtype=np.int64)
        before = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        first = 0
        while first < len(counts):
            last = max(first + 1, int(np.searchsorted(before, before[first] + _AT_ONCE, side="right")) - 1)
            groups, values = np.nonzero(counts[first:last])
            numbers = counts[first:last][groups, values]
            groups, values = np.repeat(groups, numbers), np.repeat(values, numbers)
            out[first:last] = self.totals(self._simulated(values, generator), groups.astype(np.int64), last - first)
            first = last
        return out

    def _simulated(self, values: IntArray, generator: np.random.Generator) -> Reports:
        """(n, 1 + bits) reports of respondents with these values."""
        rappor, n = self.mechanism, len(values)
        cohorts = generator.integers(rappor.cohorts, size=n)
        ones = np.zeros((n, rappor.hashes), dtype=np.int64)
        listed = values < len(self.words)
        ones[listed] = self.ones[cohorts[listed], values[listed]]
        ones[~listed] = _different(int((~listed).sum()), rappor.hashes, rappor.bits, generator)
        rates = np.full((n, rappor.bits), float(rappor.p_star))
        np.put_along_axis(rates, ones, float(rappor.q_star), axis=1)
        reports = np.zeros((n, 1 + rappor.bits), dtype=np.uint16)
        reports[:, 0] = cohorts
        reports[:, 1:] = generator.random(rates.shape) < rates
        return reports

    def variances_of(self, words: BoolArray) -> FloatArray:
        """(n_cells,) variance that a report of each value adds to the sum of the counts of some words `(words,)`.

        A report of cohort g adds t_g' x, t_g the sum of these words' parts. Given its filter b, the variance is that of
        its bits times t_g^2; over cohorts that of t_g' b (q* - p*) is added, and over hashes for another word.
        """
        rappor, p, q = self.mechanism, float(self.mechanism.p_star), float(self.mechanism.q_star)
        parts = self._parts[:, :, words].sum(axis=2) / UNIT
        squares = (parts**2).sum(axis=1).mean()
        cohort = np.arange(rappor.cohorts)[:, None, None]
        on = parts[cohort, self.ones]  # (cohorts, words, hashes)
        seen = (q - p) * on.sum(axis=2)
        own = (q * (1 - q) - p * (1 - p)) * (on**2).sum(axis=2).mean(axis=0) + (seen**2).mean(axis=0) - words
        density = rappor.hashes / rappor.bits
        spread = (q - p) ** 2 * density * (1 - density) * rappor.bits / (rappor.bits - 1)
        other = (q * (1 - q) - p * (1 - p)) * density + spread
        return np.append(own, other * squares) + p * (1 - p) * squares

    def _stated(self, answers: IntArray) -> FloatArray:
        """See `Collected._stated`: the rest has that of all words that it is not."""
        words = np.bincount(answers)
        words[answers[-1]] = len(answers) - words[answers[-1]]
        return np.asarray(float(self.unit_variance) * words)

    def _exact(self, answers: IntArray, cells: IntArray, share: FloatArray) -> FloatArray:
        """See `Collected._exact`.

        Those in an answer have the mean variance of its words, those outside that of other words, or the converse where
        the answer has these. What has all words is certain.
        """
        inside, outside = self._of_answers(answers)
        return np.asarray(share * inside[cells] + (1 - share) * outside[cells])

    def _of_answers(self, answers: IntArray) -> tuple[FloatArray, FloatArray]:
        """Variance of a report inside and outside each answer, each (n_answers,)."""
        key = answers.tobytes()
        if key not in self._known:
            rows = []
            for answer in range(int(answers.max()) + 1):
                member = answers == answer
                words = ~member[:-1] if member[-1] else member[:-1]  # the rest has the variance of all that it is not
                each = self.variances_of(words)
                of_words, of_others = float(each[:-1][words].mean()) if words.any() else 0.0, float(each[-1])
                rows.append((of_others, of_words) if member[-1] else (of_words, of_others))
            inside, outside = np.array(rows).T
            self._known[key] = inside, outside
        return self._known[key]

    @cached_property
    def _known(self) -> dict[bytes, tuple[FloatArray, FloatArray]]:
        return {}


def _different(n: int, hashes: int, bits: int, generator: np.random.Generator) -> IntArray:
    """(n, hashes) different positions of each row, all sets of them as likely as each other."""
    out = np.zeros((n, hashes), dtype=np.int64)
    for column in range(hashes):
        drawn = generator.integers(bits - column, size=n)
        # The drawn number counts positions that are still free.
        for taken in np.sort(out[:, :column], axis=1).T:
            drawn += drawn >= taken
        out[:, column] = drawn
    return out


def _inverse_of(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix by elimination, each step a product and a difference of numbers.

    Raises:
        InputError: it has none, to the digits of floating point.
    """
    n = len(matrix)
    work = np.hstack([matrix, np.eye(n)])
    smallest = float(np.diag(matrix).max()) * 1e-6
    for place in range(n):
        if not work[place, place] > smallest:
            raise InputError("words: two have the same bits in all cohorts; more cohorts or bits are needed")
        work[place] = work[place] / work[place, place]
        others = work[:, place].copy()
        others[place] = 0
        work = work - others[:, None] * work[place][None, :]
    return np.asarray(work[:, n:])
