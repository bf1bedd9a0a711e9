"""A strategy's shares are exact and add up to 1, at each level and over the levels; anything else cannot be made."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy

SCHEMA = Schema((Attribute("age", ("a", "b")), Attribute("sex", ("f", "m"))))


def measured(**shares: str) -> tuple[MeasuredQuery, ...]:
    return tuple(MeasuredQuery(Query.parse(text, SCHEMA), Fraction(share)) for text, share in shares.items())


def test_thirds_add_up_where_floats_would_not() -> None:
    levels = [LevelStrategy(name, Fraction(1, 49), measured(total="1/3", age="2/3")) for name in map(str, range(49))]
    assert Strategy(tuple(levels)).level("48").share == Fraction(1, 49)


def test_a_level_with_share_0_is_not_measured() -> None:
    strategy = Strategy((LevelStrategy("a", Fraction(0), ()), LevelStrategy("b", Fraction(1), measured(total="1"))))
    assert [level.is_measured for level in strategy.levels] == [False, True]


@pytest.mark.parametrize(
    ("share", "queries", "message"),
    [
        ("1/2", {"total": "1/2", "age": "3/5"}, "strategy.levels.x.queries: the shares add up to 11/10 (total 1/2, age 3/5); they must add up to 1"),  # noqa: E501
        ("2", {"total": "1"}, "strategy.levels.x.share: found 2; allowed is 0 to 1"),
        ("0", {"total": "1"}, "strategy.levels.x: has queries and the share 0; give it a share, or no queries"),
        ("1", {}, "strategy.levels.x: has the share 1 and no queries; give it queries, or the share 0"),
        ("1", {"total": "0"}, "strategy: the query 'total' has the share 0; it must be more than 0"),
    ],
)  # fmt: skip
def test_shares_that_do_not_fit_are_named(share: str, queries: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError) as error:
        LevelStrategy("x", Fraction(share), measured(**queries))
    assert str(error.value) == message


def test_the_same_query_twice_is_refused() -> None:
    twice = tuple(MeasuredQuery(Query.parse(text, SCHEMA), Fraction(1, 2)) for text in ("age * sex", "detailed"))
    with pytest.raises(SpecError, match=r"'age \* sex' and 'detailed' are the same query; measure it once"):
        LevelStrategy("x", Fraction(1), twice)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2.56", Fraction(64, 25)),
        ("542/339", Fraction(542, 339)),
        (".3", Fraction(3, 10)),
        ("3.", Fraction(3)),
        ("1e-10", Fraction(1, 10**10)),
        (" +1.5E2 ", Fraction(150)),
        ("-1/2", Fraction(-1, 2)),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_exact_numbers_are_read_exactly(text: str, number: Fraction) -> None:
    assert parse_exact(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", "1/2/3", "1.5/2", "1/0", "nan", "inf", "1_000", "1e9999", "9" * 41, "٣", "0x1", "1 / 2", "--1"]
)
def test_what_is_no_exact_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        parse_exact(text)
