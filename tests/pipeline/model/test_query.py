"""A query's answers are sums over the cells that share its groups; compared with counts over single records."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.estimation.released import sparse_answers
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Recode, Schema

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee", "here: 'agee' in the query 'agee' is not an attribute or recode; allowed are age, sex, race, grown, one, total, detailed, joined by *"),  # noqa: E501
        ("age * grown", "here: the query 'age * grown' names the attribute 'age' twice ('age' and 'grown'); once is allowed"),  # noqa: E501
        ("total * age", "here: 'total' in the query 'total * age' is not an attribute or recode"),
        ("age *", "here: '' in the query 'age *' is not an attribute or recode"),
    ],
)  # fmt: skip
def test_what_is_no_query_is_named(text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        Query.parse(text, SCHEMA, where="here")
    assert str(error.value).startswith(message)
