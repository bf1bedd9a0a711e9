"""Debiased counts of answers and words: unbiased, with the stated variance; a release of words, and many surveys."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from releases.made_case import made_case
from releases.small import run
from releases.survey import Survey, write_survey, write_words

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import ListedMechanism
from features.local.collect.rappor import Rappor, positions
from features.local.collect.respondent import mechanism_of
from features.local.collected import UNIT, CollectedAnswers, CollectedWords
from features.local.survey import survey_of
from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

MECHANISMS = [
    ("randomised_response", {"p": "3/4"}),
    ("direct_encoding", {"values": "5", "p": "1/2"}),
    ("unary_encoding", {"values": "5", "q": "1/4"}),
]


def collected_by(name: str, parameters: dict[str, str]) -> CollectedAnswers:
    mechanism = mechanism_of(name, parameters)
    assert isinstance(mechanism, ListedMechanism)
    return CollectedAnswers(mechanism)


def covariance_of(mechanism: ListedMechanism, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the debiased counts for one report, given the true shares: that of each value's outputs, added up."""
    p, q = (float(chance) for chance in mechanism.chances)
    total = np.zeros((mechanism.values, mechanism.values))
    for value, share in enumerate(shares / shares.sum()):
        rates = np.where(np.arange(mechanism.values) == value, p, q)
        independent = np.diag(rates * (1 - rates))
        total += share * (np.diag(rates) - np.outer(rates, rates) if mechanism.exclusive else independent)
    return total / (p - q) ** 2


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_the_summed_variance_is_that_of_the_mechanism_whatever_is_true(name: str, parameters: dict[str, str]) -> None:
    """The trace of the exact covariance does not depend on the true shares; on sums that are known it is the same."""
    collected = collected_by(name, parameters)
    k = collected.n_cells
    for shares in (np.ones(k), np.eye(k)[0], np.arange(1.0, k + 1)):
        covariance = covariance_of(collected.mechanism, shares)
        assert np.trace(covariance) == pytest.approx(float(collected.noise_per_report))
    known = np.eye(k) - 1 / k
    projected = known @ covariance_of(collected.mechanism, np.ones(k)) @ known
    assert np.trace(projected) / (k - 1) == pytest.approx(float(collected.unit_variance))


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_simulated_reports_are_distributed_as_those_of_respondents(name: str, parameters: dict[str, str]) -> None:
    collected = collected_by(name, parameters)
    counts = np.tile(np.arange(1, collected.n_cells + 1) * 7, (4000, 1))
    totals = collected.totals_of(counts, np.random.default_rng(5))
    n = int(counts[0].sum())
    found = collected.debiased(totals, np.full(len(counts), n))
    covariance = n * covariance_of(collected.mechanism, counts[0] / n)
    standard = np.sqrt(np.diag(covariance) / len(counts))
    assert (np.abs(found.mean(axis=0) - counts[0]) < 4.5 * standard).all()
    spread = np.cov(found.T)
    tolerance = 6 * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / len(counts) * 2)
    assert (np.abs(spread - covariance) < tolerance).all()
    # The test sees a variance that is a fifth too large.
    assert not (np.abs(1.2 * np.diag(spread) - np.diag(covariance)) < np.diag(tolerance)).all()


@pytest.mark.parametrize(("name", "parameters"), MECHANISMS)
def test_errors_of_counts_are_those_of_the_exact_covariance(name: str, parameters: dict[str, str]) -> None:
    """Of cells and of sums of cells, made to add up to the number of reports; against the mechanism's own matrix."""
    collected = collected_by(name, parameters)
    k, n = collected.n_cells, 3000
    known = np.eye(k) - 1 / k
    truth = np.arange(1, k + 1) * (n // (k * (k + 1) // 2))
    truth[-1] += n - truth.sum()
    exact = n * known @ covariance_of(collected.mechanism, truth / n) @ known
    stated = n * float(collected.unit_variance) * known
    for sums in (np.eye(k, dtype=np.int64), np.array([[1] * (k - 1) + [0], [0] * (k - 1) + [1]])):
        answers = sums.argmax(axis=0)
        found = collected.own_errors(answers, np.arange(len(sums)), sums @ truth, np.array(n))
        expected = np.sqrt(np.diag(sums @ exact @ sums.T) / np.diag(sums @ stated @ sums.T))
        assert found == pytest.approx(expected)
        # One and the same error for all answers would be seen, but where it is right.
        assert len(sums) == 2 or np.ptp(expected) > 0.02
    whole = collected.own_errors(np.zeros(k, dtype=np.int64), np.array([0]), np.array([n]), np.array([n]))
    assert np.isfinite(whole).all()  # which is known, with a standard error of 0


RAPPOR = Rappor(32, 2, 16, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
WORDS = tuple(f"word {number}" for number in range(12))


@pytest.fixture(scope="module")
def collected() -> CollectedWords:
    """Twelve words in 16 cohorts of 32 bits."""
    return CollectedWords(RAPPOR, WORDS)


def parts_by_hand(words: tuple[str, ...] = WORDS) -> NDArray[np.float64]:
    """What each bit of each cohort adds to each word's count: least squares on centred filters, by dense algebra."""
    design = np.zeros((RAPPOR.cohorts, RAPPOR.bits, len(words)))
    for cohort in range(RAPPOR.cohorts):
        for number, word in enumerate(words):
            design[cohort, list(positions(word, cohort, RAPPOR.bits, RAPPOR.hashes)), number] = 1
    stacked = (design - RAPPOR.hashes / RAPPOR.bits).reshape(-1, len(words))
    gap = float(RAPPOR.q_star - RAPPOR.p_star)
    return np.asarray((np.linalg.pinv(stacked).T * RAPPOR.cohorts / gap).reshape(design.shape), dtype=np.float64)


def answered(texts: list[str], key: bytes) -> NDArray[np.uint16]:
    return RAPPOR.randomise(texts, KeyedBytes(key))


def test_totals_are_least_squares_and_add_up(collected: CollectedWords) -> None:
    reports = answered(["word 3"] * 400 + ["word 7"] * 200 + ["none of them"] * 300, b"totals of some words")
    groups = np.arange(900) % 7
    totals = collected.totals(reports, groups, 8)
    assert totals.dtype == np.int64
    assert np.array_equal(totals.sum(axis=1), UNIT * np.bincount(groups, minlength=8))
    assert np.array_equal(totals.sum(axis=0), collected.totals(reports, np.zeros(900, dtype=np.int64), 1)[0])
    by_hand = np.zeros((8, len(WORDS)))
    for report, group in zip(reports, groups, strict=True):
        by_hand[group] += report[1:] @ parts_by_hand()[report[0]]
    counts = collected.debiased(totals, np.bincount(groups, minlength=8))
    assert np.allclose(counts[:, :-1], by_hand, atol=1e-2)
    assert not np.allclose(counts[:, :-1], 1.001 * by_hand, atol=1e-2)  # the comparison sees a thousandth


def test_simulated_reports_are_distributed_as_those_of_devices(collected: CollectedWords) -> None:
    """Means and variances of the counts of 1,500 small areas, of devices' reports and of simulated ones."""
    truth = np.zeros(13, dtype=np.int64)
    truth[[0, 1, 12]] = 20, 5, 15
    others = [f"other {number}" for number in range(1500 * 15)]
    texts = [
        text
        for area in range(1500)
        for text in (*["word 0"] * 20, *["word 1"] * 5, *others[15 * area : 15 * area + 15])
    ]
    sent = collected.totals(answered(texts, b"many small areas"), np.repeat(np.arange(1500), 40), 1500)
    drawn = collected.totals_of(np.tile(truth, (1500, 1)), np.random.default_rng(4))
    exact = np.array([truth @ collected.variances_of(np.arange(12) == word) for word in range(12)])
    for totals in (sent, drawn):
        counts = collected.debiased(totals, np.full(len(totals), 40))[:, :-1]
        assert (np.abs(counts.mean(axis=0) - truth[:-1]) < 4.5 * np.sqrt(exact / len(totals))).all()
        ratio = counts.var(axis=0) / exact
        spread = 4.5 * np.sqrt(2 / len(totals))
        assert (np.abs(ratio - 1) < spread).all()
        assert abs(ratio.mean() - 1) < spread / 12**0.5
        assert not abs(1.12 * ratio.mean() - 1) < spread / 12**0.5  # the test sees 12 % more variance
    # The rest has the variance of the sum of all words.
    rest = collected.debiased(drawn, np.full(1500, 40))[:, -1]
    assert rest.var() == pytest.approx(float(truth @ collected.variances_of(np.ones(12, dtype=np.bool_))), rel=0.15)


def test_the_variance_that_estimation_is_told_is_that_of_rare_words() -> None:
    """By the exact covariance; without the part of the number of words it would be 5 % too small."""
    collected = CollectedWords(replace(RAPPOR, cohorts=64), tuple(f"word {number}" for number in range(100)))
    exact = np.mean([collected.variances_of(np.arange(100) == word)[-1] for word in range(100)])
    stated = float(collected.unit_variance)
    assert stated == pytest.approx(exact, rel=0.006)
    assert stated * (1 - 100 / (64 * 31)) != pytest.approx(exact, rel=0.006)
    assert collected.noise(30).scale == 30 * collected.unit_variance
    assert collected.noise_per_report == 200 * collected.unit_variance


def test_errors_of_counts_are_those_of_the_exact_variance(collected: CollectedWords) -> None:
    """Of words, of groups of them, and of the rest; all words together and the rest are off by the same."""
    truth = np.append(np.arange(12) * 20, 300)
    n, detailed = int(truth.sum()), np.arange(13)
    found = collected.own_errors(detailed, detailed, truth, np.array(n))
    for word in (0, 6, 11):
        exact = float(truth @ collected.variances_of(detailed[:-1] == word))
        assert found[word] == pytest.approx((exact / n / float(collected.unit_variance)) ** 0.5, rel=0.01)
    listed = np.append(np.zeros(12, dtype=np.int64), 1)
    both = collected.own_errors(listed, np.array([0, 1]), np.array([n - 300, 300]), np.array(n))
    exact = float(truth @ collected.variances_of(np.ones(12, dtype=np.bool_)))
    assert both == pytest.approx((exact / n / 12 / float(collected.unit_variance)) ** 0.5, rel=0.01)
    assert collected.stated_variances(listed, np.array([0, 1]), np.array(n)) == pytest.approx(
        12 * n * float(collected.unit_variance)
    )
    everything = collected.own_errors(np.zeros(13, dtype=np.int64), np.array([0]), np.array([n]), np.array(n))
    assert np.isfinite(everything).all()


def test_words_that_cannot_be_told_apart_are_refused() -> None:
    one = Rappor(8, 1, 1, Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))
    with pytest.raises(InputError, match="from 1 to 2 can be told apart by 1 cohorts of 8 bits"):
        CollectedWords(one, ("a", "b", "c"))
    with pytest.raises(InputError, match="found 0"):
        CollectedWords(RAPPOR, ())
    with pytest.raises(InputError, match="listed twice"):
        CollectedWords(RAPPOR, ("a", "a"))
    same = [word for word in WORDS if positions(word, 0, 8, 1) == positions(WORDS[0], 0, 8, 1)]
    with pytest.raises(InputError, match="same bits in all cohorts"):
        CollectedWords(one, tuple(same[:2]))


def moved_by(word: str) -> NDArray[np.float64]:
    """(12,) what a report of an unlisted word adds to the counts of the words, on average over cohorts, by hand."""
    gap, parts = float(RAPPOR.q_star - RAPPOR.p_star), parts_by_hand()
    bits = [list(positions(word, cohort, RAPPOR.bits, RAPPOR.hashes)) for cohort in range(RAPPOR.cohorts)]
    found = np.mean([parts[cohort, ones].sum(axis=0) for cohort, ones in enumerate(bits)], axis=0) * gap
    return np.asarray(found, dtype=np.float64)


def test_a_frequent_unlisted_word_moves_counts_by_what_is_said(collected: CollectedWords) -> None:
    """Of many words in standard deviation; and one word in a tenth of the reports, beyond what intervals allow for."""
    unlisted = [f"unlisted {number}" for number in range(60)]
    moved = np.array([moved_by(word) for word in unlisted])
    assert abs(moved.mean()) < 0.01
    assert moved.std() == pytest.approx(collected.shift, rel=0.12)
    assert moved.std() != pytest.approx(1.25 * collected.shift, rel=0.12)
    moved[:, 5] = 0  # the word of all others
    word, count = np.unravel_index(np.argmax(np.abs(moved)), moved.shape)
    n, of_one = 40_000, 4_000
    reports = answered([unlisted[word]] * of_one + ["word 5"] * (n - of_one), b"one unlisted word")
    totals = collected.totals(reports, np.zeros(n, dtype=np.int64), 1)
    found = collected.debiased(totals, np.array([n]))[0, count]
    noise = (n * float(collected.unit_variance)) ** 0.5
    assert abs(found - of_one * moved[word, count]) < 4 * noise
    assert abs(found) > 1.645 * noise, "its true count is 0, and the interval does not hold it"


NAMES = ["a0", "a1", "a2", "a3", "other"]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """The files of the case of the matrix: four words of the spec, and 20 others."""
    return write_words(tmp_path_factory.mktemp("words"), seed=2)


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Its release."""
    return RunDirectory(made_case(tmp_path_factory, "words") / "out" / "survey")


def debiased(survey: Survey, released: RunDirectory) -> np.ndarray:
    (universe,) = load_spec(survey.spec).universes()
    totals = np.stack(pd.read_parquet(released.main.measurement("block", "answer")).value.to_list())
    assert (totals.sum(axis=1) == UNIT * survey.truth.sum(axis=1)).all()
    return np.asarray(survey_of(universe).collected.debiased(totals, survey.truth.sum(axis=1)))


def counts(released: RunDirectory, level: str) -> np.ndarray:
    return pd.read_parquet(released.main.table("answer", level))[NAMES].to_numpy()


def test_counts_are_the_nearest_histograms_by_what_is_counted(survey: Survey, released: RunDirectory) -> None:
    """Words have equal weights and the rest has none: so a top area's words are their counts, and 0 where below it.

    Weighted least squares of the words of a tract's blocks by another solver; rounding moves nothing by a person.
    """
    alone, reports = debiased(survey, released), survey.truth.sum(axis=1)
    top = counts(released, "county")
    assert (np.abs(top - np.maximum(alone.reshape(2, 36, 5).sum(axis=1), 0))[:, :4] <= 1).all()
    assert np.array_equal(top[:, 4], reports.reshape(2, -1).sum(axis=1) - top[:, :4].sum(axis=1))
    alone, reports = alone[12:24], reports[12:24]
    blocks, tract = counts(released, "block")[12:24], counts(released, "tract")[1]
    some = reports > 0

    def nearest(weight_of_the_rest: float) -> np.ndarray:
        x = cp.Variable((12, 5), nonneg=True)
        off = cp.square(x[some] - alone[some]) @ np.array([1, 1, 1, 1, weight_of_the_rest])
        rules = [cp.sum(x, axis=1) == reports, cp.sum(x, axis=0) == tract]
        cp.Problem(cp.Minimize(cp.sum(cp.multiply(off, 1 / reports[some]))), rules).solve(solver=cp.CLARABEL)
        return np.asarray(x.value)

    assert np.abs(blocks - nearest(0)).max() < 1 + 1e-3
    assert np.abs(blocks - nearest(1)).max() > 1.2  # as if the rest were counted as words are


def test_intervals_hold_the_truth_and_the_rest_has_wider_ones(survey: Survey, released: RunDirectory) -> None:
    found = pd.read_parquet(released.main.table("answer", "block"))
    low, high = (found[[name + end for name in NAMES]].to_numpy() for end in (":low90", ":high90"))
    assert 0.85 < ((low <= survey.truth) & (survey.truth <= high)).mean() < 0.98
    tracts = pd.read_parquet(released.main.table("answer", "tract"))
    width = np.array([(tracts[f"{name}:high90"] - tracts[f"{name}:low90"]).mean() for name in NAMES])
    assert width[4] == pytest.approx(2 * width[:4].mean(), rel=0.15)  # four words are added up in it


SURVEYS, BLOCKS = 6, {"block": 1, "tract": 40, "county": 120}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "n_values", "epsilon"),
    [("randomised_response", 2, "1"), ("direct_encoding", 12, "2"), ("rappor", 5, "")],
)
def test_intervals_and_errors_of_surveys(tmp_path: Path, mechanism: str, n_values: int, epsilon: str) -> None:
    covered, errors = [], []
    names = [f"a{number}" for number in range(n_values)]
    if words := mechanism == "rappor":
        names[-1] = "other"
    for seed in range(1, SURVEYS + 1):
        folder = tmp_path / f"{seed}"
        if words:
            survey = write_words(folder, n_values - 1, blocks_of_tract=40, seed=seed)
        else:
            survey = write_survey(folder, mechanism, n_values, epsilon, blocks_of_tract=40, seed=seed)
        out = RunDirectory(run(survey.spec, tmp_path / f"out{seed}"))
        (universe,) = load_spec(survey.spec).universes()
        collected, reports = survey_of(universe).collected, survey.truth.sum(axis=1)
        assert collected is not None
        totals = np.stack(pd.read_parquet(out.main.measurement("block", "answer")).value.to_list())
        alone = collected.debiased(totals, reports)
        theory = float(collected.noise_per_report) / n_values * reports.mean()
        table = pd.read_parquet(out.main.table("answer", "block"))
        low, high = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
        covered.append(((low <= survey.truth) & (survey.truth <= high))[reports > 0].mean())
        of_level = []
        for level, blocks in BLOCKS.items():
            released = pd.read_parquet(out.main.table("answer", level))[names].to_numpy()
            truth, debiased = (x.reshape(-1, blocks, n_values).sum(axis=1) for x in (survey.truth, alone))
            of_level += [((released - truth) ** 2).mean(), ((debiased - truth) ** 2).mean()]
        errors.append([*of_level, theory])
    leaf, leaf_alone, tract, tract_alone, county, county_alone, theory = np.mean(errors, axis=0)
    assert 0.88 < np.mean(covered) < 0.93
    # Standard errors, of 1,440 blocks: 3 % is three standard deviations of their estimate and more.
    assert leaf_alone**0.5 == pytest.approx(theory**0.5, rel=0.04)
    assert leaf < 0.8 * leaf_alone
    assert tract < 1.01 * tract_alone
    assert county < 1.01 * county_alone
