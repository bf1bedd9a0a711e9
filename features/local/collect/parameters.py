"""Mechanisms by their names and parameters, as texts: from a spec, and back for a manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from features.local.collect.choices import DirectEncoding, RandomisedResponse
from features.local.collect.mechanism import Mechanism
from features.local.collect.rappor import Rappor
from features.local.collect.unary import OptimisedUnaryEncoding
from pipeline.errors import InputError

#: The parameters of each mechanism. Where one is "p or epsilon", exactly one of the two is given.
PARAMETERS: dict[str, tuple[str, ...]] = {
    RandomisedResponse.name: ("p or epsilon", "memoised"),
    DirectEncoding.name: ("values", "p or epsilon", "memoised"),
    OptimisedUnaryEncoding.name: ("values", "q or epsilon", "memoised"),
    Rappor.name: ("bits", "hashes", "cohorts", "f", "p", "q"),
}
#: May be left out; "no" then.
_OPTIONAL = "memoised"
_NUMBER = re.compile(r"[0-9]{1,20}(?:/[0-9]{1,20}|\.[0-9]{1,20})?")
#: A ratio beyond e^20 protects nobody.
_MOST_EPSILON = 20


def mechanism_of(name: str, parameters: Mapping[str, str]) -> Mechanism:
    """The mechanism of a name and its parameters, exact texts such as "3/4", "0.75", "12" or "yes".

    Raises:
        InputError: the name, a key or a value is wrong; the message names it, and what is allowed.
    """
    if name not in PARAMETERS:
        raise InputError(f"mechanism: found {name!r}; allowed: {', '.join(PARAMETERS)}")
    _check_keys(name, parameters)
    number = {key: _fraction(key, text) for key, text in parameters.items() if key != _OPTIONAL}
    if name == Rappor.name:
        return Rappor(
            _whole("bits", number), _whole("hashes", number), _whole("cohorts", number), *(number[key] for key in "fpq")
        )
    memoised = _yes(parameters.get(_OPTIONAL, "no"))
    epsilon = number.get("epsilon")
    if epsilon is not None and not 0 < epsilon <= _MOST_EPSILON:
        raise InputError(f"epsilon: found {parameters['epsilon']!r}; more than 0 and at most {_MOST_EPSILON} is needed")
    if name == RandomisedResponse.name:
        if epsilon is not None:
            return RandomisedResponse.for_epsilon(epsilon, memoised=memoised)
        return RandomisedResponse(number["p"], memoised)
    values = _whole("values", number)
    if name == DirectEncoding.name:
        if epsilon is not None:
            return DirectEncoding.for_epsilon(values, epsilon, memoised=memoised)
        return DirectEncoding(values, number["p"], memoised)
    if epsilon is not None:
        return OptimisedUnaryEncoding.for_epsilon(values, epsilon, memoised=memoised)
    return OptimisedUnaryEncoding(values, number["q"], memoised)


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


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise InputError(f"{_OPTIONAL}: found {text!r}; allowed: yes, no")
    return text == "yes"
