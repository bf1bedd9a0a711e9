"""Companions of amounts: what a spec can state, and the sentence for what it cannot."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from releases.wages import write_wages

from pipeline.errors import RecordsError, SpecError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

_UNIT = 'unit = "10"\n'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('between = ["0", "500"]\n', "", "companions.wages.between: missing"),
        (_UNIT, "", "companions.wages.unit: missing"),
        ('amount = "wage"\n', "", "companions.wages.between: only for a companion of an amount"),
        ('["0", "500"]', '["0", "500.5"]', "both whole multiples of a unit"),
        ('["0", "500"]', '["0", "505"]', "both whole multiples of a unit"),
        ('["0", "500"]', '["500", "0"]', "the lower end must be below"),
        ('["0", "500"]', '["0", "x"]', "companions.wages.between"),
        ('["0", "500"]', '["0"]', "companions.wages.between: found a list of 1 entry; at least 2 are needed"),
        ('["0", "500"]', '["0", "1", "2"]', "found a list of 3 entries; at most 2 are allowed"),
        ('["0", "500"]', "[0]", 'write it in quotes, "0"'),
        (_UNIT, _UNIT + 'invariants = { county = ["total"] }\n', "sums of an amount are never published exactly"),
        (_UNIT, _UNIT + "structural_zeros = [ { sex = \"f\" } ]\n", "companions.wages.structural_zeros: not for"),
        (_UNIT, _UNIT + "structural_zeros = \"sex == f\"\n", "companions.wages.structural_zeros: not for"),
        (_UNIT, _UNIT + 'input = { file = "p.csv", form = "microdata", geocode = "b" }\n', "records are the release"),
        (_UNIT, _UNIT + "records_per_person = 2\n", "the records are the same"),
        ('"microdata", geocode', '"long", geocode', 'only for records of the form "microdata"'),
        ('{ rho = "2" }', '{ rho = "2", unit = "p", at_most = 3 }', "its units are the release's own; leave it out"),
        (_UNIT, _UNIT + 'ends = "total"\n', "companions.wages.ends: found 'total', and no units"),
        (_UNIT, _UNIT + 'ends = "unit"\n', "companions.wages.ends"),
        ('{ rho = "2" }', '{ rho = "2", dataset = "other" }', "privacy.dataset: found 'other', and 'none'"),
        ('{ sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q', '{ sex = ["m", "f"] }\nstrategy.q',
         "has other values of it"),
        ('{ sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q', '{ age = ["m", "f"] }\nstrategy.q',
         "has no such attribute"),
        ('sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q',
         'job = ["none", "part", "full"], sex = ["f", "m"] }\nstrategy.q', "in another order"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_key(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = write_wages(tmp_path, (old, new))
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert sentence in str(refused.value)


def test_a_spec_with_an_amount_resolves_to_the_same_from_its_public_form(tmp_path: Path) -> None:
    spec = load_spec(write_wages(tmp_path))
    again = ReleaseSpec.from_public_dict(spec.public_dict())
    own, wages = spec.universes()
    (amount,) = wages.measure.amounts
    assert (amount.first, amount.last, wages.reach, own.reach) == (0, 50, 50, 1)
    assert wages.unit_budget == Fraction(2) / 50**2
    assert [one.privacy_fingerprint() for one in again.universes()] == [
        own.privacy_fingerprint(),
        wages.privacy_fingerprint(),
    ]
    assert again.universes()[1].measure == wages.measure


def test_an_amount_may_be_below_0_where_the_release_counts_the_same_answers(tmp_path: Path) -> None:
    below = ('["0", "500"]', '["-300", "400"]')
    wages = load_spec(write_wages(tmp_path, below)).universes()[1]
    (amount,) = wages.measure.amounts
    assert (wages.measure.signed, amount.first, amount.last, wages.reach) == (
        True,
        -30,
        40,
        50,
    )
    head = ("publish = {", 'tables.some = { query = "sex", levels = ["tract"] }\npublish = {')
    with pytest.raises(SpecError) as refused:
        load_spec(write_wages(tmp_path, below, head)).universes()
    assert "companions.wages.tables.total: sums that may be below 0 have intervals only where" in str(refused.value)
    assert "companions.wages.tables.sex" in str(refused.value), "at county and block"
    load_spec(write_wages(tmp_path, head)).universes()
    load_spec(write_wages(tmp_path, below, head, ("replicates = 4", "margins = false"))).universes()


def test_the_noise_of_another_clip_unit_column_or_stand_in_is_other_noise(tmp_path: Path) -> None:
    """Two columns with equal sums would else have equal noise, which shows that they agree everywhere."""
    prints = {load_spec(write_wages(tmp_path, *changes)).universes()[1].privacy_fingerprint() for changes in (
        [], [('"500"', '"600"')], [(_UNIT, 'unit = "5"\n')], [('["0"', '["100"')],
        [('amount = "wage"', 'amount = "balance"')], [('missing = "0"\n', '')], [('missing = "0"', 'missing = "1"')],
    )}  # fmt: skip
    assert len(prints) == 7


def test_what_is_no_amount_is_refused_by_row_and_column_without_the_value(tmp_path: Path) -> None:
    universe = load_spec(path := write_wages(tmp_path, ('missing = "0"\n', ""))).universes()[1]
    spine = read_spine(load_spec(path).geography)
    for amount in ("many", "1,5", "0x10", "inf", "nan", "1e9999", "--3", ""):
        (tmp_path / "persons.csv").write_text(
            f'block,sex,job,wage\nA00,f,full,12.5\nA00,m,full,"{amount}"\n', encoding="utf-8"
        )
        with pytest.raises(RecordsError, match=r"(?s)row 2.*'wage'|'wage'.*row 2") as refused:
            tabulate(universe.require_input(), universe.schema, spine)
        for quoted in (f"'{amount or 'nothing'}'", f'"{amount or "nothing"}"'):
            assert quoted not in str(refused.value)


def test_amounts_are_read_exactly(tmp_path: Path) -> None:
    """As decimals: 4.999... rounds down however many nines there are, and halves go up."""
    spec = load_spec(write_wages(tmp_path))
    universe = spec.universes()[1]
    rows = {
        "4." + "9" * 30: 0,
        "5": 1,
        "5e0": 1,
        "-7": 0,
        "499.9": 50,
        "1e12": 50,
        "": 0,
        "14.99999999999999999999": 1,
        "-3e5": 0,
    }
    for amount, units in rows.items():
        (tmp_path / "persons.csv").write_text(f"block,sex,job,wage\nA00,f,full,{amount}\n", encoding="utf-8")
        assert tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).sum() == units, amount
