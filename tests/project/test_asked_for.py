"""What users asked for is there: by the textbook's number where a few lines give it, else by the test that shows it."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import SupportsFloat

import pytest
from project.documents import PROJECT

from pipeline.privacy.accounting.composition import advanced_composition, basic_epsilon, moments_epsilon
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.budget import noise_for
from pipeline.privacy.noise.exponential import Exponential
from spinewise.collect import OptimisedUnaryEncoding, RandomisedResponse, Rappor

ONE, HALF, DELTA = Fraction(1), Fraction(1, 2), Fraction(1, 100)
E, Q = math.e, math.exp(-1)
RHO_OF_PERSONS = Fraction(293_764, 114_921)  # of the 2020 redistricting data, United States
OF_RAPPOR = Rappor(bits=32, hashes=2, cohorts=4, f=HALF, p=HALF, q=Fraction(3, 4))

#: What was asked for, the program's number, and the textbook's.
NUMBERS: dict[str, tuple[SupportsFloat | None, float]] = {
    "Laplace: b = 1 / epsilon": (noise_for("pure", HALF, ONE, ONE, "add-remove").scale, 2),
    "Laplace: epsilon = 1 / b": (DiscreteLaplace(Fraction(2)).epsilon(1), 1 / 2),
    "Laplace: variance": (DiscreteLaplace(ONE).noise.variance, 2 * Q / (1 - Q) ** 2),
    "Gaussian: sigma^2 = 1 / (2 rho)": (noise_for("zcdp", HALF, ONE, ONE, "add-remove").scale, 1),
    "Gaussian: rho = 1 / (2 sigma^2)": (DiscreteGaussian(Fraction(4)).rho(1), 1 / 8),
    "exponential mechanism: odds exp(epsilon / 2) a loss": (Exponential(ONE).probabilities([0, 2])[0], E / (E + 1)),
    "sequential composition": (basic_epsilon([HALF] * 3, DELTA), 3 * zcdp_epsilon(HALF, DELTA / 3)),
    "advanced composition": (
        advanced_composition([0.1] * 1000, DELTA),
        1000 * 0.1 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1) + math.sqrt(2 * math.log(100) * 1000 * 0.1**2),
    ),
    "moments (Renyi)": (
        moments_epsilon(HALF, DELTA),
        min(order * 0.5 + math.log(100) / (order - 1) for order in (1 + k / 1000 for k in range(1, 10_000))),
    ),
    "privacy loss distributions: delta = (1 - exp(epsilon - 1)) / (1 + q)": (
        pld_epsilon([(DiscreteLaplace(ONE), 1)], DELTA),
        1 + math.log(1 - float(DELTA) * (1 + Q)),
    ),
    "randomised response": (RandomisedResponse.for_epsilon(ONE).p, E / (E + 1)),
    "unary encoding": (OptimisedUnaryEncoding.for_epsilon(10, ONE).q, 1 / (E + 1)),
    "RAPPOR: ((1 - f/2) / (f/2))^(2h) for ever": (OF_RAPPOR.for_ever.ratio if OF_RAPPOR.for_ever else None, 3**4),
    "RAPPOR: one report": (OF_RAPPOR.bound.ratio, (11 / 16 * (1 - 9 / 16) / (9 / 16 * (1 - 11 / 16))) ** 2),
    "Census of 2020: its epsilon": (round(zcdp_epsilon(RHO_OF_PERSONS, Fraction(1, 10**10)), 2), 17.14),
}  # fmt: skip
#: What no number of a few lines shows, and the tests that do.
SHOWN = {
    "RAPPOR of listed words": (
        "features/local/test_collected.py::test_totals_are_least_squares_and_add_up",
        "features/local/test_collected.py::test_intervals_hold_the_truth_and_the_rest_has_wider_ones",
    ),
    "parallel composition": (
        "pipeline/privacy/accounting/test_enumerated.py::test_one_person_costs_what_the_joint_statement_says",
    ),
    "questions under a budget, as PINQ's": (
        "features/questions/test_answering.py::test_an_answer_is_charged_once_and_again_for_nothing",
        "features/questions/test_answering.py::test_what_the_budget_does_not_allow_is_refused_with_status_3",
    ),
    "post-processing": ("pipeline/runs/test_rerun.py::test_a_release_verifies_without_anything_restricted",),
    "the Census system: from the top down, with zCDP budgets": (
        "postprocess/downward/test_level.py::test_every_constraint_is_kept",
        "pipeline/privacy/accounting/test_statements.py::test_the_certificates_of_2020_for_persons",
        "matrix/test_made.py::test_it_holds_what_is_stored",
    ),
    "synthetic records": (
        "pipeline/release/test_written.py::test_a_histogram_lists_the_nonzero_cells_and_microdata_each_person",
        "matrix/test_made.py::test_who_judges_it_finds_nothing",
    ),
    "releases over time": (
        "features/years/test_design.py::test_independent_periods_are_so_many_releases",
        "features/years/test_releases.py::test_counts_are_unbiased_with_the_stated_variance",
    ),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_it_has_the_number_of_the_textbook(what: str) -> None:
    found, textbook = NUMBERS[what]
    assert found is not None
    assert float(found) == pytest.approx(textbook, rel=1e-3 if "loss dist" in what else 1e-6)


@pytest.mark.parametrize("what", SHOWN)
def test_a_test_shows_it(what: str) -> None:
    for node in SHOWN[what]:
        path, _, name = node.partition("::")
        tree = ast.parse((PROJECT / "tests" / path).read_text("utf-8"))
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, node
