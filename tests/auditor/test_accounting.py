"""Costs and epsilons are those of the first program."""

from __future__ import annotations

from fractions import Fraction

import pytest

from auditor.accounting import cost_of, losses_epsilon, zcdp_epsilon
from pipeline.privacy.accounting.conversion import zcdp_epsilon as first_epsilon
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanisms import MECHANISMS, mechanism


@pytest.mark.parametrize(("rho", "delta"), [("1/10", "1/100000"), ("2", "1/10000000000"), ("263/100", "1/1000000")])
def test_epsilon_is_that_of_the_first_program(rho: str, delta: str) -> None:
    assert float(zcdp_epsilon(Fraction(rho), Fraction(delta))) == pytest.approx(
        first_epsilon(Fraction(rho), Fraction(delta)), rel=1e-9
    )
    uses = [("discrete_gaussian", 8 / Fraction(rho), 2), ("discrete_gaussian", 4 / Fraction(rho), 2)]
    between = losses_epsilon(uses, Fraction(delta))
    stated = pld_epsilon([(DiscreteGaussian(scale), 2) for _, scale, _ in uses], Fraction(delta))
    assert between is not None
    assert stated is not None
    assert between[0] - 1e-3 <= stated <= between[1] + 0.01


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_mechanism_costs_what_the_first_program_says(name: str) -> None:
    for scale, moved in ((Fraction(1, 5), 2), (Fraction(7, 3), 1)):
        theirs = mechanism(name, scale)
        assert cost_of((name, scale, moved), zcdp=True) == theirs.rho(moved)
        assert name == "discrete_gaussian" or theirs.epsilon(moved) == cost_of((name, scale, moved), zcdp=False)


@pytest.mark.parametrize("chooser", ["exponential", "permute_and_flip"])
def test_a_choice_adds_its_epsilon_at_most(chooser: str) -> None:
    noise, choice = ("discrete_gaussian", Fraction(80), 2), (chooser, Fraction(1, 10), 2)
    between = losses_epsilon([noise, choice], Fraction(1, 10**5))
    stated = pld_epsilon([(mechanism(*one[:2]), one[2]) for one in (noise, choice)], Fraction(1, 10**5))
    alone = losses_epsilon([noise], Fraction(1, 10**5))
    assert between is not None
    assert stated is not None
    assert alone is not None
    assert between[0] - 1e-3 <= stated <= between[1] + 0.01
    assert between[1] == pytest.approx(alone[1] + 0.2, abs=0.01)
