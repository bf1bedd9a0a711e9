"""Cells are numbered in C order over the attributes; a recode is a partition; what is neither is refused by name."""

from __future__ import annotations

import itertools

import pytest

from pipeline.errors import SpecError
from pipeline.model.schema import Attribute, Recode, Schema

AGE = Attribute("age", ("young", "middle", "old"))
SEX = Attribute("sex", ("f", "m"))


def test_cells_are_all_combinations_in_order() -> None:
    schema = Schema((AGE, SEX))
    expected = list(itertools.product(range(3), range(2)))
    assert [tuple(row) for row in schema.cell_codes().tolist()] == expected
    assert schema.cell_labels() == tuple(f"{AGE.values[a]} * {SEX.values[s]}" for a, s in expected)
    assert (schema.shape, schema.n_cells) == ((3, 2), 6)


def test_a_recode_maps_each_value_to_its_group() -> None:
    recode = Recode("grown", "age", (("yes", ("middle", "old")), ("no", ("young",))))
    assert Schema((AGE,), (recode,)).recode("grown") is recode
    assert recode.group_of_value(AGE).tolist() == [1, 0, 0]


def test_the_fingerprint_is_of_the_cells_alone() -> None:
    plain = Schema((AGE, SEX)).fingerprint()
    recode = Recode("grown", "age", (("yes", ("middle", "old")), ("no", ("young",))))
    assert Schema((AGE, SEX), (recode,)).fingerprint() == plain
    assert Schema((SEX, AGE)).fingerprint() != plain
    assert Schema((AGE, Attribute("sex", ("m", "f")))).fingerprint() != plain


@pytest.mark.parametrize(
    ("attributes", "recodes", "message"),
    [
        ([], [], "schema.attributes: none given; at least one attribute is needed"),
        ([AGE, AGE], [], "schema: the name 'age' is given to two attributes or recodes; names must differ"),
        ([Attribute("total", ("a",))], [], "schema: 'total' cannot name an attribute or recode"),
        ([Attribute("two words", ("a",))], [], "schema: 'two words' cannot name an attribute or recode"),
        ([AGE], [("g", "sex", {"a": ["f"]})], "schema.recodes.g: attribute 'sex' is not in the schema"),
        ([AGE], [("g", "age", {"a": ["young", "old"]})], "schema.recodes.g: the values 'middle' of attribute 'age'"),
        ([SEX], [("g", "sex", {"a": ["f", "x"]})], "schema.recodes.g: group 'a' names the value 'x', which attribute"),
        ([SEX], [("g", "sex", {"a": ["f"], "b": ["m", "f"]})], "schema.recodes.g: the value 'f' is in the groups 'a'"),
    ],
)
def test_what_is_no_schema_is_named(
    attributes: list[Attribute], recodes: list[tuple[str, str, dict[str, list[str]]]], message: str
) -> None:
    with pytest.raises(SpecError) as error:
        Schema(
            tuple(attributes),
            tuple(Recode(n, a, tuple((k, tuple(v)) for k, v in groups.items())) for n, a, groups in recodes),
        )
    assert str(error.value).startswith(message)
