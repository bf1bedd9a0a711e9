"""Errors, coverage and speed of the randomisers of `spinewise.collect`.

    python benchmarks/bench_collect.py [--reports 1000000] [--people 300000] [--repeats 3]

Errors: the root mean square error of debiased counts of 2,000 areas of 200 reports each, divided by what
`unit_covariance` says, with the coverage of the 90 % intervals, for values of all shares together.
A survey: every person of a synthetic state names one of 2,200 words, of which 2,000 are listed, by RAPPOR with 64
cohorts of 64 bits; the same figures of the counts of all words at every level of its spine.
Speed: answers randomised per second beside numpy's floating-point generator doing the same, and beside OpenDP, which
randomises an answer per call; totals beside `numpy.add.at`. Medians of the repeats, by processor time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from features.example.example import write_example
from features.local.collect.bits import KeyedBytes, SystemBytes
from features.local.collect.choices import DirectEncoding, RandomisedResponse
from features.local.collect.mechanism import ListedMechanism
from features.local.collect.rappor import Rappor
from features.local.collect.unary import OptimisedUnaryEncoding
from features.local.collect.words import WordList, arrived, count_words

KEY = bytes(range(32))
AREAS, PEOPLE = 2_000, 200
HALF = Fraction(1, 2)
Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def shares_of(n_values: int) -> Reals:
    """From frequent to rare: each two thirds of the one before."""
    shares = (2 / 3) ** np.arange(n_values)
    return np.asarray(shares / shares.sum())


def show_errors(name: str, errors: Reals, theory: Reals) -> None:
    """One line: the error by theory, the measured one as a ratio, the coverage."""
    ratio = math.sqrt(((errors / theory) ** 2).mean())
    covered = float((np.abs(errors) < NormalDist().inv_cdf(0.95) * theory).mean())
    print(f"{name:<42} {math.sqrt((theory**2).mean()):>10.2f} {ratio:>8.3f} {covered:>9.1%}")


def errors_of(mechanism: ListedMechanism) -> tuple[Reals, Reals]:
    """Errors of the counts of areas, and their standard errors."""
    shares = shares_of(mechanism.n_values or 0)
    values = np.random.default_rng(1).choice(len(shares), AREAS * PEOPLE, p=shares)
    groups = np.repeat(np.arange(AREAS), PEOPLE)
    reports = mechanism.randomise(values, KeyedBytes(KEY))
    counts = mechanism.debias(mechanism.totals(reports, groups, AREAS), mechanism.n_reports(reports, groups, AREAS))
    true = np.zeros_like(counts)
    np.add.at(true, (groups, values), 1)
    return counts - true, np.sqrt(PEOPLE * np.diag(mechanism.unit_covariance(true.sum(axis=0))))


def errors_of_words(mechanism: Rappor, n_listed: int, n_words: int, decay: float) -> tuple[Reals, Reals]:
    """The same of listed words, and of others; shares fall as a power of the rank."""
    words = tuple(f"word {number}" for number in range(n_words))
    shares = np.arange(1, n_words + 1) ** -decay
    values = np.random.default_rng(2).choice(n_words, AREAS * PEOPLE, p=shares / shares.sum())
    groups = np.repeat(np.arange(AREAS), PEOPLE)
    reports = mechanism.randomise([words[value] for value in values], KeyedBytes(KEY))
    listed = WordList(mechanism, words[:n_listed])
    true = np.zeros((AREAS, n_listed + 1))
    np.add.at(true, (groups, np.minimum(values, n_listed)), 1)
    errors = listed.counts(reports, groups, AREAS) - true
    return errors, np.sqrt(PEOPLE * np.diag(listed.unit_covariance(true.sum(axis=0))))


def show_survey(people: int) -> None:
    """A line for each level."""
    mechanism = Rappor(64, 2, 64, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
    words = tuple(f"word {number}" for number in range(2_200))
    with tempfile.TemporaryDirectory() as name:
        write_example(Path(name), people=people, seed=1)
        codes = pd.read_parquet(Path(name) / "persons.parquet", columns=["block"])["block"].astype(str).tolist()
        areas = sorted(set(pd.read_parquet(Path(name) / "blocks.parquet")["block"].astype(str)))
    shares = np.arange(1, 2_201) ** -0.8
    values = np.random.default_rng(4).choice(2_200, len(codes), p=shares / shares.sum())
    reports = mechanism.randomise([words[value] for value in values], KeyedBytes(KEY))
    cohorts = [str(cohort) for cohort in reports[:, 0]]
    used = arrived(mechanism, codes, cohorts, mechanism.encode(reports), areas=areas)
    lengths = {"state": 2, "county": 5, "tract": 11, "block": 15}
    listed = WordList(mechanism, words[:2_000])
    for level, counts in zip(lengths, count_words(listed, used, lengths=list(lengths.values())), strict=True):
        numbers = {area: number for number, area in enumerate(counts.areas)}
        true = np.zeros_like(counts.counts)
        places = np.array([numbers[code[: lengths[level]]] for code in codes])
        np.add.at(true, (places, np.minimum(values, 2_000)), 1)
        asked = counts.reports > 0
        show_errors(
            f"{level}: {asked.sum():,} areas, {len(codes):,} reports",
            (counts.counts - true)[asked],
            counts.errors[asked],
        )


def rate(action: Callable[[], Any], count: int, repeats: int) -> float:
    """Answers per second of processor time."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        action()
        seconds.append(time.process_time() - started)
    return count / statistics.median(seconds)


def opendp_response(p: float) -> Callable[[bool], bool]:
    """Randomised response of OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measured: Callable[[bool], bool] = dp.m.make_randomized_response_bool(p)
    return measured


def show_speed(n_reports: int, repeats: int) -> None:
    """Lines of answers per second, exact and in floating point, and as a ratio; OpenDP; totals."""
    rng = np.random.default_rng(3)
    unary = OptimisedUnaryEncoding.for_epsilon(12, Fraction(1))
    values = rng.integers(0, 12, n_reports)
    q = float(unary.q)

    def floating() -> npt.NDArray[np.bool_]:
        bits = rng.random((n_reports, 12)) < q
        bits[np.arange(n_reports), values] = rng.random(n_reports) < 0.5
        return bits

    exact = rate(lambda: unary.randomise(values, SystemBytes()), n_reports, repeats)
    numpy_rate = rate(floating, n_reports, repeats)
    print(
        f"unary encoding, 12 values: {exact:,.0f} answers a second, numpy's floats {numpy_rate:,.0f}: "
        f"{exact / numpy_rate:.2f}"
    )
    response = RandomisedResponse(Fraction(3, 4))
    answers = rng.integers(0, 2, n_reports)
    many = rate(lambda: response.randomise(answers, SystemBytes()), n_reports, repeats)
    measured = opendp_response(0.75)
    few = answers[:20_000].astype(bool).tolist()
    theirs = rate(lambda: [measured(answer) for answer in few], len(few), repeats)
    print(f"randomised response: {many:,.0f} answers a second, OpenDP's {theirs:,.0f}: {many / theirs:,.0f}")
    reports = unary.randomise(values, KeyedBytes(KEY))
    groups = rng.integers(0, 5_000, n_reports)

    def added() -> npt.NDArray[np.int64]:
        totals = np.zeros((5_000, 12), dtype=np.int64)
        np.add.at(totals, groups, reports)
        return totals

    summed = rate(lambda: unary.totals(reports, groups, 5_000), n_reports, repeats)
    slow = rate(added, n_reports, repeats)
    print(f"totals of 5,000 areas: {summed:,.0f} reports a second, numpy.add.at {slow:,.0f}: {summed / slow:.1f}")
    texts = unary.encode(reports)
    print(f"texts read: {rate(lambda: unary.decode(texts), n_reports, repeats):,.0f} a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--people", type=int, default=300_000, help="of the synthetic state")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"Errors of counts of {AREAS:,} areas of {PEOPLE} reports")
    print(f"{'mechanism':<42} {'theory':>10} {'ratio':>8} {'covered':>9}")
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)):
        mechanisms: tuple[ListedMechanism, ...] = (
            RandomisedResponse.for_epsilon(epsilon),
            DirectEncoding.for_epsilon(12, epsilon),
            OptimisedUnaryEncoding.for_epsilon(12, epsilon),
        )
        for mechanism in mechanisms:
            show_errors(f"{mechanism.name}, {mechanism.n_values} values, epsilon {epsilon}", *errors_of(mechanism))
    quarter, rest = Fraction(1, 4), Fraction(3, 4)
    show_errors("rappor, 40 words and others", *errors_of_words(Rappor(32, 2, 64, quarter, quarter, rest), 40, 50, 1.0))
    open_list = Rappor(64, 2, 64, quarter, quarter, rest)
    show_errors("rappor, 2,000 words and others", *errors_of_words(open_list, 2_000, 2_200, 0.8))
    show_survey(arguments.people)
    print(f"Speed, {arguments.reports:,} answers, one thread")
    show_speed(arguments.reports, arguments.repeats)


if __name__ == "__main__":
    main()
