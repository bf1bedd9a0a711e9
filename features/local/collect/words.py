"""Counts of the words of a list from RAPPOR reports, as a linear function of their bits; by area, as reports arrive."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from features.local.collect.mechanism import FAULTS, Counts, LinearForm, Reals, Reports, even
from features.local.collect.rappor import Rappor, filters
from features.local.collect.several import GoodReport, OneOfEach
from pipeline.errors import InputError

#: Beyond it the matrix of the words does not tell them apart in floating point.
_WORST_CONDITION = 1e8
#: Numbers of a matrix of totals that are held at once.
_BLOCK = 1 << 24


@dataclass(frozen=True)
class WordList:
    """Words whose reports are to be counted, and one more value, the last: any other word.

    Let B_g be the filters of the words in cohort g, and y = (x - p*) / (q* - p*) the debiased bits of a report of that
    cohort, so that the mean of y is the filter of its word. With G = sum over cohorts of B_g' B_g / m, the vector
    G^-1 B_g' y has the mean e_v for a report of word v, over the cohort at random and both responses. Its sum over the
    reports of an area is therefore an unbiased count of each word, for areas of any size, and adds up over areas. A
    word that is not listed is taken for a filter of h / bits everywhere, which it is on average over its hashes.

    Attributes:
        mechanism: of the reports.
        words: (n_words) different texts.
    """

    mechanism: Rappor
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("words: found none; at least one is needed")
        if len(set(self.words)) < len(self.words):
            double = next(word for number, word in enumerate(self.words) if word in self.words[:number])
            raise InputError(f"words: {double!r} is listed twice")
        if len(self.words) >= self.mechanism.n_outputs or not self._condition < _WORST_CONDITION:
            raise InputError(
                f"words: found {len(self.words)}; {self.mechanism.cohorts} cohorts of {self.mechanism.bits} bits do "
                "not tell them apart: fewer words, or more cohorts or bits, are needed"
            )

    @property
    def n_values(self) -> int:
        """The words, and any other."""
        return len(self.words) + 1

    @cached_property
    def design(self) -> Reals:
        """(n_outputs, n_values) float64: the filters of the words, cohort after cohort; B_g are its blocks."""
        mechanism = self.mechanism
        ones = filters(self.words, mechanism.cohorts, mechanism.bits, mechanism.hashes)
        design = np.zeros((mechanism.cohorts, mechanism.bits, self.n_values))
        cohort, word = np.ogrid[: mechanism.cohorts, : len(self.words)]
        design[cohort[..., None], ones, word[..., None]] = 1
        design[:, :, -1] = mechanism.hashes / mechanism.bits
        return design.reshape(mechanism.n_outputs, self.n_values)

    @cached_property
    def gram(self) -> Reals:
        """G: (n_values, n_values) float64."""
        return np.asarray(self.design.T @ self.design / self.mechanism.cohorts)

    @cached_property
    def _condition(self) -> float:
        low, *_, high = np.linalg.eigvalsh(self.gram)
        return float(high / low) if low > 0 else np.inf

    @cached_property
    def linear(self) -> LinearForm:
        """From totals of all cohorts to counts."""
        mechanism = self.mechanism
        gap = float(mechanism.q_star - mechanism.p_star)
        matrix = np.asarray(np.linalg.solve(self.gram, self.design.T) / gap, dtype=np.float64)
        by_cohort = matrix.reshape(self.n_values, mechanism.cohorts, mechanism.bits).sum(axis=2)
        return LinearForm(matrix, by_cohort * float(mechanism.p_star))

    def debias(self, totals: Counts, n_reports: Counts) -> Reals:
        """Unbiased counts of the words and of all others, (n, n_values); as `LinearForm.debias`."""
        return self.linear.debias(totals, n_reports)

    def counts(self, reports: Reports, groups: Counts, n_groups: int) -> Reals:
        """The same from reports, for many groups: (n_groups, n_values) float64, in little memory.

        Args:
            reports: (n, 1 + bits).
            groups: (n,) numbers of groups.
        """
        found = np.zeros((n_groups, self.n_values))
        step = max(1, _BLOCK // self.mechanism.n_outputs)
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(0, n_groups + step, step))
        for number, first in enumerate(range(0, n_groups, step)):
            rows = order[edges[number] : edges[number + 1]]
            size = min(step, n_groups - first)
            part, places = reports[rows], groups[rows] - first
            totals = self.mechanism.totals(part, places, size)
            found[first : first + size] = self.debias(totals, self.mechanism.n_reports(part, places, size))
        return found

    def unit_covariance(self, shares: Reals | None = None) -> Reals:
        """Covariance of the counts for one report, (n_values, n_values); as `ListedMechanism.unit_covariance`.

        Over both responses and the cohort: G^-1 [mean over g of B_g' (D_g + M_g) B_g] G^-1 - diag(s), where D_g are the
        variances of the debiased bits and M_g = B_g diag(s) B_g'. By default all is taken for other words, which
        makes the variances of a rare word.
        """
        mechanism = self.mechanism
        if shares is None:
            shares = np.zeros(self.n_values)
            shares[-1] = 1
        share = even(shares, self.n_values)
        gap = float(mechanism.q_star - mechanism.p_star)
        zero = float(mechanism.p_star * (1 - mechanism.p_star)) / gap**2
        one = float(mechanism.q_star * (1 - mechanism.q_star)) / gap**2
        variances = zero + (one - zero) * (self.design @ share)
        middle = self.design.T @ (variances[:, None] * self.design)
        for block in self.design.reshape(mechanism.cohorts, mechanism.bits, self.n_values):
            half = block.T @ (block * np.sqrt(share))
            middle += half @ half.T
        inner = np.linalg.solve(self.gram, middle / mechanism.cohorts)
        return np.asarray(np.linalg.solve(self.gram, inner.T) - np.diag(share))


# -- by area -----------------------------------------------------------------------------------------------------------


#: Why a report is not used, beside the faults of its text.
NO_AREA, NOBODY, AGAIN = "area that is not listed", "missing respondent", "second report of a respondent"


@dataclass(frozen=True, eq=False)
class ArrivedReports:
    """Reports that can be used, and how many could not.

    Attributes:
        reports: (n, 1 + bits) uint16.
        areas: the listed codes, ascending.
        places: (n,) the number of the area of each report.
        unused: reason -> how many.
    """

    reports: Reports
    areas: tuple[str, ...]
    places: npt.NDArray[np.int64]
    unused: dict[str, int]


@dataclass(frozen=True, eq=False)
class AreaCounts:
    """Counts of words in the areas of one level.

    Attributes:
        areas: their codes, ascending.
        reports: (n_areas,) how many are used.
        counts: (n_areas, n_values) float64, the last column all other words; unbiased, may be negative.
        errors: (n_areas, n_values) standard errors.
    """

    areas: tuple[str, ...]
    reports: npt.NDArray[np.int64]
    counts: Reals
    errors: Reals

    def interval(self, share: float = 0.9) -> tuple[Reals, Reals]:
        """The ends of intervals that cover the true counts with this probability, between 0 and the reports."""
        reach = NormalDist().inv_cdf((1 + share) / 2) * self.errors
        most = self.reports[:, None].astype(np.float64)
        return np.clip(self.counts - reach, 0, most), np.clip(self.counts + reach, 0, most)


def arrived(
    mechanism: Rappor,
    codes: Sequence[str],
    cohorts: Sequence[str],
    texts: Sequence[str],
    *,
    areas: Collection[str],
    respondents: Sequence[str] | None = None,
    key: bytes | None = None,
) -> ArrivedReports:
    """The reports that can be used. Nothing is repaired; each other one is counted under the first reason that holds.

    Of a respondent with several good reports one is used, drawn with the key: see `OneOfEach`.

    Args:
        mechanism: by which the texts were randomised.
        codes, cohorts, texts: of each report, as they arrived.
        areas: the codes of all areas, also of those without reports.
        respondents: who sent each report, where that is known.
        key: a secret of 16 to 64 bytes, needed with respondents; the same key draws the same reports again.

    Raises:
        InputError: there are not as many of one as of the other; an area's code is listed twice; there are respondents
            and no key.
    """
    given = {"codes": codes, "cohorts": cohorts, "texts": texts, "respondents": respondents}
    for name, column in given.items():
        if column is not None and len(column) != len(texts):
            raise InputError(f"{name}: found {len(column)}, for {len(texts)} texts")
    listed = tuple(sorted(set(areas)))
    if len(listed) < len(areas):
        raise InputError(f"areas: found {len(areas)} codes, of which {len(listed)} are different")
    decoded = mechanism.decode(texts, cohorts)
    numbers = {code: number for number, code in enumerate(listed)}
    places = np.array([numbers.get(code, -1) for code in codes], dtype=np.int64)
    unused = {words: int((decoded.faults == fault).sum()) for fault, words in enumerate(FAULTS) if fault}
    good = decoded.faults == 0
    unused[NO_AREA] = int((good & (places < 0)).sum())
    used = good & (places >= 0)
    if respondents is not None:
        nobody = used & np.array([not who for who in respondents], dtype=np.bool_)
        used &= ~nobody
        if key is None:
            raise InputError("key: missing; of a respondent with several reports one is drawn with a secret")
        one = _one_of_each(OneOfEach(key), respondents, list(zip(codes, cohorts, texts, strict=True)), used)
        unused |= {NOBODY: int(nobody.sum()), AGAIN: int((used & ~one).sum())}
        used = one
    return ArrivedReports(decoded.reports[used[good]], listed, places[used], unused)


def count_words(words: WordList, from_reports: ArrivedReports, *, lengths: Sequence[int]) -> list[AreaCounts]:
    """Counts of words by area, level by level.

    Counts of an area are the sums of those of the areas in it. Their variances are those of `WordList.unit_covariance`
    at the shares of all reports, times the number of reports.

    Args:
        words: to be counted.
        from_reports: of the same mechanism.
        lengths: of the codes of each level, which begin the codes of the areas; 0 is the whole.

    Raises:
        InputError: a length is longer than a code.
    """
    shortest = min((len(code) for code in from_reports.areas), default=0)
    for length in lengths:
        if not 0 <= length <= shortest:
            raise InputError(f"lengths: found {length}; from 0 to {shortest}, that of the shortest code, is needed")
    n_areas = len(from_reports.areas)
    counts = words.counts(from_reports.reports, from_reports.places, n_areas)
    reports = np.bincount(from_reports.places, minlength=n_areas).astype(np.int64)
    unit = np.sqrt(np.diag(words.unit_covariance(counts.sum(axis=0))))
    levels = []
    for length in lengths:
        codes, member = np.unique([code[:length] for code in from_reports.areas], return_inverse=True)
        summed = np.zeros((len(codes), words.n_values))
        np.add.at(summed, member, counts)
        sizes = np.zeros(len(codes), dtype=np.int64)
        np.add.at(sizes, member, reports)
        levels.append(AreaCounts(tuple(codes.tolist()), sizes, summed, np.sqrt(sizes)[:, None] * unit))
    return levels


def _one_of_each(
    drawing: OneOfEach,
    respondents: Sequence[str],
    sent: Sequence[tuple[str, ...]],
    usable: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Which rows are used: one of each respondent's usable ones."""
    used = np.zeros(len(usable), dtype=np.bool_)
    for row in np.flatnonzero(usable).tolist():
        used[row] = drawing.add(respondents[row], GoodReport(row, sent[row]))
    for first, drawn in drawing.exchanged():
        used[first.row], used[drawn.row] = False, True
    return used
