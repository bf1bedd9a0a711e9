"""Small releases of amounts: sums within the clip of the released counts, means, and what is charged."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matrix.case import Case, Refusal, released
from releases.jobs import JOBS, jobs, write_jobs
from releases.wages import BALANCES, LABELS, OVER, detailed, true_units, write_wages

from pipeline.model.universe import Universe
from pipeline.reading.release import open_release
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.runs.finished import kept_inputs
from pipeline.spec.release_spec import load_spec

_LEVELS: Final = {"county": 1, "tract": 2, "block": 3}
_CELLS: Final = tuple(itertools.product("fm", ("none", "part", "full")))
_SIDES: Final = ("below", "within", "above")


def _counted(root: Path, universe: Universe) -> list[list[int]]:
    """What was counted or summed of each block, as restricted/ has it."""
    codes = detailed(root, "block").index.to_numpy(dtype=str)
    path = RunDirectory(root).universe(universe.name).true_histogram("block")
    found: list[list[int]] = (
        read_histogram(path, codes, universe.schema, signed=universe.measure.signed).toarray().tolist()
    )
    return found


def _within(root: Path, low: int, high: int) -> None:
    """Sums of areas add up to those above, and are sums of so many records between the ends, in units."""
    for above, below in (("county", "tract"), ("tract", "block")):
        added = detailed(root, below).groupby(lambda code, above=above: code[: _LEVELS[above]]).sum()
        assert (added.to_numpy() == detailed(root, above).to_numpy()).all()
    for level in _LEVELS:
        sums, counts = detailed(root, level), detailed(root, level, "")
        assert ((sums >= low * counts) & (sums <= high * counts)).all(axis=None)


def _means(root: Path, low: int, high: int) -> None:
    """They are sums by counts, in their intervals, which are within the ends."""
    for level in _LEVELS:
        found = open_release(root).companion("wages").means("detailed", level)
        sums, counts = detailed(root, level), detailed(root, level, "")
        for label in LABELS:
            total, n, mean = (found[f"{label}:{name}"].to_numpy(float) for name in ("sum", "count", "mean"))
            assert (total == 10 * sums[label]).all()
            assert (n == counts[label]).all()
            known = n > 0
            assert np.isnan(mean[~known]).all()
            np.testing.assert_allclose(mean[known], total[known] / n[known])
            lows, highs = (found[f"{label}:mean:{end}90"].to_numpy(float)[known] for end in ("low", "high"))
            inside = (low <= lows) & (lows <= mean[known]) & (mean[known] <= highs) & (highs <= high)
            assert inside.all()


def _noise(root: Path, reach: Mapping[str, tuple[int, int, Fraction]]) -> None:
    """A universe's records, as many as may change, each move two numbers by `reach`, for the budget: D = 2 reach^2."""
    manifest = json.loads((root / "public" / "manifest.json").read_text("utf-8"))
    spec = manifest["spec"]
    sections = {"": spec, **dict(spec["companions"])}
    assert {one["universe"] for one in manifest["draws"]} == set(reach) == set(sections)
    for draw in manifest["draws"]:
        records, far, budget = reach[draw["universe"]]
        level = dict(sections[draw["universe"]]["strategy"]["levels"])[draw["level"]]
        share = Fraction(level["share"]) * Fraction(dict(level["queries"])[draw["query"]])
        assert Fraction(draw["scales"][0]) == Fraction(2 * (records * far) ** 2) / (2 * share * budget), draw["query"]


def _wages(folder: Path) -> None:
    root, spec = folder / "out" / "wages", load_spec(folder / "wages.toml")
    _, over, wages = spec.universes()
    true = true_units(folder)
    codes = [str(code) for code in detailed(root, "block").index]
    assert _counted(root, wages) == [[true.get((code, *cell), 0) for cell in _CELLS] for code in codes]
    assert true["A30", "m", "full"] == 50, "900 units are clipped to 50"
    assert (true["A31", "f", "part"], true["A31", "f", "full"]) == (10, 11), "halves go up, what is below down"
    _within(root, 0, 50)
    _means(root, 0, 500)
    _noise(root, {"": (1, 1, Fraction(2)), "over": (1, 1, Fraction(1)), "wages": (1, 50, Fraction(2))})
    sides = sides_by_hand(folder)
    assert _counted(root, over) == [[sides[code, sex, side] for sex in "fm" for side in _SIDES] for code in codes]
    beyond = sum(n for (_, _, side), n in sides.items() if side == "above")
    table = pd.read_parquet(root / "public/companions/over/tables/clipped/county.parquet")
    assert beyond >= 5
    assert table["above:low90"][0] <= beyond <= table["above:high90"][0], "of a test key, whose noise is known"
    assert table["above:high90"][0] - table["above:low90"][0] < 20


def sides_by_hand(folder: Path) -> Counter[tuple[str, str, str]]:
    """Persons by block, sex and side of the clip, from the text of the file."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in (folder / "persons.csv").read_text("utf-8").splitlines()[1:]:
        block, sex, _, wage, _ = line.split(",")
        amount = Fraction(wage or "0")
        found[block, sex, "above" if amount > 500 else "below" if amount < 0 else "within"] += 1
    return found


def _balances(folder: Path) -> None:
    """Of gains and losses: of either sign, and what a record then costs."""
    root, spec = folder / "out" / "wages", load_spec(folder / "wages.toml")
    true = true_units(folder, "balance", -300, 400)
    codes = [str(code) for code in detailed(root, "block").index]
    by_hand = [[true.get((code, *cell), 0) for cell in _CELLS] for code in codes]
    assert _counted(root, spec.universes()[1]) == by_hand
    assert np.min(by_hand) < 0 < np.max(by_hand)
    _within(root, -30, 40)
    assert (detailed(root, "block") < 0).any(axis=None)
    _means(root, -300, 400)
    highs = open_release(root).companion("wages").means("detailed", "tract").filter(like=":mean:high90")
    assert (highs < 0).any(axis=None), "some mean is surely a loss"
    reach = 50
    assert 2 * (reach - 1) ** 2 < 70**2 <= 2 * reach**2, "one sum may move from loss to gain"
    _noise(root, {"": (1, 1, Fraction(2)), "wages": (1, reach, Fraction(2))})


def _jobs(folder: Path) -> None:
    """Of units with several records: noise for a total, or for so many records; what was left out stays there."""
    run = RunDirectory(folder / "out" / "jobs")
    _noise(run.root, {"": (JOBS, 1, Fraction(2)), "wages": (1, 50, Fraction(1)), "hours": (JOBS, 40, Fraction(1))})
    manifest = json.loads(run.manifest.read_text("utf-8"))
    assert Fraction(manifest["joint"]["budget"]) == 4
    said = "at most 2 records of the release itself, the total of wages, 2 records of hours,"
    assert said in manifest["joint"]["words"]
    for account in manifest["accounts"]:
        for statement in (*account["attributes"], *account["places"]):
            assert "(of a unit of whose records none is left out)" in statement["words"]
    kept = kept_inputs(run)
    assert (kept["wages"].unit, kept["wages"].at_most) == ("person", JOBS)
    above = [number for number in Counter(person for person, *_ in jobs()).values() if number > JOBS]
    left_out = f"privacy.unit: {sum(above) - JOBS * len(above)} records of {len(above)} units with more than {JOBS}"
    for told in (left_out, "units with more than the ends of a total were taken down"):
        assert told in run.warnings.read_text("utf-8")
    public = [path.read_text(errors="replace") for path in run.public.rglob("*") if path.is_file()]
    assert not any(told in text for text in public for told in (left_out, "were taken down"))


CASES: Final[Sequence[Case]] = (
    released("jobs", write_jobs, "jobs.toml", "jobs", expect=_jobs),
    released("wages", lambda folder: write_wages(folder, OVER), "wages.toml", "wages", expect=_wages, full=True),
    released("balances", lambda folder: write_wages(folder, *BALANCES), "wages.toml", "wages", expect=_balances),
)


def _no_amount(folder: Path) -> None:
    path = folder / "persons.csv"
    path.write_text(path.read_text("utf-8").replace(",9000.00,", ',"9,5",', 1), "utf-8")


REFUSALS: Final[Sequence[Refusal]] = (
    Refusal("wages", _no_amount, ("persons.csv", "'wage'")),
    Refusal(
        "balances",
        ('between = ["-300", "400"]', 'between = ["-300", "405"]'),
        ("companions.wages.between", "whole multiples of a unit"),
    ),
    Refusal(
        "balances",
        ('unit = "10"', 'unit = "10"\ninvariants = { county = ["total"] }'),
        ("companions.wages.invariants", "never published exactly"),
    ),
)
