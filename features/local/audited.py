"""What an audit tests of the installed randomisers, which protect answers on a respondent's device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from scipy import stats

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.mechanism import LocalMechanism
from features.local.collect.rappor import Rappor
from postprocess.arrays import FloatArray, IntArray

_SIZE: Final = 300_000
_OFF: Final = Fraction(21, 20)
_WORD: Final = "a word"
#: A mechanism, and the same with a probability that is 5 % off.
_LISTED: Final[tuple[tuple[ListedMechanism, ListedMechanism], ...]] = (
    (RandomisedResponse(Fraction(3, 5)), RandomisedResponse(Fraction(3, 5) * _OFF)),
    (DirectEncoding(12, Fraction(1, 5)), DirectEncoding(12, Fraction(1, 5) * _OFF)),
    (OptimisedUnaryEncoding(12, Fraction(27, 100)), OptimisedUnaryEncoding(12, Fraction(27, 100) * _OFF)),
)
_RAPPOR: Final = Rappor(16, 2, 4, Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))


def trials(seed: int) -> Iterator[dict[str, Any]]:
    """Test every mechanism of collection: what is drawn, and the bound that is stated.

    Args:
        seed: of the public test key that the reports are drawn with; the same gives the same results.

    Returns:
        Of each test the arguments of a finding, see `Kind.randomiser_trials`.
    """
    key = seed.to_bytes(32, "big", signed=True)
    for right, off in _LISTED:
        p, q = right.chances
        ratio = p / q if right.exclusive else _odds_ratio(p, q)
        yield from _findings(right, _listed(right, right, key), {"5 % off": _listed(off, right, key)}, ratio)
    faults = {f"{name} 5 % off": replace(_RAPPOR, **{name: getattr(_RAPPOR, name) * _OFF}) for name in ("f", "p", "q")}
    arms = {name: _rappor(fault, key) for name, fault in faults.items()}
    ratio = _odds_ratio(_RAPPOR.q_star, _RAPPOR.p_star) ** _RAPPOR.hashes
    yield from _findings(_RAPPOR, _rappor(_RAPPOR, key), arms, ratio)


def _findings(
    mechanism: LocalMechanism, p_value: float, arms: Mapping[str, float], ratio: Fraction
) -> Iterator[dict[str, Any]]:
    """Of what is drawn, and of the bound, given the largest ratio of any report by its probabilities alone."""
    parameters = ", ".join(f"{key} = {value}" for key, value in mechanism.parameters().items())
    subject = f"{mechanism.name}, {parameters}"
    yield {"check": "probabilities", "subject": subject, "p_value": p_value, "arms": arms}
    problems = []
    if mechanism.ratio != ratio:
        stated = float(mechanism.ratio)
        problems.append(f"the ratio stated is {stated}, and that of the probabilities is {float(ratio)}")
    context = Context(prec=60)
    reached = context.multiply(context.exp(mechanism.epsilon), Decimal(mechanism.ratio.denominator))
    if reached < mechanism.ratio.numerator:
        problems.append(f"epsilon = {mechanism.epsilon} is less than the logarithm of the ratio")
    yield {"check": "bound", "subject": subject, "problems": tuple(problems)}


def _odds_ratio(p: Fraction, q: Fraction) -> Fraction:
    """The largest ratio of two bits, of which each of two values makes another one 1 with p, and with q else."""
    return p * (1 - q) / (q * (1 - p))


def _pearson(ones: IntArray, chances: FloatArray, sizes: IntArray) -> float:
    """Of independent events: how often they happened, of so many times, against their chances."""
    squares = (ones - sizes * chances) ** 2 / (sizes * chances * (1 - chances))
    return float(stats.chi2.sf(squares.sum(), squares.size))


def _listed(mechanism: ListedMechanism, stated: ListedMechanism, key: bytes) -> float:
    """Of the outputs of reports of the last value, against the probabilities that are stated."""
    value = stated.values - 1
    reports = mechanism.randomise(np.full(_SIZE, value), KeyedBytes(key, (mechanism.name,)))
    ones = mechanism.totals(reports, np.zeros(_SIZE, dtype=np.int64), 1)[0]
    p, q = (float(chance) for chance in stated.chances)
    chances = np.append(np.full(value, q), p)
    if not stated.exclusive:
        return _pearson(ones, chances, np.full(len(ones), _SIZE))
    return float(stats.chisquare(ones, _SIZE * chances).pvalue)


def _rappor(mechanism: Rappor, key: bytes) -> float:
    """Of the lies of permanent responses, and of the reports made from them, together; against `_RAPPOR`."""
    source = KeyedBytes(key, (mechanism.name,))
    size = _SIZE // 4
    cohorts = np.arange(size) % mechanism.cohorts
    permanent = mechanism.permanent([_WORD] * size, cohorts, source)
    reports = mechanism.report(permanent, source)
    likely = np.zeros((mechanism.cohorts, mechanism.bits), dtype=np.bool_)
    np.put_along_axis(likely, mechanism.filters((_WORD,))[:, 0], values=True, axis=1)
    shown, true = permanent[:, 1:] > 0, likely[cohorts]
    events = [reports[:, 1:][shown] > 0, reports[:, 1:][~shown] > 0, shown[true], shown[~true]]
    stated = (_RAPPOR.q, _RAPPOR.p, 1 - _RAPPOR.f / 2, _RAPPOR.f / 2)
    chances = np.array([float(chance) for chance in stated])
    return _pearson(np.array([e.sum() for e in events]), chances, np.array([e.size for e in events]))
