"""Amounts in records: bins of public ends, counted as any value; in the microdata, numbers drawn inside the bins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run
from releases.wide import AMOUNTS, ATTRIBUTES, BINS, SPEC, STATED, binned, with_amounts, write_amounts
from scipy.stats import chi2

from features.marginals.cliques import AttributeSizes
from features.marginals.records import WholeRecords, drawn_numbers
from features.marginals.section import Bins
from features.marginals.whole import Seed
from pipeline.errors import RefusedError, SpecError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec
from postprocess.arrays import IntArray

#: Changes of the spec.
WITH_AMOUNTS = (AMOUNTS, ("[strategy.levels]", f"{STATED}\n[strategy.levels]"))


# -- the spec ---------------------------------------------------------------------------------------------------------


def _spec() -> ReleaseSpec:
    text = SPEC
    for old, new in WITH_AMOUNTS:
        text = text.replace(old, new)
    return parse_spec(text, "wide.toml")


def test_an_amount_is_an_attribute_whose_values_are_its_bins() -> None:
    """As if attribute and ranges were stated by hand, so budget, noise and guarantee are those of any."""
    by_hand = SPEC.replace(*AMOUNTS).replace(
        'car = ["no", "yes"]\n',
        f'car = ["no", "yes"]\nwages = {json.dumps(BINS["wages"])}\nhours = {json.dumps(BINS["hours"])}\n',
    )
    for name, values in BINS.items():
        by_hand += f"\n[input.values.{name}]\n" + "\n".join(f'"{value}" = "{value}"' for value in values) + "\n"
    mine, theirs = _spec().universes(), parse_spec(by_hand, "wide.toml").universes()
    assert [one.privacy_fingerprint() for one in mine] == [one.privacy_fingerprint() for one in theirs]
    assert [one.input for one in mine] == [one.input for one in theirs]
    assert [one.name for one in mine[0].record_attributes] == [*ATTRIBUTES, "wages", "hours"]
    assert [one.name for one in mine[0].record_numbers] == ["wages_drawn", "hours_drawn"]
    assert theirs[0].record_numbers == () == mine[1].record_numbers
    assert Bins.of("wages", ["0 .. 0", " 1..9999"]).values == ("0..0", "1..9999")


def test_a_published_spec_has_the_bins_and_is_refused_with_others() -> None:
    content = _spec().public_dict()
    again = ReleaseSpec.from_public_dict(json.loads(json.dumps(content)))
    assert again.public_dict() == content
    assert again.universes()[0].record_numbers == _spec().universes()[0].record_numbers
    for name, bins in (("wages", ["0..0", "1..9"]), ("pay", BINS["wages"])):
        content["marginals"]["amounts"] = [[name, bins]]
        with pytest.raises(SpecError, match=rf"amounts.{name}: these bins are not the values of the attribute"):
            ReleaseSpec.from_public_dict(content)


# -- records ----------------------------------------------------------------------------------------------------------


def _wrong(column: str, wrong: Mapping[int, object]) -> pd.DataFrame:
    """The records with something else in some rows, numbered from 1."""
    table = with_amounts()
    found = [wrong.get(row, value) for row, value in enumerate(table[column], start=1)]
    return table.assign(**{column: pd.Series(found, dtype=object)})


def _write(folder: Path, table: pd.DataFrame, *changes: tuple[str, str]) -> Path:
    spec = write_amounts(folder, *WITH_AMOUNTS, *changes)
    table.to_csv(folder / "persons.csv", index=False)
    return spec


def test_numbers_outside_of_all_bins_and_missing_ones_are_refused_and_never_clipped(tmp_path: Path) -> None:
    table = _wrong("wages", {3: "", 7: 1_000_000, 12: -1, 13: "12.5", 40: "many"})
    with pytest.raises(RefusedError):
        run(_write(tmp_path / "in", table), tmp_path / "out")
    said = (tmp_path / "out/wide/restricted/refused.txt").read_text("utf-8")
    assert "a value outside the schema in 4 rows (rows 7, 12, 13, 40; lines 8, 13, 14, 41): found '1000000'" in said
    assert "column 'wages': a missing value in 1 row (row 3; line 4); allowed are '0..0', '1..9999'" in said
    assert not list((tmp_path / "out").rglob("measurements"))


@pytest.mark.parametrize("form", ["missing ones have a bin", "whole numbers with a point", "texts of bins"])
def test_numbers_are_counted_in_their_bins_whatever_their_form(tmp_path: Path, form: str) -> None:
    """Whole numbers as 12.0 are what a program with missing values writes."""
    table, meant = with_amounts(), with_amounts()
    stated: tuple[tuple[str, str], ...] = ()
    if form.startswith("missing"):
        table = _wrong("wages", {3: "", 9: 2_000_000})
        meant.loc[[2, 8], "wages"] = [0, 50_000]
        values = '[input.values.wages]\n"" = "0..0"\n"1000000..9999999" = "50000..999999"\n\n[publish]'
        stated = (("[publish]", values),)
    else:
        table = table.astype({"wages": float}) if form.startswith("whole") else binned(table)
    spec = load_spec(_write(tmp_path / "in", table, *stated))
    (of_both,) = (one for one in spec.universes() if one.schema.names == ("wages", "hours"))
    counts = tabulate(of_both.require_input(), of_both.schema, read_spine(spec.geography))
    expected = pd.crosstab(binned(meant)["wages"], binned(meant)["hours"])
    expected = expected.reindex(index=BINS["wages"], columns=BINS["hours"], fill_value=0)
    np.testing.assert_array_equal(counts.sum(axis=0).reshape(4, 3), expected)


# -- the draw by itself -----------------------------------------------------------------------------------------------

#: Bins with one number, few, many and more than a hash of 14 bits has.
DRAWN_BINS = Bins.of("a", ["-10..-1", "0..0", "1..7", "8..99999", "100000..999999999999999"])
SIZES = (10, 1, 7, 99992, 10**15 - 10**5)
N = 200_000


def _records(n_leaves: int = 400) -> WholeRecords:
    rng = np.random.default_rng(4)
    leaf = np.sort(rng.choice(n_leaves, N))
    return WholeRecords(leaf, np.stack([rng.choice(5, N), rng.choice(5, N)], axis=1))


DOMAIN = AttributeSizes(("a", "b"), (5, 5))
TWO = (DRAWN_BINS, Bins.of("b", DRAWN_BINS.values))


def _p_values(drawn: IntArray, people: WholeRecords) -> dict[str, float]:
    """Of several properties of what is drawn: chances, and independence of leaves, neighbours and amounts."""
    found: dict[str, float] = {}
    first = np.array([one.first for one in DRAWN_BINS.ranges])[people.values]
    size = np.array(SIZES)[people.values]
    place = (drawn - first) / size
    for value, n in ((0, 10), (2, 7)):
        counts = np.bincount((drawn - first)[:, 0][people.values[:, 0] == value], minlength=n)
        found[f"each of {n} numbers"] = float(chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), n - 1))
    for value in (3, 4):
        of_bin = people.values[:, 0] == value
        counts = np.bincount((place[of_bin, 0] * 64).astype(np.int64), minlength=64)
        found[f"64 parts of {SIZES[value]}"] = float(chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 63))
        last = drawn[of_bin, 0] % 50
        counts = np.bincount(last, minlength=50)
        found[f"remainders of {SIZES[value]}"] = float(
            chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 49)
        )
    wide = np.isin(people.values, (3, 4))

    def together(one: np.ndarray, other: np.ndarray) -> float:
        table = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])[0]
        expected = table.sum(1)[:, None] * table.sum(0) / table.sum()
        return float(chi2.sf((((table - expected) ** 2)[expected > 0] / expected[expected > 0]).sum(), 49))

    both = wide.all(axis=1)
    found["two amounts"] = together(place[both, 0], place[both, 1])
    next_one = wide[1:, 0] & wide[:-1, 0]
    found["neighbours"] = together(place[1:, 0][next_one], place[:-1, 0][next_one])
    starts = np.searchsorted(people.leaf, np.unique(people.leaf))
    rank = (np.arange(N) - starts[np.unique(people.leaf, return_inverse=True)[1]]) / 600
    found["place in the leaf"] = together(place[wide[:, 0], 0], np.minimum(rank[wide[:, 0]], 0.999))
    return found


@pytest.mark.parametrize("seed", [0, 2**62 + 3])
def test_every_number_of_a_bin_has_the_same_chance_whatever_else_a_record_has(seed: int) -> None:
    people = _records()
    drawn = drawn_numbers(people, TWO, DOMAIN, Seed(seed))
    first = np.array([one.first for one in DRAWN_BINS.ranges])[people.values]
    last = np.array([one.last for one in DRAWN_BINS.ranges])[people.values]
    assert ((first <= drawn) & (drawn <= last)).all()
    p_values = _p_values(drawn, people)
    assert min(p_values.values()) > 1e-5, p_values


def _lower_end(people: WholeRecords) -> IntArray:
    return np.array([one.first for one in DRAWN_BINS.ranges])[people.values]


def _few_bits(people: WholeRecords) -> IntArray:
    """Numbers of 14 bits, which are fewer than a wide bin has."""
    size = np.array(SIZES)[people.values]
    return _lower_end(people) + Seed(0).numbers(1, np.arange(N)[:, None], np.arange(2)) % size


def _same_for_both(people: WholeRecords) -> IntArray:
    hashed = Seed(0).bits(1, np.arange(N)[:, None])
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


def _by_place_alone(people: WholeRecords) -> IntArray:
    """The n-th record of every leaf has the same number."""
    place = np.arange(N) - np.searchsorted(people.leaf, people.leaf)
    hashed = Seed(0).bits(1, place[:, None], np.arange(2))
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (_lower_end, "each of 10 numbers"),
        (_few_bits, f"64 parts of {SIZES[3]}"),
        (_same_for_both, "two amounts"),
        (_by_place_alone, "place in the leaf"),
    ],
)
def test_faults_in_the_draw_would_be_seen(fault: Callable[[WholeRecords], IntArray], seen: str) -> None:
    people = _records()
    assert _p_values(fault(people), people)[seen] < 1e-9


def test_no_draw_depends_on_another_leaf() -> None:
    people = _records()
    whole = drawn_numbers(people, TWO, DOMAIN, Seed(5))
    part = people.leaf >= 100
    alone = drawn_numbers(WholeRecords(people.leaf[part], people.values[part]), TWO, DOMAIN, Seed(5))
    np.testing.assert_array_equal(whole[part], alone)
    assert (whole != drawn_numbers(people, TWO, DOMAIN, Seed(6))).mean() > 0.5
