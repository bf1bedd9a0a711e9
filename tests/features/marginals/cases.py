"""Small releases of marginals: declared cliques, cliques chosen privately, and everything else that can be stated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matrix.case import KEY, Case, Command, Refusal, released, run_of, write_key
from releases.wide import (
    BINS,
    CHOICE,
    CLIQUES,
    ENDS,
    KNOWN,
    KNOWN_CLIQUES,
    LEVELS,
    VALUES,
    binned,
    counted,
    manifest_of,
    microdata_of,
    records,
    with_amounts,
    write_amounts,
    write_wide,
)
from scipy.stats import chi2

from auditor.ledger import read_ledger
from pipeline.reading.release import Release, open_release
from postprocess.arrays import IntArray

#: What each of these publishes exactly.
KNOWN_EXACT: Final = (
    *("county:tenure * rooms", "tract:tenure", "block:total", "county:tenure", "tract:tenure", "block:total"),
    *("county:total", "tract:total", "block:total") * 4,
    *("zeros",) * 4,
    *("inputs:schema",) * 6,
)
_KEYED: Final = run_of("release.toml", "out", "--key", f"file:{KEY}")


def _opened(rho: str, *exact: str) -> Command:
    allowed = (word for one in exact for word in ("--exact", one))
    return ("ledger", "open", "people", "--rho", rho, "--population", "made up", *allowed)


def _keyed(folder: Path, *changes: tuple[str, str]) -> None:
    write_amounts(folder, *changes)
    write_key(folder)


@cache
def _opened_release(root: Path) -> Release:
    return open_release(root)


def measured(root: Path, first: Sequence[str], clique: Sequence[str], level: str) -> tuple[IntArray, set[float]]:
    """Noisy numbers `(areas, cells)` and their variances; `first` is the clique of the release's own universe."""
    folder = root / "public" if clique == first else root / "public" / "companions" / "-".join(clique)
    table = pq.read_table(folder / "measurements" / level / f"{'.'.join(clique)}.parquet")
    return np.stack(table["value"].to_pylist()), {round(one, 9) for one in table["variance"].to_pylist()}


def _has_the_records_that_it_publishes(root: Path, cliques: Sequence[Sequence[str]]) -> None:
    """So areas add up, and cliques agree on what they share: all are counts of the same records."""
    microdata, release = microdata_of(root), _opened_release(root)
    for clique, level in product(cliques, LEVELS):
        expected = counted(microdata, clique, level)
        shown = release.query(" * ".join(clique)).at(level)
        np.testing.assert_array_equal(shown[list(expected.columns)], expected)


def _intervals(root: Path, truth: pd.DataFrame, clique: Sequence[str], level: str) -> Sequence[IntArray]:
    """Low ends, high ends, counts and true counts of a table, cell by cell."""
    shown, true = _opened_release(root).query(" * ".join(clique)).at(level), counted(truth, clique, level)
    ends = ([f"{column}:{end}90" for column in true.columns] for end in ("low", "high"))
    columns = (*(shown[names].to_numpy() for names in ends), shown[list(true.columns)].to_numpy(), true.to_numpy())
    return [one.ravel() for one in columns]


def _declared(folder: Path) -> None:
    """Each of four cliques has rho 3/4, blocks half of it; change-one: sigma^2 = 2 / (2 rho)."""
    root, truth = folder / "out" / "wide", records()
    _has_the_records_that_it_publishes(root, CLIQUES)
    found = [_intervals(root, truth, clique, level) for clique, level in product(CLIQUES, LEVELS)]
    low, high, shown, true = (np.concatenate([one[part] for one in found]) for part in range(4))
    assert len(true) == 18 * (32 + 12 + 12 + 10)
    assert ((low <= true) & (true <= high)).mean() > 0.88
    assert (np.abs(true - (low + high) / 2) <= (high - low) / 6).mean() < 0.88, "a third of the width does not do"
    assert 0 < np.abs(shown - true).mean() < 1.5
    noise = []
    for clique in CLIQUES:
        numbers, variances = measured(root, CLIQUES[0], clique, "block")
        assert variances == {round(8 / 3, 9)}
        noise.append((numbers - counted(truth, clique, "block").to_numpy()).ravel())
    drawn = np.concatenate(noise)
    assert abs(drawn.mean()) < 4 * (8 / 3 / len(drawn)) ** 0.5
    assert 0.8 < drawn.var() / (8 / 3) < 1.2
    assert not 0.8 < drawn.var() / (4 * 8 / 3) < 1.2, "what each clique would have, were its budget a quarter"
    manifest = manifest_of(root)
    assert [Fraction(one["budget"]) for one in manifest["privacy"]] == [Fraction(3, 4)] * 4
    assert spent_on_noise(manifest) == Fraction(manifest["joint"]["budget"]) == 3


def spent_on_noise(manifest: dict[str, Any]) -> Fraction:
    """Rho of a Gaussian of variance v on a table of which one record changes two numbers by one is 1 / v."""
    return sum((1 / Fraction(one["scales"][0]) for one in manifest["draws"]), Fraction(0))


def _chosen(folder: Path) -> None:
    """Each attribute and choice is charged, all together what is declared; what depends was chosen."""
    root = folder / "out" / "wide"
    manifest = manifest_of(root)
    stated = manifest["spec"]["marginals"]
    _, events = read_ledger(str(folder / "ledger.sqlite"))
    charges = [event["query"] for event in events if event["kind"] == "charge"]
    assert charges[: len(VALUES) + 11] == [
        *(f"attribute {name}" for name in VALUES),
        *(f"pair {number} of 11" for number in range(1, 12)),
    ]
    assert [one["cost"] for one in manifest["receipts"]] == [manifest["joint"]["budget"]] == ["3"]
    assert stated["chosen"]["hash"] == events[stated["chosen"]["number"] - 1]["hash"]
    pairs = {frozenset(clique) for clique in stated["cliques"]}
    assert len(stated["cliques"]) == len(pairs) == 11
    strong = (("age", "school"), ("school", "work"), ("work", "car"), ("work", "wages"), ("wages", "hours"))
    assert {frozenset(pair) for pair in strong} <= pairs
    assert not (root / "public" / "microdata.parquet").exists()


def never(row: dict[str, str]) -> bool:
    """Whether the zeros of `KNOWN` leave no record with these values."""
    return (
        row.get("school") == "third"
        or (row.get("work"), row.get("car")) == ("no", "yes")
        or (row.get("age") in ("middle", "old") and row.get("school") == "none")
        or (row.get("work") == "no" and row.get("wages", "0..0") != "0..0")
    )


def _known(folder: Path) -> None:
    root, truth = folder / "out" / "wide", binned(with_amounts())
    _has_the_records_that_it_publishes(root, KNOWN_CLIQUES)
    _exact_is_the_truth(root, truth)
    _impossible_is_empty(root)
    _parts_are_as_stated(root, truth)
    _drawn_numbers_are_inside_their_bins(microdata_of(root))
    manifest = manifest_of(root)
    (receipt,) = manifest["receipts"]
    assert Counter(one["what"] for one in receipt["exact"]) == Counter(KNOWN_EXACT)
    assert Fraction(manifest["joint"]["budget"]) == Fraction(receipt["cost"]) == 3
    # In the table of tenure and rooms nobody changes alone, in others they do: their age, and their work.
    records_of = {account["record"]["records"] for account in manifest["accounts"][1:]}
    assert (manifest["accounts"][0]["record"]["records"], records_of) == (2, {1})
    given = {one["name"] for one in manifest["provenance"] if one["source"] == "records" and one["accepted"]}
    assert given == {"schema", *(f"companions.{'-'.join(one)}.schema" for one in KNOWN_CLIQUES[1:])}


def _exact_is_the_truth(root: Path, truth: pd.DataFrame) -> None:
    """In every table that has it, without an interval; below, where there is noise, most intervals hold the truth."""
    for level, exact in (("county", ("tenure", "rooms")), ("tract", ("tenure",)), ("block", ())):
        for clique in KNOWN_CLIQUES:
            shared = [name for name in exact if name in clique]
            if shared:
                low, high, shown, true = _intervals(root, truth, shared, level)
                assert (np.stack([low, high, shown]) == true).all(), (level, clique)
        totals = _opened_release(root).query("total").at(level)["total"]
        expected = truth["block"].str[: LEVELS[level]].value_counts().reindex(totals.index, fill_value=0)
        assert (totals == expected).all()
    _, _, shown, true = _intervals(root, truth, ("tenure",), "block")
    assert (shown != true).any()
    found = [_intervals(root, truth, clique, "block") for clique in KNOWN_CLIQUES[1:]]
    low, high, _, true = (np.concatenate([one[part] for one in found]) for part in range(4))
    assert ((low <= true) & (true <= high)).mean() > 0.88
    assert (low == high).mean() < 0.5


def _impossible_is_empty(root: Path) -> None:
    """Where noise would have put somebody."""
    rows = microdata_of(root).astype(str)
    assert len(rows) == 1500
    assert not any(never(dict(zip(rows.columns, row, strict=True))) for row in rows.to_numpy())
    noisy: list[int] = []
    for clique in KNOWN_CLIQUES[1:]:
        cells = [dict(zip(clique, one, strict=True)) for one in product(*(VALUES[name] for name in clique))]
        empty = np.array([never(cell) for cell in cells])
        shown = _opened_release(root).query(" * ".join(clique)).at("block")
        for label in (" * ".join(cell.values()) for cell in cells if never(cell)):
            assert not shown[[label, f"{label}:low90", f"{label}:high90"]].to_numpy().any()
        noisy += measured(root, KNOWN_CLIQUES[0], clique, "block")[0][:, empty].ravel().tolist()
    assert len(noisy) == 11 * (2 + 3 + 3 + 12)
    assert np.mean(np.array(noisy) > 0) > 0.2


def _parts_are_as_stated(root: Path, truth: pd.DataFrame) -> None:
    """Of rho 3 a quarter at counties and tracts, half at blocks; sigma^2 = 2 / (2 rho)."""
    rooms, first = KNOWN_CLIQUES[0], KNOWN_CLIQUES[0]
    assert sorted(path.name for path in (root / "public" / "measurements").iterdir()) == ["county", "tract"]
    assert measured(root, first, rooms, "county")[1] == {round(7 / 2 / (3 / 4), 9)}
    assert measured(root, first, rooms, "tract")[1] == {round(6 / (3 / 4), 9)}
    noise = []
    for clique in KNOWN_CLIQUES[1:]:
        numbers, variances = measured(root, first, clique, "block")
        assert variances == {round(5 / (3 / 2), 9)}
        noise.append((numbers - counted(truth, clique, "block").to_numpy()).ravel())
    assert 0.8 < np.concatenate(noise).var() / (10 / 3) < 1.2
    assert spent_on_noise(manifest_of(root)) == 3
    # How unlike the blocks of a tract are in these is not known, but for the one block of B03.
    shown = _opened_release(root).query("tenure * rooms").at("block").filter(like=":low90")
    assert shown.notna().all(axis=1).tolist() == [False] * 10 + [True]


def _drawn_numbers_are_inside_their_bins(microdata: pd.DataFrame) -> None:
    """And stand beside them, as often in each tenth of a bin; always the lower end would be seen."""
    assert set(microdata.columns) == {"geocode", *VALUES, "wages_drawn", "hours_drawn"}
    drawn = pd.DataFrame({name: microdata[f"{name}_drawn"] for name in BINS})
    assert (drawn.dtypes == np.int64).all()
    assert (binned(drawn) == microdata[list(BINS)].astype(str)).all(axis=None)
    lower = {text: first for name, ends in ENDS.items() for text, (first, _) in zip(BINS[name], ends, strict=True)}
    low = pd.DataFrame({name: microdata[name].astype(str).map(lower) for name in BINS})
    assert _as_often_in_each_tenth(drawn) > 1e-4
    assert _as_often_in_each_tenth(low) < 1e-12


def _as_often_in_each_tenth(numbers: pd.DataFrame) -> float:
    """The p-value of it, of the bins that have tenths."""
    tenths = []
    for name, ends in ENDS.items():
        for first, last in ends:
            size = last - first + 1
            if size % 10 == 0 or size > 1000:
                inside = numbers[name][(first <= numbers[name]) & (numbers[name] <= last)].to_numpy()
                tenths.append((inside - first) * 10 // size)
    counts = np.bincount(np.concatenate(tenths), minlength=10)
    return float(chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 9))


#: Two attributes have labels.
LABELS: Final = (
    "[marginals]",
    '[schema.labels.attributes]\nage = "Age <group>"\nrooms = "Number of rooms"\n\n[marginals]',
)

DECLARED_CASE: Final = released(
    "marginals", lambda folder: write_wide(folder, LABELS), "release.toml", "wide", expect=_declared, full=True
)
CHOSEN_CASE: Final = Case(
    "cliques", lambda folder: _keyed(folder, *CHOICE), (_opened("3"), _KEYED), ("out/wide",), _chosen, charged=True
)
KNOWN_CASE: Final = Case(
    "cliques_known",
    lambda folder: _keyed(folder, *KNOWN),
    (_opened("4", *KNOWN_EXACT), _KEYED),
    ("out/wide",),
    _known,
    charged=True,
)
CASES: Final[Sequence[Case]] = (DECLARED_CASE, CHOSEN_CASE, KNOWN_CASE)
REFUSALS: Final[Sequence[Refusal]] = (
    Refusal("cliques_known", ('accept = ["schema"]', ""), ("give away: schema (from the records)",)),
    Refusal(
        "cliques_known",
        ('["tenure", "rooms"]', '["tenure", "room"]'),
        ("marginals.cliques", "'room'", "the schema has age"),
    ),
)
