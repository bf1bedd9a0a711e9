"""The second program's ciphers, streams and sampler: published vectors, and the noise that the first one draws."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor import clique_redraw, noise
from auditor.keys import Aes256, KeyedStream, encoded, key_found, pattern
from auditor.mechanisms import law_of
from auditor.noise import exceedances
from auditor.reading.findings import ALPHA
from auditor.sampler import TooWideError, boundaries, drawn, exponential, fits, flipped, is_wide
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import mechanisms
from pipeline.privacy.noise.choices import PermuteAndFlip
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.sampler import sampler_for

CONTEXT = ("records", "spine", "spec")
NUMBER = 7
SECRET = hashlib.sha256(encoded("insecure test key", f"insecure-test:{NUMBER}")).digest()
KEY = MasterKey.from_text(f"insecure-test:{NUMBER}")


def test_the_cipher_gives_the_published_blocks() -> None:
    """FIPS 197, appendix C.3, and the counter mode of NIST SP 800-38A, F.5.5."""
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert Aes256(bytes(range(32))).block(block).hex() == "8ea2b7ca516745bfeafc49904b496089"
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    assert Aes256(key).block(counter).hex() == "0bdf7df1591716335e9a8b15c860c502"


@pytest.mark.parametrize(
    ("mechanism", "scale"),
    [
        ("discrete_gaussian", "1/3"),
        ("discrete_gaussian", "8"),
        ("discrete_gaussian", "20001/2"),
        ("discrete_laplace", "1/9"),
        ("discrete_laplace", "7/2"),
    ],
)
def test_noise_is_drawn_again_bit_for_bit(mechanism: str, scale: str) -> None:
    spec = mechanisms.NOISES[mechanism](Fraction(scale))
    stream = KeyedStream(SECRET, CONTEXT, "level", "query")
    theirs = sampler_for(spec).draw(KEY.stream_key(CONTEXT, "level", "query"), 0, 300)
    assert [drawn(mechanism, Fraction(scale), stream.words(i)) for i in range(300)] == theirs.tolist()


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_words_on_a_boundary_take_further_words(offset: int) -> None:
    """A word that the table cannot decide is decided by the words after it, as the first program does."""
    spec = DiscreteGaussian(Fraction(8))
    sampler = sampler_for(spec)
    words = [w for w in (sampler.boundaries.astype(object) + offset).tolist() if 0 <= w < 2**64]
    for further in (1, 2**63, 2**64 - 2):
        right = sampler.draw_from(np.array(words, dtype=np.uint64), lambda _, f=further: iter([f] * 15))  # type: ignore[misc]
        own = [drawn("discrete_gaussian", Fraction(8), iter([word, *[further] * 15])) for word in words]
        assert own == right.tolist()


@pytest.mark.parametrize("candidates", [1, 4, 40])
def test_permute_and_flip_is_drawn_again_bit_for_bit(candidates: int) -> None:
    """By the candidates in their order, a coin after the other; from any position on."""
    losses = np.random.default_rng(1).integers(0, 20, (60, candidates))
    stream = KeyedStream(SECRET, CONTEXT, "level", "quantile")
    mechanism = PermuteAndFlip(Fraction(1, 3))
    theirs = mechanism.draw(KEY.stream_key(CONTEXT, "level", "quantile"), losses, 1000)
    own = [flipped(Fraction(1, 3), row, stream.words, 1000 + i) for i, row in enumerate(losses.tolist())]
    assert own == theirs.tolist()
    less = [flipped(Fraction(1, 6), row, stream.words, 1000 + i) for i, row in enumerate(losses.tolist())]
    assert candidates == 1 or less != own


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ({1: [5], 3: [4], 2: [0]}, 1),
        ({1: [5], 3: [4], 2: [2**64 - 1]}, 0),
        ({1: [5, 8], 3: [5, 7], 2: [0]}, 1),
        ({1: [5, 7, 0], 3: [5, 7, 9], 2: [0]}, 0),
        ({1: [5], 3: [4], 2: [(int(math.exp(-1 / 2) * 2**53) - 1) << 11, 1]}, 1),
    ],
    ids=["heads", "tails", "one turn", "one turn, twice", "a coin near its boundary"],
)
def test_the_second_program_flips_by_turns(words: dict[int, list[int]], right: int) -> None:
    assert flipped(Fraction(1), [0, 1], lambda number: iter([*words.get(number, []), *[1] * 20]), 0) == right


@settings(max_examples=60, deadline=None)
@given(st.fractions(min_value=0, max_value=300, max_denominator=10**6))
def test_exponentials_are_enclosed(x: Fraction) -> None:
    low, high = exponential(x, 160)
    assert low <= high <= low + 64
    assert math.isclose((low + high) / 2, math.exp(-x) * 2.0**160, rel_tol=1e-13, abs_tol=64)


def residuals(count: int, seed: int = 1) -> np.ndarray:
    """Noise of variance 8."""
    words = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
    return sampler_for(DiscreteGaussian(Fraction(8))).draw_from(words, lambda _: iter([1] * 9))


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        (lambda noise: noise, 0),
        (lambda noise: np.clip(noise, -8, 8), 20_000),  # at 3 sigma
        (lambda noise: np.minimum(noise, 8), 40_000),
        (lambda noise: np.rint(noise * 0.9).astype(np.int64), 6_000),
        (lambda noise: np.minimum(noise, 11), 1_500_000),  # the upper tail at 2^-14
    ],
    ids=["sound", "3 sigma", "upper 3 sigma", "0.9 of the noise", "upper tail"],
)
def test_tails_are_counted_without_a_key(fault, count: int) -> None:  # type: ignore[no-untyped-def]
    """Sound residuals pass at every size at which a faulty kind is noticed; the finding states what it can notice."""
    for size in (count,) if count else (800, 20_000, 1_500_000):
        found = exceedances([("discrete_gaussian", Fraction(8), fault(residuals(size)))])
        assert found.passed == (count == 0), found.detail
        assert found.value is not None
        assert (found.value < ALPHA) == (count > 0)
    if not count:
        assert "the upper tail cut at 2^-15 or nearer" in found.detail


#: The widest noise that is allowed, and noise that is just too wide for a table.
WIDE = (
    ("discrete_gaussian", DiscreteGaussian.largest),
    ("discrete_gaussian", Fraction(6 * 10**7)),
    ("discrete_laplace", DiscreteLaplace.largest),
    ("discrete_laplace", Fraction(1200)),
)


@pytest.mark.parametrize(("mechanism", "scale"), WIDE)
def test_wide_noise_is_that_of_its_words_to_within_one(mechanism: str, scale: Fraction) -> None:
    """Of the largest draws, too; a number two away, another draw's, or nine tenths of it is not."""
    assert is_wide(mechanism, scale)
    words = np.random.default_rng(5).integers(0, 2**64, 20_000, dtype=np.uint64)
    words[:4] = 1 << 20, (1 << 64) - (1 << 20), 1 << 63, (1 << 63) - 1
    noise = sampler_for(mechanisms.NOISES[mechanism](scale)).draw_from(words, lambda _: iter([1 << 63] * 9))
    tried = [*range(40), *np.argsort(-np.abs(noise))[:20].tolist()]
    for at in tried:
        word, found = int(words[at]), int(noise[at])
        assert fits(mechanism, scale, found, iter([word])), (at, found)
        if abs(found) > 30:
            assert not any(fits(mechanism, scale, found + off, iter([word])) for off in (-3, 3))
            assert not fits(mechanism, scale, found * 9 // 10, iter([word]))
            assert not fits(mechanism, scale, -found, iter([word]))


@pytest.mark.parametrize(
    ("mechanism", "scale"),
    [("discrete_gaussian", 10**7), ("discrete_gaussian", 2), ("discrete_laplace", 900), ("discrete_laplace", 1)],
)
def test_the_chances_of_noise_have_the_tails_of_the_exact_table(mechanism: str, scale: int) -> None:
    low, _ = boundaries(mechanism, Fraction(scale), 64)
    half = len(low) // 2
    by_table = np.array([low[half - k] / (1 << 128) for k in range(1, half + 1)])
    by_chances = law_of(mechanism).chances(scale)[::-1].cumsum()[::-1][1:]
    deep = by_table[: len(by_chances)] > 2.0**-60
    assert np.allclose(by_chances[: len(deep)][deep], by_table[: len(deep)][deep], rtol=1e-9, atol=0)
    assert by_chances[-1] < 2.0**-noise._DEEPEST


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_tails_of_wide_noise_are_counted_too(mechanism: str) -> None:
    """Before, such noise was left out, and the finding did not say so."""
    scale = mechanisms.NOISES[mechanism].largest
    words = np.random.default_rng(2).integers(0, 2**64, 20_000, dtype=np.uint64)
    drawn_so = sampler_for(mechanisms.NOISES[mechanism](scale)).draw_from(words, lambda _: iter([1 << 63] * 9))
    assert exceedances([(mechanism, scale, drawn_so)]).passed
    assert not exceedances([(mechanism, scale, np.rint(drawn_so * 0.9).astype(np.int64))]).passed


@pytest.mark.parametrize(
    "secret",
    [
        (4711).to_bytes(32, "big"),
        (4711).to_bytes(2, "big") * 16,
        hashlib.sha256((4711).to_bytes(2, "little")).digest(),
        hashlib.sha256(b"4711").digest(),
    ],
    ids=["padded", "repeated", "hashed", "hashed digits"],
)
def test_a_key_of_16_bits_is_guessed(secret: bytes) -> None:
    assert not key_found(MasterKey(secret).commitment(), secret).passed


def test_a_key_of_16_bits_is_guessed_from_the_public_commitment() -> None:
    secret = hashlib.sha256((3).to_bytes(2, "big")).digest()
    assert not key_found(MasterKey(secret).commitment(), None).passed
    assert not key_found(MasterKey(secret).commitment("aa" * 16), None, salt="aa" * 16).passed


def test_a_sound_key_is_not_guessed() -> None:
    key = hashlib.sha256(b"a sound key").digest()
    assert key_found(MasterKey(key).commitment(), key).passed
    assert pattern(b"an ordinary sentence of 32 bytes") == "it is a text"
    assert pattern(bytes(range(32))) == "its bytes are a progression"


def test_a_choice_by_noise_that_is_too_wide_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what the finding says; it is no fault of the release."""

    def too_wide(*_: object) -> list[str]:
        raise TooWideError("it has too many outcomes")

    monkeypatch.setattr(clique_redraw, "budget_problems", lambda *_: [])
    monkeypatch.setattr(clique_redraw, "redraw_problems", too_wide)
    universe = SimpleNamespace(cliques=SimpleNamespace(rounds=2))
    release: Any = SimpleNamespace(form=SimpleNamespace(universes=[universe]))
    *_, found = clique_redraw.clique_findings(release, bytes(32))
    assert (found.check, found.passed, found.detail) == (
        "choices redrawn", True, "not tested: it has too many outcomes",
    )  # fmt: skip
