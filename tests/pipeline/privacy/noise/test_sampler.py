"""The noise has exactly the distribution stated, and is a function of key and position alone.

The look-up, undecidable draws, what is drawn, tables against 110-digit sums of the definition, enclosures, and streams
as the published keystream.
"""

from __future__ import annotations

import pickle
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pipeline.privacy.keys import MasterKey, refinement_key
from pipeline.privacy.noise import mechanisms
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import POSITIONS, boundaries, decide, sampler_for
from pipeline.privacy.noise.streams import STREAM_WORDS, Stream, divide, exp_minus, multiply

ExactTails = Callable[[NoiseSpec], list[Decimal]]

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "block", "total")
GAUSSIANS = [DiscreteGaussian(Fraction(s)) for s in ("1/10", "1", "19/10", "100", "10000", "100000000")]
LAPLACES = [DiscreteLaplace(Fraction(b)) for b in ("1/4", "7/10", "1", "7", "70", "7000")]
SMALL = [*GAUSSIANS[:4], *LAPLACES[:4]]


def no_more(position: int) -> Iterator[int]:
    raise AssertionError(f"the draw at {position} asked for further words")


# Against another library


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_agreement_with_opendp(mechanism: str) -> None:
    """A two-sample test at 1e-6 against OpenDP's own exact sampler, which a scale 10 percent off does not pass."""
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    dp.enable_features("contrib")
    gaussian, size, edges, p_values = mechanism == "discrete_gaussian", 50_000, np.arange(-8, 9), []
    metric, make = (dp.l2_distance, dp.m.make_gaussian) if gaussian else (dp.l1_distance, dp.m.make_laplace)
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=size), metric(T="f64")
    theirs = np.array(make(*space, scale=3.0)([0] * size))
    for scale in (Fraction(3), Fraction(33, 10)):
        ours = sampler_for(mechanisms.NOISES[mechanism](scale**2 if gaussian else scale)).draw(KEY, 0, size)
        table = [np.bincount(np.digitize(draws, edges), minlength=len(edges) + 1) for draws in (ours, theirs)]
        p_values.append(stats.chi2_contingency(table).pvalue)
    assert p_values[0] > 1e-6 > p_values[1]


# The look-up


@pytest.mark.parametrize(
    "spec", [*SMALL, *(pytest.param(one, marks=pytest.mark.slow) for one in GAUSSIANS[4:] + LAPLACES[4:])], ids=str
)
def test_the_look_up_is_a_search_of_the_boundaries(spec: NoiseSpec) -> None:
    """For the words beside every boundary, at the ends of every bucket of the guide, and at random."""
    sampler = sampler_for(spec)
    step = np.uint64(1 << (65 - sampler.guide.size.bit_length()))
    edges = np.arange(sampler.guide.size, dtype=np.uint64) * step
    random = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    near = [sampler.boundaries[1:] - np.uint64(1), sampler.boundaries[:-1] + np.uint64(1)]
    words = np.concatenate([*near, edges, edges + (step - np.uint64(1)), random])
    words = words[~np.isin(words, sampler.boundaries)]
    places = np.searchsorted(sampler.boundaries, words)
    assert np.array_equal(sampler.draw_from(words, no_more), places - sampler.boundaries.size // 2)


def test_exactly_the_boundaries_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that equal a boundary ask for further ones, at their own place; those beside it do not."""
    monkeypatch.setattr(noise, "_CHUNK", 7)
    for spec in SMALL:
        sampler = sampler_for(spec)
        words = (sampler.boundaries[:, None] + np.array([-1, 0, 1]).astype(np.uint64)).ravel()
        asked: list[int] = []

        def further(position: int, asked: list[int] = asked) -> Iterator[int]:
            asked.append(position)
            return iter([1 << 63])

        sampler.draw_from(words, further)
        assert asked == np.flatnonzero(np.isin(words, sampler.boundaries)).tolist()


# Undecidable draws


def exact_distribution(outcome: int, tails: list[Decimal]) -> Decimal:
    """P(X <= outcome)."""
    k = -outcome if outcome < 0 else outcome + 1
    tail = tails[k] if k < len(tails) else Decimal(0)
    return tail if outcome < 0 else 1 - tail


def always(words: Iterator[int]) -> Callable[[int], Iterator[int]]:
    """The same further words, whichever draw asks for them."""
    return lambda _: words


def digits_of(value: Decimal, words: int) -> list[int]:
    """The first words of the binary digits of `value`, which is between 0 and 1."""
    number = int(value * 2 ** (64 * words))
    return [number >> (64 * i) & (2**64 - 1) for i in reversed(range(words))]


@pytest.mark.parametrize("spec", SMALL, ids=str)
@pytest.mark.parametrize("tied", [1, 2, 3])
def test_further_words_decide_on_either_side_of_every_boundary(
    spec: NoiseSpec, tied: int, exact_tails: ExactTails
) -> None:
    """The first `tied` words equal the boundary's; one more word just below and above it gives its two outcomes.

    In the tails beyond the table the boundaries share their first words, up to all of those given.
    """
    tails = exact_tails(spec)
    sampler = sampler_for(spec)
    reach = sampler.boundaries.size // 2
    beyond = reach + (8 if tied > 1 else 0)
    with localcontext(Context(prec=110)):
        bounds = {x: exact_distribution(x, tails) for x in range(-len(tails) + 1, len(tails) - 1)}
        outcomes = sorted(bounds)
        values = [bounds[x] for x in outcomes]
        for x in range(max(-beyond, outcomes[0]), min(beyond, outcomes[-1])):
            first = digits_of(bounds[x], tied + 1)
            for change in (-1, 1):
                last = first[-1] + change
                if not 0 <= last < 2**64:
                    continue
                given_words = [*first[:-1], last]
                uniform = sum(Decimal(word) / Decimal(2) ** (64 * (i + 1)) for i, word in enumerate(given_words))
                following = iter([*given_words[1:], 1 << 63, 0, 0])
                found = sampler.draw_from(np.array(given_words[:1], dtype=np.uint64), always(following))
                assert found.tolist() == [outcomes[bisect_right(values, uniform)]]
                if -reach <= x < reach and given_words[0] not in (0, 2**64 - 1):
                    assert found.tolist() == [x if change < 0 else x + 1]


@pytest.mark.parametrize("spec", [GAUSSIANS[3], LAPLACES[3]], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_the_far_tails_are_reached(spec: NoiseSpec, upper: bool, exact_tails: ExactTails) -> None:
    """Uniforms between T(k + 1) and T(k), far beyond the table, give -k, and their mirror images k."""
    tails = exact_tails(spec)
    reach = sampler_for(spec).boundaries.size // 2
    for k in (reach - 1, reach, reach + 1, reach + 17, int(1.4 * reach)):
        with localcontext(Context(prec=110)):
            uniform = (tails[k] + tails[k + 1]) / 2
            words = digits_of(1 - uniform if upper else uniform, 5)
        found = decide(spec, words[0], iter(words[1:]))
        assert found == (k if upper else -k)


def test_a_tied_draw_takes_its_own_refinement_words(monkeypatch: pytest.MonkeyPatch, exact_tails: ExactTails) -> None:
    """Each position has a row of words that belongs to it alone, under a key that is not the uniforms'."""
    spec = GAUSSIANS[1]
    sampler = sampler_for(spec)
    tails = exact_tails(spec)
    half = sampler.boundaries.size // 2
    with localcontext(Context(prec=110)):
        outcome = min(range(-half, half), key=lambda x: abs(2**64 * exact_distribution(x, tails) % 1 - Decimal("0.5")))
    asked: list[tuple[int, int]] = []
    real_fill = Stream.fill

    def fill(_self: Stream, _start: int, out: NDArray[np.uint64]) -> None:
        out[:] = sampler.boundaries[half + outcome]

    def words(self: Stream, start: int, count: int) -> NDArray[np.uint64]:
        out = np.empty(count, dtype=np.uint64)
        real_fill(self, start, out)
        asked.append((start, int(out[0])))
        return out

    monkeypatch.setattr(noise, "_CHUNK", 16)
    monkeypatch.setattr(Stream, "fill", fill)
    monkeypatch.setattr(Stream, "words", words)
    whole = sampler.draw(KEY, 5, 40)
    parts = [sampler.draw(KEY, start, 10) for start in (5, 15, 25, 35)]
    monkeypatch.undo()
    assert set(whole) == {outcome, outcome + 1}
    assert np.array_equal(whole, np.concatenate(parts))
    refinement = Stream(refinement_key(KEY))
    wanted = [(p * 2**65, int(refinement.words(p * 2**65, 1)[0])) for p in range(5, 45)]
    assert asked[:40] == asked[40:] == wanted
    assert len({word for _, word in asked}) == 40


def test_a_stream_that_is_not_random_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="the stream is not random"):
        decide(GAUSSIANS[0], 0, iter([0] * 100))


# A function of key and position


def test_streams_are_apart() -> None:
    """Other queries, other noise: they agree as often as independent draws do, and neighbours are uncorrelated."""
    other = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "block", "race")
    sampler = sampler_for(GAUSSIANS[3])
    one, two = sampler.draw(KEY, 0, 200_000), sampler.draw(other, 0, 200_000)
    agreement = 1 / (2 * np.sqrt(np.pi) * 10)  # sum of squared probabilities at sigma = 10
    assert stats.binomtest(int((one == two).sum()), one.size, agreement).pvalue > 1e-6
    assert abs(np.corrcoef(one, two)[0, 1]) < 6 / np.sqrt(one.size)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 6 / np.sqrt(one.size)


def test_positions_are_checked_and_far_ones_work() -> None:
    sampler = sampler_for(GAUSSIANS[2])
    assert sampler.draw(KEY, POSITIONS - 3, 3).dtype == np.int64
    assert sampler.draw(KEY, 7, 0).shape == (0,)
    for start, count in [(-1, 1), (0, -1), (POSITIONS, 1)]:
        with pytest.raises(ValueError, match="positions from 0"):
            sampler.draw(KEY, start, count)
    with pytest.raises(ValueError, match="32 bytes"):
        sampler.draw(KEY[:5], 0, 1)


# What is drawn: exactly the distribution, with a power arm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Draws of a test, and the level at which it rejects; a scale 5 % off has to be rejected at that level.
DRAWS, ALPHA = 300_000, 1e-6
OFF = (Fraction(95, 100), Fraction(105, 100))


def probabilities(spec: NoiseSpec, largest: int) -> Floats:
    """P(X = k) for |k| <= largest, `(2 * largest + 1,)`, from the definition in floats."""
    k = np.arange(-largest, largest + 1, dtype=np.float64)
    scale = float(spec.scale)
    weights = np.exp(-(k**2) / (2 * scale)) if spec.mechanism == "discrete_gaussian" else np.exp(-np.abs(k) / scale)
    return weights / weights.sum()


def sums(values: Floats | NDArray[np.integer[Any]], group: Ints) -> Floats:
    """Sums by group, without the groups that do not occur."""
    return np.bincount(group, weights=values)[np.unique(group)].astype(np.float64)


def pearson(found: Floats, wanted: Floats) -> float:
    assert len(wanted) > 1
    return float(stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def rejected(draws: Ints, spec: NoiseSpec, expected: float = 100.0) -> bool:
    """Whether draws are told apart from the distribution; the smaller of two p values counts twice.

    Once over runs of neighbouring outcomes, each run expected about `expected` times or more; once over the remainders
    modulo 16, since a defect of the look-up would follow the low digits.
    """
    tail = 12 * float(spec.scale) ** 0.5 if spec.mechanism == "discrete_gaussian" else 45 * float(spec.scale)
    largest = max(int(tail), int(np.abs(draws).max())) + 1
    wanted = probabilities(spec, largest) * draws.size
    found = np.bincount(draws + largest, minlength=wanted.size)
    before = np.cumsum(wanted) - wanted
    group = (np.minimum(before, draws.size - before - wanted) // expected).astype(np.int64)
    group = np.where(np.arange(wanted.size) < largest, group, 2 * group.max() + 1 - group)  # rising from tail to tail
    results = [pearson(sums(found, group), sums(wanted, group))]
    residue = (np.arange(wanted.size) - largest) % 16
    if sums(wanted, residue).min() >= expected:
        results.append(pearson(sums(found, residue), sums(wanted, residue)))
    return 2 * min(results) < ALPHA


def rescaled(spec: NoiseSpec, factor: Fraction) -> NoiseSpec:
    """The same noise, its standard deviation times about `factor`."""
    return replace(spec, scale=spec.scale * (factor**2 if spec.mechanism == "discrete_gaussian" else factor))


@pytest.mark.parametrize(
    "spec",
    [*GAUSSIANS[:5], *LAPLACES[:5], *(pytest.param(one[5], marks=pytest.mark.slow) for one in (GAUSSIANS, LAPLACES))],
    ids=str,
)
def test_noise_follows_the_exact_distribution(spec: NoiseSpec) -> None:
    assert not rejected(sampler_for(spec).draw(KEY, 0, DRAWS), spec)
    for factor in OFF:
        assert rejected(sampler_for(rescaled(spec, factor)).draw(KEY, 0, DRAWS), spec)


def test_a_defect_of_the_low_digits_is_seen() -> None:
    """Every 16th outcome replaced by its neighbour: the spread is right, the distribution is not."""
    for spec in GAUSSIANS[3:5]:
        draws = sampler_for(spec).draw(KEY, 0, 2 * DRAWS)
        draws[draws % 16 == 0] += 1
        assert rejected(draws, spec)


# Tables and enclosures

SPECS = [
    DiscreteGaussian(Fraction(s)) for s in ("1/1000", "1/10", "1", "19/10", "100", "114921/586", "9999/7", "1/100")
] + [DiscreteLaplace(Fraction(b)) for b in ("1/1000", "1/4", "7/10", "1", "7", "542/19")]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("depth", [64, 128])
def test_tails_are_enclosed(spec: NoiseSpec, depth: int, exact_tails: ExactTails) -> None:
    table = spec.tails(depth)
    exact = exact_tails(spec)
    slack = Decimal("1e-98")  # of the decimal sums themselves
    with localcontext(Context(prec=110)):
        unit = Decimal(2) ** table.bits
        for k, (lower, upper) in enumerate(zip(table.lower, table.upper, strict=True)):
            tail = exact[k] if k < len(exact) else Decimal(0)
            assert lower / unit - slack <= tail <= upper / unit + slack
            assert upper - lower < 2 ** (table.bits - depth - 64)
    assert table.upper[-1] < 2 ** (table.bits - depth)
    assert table.lower == sorted(table.lower, reverse=True)
    assert table.upper == sorted(table.upper, reverse=True)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_boundaries_are_the_floors_of_the_exact_distribution(spec: NoiseSpec, exact_tails: ExactTails) -> None:
    found = boundaries(spec)
    half = found.size // 2
    exact = [*exact_tails(spec), Decimal(0)]
    with localcontext(Context(prec=110)):
        below = [int(2**64 * exact[k]) for k in range(half, 0, -1)]
        above = [int(2**64 * (1 - exact[k]) if exact[k] > Decimal("1e-80") else 2**64 - 1) for k in range(1, half + 1)]
    assert found.tolist() == below + above
    assert (below[0], above[-1]) == (0, 2**64 - 1)
    assert half == 1 or below[1] > 0


@pytest.mark.slow
def test_the_largest_tables_hold_the_exact_probabilities() -> None:
    """sigma = 1e4: T(k) - T(k + 1) = w(k) / Z at 300 outcomes; Z = sqrt(2 pi) sigma up to exp(-2 pi^2 sigma^2)."""
    table = DiscreteGaussian(Fraction(10**8)).tails(64)
    assert len(table.lower) > 140_000
    with localcontext(Context(prec=80)):
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899863")
        unit = Decimal(2) ** table.bits / ((2 * pi).sqrt() * 10**4)
        for k in range(0, len(table.lower) - 1, 499):
            exact = (-Decimal(k * k) / (2 * 10**8)).exp() * unit
            assert table.lower[k] - table.upper[k + 1] <= exact <= table.upper[k] - table.lower[k + 1]
            assert table.upper[k] - table.lower[k] < 2**64


@pytest.mark.parametrize("spec", [SPECS[2], SPECS[4], SPECS[-1]], ids=str)
@pytest.mark.parametrize("guard", [8, 40])
def test_boundaries_do_not_depend_on_the_precision(
    spec: NoiseSpec, guard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little precision is noticed and made up for."""
    wanted = boundaries(spec)
    assert noise._floors(spec.tails(64)) is not None
    monkeypatch.setattr(sys.modules[type(spec).__module__], "GUARD_BITS", guard)
    if guard == 8:
        assert noise._floors(spec.tails(64)) is None
    assert np.array_equal(boundaries(spec), wanted)


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_a_vanishing_scale_has_a_table(mechanism: str) -> None:
    assert boundaries(mechanisms.NOISES[mechanism](Fraction(1, 10**10))).tolist() == [0, 2**64 - 1]
    least = mechanisms.NOISES[mechanism].least
    assert boundaries(mechanisms.NOISES[mechanism](least)).tolist() == [0, 2**64 - 1]


def decimal_exp_minus(x: Fraction, digits: int = 500) -> Fraction:
    with localcontext(Context(prec=digits)):
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())


@settings(max_examples=40)
@given(x=st.fractions(0, 600, max_denominator=10**12), bits=st.sampled_from([16, 64, 192, 320, 1024]))
def test_the_exponential_is_enclosed(x: Fraction, bits: int) -> None:
    lower, upper = exp_minus(x, bits)
    assert lower <= decimal_exp_minus(x) * 2**bits <= upper
    assert upper - lower <= 2


@settings(max_examples=40)
@given(
    a=st.fractions(0, 1),
    b=st.fractions(Fraction(1, 1000), 2),
    widths=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    bits=st.integers(16, 200),
)
def test_products_and_quotients_are_enclosed(a: Fraction, b: Fraction, widths: tuple[int, int], bits: int) -> None:
    one = 1 << bits
    enclosure_a = int(a * one) - widths[0], int(a * one) + 1 + widths[0]
    enclosure_b = max(int(b * one) - widths[1], 1), int(b * one) + 1 + widths[1]
    enclosure_a = max(enclosure_a[0], 0), enclosure_a[1]
    lower, upper = multiply(enclosure_a, enclosure_b, bits)
    assert lower <= a * b * one <= upper
    lower, upper = divide(enclosure_a, enclosure_b, bits)
    assert lower <= a / b * one <= upper


# Streams

# NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt
PUBLISHED = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
CIPHER = bytes.fromhex(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)
KEYSTREAM = bytes(a ^ b for a, b in zip(PLAIN, CIPHER, strict=True))


@pytest.mark.parametrize("start", range(8))
def test_seeking_enters_the_published_keystream_at_any_word(start: int) -> None:
    for count in range(9 - start):
        found = Stream(PUBLISHED).words(2 * COUNTER + start, count)
        assert found.astype("<u8").tobytes() == KEYSTREAM[8 * start : 8 * (start + count)]


@settings(max_examples=30)
@given(start=st.integers(0, 70_000), count=st.integers(0, 70_000))
def test_any_stretch_is_a_slice_of_the_whole(start: int, count: int) -> None:
    stream = Stream(PUBLISHED)
    assert np.array_equal(stream.words(start, count), stream.words(0, start + count)[start:])


def test_positions_reach_the_end_of_the_counter_and_no_further() -> None:
    stream = Stream(PUBLISHED)
    assert stream.words(STREAM_WORDS - 3, 3).size == 3
    assert stream.words(STREAM_WORDS, 0).size == 0
    for start, count in [(STREAM_WORDS - 2, 3), (STREAM_WORDS, 1), (-1, 2), (0, -1)]:
        with pytest.raises(ValueError, match="stream: found"):
            stream.words(start, count)
    with pytest.raises(ValueError, match="32 bytes"):
        Stream(PUBLISHED[:16])


def test_a_stream_hides_its_key() -> None:
    stream = Stream(PUBLISHED)
    assert repr(stream) == "Stream(hidden)"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(stream)
