"""Counts of the words of an open list by area, from reports as they arrived."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from features.local.collect.mechanism import FAULTS, Reals, Reports
from features.local.collect.rappor import Rappor
from features.local.collect.several import GoodReport, OneOfEach
from features.local.collect.words import WordList
from pipeline.errors import InputError

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
