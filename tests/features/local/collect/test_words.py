"""Counts of words from RAPPOR reports: unbiased for areas of any size, additive, with the stated covariance."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from features.local.collect.bits import KeyedBytes
from features.local.collect.rappor import Rappor, filters, positions
from features.local.collect.words import WordList
from pipeline.errors import InputError

KEY = b"a key of the tests, thirty-two b"
MECHANISM = Rappor(16, 2, 8, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
WORDS = tuple(f"word {number}" for number in range(12))


def test_filters_have_as_many_bits_as_hashes_and_are_stated() -> None:
    """One by hand: SHA-256 of "spinewise bloom 1", "3", "0", "asthma", apart by zero bytes, begins 4 numbers."""
    found = filters(("asthma", "", "ñ"), 5, 32, 3)
    assert found.shape == (5, 3, 3)
    assert all(len(set(row)) == 3 for row in found.reshape(-1, 3).tolist())
    assert positions("asthma", 3, 32, 3) == tuple(found[3, 0].tolist())
    assert positions("asthma", 3, 128, 2) != positions("asthma", 4, 128, 2)
    assert set(positions("x", 0, 8, 8)) == set(range(8))


def test_positions_are_those_of_the_stated_hash() -> None:
    """As another language would compute it: no code of the project."""
    import hashlib

    digest = hashlib.sha256(b"spinewise bloom 1\x003\x000\x00asthma").digest()
    numbers = [int.from_bytes(digest[8 * place : 8 * place + 8], "big") % 128 for place in range(4)]
    assert len(set(numbers)) == 4
    assert positions("asthma", 3, 128, 4) == tuple(sorted(numbers))
    used = np.bincount(filters(tuple(map(str, range(2_000))), 2, 16, 2).reshape(-1), minlength=16)
    assert np.abs(used / used.mean() - 1).max() < 0.15


def test_the_mean_of_a_report_gives_its_word_back() -> None:
    """Exactly, over cohorts and bits; and a word that is not listed counts, on average over hashes, as another."""
    listed = WordList(MECHANISM, WORDS)
    matrix = listed.linear.matrix.reshape(listed.n_values, MECHANISM.cohorts, MECHANISM.bits)
    ones = filters(WORDS, MECHANISM.cohorts, MECHANISM.bits, MECHANISM.hashes)
    for number in range(len(WORDS)):
        means = np.full((MECHANISM.cohorts, MECHANISM.bits), float(MECHANISM.p_star))
        for cohort in range(MECHANISM.cohorts):
            means[cohort, ones[cohort, number]] = float(MECHANISM.q_star)
        each = np.einsum("vgb,gb->vg", matrix, means) - listed.linear.constant
        assert np.allclose(each.mean(axis=1), np.eye(listed.n_values)[number], atol=1e-10)


def test_counts_add_up_over_areas_and_over_words() -> None:
    listed = WordList(MECHANISM, WORDS)
    reports = MECHANISM.randomise([WORDS[number % 12] for number in range(3_000)], KeyedBytes(KEY))
    groups = np.arange(3_000) % 7
    counts = listed.counts(reports, groups, 9)
    whole = listed.counts(reports, np.zeros(3_000, dtype=np.int64), 1)[0]
    assert np.allclose(counts.sum(axis=0), whole, atol=1e-6)
    assert (counts[7:] == 0).all()
    totals, sizes = MECHANISM.totals(reports, groups, 9), MECHANISM.n_reports(reports, groups, 9)
    assert np.allclose(counts, listed.debias(totals, sizes), atol=1e-8)


def test_many_groups_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = WordList(MECHANISM, WORDS)
    reports = MECHANISM.randomise([WORDS[number % 12] for number in range(400)], KeyedBytes(KEY))
    groups = np.random.default_rng(3).integers(0, 100, 400)
    whole = listed.counts(reports, groups, 100)
    monkeypatch.setattr("features.local.collect.words._BLOCK", 7 * MECHANISM.n_outputs)
    assert np.allclose(listed.counts(reports, groups, 100), whole, atol=1e-9)


def test_errors_are_those_of_the_covariance() -> None:
    """600 areas of 100 reports, 20 % of them of words that are not listed; the power arm is q 5 % off."""
    areas, people = 600, 100
    listed = WordList(MECHANISM, WORDS)
    rng = np.random.default_rng(5)
    shares = np.array([0.3, 0.2, 0.1, *[0.2 / 9] * 9, *[0.2 / 50] * 50])
    values = rng.choice(len(shares), areas * people, p=shares)
    texts = [*WORDS, *(f"other {number}" for number in range(50))]
    reports = MECHANISM.randomise([texts[value] for value in values], KeyedBytes(KEY))
    groups = np.repeat(np.arange(areas), people)
    true = np.zeros((areas, 13))
    np.add.at(true, (groups, np.minimum(values, 12)), 1)
    errors = listed.counts(reports, groups, areas) - true
    covariance = people * listed.unit_covariance(true.sum(axis=0))
    theory = np.sqrt(np.diag(covariance))
    assert 0.97 < np.sqrt((errors**2).mean(axis=0) / theory**2).mean() < 1.03
    assert np.abs(errors[:, :12].mean(axis=0) / theory[:12] * np.sqrt(areas)).max() < 4
    covered = (np.abs(errors) < NormalDist().inv_cdf(0.95) * theory).mean()
    assert 0.88 < covered < 0.93
    off = WordList(Rappor(16, 2, 8, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4) * Fraction(20, 21)), WORDS)
    wrong = off.counts(reports, groups, areas) - true
    assert np.abs(wrong.mean(axis=0) / theory * np.sqrt(areas)).max() > 6
    # The spectrum too: off the diagonal the covariance is what the errors show.
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), errors.T)
    assert np.abs(np.linalg.eigvalsh(whitened @ whitened.T / areas) - 1).max() < 0.6


def test_lists_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(InputError, match="words: found none"):
        WordList(MECHANISM, ())
    with pytest.raises(InputError, match="words: 'b' is listed twice"):
        WordList(MECHANISM, ("a", "b", "c", "b"))
    small = Rappor(4, 1, 2, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
    with pytest.raises(InputError, match="words: found 6; 2 cohorts of 4 bits do not tell them apart"):
        WordList(small, WORDS[:6])
    with pytest.raises(InputError, match="words: found 12; 2 cohorts of 4 bits"):
        WordList(small, WORDS)
