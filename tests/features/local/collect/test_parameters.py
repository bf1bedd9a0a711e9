"""Mechanisms by name and parameters: exact there and back, and a message for each mistake."""

from __future__ import annotations

from fractions import Fraction

import pytest

from features.local.collect.respondent import PARAMETERS, mechanism_of
from pipeline.errors import InputError

RAPPOR = {"bits": "32", "hashes": "2", "cohorts": "64", "f": "1/2", "p": "1/2", "q": "3/4"}
RIGHT = [
    ("randomised_response", {"p": "3/4"}),
    ("randomised_response", {"epsilon": "1", "memoised": "yes"}),
    ("direct_encoding", {"values": "12", "p": "0.25", "memoised": "no"}),
    ("direct_encoding", {"values": "12", "epsilon": "2"}),
    ("unary_encoding", {"values": "12", "q": "1/4", "memoised": "yes"}),
    ("unary_encoding", {"values": "12", "epsilon": "1/2"}),
    ("rappor", RAPPOR),
    ("rappor", {**RAPPOR, "f": "0"}),
]


@pytest.mark.parametrize(("name", "parameters"), RIGHT, ids=str)
def test_parameters_are_exact_there_and_back(name: str, parameters: dict[str, str]) -> None:
    mechanism = mechanism_of(name, parameters)
    assert mechanism.name == name
    assert mechanism_of(name, mechanism.parameters()) == mechanism
    assert (mechanism.for_ever is not None) == (parameters.get("memoised") == "yes" or parameters.get("f") == "1/2")
    assert set(mechanism.parameters()) <= {key for entry in PARAMETERS[name] for key in entry.split(" or ")}


def test_the_bounds_of_the_settings_of_the_paper() -> None:
    """Erlingsson et al. 2014, section 5: q = 0.75, p = 0.5, f = 0.5 and two hashes."""
    mechanism = mechanism_of("rappor", RAPPOR)
    assert mechanism.ratio == (Fraction(11, 16) * Fraction(7, 16) / (Fraction(9, 16) * Fraction(5, 16))) ** 2
    assert mechanism.for_ever is not None
    assert mechanism.for_ever.ratio == 81


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("laplace", {}, "mechanism: found 'laplace'; allowed: randomised_response, direct_encoding, unary_encoding, "),
        ("unary_encoding", {"values": "12"}, "q or epsilon: unary_encoding needs it; its parameters: values, q or"),
        ("unary_encoding", {"values": "12", "q": "1/4", "epsilon": "1"}, "q and epsilon: unary_encoding takes one of"),
        ("unary_encoding", {"values": "12", "p": "1/4"}, "p: unary_encoding has no such parameter; allowed: values, q"),
        ("unary_encoding", {"values": "1", "q": "1/4"}, "values: found 1; a whole number from 2 to 60000 is needed"),
        (
            "unary_encoding",
            {"values": "12", "q": "1/2"},
            "q: found 1/2; a probability of more than 0 and less than 1/2",
        ),
        ("unary_encoding", {"values": "12", "q": "0"}, "q: found 0; a probability of more than 0"),
        (
            "direct_encoding",
            {"values": "4", "p": "1/4"},
            "p: found 1/4; a probability of more than 1/4 and less than 1",
        ),
        ("direct_encoding", {"values": "4", "p": "1"}, "p: found 1; a probability"),
        ("direct_encoding", {"values": "7/2", "p": "1"}, "values: found 7/2; a whole number is needed"),
        ("randomised_response", {"p": "1e-1"}, "p: found '1e-1'; an exact number is needed, such as \"3/4\""),
        ("randomised_response", {"p": "3/0"}, "p: found '3/0'; the denominator is 0"),
        ("randomised_response", {"p": "-3/4"}, "p: found '-3/4'; an exact number"),
        ("randomised_response", {"p": "0.7000000000001"}, "a denominator of at most 1000000000000 is needed"),
        ("randomised_response", {"p": "3/4", "memoised": "true"}, "memoised: found 'true'; allowed: yes, no"),
        ("randomised_response", {"epsilon": "0"}, "epsilon: found '0'; more than 0 and at most 20 is needed"),
        ("randomised_response", {"epsilon": "21"}, "epsilon: found '21'; more than 0 and at most 20 is needed"),
        ("rappor", {**RAPPOR, "f": "1"}, "f: found 1; less than 1 is needed"),
        ("rappor", {**RAPPOR, "q": "1/2"}, "q: found 1/2; more than p, which is 1/2, is needed"),
        ("rappor", {**RAPPOR, "bits": "3"}, "bits: found 3; a whole number from 4 to 4096 is needed"),
        ("rappor", {**RAPPOR, "f": "0", "p": "0"}, "f: found 0; more than 0 is needed where p is 0 or q is 1"),
        ("rappor", {**RAPPOR, "q": "3/2"}, "q: found 3/2; a probability from 0 to 1 is needed"),
        ("rappor", {**RAPPOR, "memoised": "yes"}, "memoised: rappor has no such parameter"),
    ],
)
def test_mistakes_are_named(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        mechanism_of(name, parameters)
    assert message in str(refused.value)
