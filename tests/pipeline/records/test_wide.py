"""The templates of the wide form: every cell is counted once, or the spec is refused."""

from __future__ import annotations

import pytest

from pipeline.errors import SpecError
from pipeline.model.schema import Attribute, Schema
from pipeline.records.wide import expand_cells

SCHEMA = Schema((Attribute("age", ("minor", "adult")), Attribute("race", ("white", "black", "asian"))))
BOTH = [{"counts": "vap_{race}", "age": "adult"}, {"counts": "pop_{race} - vap_{race}", "age": "minor"}]


def test_expansion() -> None:
    """Cells come in the schema's order, each with the signed columns of its entry."""
    cells = expand_cells(BOTH, SCHEMA)
    assert [cell.cell for cell in cells] == list(range(6))
    assert cells[1].text == "pop_black - vap_black"
    assert cells[1].terms == ((1, "pop_black"), (-1, "vap_black"))
    assert cells[5].terms == ((1, "vap_asian"),)


def test_all_attributes_in_one_template() -> None:
    """A column a cell needs one entry, and + adds columns."""
    cells = expand_cells([{"counts": "a_{race}_{age} + b_{race}_{age}"}], SCHEMA)
    assert cells[2].terms == ((1, "a_asian_minor"), (1, "b_asian_minor"))


def test_hyphens_and_blanks_in_names() -> None:
    """Only an operator with blanks on both sides is one: names may hold hyphens and blanks."""
    cells = expand_cells([{"counts": "non-hispanic {race} {age}  -  x-{age}{race}"}], SCHEMA)
    assert cells[0].terms == ((1, "non-hispanic white minor"), (-1, "x-minorwhite"))


def test_file_names_of_values() -> None:
    """Placeholders are filled with what the file calls a value: a name from `values`, or its number."""
    cells = expand_cells(BOTH, SCHEMA, values={"race": {"b": "black"}})
    assert [cell.terms[0][1] for cell in cells] == [
        "pop_white", "pop_b", "pop_asian", "vap_white", "vap_b", "vap_asian",
    ]  # fmt: skip
    assert expand_cells(BOTH, SCHEMA, coded=True)[5].terms == ((1, "vap_2"),)


def test_stated_empty_cells() -> None:
    """counts = "0" is the way to say that cells are always empty."""
    cells = expand_cells([{"counts": "vap_{race}", "age": "adult"}, {"counts": "0", "age": "minor"}], SCHEMA)
    assert [len(cell.terms) for cell in cells] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([], 'none given; the form "wide" needs at least one entry'),
        ([{"age": "adult"}], '[0]: "counts" is missing; it names the columns'),
        ([{"counts": "a", "sex": "f"}], "[0]: 'sex' is not an attribute; allowed are age, race, counts"),
        ([{"counts": "vap_{race}", "age": "18+"}], "[0]: age = '18+' is not a value of the attribute; allowed are"),
        ([{"counts": "vap_{rase}", "age": "adult"}], "[0]: {rase} in 'vap_{rase}' is not an attribute; allowed"),
        ([{"counts": "vap", "age": "adult"}], "[0]: attribute 'race' is neither given a value nor stands in 'vap'"),
        ([{"counts": "a_{race} - ", "age": "adult"}], '[0]: \'a_{race} - \' is not "a", "a + b" or "a - b" of columns'),
        ([{"counts": "p_{race} - v", "age": "minor"}], "[0]: attribute 'race' is neither given a value nor stands"),
        (BOTH[:1], "no entry counts the cell 'minor * white' and 2 more; each cell must be counted once"),
        ([*BOTH, {"counts": "x", "age": "adult", "race": "black"}], "[2]: 'x' counts the cell 'adult * black', which"),
    ],
)
def test_mistakes(entries: list[dict[str, str]], told: str) -> None:
    """Each mistake in the templates is told with its place and what is allowed."""
    with pytest.raises(SpecError) as caught:
        expand_cells(entries, SCHEMA)
    assert str(caught.value).startswith("input.cells")
    assert told in str(caught.value)


def test_two_names_of_one_value() -> None:
    """Two names that fill the same place would lose a column."""
    with pytest.raises(SpecError, match=r"input\.values\.race: 'b' and 'c' both stand for 'black'; .* one name"):
        expand_cells(BOTH, SCHEMA, values={"race": {"b": "black", "c": "black"}})
