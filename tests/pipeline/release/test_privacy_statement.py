"""The statement of a guarantee is exact, rounded on the safe side, and says what is not protected."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Universe
from pipeline.release.privacy_statement import PrivacyStatement, decimal_text, privacy_statement

SCHEMA = Schema((Attribute("sex", ("m", "f")), Attribute("age", ("young", "old"))))
STRATEGY = Strategy(
    (
        LevelStrategy("state", Fraction(1, 5), (MeasuredQuery(Query.parse("total", SCHEMA), Fraction(1)),)),
        LevelStrategy("county", Fraction(0), ()),
        LevelStrategy(
            "tract",
            Fraction(4, 5),
            (
                MeasuredQuery(Query.parse("sex * age", SCHEMA), Fraction(1, 3)),
                MeasuredQuery(Query.parse("sex", SCHEMA), Fraction(2, 3)),
            ),
        ),
    )
)


def _statement(**changes: object) -> PrivacyStatement:
    universe = Universe(
        name="",
        schema=SCHEMA,
        strategy=STRATEGY,
        framework="zcdp",
        budget=Fraction("2.56"),
        delta=Fraction("1e-10"),
        neighbours="change-one",
        invariants=(("state", Query.parse("total", SCHEMA)),),
        structural_zeros=np.zeros(SCHEMA.n_cells, dtype=np.bool_),
        bounds=(),
        tables=(),
        passes=(),
        input=None,
    )
    return privacy_statement(replace(universe, **changes))  # type: ignore[arg-type]


def test_the_noise_is_stated_exactly() -> None:
    noise = {(line.level, line.query): line for line in _statement().noise}
    # sigma^2 = 2 / (2 rho share), with rho = 64/25: state 5/1 * 25/64, tract (4/15) and (8/15).
    assert {key: (line.scale, line.share) for key, line in noise.items()} == {
        ("state", "total"): ("125/64", "1/5"),
        ("tract", "sex * age"): ("375/256", "4/15"),
        ("tract", "sex"): ("375/512", "8/15"),
    }
    assert {line.mechanism for line in noise.values()} == {"discrete_gaussian"}
    assert noise["state", "total"].scale_decimal == "1.953125"
    pure = _statement(framework="pure", budget=Fraction(4), neighbours="add-remove")
    assert [(line.mechanism, line.scale) for line in pure.noise] == [
        ("discrete_laplace", "5/4"),
        ("discrete_laplace", "15/16"),
        ("discrete_laplace", "15/32"),
    ]


def test_the_budget_is_exact_and_the_statement_says_how_epsilon_follows() -> None:
    statement = _statement()
    assert "2004.00010" in statement.conversion
    assert (statement.budget, statement.budget_decimal, statement.delta) == ("64/25", "2.56", "1e-10")
    pure = _statement(framework="pure", budget=Fraction(542, 339))
    assert (pure.budget, pure.budget_decimal, pure.delta) == ("542/339", "1.598820059", "0")
    assert "pure differential privacy with epsilon = 1.599;" in pure.words


@given(value=st.fractions(min_value=0, max_value=10**9), digits=st.integers(3, 15))
def test_a_decimal_is_the_least_of_its_digits_that_is_not_below(value: Fraction, digits: int) -> None:
    text = decimal_text(value, digits)
    shown = Fraction(text)
    assert shown >= value
    assert shown - value < max(value, shown) * Fraction(10) ** (1 - digits) or shown == value
    if Decimal(value.numerator) / value.denominator == Fraction(text) and len(text) < digits:
        assert shown == value


def test_nothing_is_promised_where_no_two_inputs_are_compared() -> None:
    assert _statement(neighbours="add-remove").words.startswith("Nothing is promised")
    assert "by adding or removing one record. " in _statement(neighbours="add-remove", invariants=()).words
    assert "inputs differ by changing one record within the same state. " in _statement().words
    assert "invariants are published exactly and are not protected" in _statement().words
    assert "invariants" not in _statement(invariants=()).words
