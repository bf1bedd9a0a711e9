"""Tests of the keyed streams, and of the draws that a stream's first word leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, localcontext
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from features.audit.exact_noise import exact_tails
from features.audit.findings import Finding, certain, statistical
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import NOISES
from pipeline.privacy.noise.sampler import decide, sampler_for
from pipeline.privacy.noise.streams import Stream

#: NIST SP 800-38A, F.5.5: CTR-AES256.Encrypt.
_VECTOR: Final = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
_COUNTER: Final = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
_PLAIN: Final = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
_CIPHER: Final = (
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)

#: Decides the draw of a noise for the words of a uniform.
Decide = Callable[[NoiseSpec, int, Iterator[int]], int]


def stream_findings(seed: int, n_words: int = 1 << 20, decide: Decide = decide) -> Iterator[Finding]:
    """Test streams and the draws that need several words.

    Args:
        seed: of the public test key.
        n_words: in the test of uniformity.
        decide: what decides open draws.
    """
    yield _vectors()
    yield _seekable(seed)
    yield from _uniform(seed, n_words)
    for kind in NOISES.values():
        for scale in ("1/100", "19/10", "100"):
            yield _undecidable(kind(Fraction(scale)), decide)


def _key(seed: int, purpose: str) -> bytes:
    return MasterKey.from_text(f"insecure-test:{seed}").stream_key(("audit",), "streams", purpose)


def _vectors() -> Finding:
    block = int(_COUNTER, 16)
    words = Stream(bytes.fromhex(_VECTOR)).words(2 * block, 8)
    keystream = words.astype("<u8").tobytes()
    published = bytes(a ^ b for a, b in zip(bytes.fromhex(_PLAIN), bytes.fromhex(_CIPHER), strict=True))
    problems = [] if keystream == published else ["the keystream is not the published one"]
    return certain("streams", "published vectors", "NIST SP 800-38A, F.5.5", problems, well="4 blocks of AES-256-CTR")


def _seekable(seed: int) -> Finding:
    stream = Stream(_key(seed, "seek"))
    whole = stream.words(0, 5000)
    rng = np.random.default_rng(seed)
    problems = []
    for start in rng.integers(0, 4900, 200).tolist():
        count = int(rng.integers(1, 100))
        if not np.array_equal(stream.words(start, count), whole[start : start + count]):
            problems.append(f"words {start} to {start + count} differ when entered there")
    spec = DiscreteGaussian(Fraction(100))
    key = _key(seed, "noise")
    noise = sampler_for(spec).draw(key, 0, 200_000)
    for start in (1, 65_535, 65_536, 123_457):
        if not np.array_equal(sampler_for(spec).draw(key, start, 70_001), noise[start : start + 70_001]):
            problems.append(f"noise from position {start} on differs when entered there")
    return certain("streams", "seekable", "words and noise", problems, well="204 stretches equal those of the whole")


def _uniform(seed: int, n_words: int) -> Iterator[Finding]:
    stream = Stream(_key(seed, "uniform"))
    drawn = stream.words(0, n_words)
    low_bytes, high_bits, repeated = drawn.copy(), drawn.copy(), drawn.copy()
    low_bytes[::10] &= ~np.uint64(0xFF)
    high_bits[::10] |= np.uint64(1 << 63)
    repeated[1::10] = repeated[: len(repeated[1::10]) * 10 : 10]
    for check, p_value, arm, faulty in (
        ("bytes", _bytes, "one low byte in 10 set to 0", low_bytes),
        ("bits", _bits, "one high bit in 10 set to 1", high_bits),
        ("serial correlation", _serial, "one word in 10 repeated", repeated),
    ):
        yield statistical("streams", f"uniform {check}", f"{n_words} words", p_value(drawn), {arm: p_value(faulty)})


def _bytes(words: NDArray[np.uint64]) -> float:
    return float(stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue)


def _bits(words: NDArray[np.uint64]) -> float:
    ones = np.array([int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)])
    return float(stats.chi2.sf((((ones - words.size / 2) ** 2) / (words.size / 4)).sum(), 64))


def _serial(words: NDArray[np.uint64]) -> float:
    z = float(np.corrcoef(words[:-1].astype(np.float64), words[1:].astype(np.float64))[0, 1]) * (words.size - 1) ** 0.5
    return float(2 * stats.norm.sf(abs(z)))


def _undecidable(spec: NoiseSpec, decide: Decide) -> Finding:
    """Uniforms a last digit below and above P(X <= -k), in 256 bits, must give -k and what follows it."""
    problems = _open_draws(spec, spec, decide)
    arms = ("0.95 times the scale", Fraction(95, 100)), ("1.05 times the scale", Fraction(105, 100))
    problems += [f"{arm} is not noticed" for arm, by in arms if not _open_draws(spec, spec.rescaled(by), decide)]
    well = f"decided on both sides of every boundary; notices {', '.join(arm for arm, _ in arms)}"
    return certain("streams", "undecidable path", str(spec), problems, well=well)


def _open_draws(spec: NoiseSpec, drawn: NoiseSpec, decide: Decide) -> list[str]:
    tails = exact_tails(spec)
    problems = []
    with localcontext(Context(prec=110)):
        for k in range(1, min(len(tails), 40)):
            boundary = int(tails[k] * 2**256)
            if boundary < 2**64:
                break
            for digits, outcome in ((boundary - 2, -k), (boundary + 2, 1 - k)):
                # P(X <= -k) = P(X >= k); the other side of zero is the mirror image.
                for uniform, expected in ((digits, outcome), (2**256 - 1 - digits, -outcome)):
                    words = [uniform >> shift & (2**64 - 1) for shift in (192, 128, 64, 0)]
                    outcome_drawn = decide(drawn, words[0], iter([*words[1:], 1 << 63, 1 << 63]))
                    if outcome_drawn != expected:
                        problems.append(f"{outcome_drawn} instead of {expected} beside P(X <= {-k})")
    return problems
