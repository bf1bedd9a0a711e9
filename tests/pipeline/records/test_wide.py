"""The templates of the wide form: every cell is counted once, or the spec is refused."""

from __future__ import annotations

import pytest

from pipeline.errors import SpecError
from pipeline.model.schema import Attribute, Schema
from pipeline.records.wide import expand_cells

SCHEMA = Schema((Attribute("age", ("minor", "adult")), Attribute("race", ("white", "black", "asian"))))
BOTH = [
    {"counts": "vap_{race}", "age": "adult"},
    {"counts": "pop_{race} - vap_{race}", "age": "minor"},
]


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
    ("entries", "message"),
    [
        ([], 'input.cells: none given; the form "wide" needs at least one entry'),
        (
            [{"age": "adult"}],
            'input.cells[0]: "counts" is missing; it names the columns, such as counts = "pop_{race}"',
        ),
        ([{"counts": "a", "sex": "f"}], "input.cells[0]: 'sex' is not an attribute; allowed are age, race, counts"),
        (
            [{"counts": "vap_{race}", "age": "18+"}],
            "input.cells[0]: age = '18+' is not a value of the attribute; allowed are 'minor', 'adult'",
        ),
        (
            [{"counts": "vap_{rase}", "age": "adult"}],
            "input.cells[0]: {rase} in 'vap_{rase}' is not an attribute; allowed are age, race",
        ),
        (
            [{"counts": "vap", "age": "adult"}],
            "input.cells[0]: attribute 'race' is neither given a value nor stands in 'vap'; write race = \"white\" or "
            "{race}",
        ),
        (
            [{"counts": "a_{race} - ", "age": "adult"}],
            'input.cells[0]: \'a_{race} - \' is not "a", "a + b" or "a - b" of columns',
        ),
        (
            [{"counts": "pop_{race} - vap", "age": "minor"}],
            "input.cells[0]: attribute 'race' is neither given a value nor stands in 'vap'; write race = \"white\" or "
            "{race}",
        ),
        (
            BOTH[:1],
            "input.cells: no entry counts the cell 'minor * white' and 2 more; each cell must be counted once "
            '(counts = "0" where it is always empty)',
        ),
        (
            [*BOTH, {"counts": "x", "age": "adult", "race": "black"}],
            "input.cells[2]: 'x' counts the cell 'adult * black', which 'vap_black' counts already; each cell may be "
            "counted once",
        ),
    ],
)
def test_mistakes(entries: list[dict[str, str]], message: str) -> None:
    """Each mistake in the templates is told with its place and what is allowed."""
    with pytest.raises(SpecError) as caught:
        expand_cells(entries, SCHEMA)
    assert str(caught.value) == message


def test_two_names_of_one_value() -> None:
    """Two names that fill the same place would lose a column."""
    with pytest.raises(SpecError, match=r"input\.values\.race: 'b' and 'c' both stand for 'black'; .* one name"):
        expand_cells(BOTH, SCHEMA, values={"race": {"b": "black", "c": "black"}})
