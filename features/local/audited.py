"""What an audit tests of the installed randomisers, which protect answers on a respondent's device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from features.local.collect.bits import KeyedBytes
from features.local.collect.choices import DirectEncoding, RandomisedResponse
from features.local.collect.mechanism import ListedMechanism, Mechanism
from features.local.collect.rappor import Rappor, positions
from features.local.collect.unary import OptimisedUnaryEncoding

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
        Of each test the arguments of a finding, see `features.audit.installed.HasRandomisers`.
    """
    key = seed.to_bytes(32, "big", signed=True)
    for right, off in _LISTED:
        subject = _subject(right)
        arms = {"5 % off": _listed(off, right, key)}
        yield {"check": "probabilities", "subject": subject, "p_value": _listed(right, right, key), "arms": arms}
        problems = tuple(_bound_problems(right, _largest_ratio(right)))
        yield {"check": "bound", "subject": subject, "problems": problems}
    faults = {f"{name} 5 % off": replace(_RAPPOR, **{name: getattr(_RAPPOR, name) * _OFF}) for name in ("f", "p", "q")}
    arms = {name: _rappor(fault, key) for name, fault in faults.items()}
    subject = _subject(_RAPPOR)
    yield {"check": "probabilities", "subject": subject, "p_value": _rappor(_RAPPOR, key), "arms": arms}
    one, other = float(_RAPPOR.q_star), float(_RAPPOR.p_star)
    ratio = (one * (1 - other) / (other * (1 - one))) ** _RAPPOR.hashes
    yield {"check": "bound", "subject": subject, "problems": tuple(_bound_problems(_RAPPOR, ratio))}


def _subject(mechanism: Mechanism) -> str:
    return f"{mechanism.name}, {', '.join(f'{key} = {value}' for key, value in mechanism.parameters().items())}"


def _pearson(ones: NDArray[np.int64], chances: NDArray[np.float64], sizes: NDArray[np.int64]) -> float:
    """Of independent events: how often they happened, of so many times, against their chances."""
    squares = (ones - sizes * chances) ** 2 / (sizes * chances * (1 - chances))
    return float(stats.chi2.sf(squares.sum(), squares.size))


def _listed(mechanism: ListedMechanism, stated: ListedMechanism, key: bytes) -> float:
    """Of the outputs of reports of the last value, against the probabilities that are stated."""
    value = len(stated.probabilities()) - 1
    reports = mechanism.randomise(np.full(_SIZE, value), KeyedBytes(key, (mechanism.name,)))
    ones = mechanism.totals(reports, np.zeros(_SIZE, dtype=np.int64), 1)[0]
    chances = np.array([float(chance) for chance in stated.probabilities()[value]])
    if mechanism.name == OptimisedUnaryEncoding.name:
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
    for cohort in range(mechanism.cohorts):
        likely[cohort, list(positions(_WORD, cohort, mechanism.bits, mechanism.hashes))] = True
    shown, true = permanent[:, 1:] > 0, likely[cohorts]
    events = [reports[:, 1:][shown] > 0, reports[:, 1:][~shown] > 0, shown[true], shown[~true]]
    stated = (_RAPPOR.q, _RAPPOR.p, 1 - _RAPPOR.f / 2, _RAPPOR.f / 2)
    chances = np.array([float(chance) for chance in stated])
    return _pearson(np.array([e.sum() for e in events]), chances, np.array([e.size for e in events]))


def _largest_ratio(mechanism: ListedMechanism) -> float:
    """Of any report under the first two values, from the probabilities of its outputs alone."""
    first, second = mechanism.probabilities()[:2]
    pairs = list(zip(first, second, strict=True))
    if mechanism.name == OptimisedUnaryEncoding.name:
        return float(prod(max(a / b, (1 - a) / (1 - b)) for a, b in pairs))
    return float(max(a / b for a, b in pairs))


def _bound_problems(mechanism: Mechanism, ratio: float) -> Iterator[str]:
    if not np.isclose(float(mechanism.ratio), ratio, rtol=1e-12):
        yield f"the ratio stated is {float(mechanism.ratio)}, and that of the probabilities is {ratio}"
    context = Context(prec=60)
    reached = context.multiply(context.exp(mechanism.epsilon), Decimal(mechanism.ratio.denominator))
    if reached < mechanism.ratio.numerator:
        yield f"epsilon = {mechanism.epsilon} is less than the logarithm of the ratio"
