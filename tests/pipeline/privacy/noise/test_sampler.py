"""The noise has exactly the distribution stated, and is a function of key and position alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pipeline.privacy.budget import Mechanism, NoiseSpec
from pipeline.privacy.keys import MasterKey, refinement_key
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.sampler import POSITIONS, Tails, decide, locate, sampler_for
from pipeline.privacy.noise.streams import Stream

ExactTails = Callable[[NoiseSpec], list[Decimal]]

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "block", "total")
GAUSSIANS = [NoiseSpec("discrete_gaussian", Fraction(s)) for s in ("1/10", "1", "19/10", "100", "10000", "100000000")]
LAPLACES = [NoiseSpec("discrete_laplace", Fraction(b)) for b in ("1/4", "7/10", "1", "7", "70", "7000")]
SMALL = [*GAUSSIANS[:4], *LAPLACES[:4]]


def no_more(position: int) -> Iterator[int]:
    raise AssertionError(f"the draw at {position} asked for further words")


# The distribution of a million draws


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_agreement_with_opendp(mechanism: Mechanism) -> None:
    """A two-sample test at 1e-6 against OpenDP's own exact sampler, which a scale 10 percent off does not pass."""
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    dp.enable_features("contrib")
    size, scale = 50_000, 3
    if mechanism == "discrete_gaussian":
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=size), dp.l2_distance(T="f64")
        theirs = np.array(dp.m.make_gaussian(*space, scale=float(scale))([0] * size))
        specs = [NoiseSpec(mechanism, Fraction(scale) ** 2), NoiseSpec(mechanism, (Fraction(scale) * 11 / 10) ** 2)]
    else:
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=size), dp.l1_distance(T="f64")
        theirs = np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * size))
        specs = [NoiseSpec(mechanism, Fraction(scale)), NoiseSpec(mechanism, Fraction(scale) * 11 / 10)]
    edges = np.arange(-8, 9)
    p_values = []
    for spec in specs:
        ours = sampler_for(spec).draw(KEY, 0, size)
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


def test_a_uniform_is_located_only_where_the_enclosures_tell() -> None:
    """All uniforms of 8 bits against a made-up table of 10 bits, by the definition, for every true value it allows."""
    table = Tails(depth=8, bits=10, lower=[700, 300, 91, 88, 8, 1], upper=[720, 330, 99, 92, 20, 3])
    decided = 0
    for digits in range(256):
        mirrored = 255 - digits if digits >= 128 else digits
        below = {sum(4 * mirrored + 4 <= tail for tail in ends[1:]) for ends in (table.lower, table.upper)}
        partly = {sum(4 * mirrored < tail for tail in ends[1:]) for ends in (table.lower, table.upper)}
        possible = below | partly
        found = locate(table, digits, 8)
        if len(possible) == 1:
            wanted = possible.pop()
            assert found == (wanted if digits >= 128 else -wanted)
            decided += 1
        else:
            assert found is None
    assert 0 < decided < 256


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


def test_a_large_table_is_refined() -> None:
    """sigma = 1e4: the words beside a boundary recomputed at higher precision, at the centre and in the tail."""
    spec = GAUSSIANS[5]
    sampler = sampler_for(spec)
    half = sampler.boundaries.size // 2
    for x in (-60_001, -1, 0, 12_345):
        table = noise._refined(spec, 128)
        k = -x if x < 0 else x + 1
        bound = table.lower[k] if x < 0 else (1 << table.bits) - table.lower[k]
        word, following = (int(d) for d in divmod(bound >> (table.bits - 128), 2**64))
        assert word == sampler.boundaries[half + x]
        words = np.array([word], dtype=np.uint64)
        for change, outcome in ((-2, x), (2, x + 1)):
            assert sampler.draw_from(words, always(iter([following + change]))).tolist() == [outcome]


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


@settings(max_examples=15)
@given(
    start=st.integers(0, 300_000),
    cuts=st.lists(st.integers(0, 150_000), min_size=0, max_size=5),
    spec=st.sampled_from([GAUSSIANS[2], GAUSSIANS[4], LAPLACES[2]]),
)
def test_noise_does_not_depend_on_the_batches(start: int, cuts: list[int], spec: NoiseSpec) -> None:
    sampler = sampler_for(spec)
    edges = [0, *sorted(cuts), 150_000]
    parts = [sampler.draw(KEY, start + a, b - a) for a, b in pairwise(edges)]
    assert np.array_equal(np.concatenate(parts), sampler.draw(KEY, start, 150_000))


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


# The range of scales
