"""Schemas, queries and strategies: cells in order, answers as counted one by one; and the order of universes."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.estimation.constraints import sparse_answers
from pipeline.model.exact import epsilon_text, parse_exact, parse_shares
from pipeline.model.link import Link, counted_by, released_in_order
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Recode, Schema
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Universe

SCHEMA = Schema(
    (Attribute("age", ("a0", "a1", "a2")), Attribute("sex", ("f", "m")), Attribute("race", ("r0", "r1", "r2", "r3"))),
    (
        Recode("grown", "age", (("yes", ("a1", "a2")), ("no", ("a0",)))),
        Recode("one", "race", (("r", ("r0", "r1", "r2", "r3")),)),
    ),
)
QUERIES = ["total", "detailed", "age", "sex * age", "grown", "grown * race", "one", "race", "sex * one * grown"]


def labels_of(query: Query, record: dict[str, str]) -> str:
    """The label of the answer that a record falls in, from the recodes' definition alone."""
    parts = []
    for term in query.terms:
        recode = SCHEMA.recode(term)
        if recode is None:
            parts.append(record[term])
        else:
            parts.append(next(label for label, values in recode.groups if record[recode.attribute] in values))
    return " * ".join(parts) or "total"


@given(st.lists(st.integers(0, SCHEMA.n_cells - 1), max_size=30), st.sampled_from(QUERIES))
@settings(max_examples=60, deadline=None)
def test_answers_count_the_records_by_label(cells: list[int], text: str) -> None:
    query = Query.parse(text, SCHEMA)
    records = [dict(zip(SCHEMA.names, label.split(" * "), strict=True)) for label in SCHEMA.cell_labels()]
    expected = Counter(labels_of(query, records[cell]) for cell in cells)
    histogram = sp.csr_array(np.bincount(cells, minlength=SCHEMA.n_cells).astype(np.int64)[None, :])
    answers = query.answer_csr(histogram)
    assert answers.shape == (1, query.size)
    assert {k: v for k, v in zip(query.answer_labels(), answers[0].tolist(), strict=True) if v} == expected


def test_sparse_answers_are_the_same_and_take_no_room_for_zeros() -> None:
    counts = np.random.default_rng(4).integers(0, 3, (5, SCHEMA.n_cells))
    for text in QUERIES:
        query = Query.parse(text, SCHEMA)
        found = sparse_answers(query, sp.csr_array(counts))
        assert found.toarray().tolist() == query.answer_csr(sp.csr_array(counts)).tolist()
        assert found.has_canonical_format
    wide = Schema((Attribute("age", tuple(f"a{n}" for n in range(1_000))), Attribute("sex", ("f", "m"))))
    filled = sp.csr_array(
        sp.coo_array((np.ones(20_000, dtype=np.int64), (np.arange(20_000), np.arange(20_000) % 2_000)))
    )
    tracemalloc.start()
    answers = sparse_answers(Query.parse("age", wide), filled)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answers.shape == (20_000, 1_000)
    assert peak < 10_000_000, "dense it is 160 MB"


AGE = Attribute("age", ("young", "middle", "old"))
SEX = Attribute("sex", ("f", "m"))


def test_the_fingerprint_is_of_the_cells_alone() -> None:
    plain = Schema((AGE, SEX)).fingerprint()
    recode = Recode("grown", "age", (("yes", ("middle", "old")), ("no", ("young",))))
    assert Schema((AGE, SEX), (recode,)).fingerprint() == plain
    assert Schema((SEX, AGE)).fingerprint() != plain
    assert Schema((AGE, Attribute("sex", ("m", "f")))).fingerprint() != plain


SMALL = Schema((Attribute("age", ("a", "b")), Attribute("sex", ("f", "m"))))


def measured(**shares: str) -> tuple[MeasuredQuery, ...]:
    return tuple(MeasuredQuery(Query.parse(text, SMALL), Fraction(share)) for text, share in shares.items())


def test_thirds_add_up_where_floats_would_not() -> None:
    levels = [LevelStrategy(name, Fraction(1, 49), measured(total="1/3", age="2/3")) for name in map(str, range(49))]
    assert Strategy(tuple(levels)).level("48").share == Fraction(1, 49)


def test_shares_of_levels_and_of_names_are_exact_and_each_is_there_once() -> None:
    half = LevelStrategy("a", Fraction(1, 2), measured(total="1"))
    with pytest.raises(SpecError, match=r"strategy\.levels: the shares add up to 1/2 \(a 1/2\)"):
        Strategy((half,))
    with pytest.raises(SpecError, match="level 'x' is not in the strategy; its levels are a"):
        Strategy((replace(half, share=Fraction(1)),)).level("x")
    assert parse_shares(["one=1/2", "b=.5"]) == {"one": Fraction(1, 2), "b": Fraction(1, 2)}
    for texts in (["a"], ["a=1", "a=2"]):
        with pytest.raises(ValueError, match="NAME=SHARE is needed"):
            parse_shares(texts)
    assert [epsilon_text(value) for value in (16.4802, 0.00321, math.inf)] == ["16.49", "0.0033", "infinity"]


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


def link(of: str, by: str, *, same_records: bool = False) -> Link:
    """A link of a kind that no release has."""
    return cast("Any", SimpleNamespace(of=of, by=by, same_records=same_records))


def universes(names: list[str]) -> list[Universe]:
    return cast("Any", [SimpleNamespace(name=name) for name in names])


def order(names: list[str], links: list[Link]) -> list[str]:
    return [universe.name for universe in released_in_order(universes(names), links)]


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[str], list[Link]]:
    """The release's own and companions; links that no universe waits for itself by."""
    names = ["", *draw(st.permutations("abcdef"))]
    rank = draw(st.permutations(names))
    pairs = [(later, earlier) for i, later in enumerate(rank) for earlier in rank[:i]]
    return names, [link(*pair) for pair in draw(st.lists(st.sampled_from(pairs), max_size=8))]


@given(releases())
def test_each_universe_comes_once_and_after_those_by_which_it_is_known(release: tuple[list[str], list[Link]]) -> None:
    names, links = release
    found = order(names, links)
    assert sorted(found) == sorted(names)
    for one in links:
        assert found.index(one.by) < found.index(one.of)


def test_sums_are_of_the_records_that_are_counted_and_households_of_their_own() -> None:
    links = [link("", "homes"), link("wages", "", same_records=True)]
    assert [counted_by(name, links) for name in ("", "homes", "wages", "beds")] == ["", "homes", "", "beds"]
