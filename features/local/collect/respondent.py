"""A mechanism by its name and parameters, and a respondent's device, which answers by it again and again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from features.local.collect.bits import KeyedBytes, RandomBytes, SystemBytes, uniform_below
from features.local.collect.listed import DirectEncoding, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.mechanism import LocalMechanism
from features.local.collect.rappor import Rappor
from pipeline.errors import InputError

#: The parameters of each mechanism. Where one is "p or epsilon", exactly one of the two is given.
PARAMETERS: dict[str, tuple[str, ...]] = {
    RandomisedResponse.name: ("p or epsilon", "memoised"),
    DirectEncoding.name: ("values", "p or epsilon", "memoised"),
    OptimisedUnaryEncoding.name: ("values", "q or epsilon", "memoised"),
    Rappor.name: ("bits", "hashes", "cohorts", "f", "p", "q"),
}
_LISTED = {one.name: one for one in (RandomisedResponse, DirectEncoding, OptimisedUnaryEncoding)}
_WHOLE = ("values", "bits", "hashes", "cohorts")
#: May be left out; "no" then.
_OPTIONAL = "memoised"
_NUMBER = re.compile(r"[0-9]{1,20}(?:/[0-9]{1,20}|\.[0-9]{1,20})?")
#: A ratio beyond e^20 protects nobody.
_MOST_EPSILON = 20
#: Bytes of a secret.
SECRET_BYTES = 32


def mechanism_of(name: str, parameters: Mapping[str, str]) -> LocalMechanism:
    """The mechanism of a name and its parameters, exact texts such as "3/4", "0.75", "12" or "yes".

    Raises:
        InputError: the name, a key or a value is wrong; the message names it, and what is allowed.
    """
    if name not in PARAMETERS:
        raise InputError(f"mechanism: found {name!r}; allowed: {', '.join(PARAMETERS)}")
    _check_keys(name, parameters)
    number = {key: _fraction(key, text) for key, text in parameters.items() if key != _OPTIONAL}
    whole: dict[str, int] = {key: _whole(key, number) for key in _WHOLE if key in number}
    if name == Rappor.name:
        return Rappor(**whole, f=number["f"], p=number["p"], q=number["q"])
    kind: type[RandomisedResponse | DirectEncoding | OptimisedUnaryEncoding] = _LISTED[name]
    memoised = parameters.get(_OPTIONAL, "no")
    if memoised not in ("yes", "no"):
        raise InputError(f"{_OPTIONAL}: found {memoised!r}; allowed: yes, no")
    given: dict[str, Any] = {**number, **whole, _OPTIONAL: memoised == "yes"}
    if "epsilon" not in number:
        return kind(**given)
    if not 0 < number["epsilon"] <= _MOST_EPSILON:
        raise InputError(f"epsilon: found {parameters['epsilon']!r}; more than 0 and at most {_MOST_EPSILON} is needed")
    return kind.for_epsilon(**given)


def _check_keys(name: str, parameters: Mapping[str, str]) -> None:
    """Raises InputError unless the keys are those of the mechanism."""
    groups = [entry.split(" or ") for entry in PARAMETERS[name]]
    allowed = [key for group in groups for key in group]
    for key in parameters:
        if key not in allowed:
            raise InputError(f"{key}: {name} has no such parameter; allowed: {', '.join(PARAMETERS[name])}")
    for group in groups:
        given = [key for key in group if key in parameters]
        if not given and group != [_OPTIONAL]:
            raise InputError(f"{' or '.join(group)}: {name} needs it; its parameters: {', '.join(PARAMETERS[name])}")
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)}: {name} takes one of them, not both")


def _fraction(key: str, text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise InputError(f'{key}: found {text!r}; an exact number is needed, such as "3/4" or "0.75"')
    try:
        return Fraction(text)
    except ZeroDivisionError as error:
        raise InputError(f"{key}: found {text!r}; the denominator is 0") from error


def _whole(key: str, numbers: Mapping[str, Fraction]) -> int:
    found = numbers[key]
    if found.denominator != 1:
        raise InputError(f"{key}: found {found}; a whole number is needed")
    return found.numerator


@dataclass(frozen=True)
class Sent:
    """What leaves the device.

    Attributes:
        report: text of fixed length.
        cohort: decimal; empty for a mechanism without cohorts.
    """

    report: str
    cohort: str = ""


@dataclass(frozen=True)
class Respondent:
    """One device, one question.

    The permanent response is not stored: it is drawn from a keyed stream of the secret, the question, the mechanism and
    the value, so it is the same each time. Whoever does not know the secret cannot tell it from a random draw
    (SHAKE-256). The secret is made once per device of 32 random bytes (`secrets.token_bytes(32)`), and stays there. A
    lost secret means a second permanent response: bounds for ever then hold for each secret.

    Attributes:
        mechanism: of the question.
        question: its name; two questions have responses that are independent.
        secret: 32 bytes, not shown.
        source: of random bytes for what is drawn for each report.
    """

    mechanism: LocalMechanism
    question: str
    secret: bytes = field(repr=False)
    source: RandomBytes = field(default_factory=SystemBytes, repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise InputError(f"secret: found {len(self.secret)} bytes; {SECRET_BYTES} random ones are needed")

    @property
    def cohort(self) -> int:
        """Of this device, for ever; 0 for a mechanism without cohorts."""
        return int(uniform_below(self.mechanism.n_cohorts, 1, self._keyed("cohort"))[0])

    def send(self, value: int | str) -> Sent:
        """A report of the value.

        Args:
            value: number of the value; a text for RAPPOR.

        Raises:
            InputError: it is no value of the mechanism.
        """
        mechanism = self.mechanism
        if isinstance(mechanism, Rappor):
            if not isinstance(value, str):
                raise InputError("value: rappor needs a text")
            permanent = mechanism.permanent([value], np.array([self.cohort]), self._keyed("permanent", value))
            return Sent(mechanism.encode(mechanism.report(permanent, self.source))[0], str(self.cohort))
        if isinstance(value, str):
            raise InputError(f"value: {mechanism.name} needs the number of a value")
        source = self._keyed("permanent", str(value)) if mechanism.for_ever is not None else self.source
        return Sent(mechanism.encode(mechanism.randomise(np.array([value]), source))[0])

    def _keyed(self, purpose: str, value: str = "") -> KeyedBytes:
        stated = [f"{key}={text}" for key, text in sorted(self.mechanism.parameters().items())]
        return KeyedBytes(self.secret, (purpose, self.question, self.mechanism.name, *stated, value))
