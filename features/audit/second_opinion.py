"""The installed samplers, streams and keys beside those of the second program, which shares no code with them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from auditor import keys as second
from auditor.keys import pattern
from auditor.sampler import boundaries, drawn, flipped
from features.audit.findings import Finding, certain
from features.audit.finished import GROUP
from features.audit.samplers import QUICK
from pipeline.privacy.keys import MasterKey, draws_key
from pipeline.privacy.noise.choices import PermuteAndFlip
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.streams import Stream
from postprocess.arrays import IntArray

#: Choices compared.
_CHOOSER: Final = PermuteAndFlip(Fraction(1, 3))
_CONTEXT: Final = ("records", "spine", "spec")
_PIECE: Final = 1 << 20
_EXTREMES: Final = 12


def second_findings(*, quick: bool, seed: int) -> Iterator[Finding]:
    """Compare what is installed with the second program, number by number.

    Args:
        quick: look for draws far out among 2^22 instead of 2^25, and for repeated keys among 2^13 instead of 2^15.
        seed: of the public test keys.
    """
    words, keys = (1 << 22, 1 << 13) if quick else (1 << 25, 1 << 15)
    yield certain(GROUP, "streams", "keys of levels and queries", stream_problems(seed), well="each its own")
    for noise in QUICK.specs:
        subject = f"{noise.mechanism}, scale {noise.scale}"
        problems = boundary_problems(noise)
        yield certain(GROUP, "boundaries", subject, problems, well="all the same, tails included")
        found, depth = extreme_problems(noise, seed, words)
        yield certain(GROUP, "tails drawn", subject, found, well=f"the same as far out as 2^-{depth}")
    subject = f"permute-and-flip, epsilon = {_CHOOSER.scale}"
    yield certain(GROUP, "choices", subject, choice_problems(seed), well="the same number by number")
    yield key_finding(keys)


def boundary_problems(noise: NoiseSpec) -> list[str]:
    """Where the sampler's table of 2^64 P(X <= x) is not that of the second program."""
    ours = sampler_for(noise).boundaries
    low, high = boundaries(noise.mechanism, noise.scale, 64)
    middle, half = len(low) // 2, ours.size // 2
    problems = []
    for place in range(max(half, middle)):
        for own, other in ((half - 1 - place, middle - 1 - place), (half + place, middle + place)):
            edge = 0 if own < half else 2**64 - 1
            stated = int(ours[own]) if 0 <= own < ours.size else edge
            if 0 <= other < len(low):
                least, most = low[other] >> 64, high[other] >> 64
            else:
                least = most = edge
            if not least <= stated <= min(most, 2**64 - 1):
                problems.append(f"P(X <= {own - half}) is not what its table says")
    return problems


def extreme_problems(noise: NoiseSpec, seed: int, words: int) -> tuple[list[str], int]:
    """Draws whose uniform is next to 0 or 1, where a tail that is cut shows; and how far out they are, in bits.

    Their positions are found among so many words of a stream, and only these are drawn by the second program.
    """
    key = MasterKey.from_text(f"insecure-test:{seed}")
    level, query = "level", f"{noise.mechanism} {noise.scale}"
    stream_key = key.stream_key(_CONTEXT, level, query)
    positions, depth = _extremes(stream_key, words)
    own = second.KeyedStream(_secret(key, seed), _CONTEXT, level, query)
    sampler, problems = sampler_for(noise), []
    for position in positions:
        right = drawn(noise.mechanism, noise.scale, own.words(position))
        start = max(0, position - 3)
        found = int(sampler.draw(stream_key, start, 8)[position - start])
        if found != right:
            problems.append(f"at position {position} of a stream {found} is drawn, its uniform gives {right}")
    return problems, depth


def choice_problems(seed: int) -> list[str]:
    """Where permute-and-flip does not choose what the second program does, of 150 draws among five candidates."""
    key = MasterKey.from_text(f"insecure-test:{seed}")
    own = second.KeyedStream(_secret(key, seed), _CONTEXT, "level", "choice")
    losses = np.random.default_rng(seed).integers(0, 12, (150, 5))
    found = _CHOOSER.draw(key.stream_key(_CONTEXT, "level", "choice"), losses).tolist()
    right = [flipped(_CHOOSER.scale, row, own.words, position) for position, row in enumerate(losses.tolist())]
    return [
        f"at position {position} of a stream {one} is chosen, its uniforms give {other}"
        for position, (one, other) in enumerate(zip(found, right, strict=True))
        if one != other
    ]


def _secret(key: MasterKey, seed: int) -> bytes:
    """The public test key of this number, made by the second program."""
    import hashlib

    secret = hashlib.sha256(second.encoded("insecure test key", f"insecure-test:{seed}")).digest()
    if second.commitment(secret) != key.commitment():
        return bytes(32)  # then nothing agrees, as it should
    return secret


def _extremes(stream_key: bytes, words: int) -> tuple[list[int], int]:
    """Positions of the smallest and largest words of a stream, and the depth of the outermost."""
    stream = Stream(draws_key(stream_key))
    places: list[IntArray] = []
    values: list[NDArray[np.uint64]] = []
    for first in range(0, words, _PIECE):
        piece = stream.words(first, min(_PIECE, words - first))
        for outer in (np.argpartition(piece, _EXTREMES)[:_EXTREMES], np.argpartition(piece, -_EXTREMES)[-_EXTREMES:]):
            places.append(first + outer)
            values.append(piece[outer])
    place, value = np.concatenate(places), np.concatenate(values)
    order = np.argsort(value)
    picked = [*place[order[:_EXTREMES]].tolist(), *place[order[-_EXTREMES:]].tolist()]
    return picked, 64 - max(int(value.min()).bit_length(), (2**64 - 1 - int(value.max())).bit_length())


def stream_problems(seed: int) -> list[str]:
    """Whether streams that differ in one thing alone have keys that differ, and all are those of the second program."""
    key = MasterKey.from_text(f"insecure-test:{seed}")
    secret = _secret(key, seed)
    places: list[tuple[tuple[str, ...], str, str]] = [
        (_CONTEXT, "level", "query"),
        (_CONTEXT, "level", "other"),
        (_CONTEXT, "other", "query"),
    ]
    places += [((*_CONTEXT[:i], "other", *_CONTEXT[i + 1 :]), "level", "query") for i in range(len(_CONTEXT))]
    found = [key.stream_key(context, level, query) for context, level, query in places]
    problems = [] if len(set(found)) == len(found) else ["streams that differ in level, query or context share a key"]
    right = [second.derived(secret, "stream", *context, level, query) for context, level, query in places]
    return problems if found == right else [*problems, "the keys of streams are not derived as documented"]


def key_finding(count: int) -> Finding:
    """Whether new keys repeat: of a space of less than about count^2 / 28, some would, except once in a million."""
    commitments = [MasterKey.generate().commitment() for _ in range(count)]
    repeated = count - len(set(commitments))
    problems = [f"{repeated} of {count:,} new keys had been drawn before"] if repeated else []
    seen = [pattern(MasterKey.generate()._secret) for _ in range(16)]  # the audit looks at keys that nobody uses
    problems += [f"a new key was not drawn at random: {why}" for why in seen if why]
    bits = 2 * (count.bit_length() - 1) - 5
    return certain(GROUP, "new keys", f"{count:,} keys", problems, well=f"no space of {bits} bits or fewer")
