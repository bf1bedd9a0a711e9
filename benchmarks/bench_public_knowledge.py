"""What public housing units do for the totals of small areas.

    python benchmarks/bench_public_knowledge.py [--part blocks|block_groups] [--keys 10] [--rho 1/1000] [--state 44]
        [--json PATH]

The same measurements are estimated without shares, and with housing units as public shares (`[postprocess.shares]`).
Beside them: shares alone, with no budget at the lowest level; a variance that is known (from the truth, which no
release can know); and level by level the noise of OpenDP, where it is installed, at the same budgets: totals are
multiplied so that they add up to those of the level above. An unrelated public number (units of other areas) shows what
it costs to be wrong.

blocks: Rhode Island 2010, 25,181 blocks, 42 persons a block. block_groups: a state of 2000.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.allocation import allocations
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Gaps, estimated

Numbers = NDArray[np.float64]
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

SPEC = """
name = "release"
[privacy]
rho = "{rho}"
key = "insecure-test:{key}"
[geography]
file = "areas.parquet"
column = "geocode"
levels = {levels}
[schema.attributes]
any = ["person"]
[strategy.queries]
total = "1"
[strategy.levels]
{strategy}
[invariants]
state = ["total"]
[input]
file = "areas.parquet"
form = "wide"
geocode = "geocode"
cells = [ {{ counts = "pop", any = "person" }} ]
[publish]
margins = {margins}
replicates = 8
microdata = false
[postprocess.shares.housing]
file = "areas.parquet"
level = "{leaf}"
column = "{column}"
use = {use}
"""
#: Prefix lengths of the levels, and the budget's shares.
LEVELS = {
    "blocks": {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15},
    "block_groups": {"state": 2, "county": 5, "tract": 11, "block_group": 12},
}


def areas_of(part: str, state: str) -> pa.Table:
    """Geocode, persons, housing units, and the units of another area, drawn."""
    if part == "blocks":
        persons = pq.read_table(SHARED / "ri_2010_blocks.parquet").to_pandas()
        persons["pop"] = persons[[name for name in persons if name.startswith("pop_")]].sum(axis=1)
        units = pq.read_table(SHARED / "ri_pl94_units.parquet").to_pandas().set_index("block")
        column = next(name for name in units if "unit" in name)
        frame = persons[["block", "pop"]].assign(units=units[column].reindex(persons["block"]).to_numpy())
        frame = frame.rename(columns={"block": "geocode"})
    else:
        frame = pq.read_table(
            SHARED / "us_2000_block_groups.parquet", columns=["block_group", "pop", "units"]
        ).to_pandas()
        frame = frame[frame["block_group"].str.startswith(state)].rename(columns={"block_group": "geocode"})
    rng = np.random.default_rng(0)
    return pa.Table.from_pandas(
        frame.assign(unrelated=rng.permutation(frame["units"].to_numpy())), preserve_index=False
    )


def spec_of(part: str, folder: Path, key: int, rho: Fraction, **changes: Any) -> ReleaseSpec:
    """The spec of one run."""
    levels = LEVELS[part]
    leaf = list(levels)[-1]
    weights = dict.fromkeys(levels, Fraction(1, len(levels)))
    if changes.get("nothing_at_leaves"):
        weights = {name: Fraction(0) if name == leaf else Fraction(1, len(levels) - 1) for name in levels}
    text = SPEC.format(
        rho=rho,
        key=key,
        levels="{ " + ", ".join(f"{name} = {length}" for name, length in levels.items()) + " }",
        strategy="\n".join(f'{name} = "{weight}"' for name, weight in weights.items()),
        leaf=leaf,
        column=changes.get("column", "units"),
        use=str(changes.get("use", True)).lower(),
        margins=str(changes.get("margins", False)).lower(),
    )
    return parse_spec(text, "spec", folder)


def released(spec: ReleaseSpec, spine: Spine, *, margins: bool = False) -> list[NDArray[np.float64]]:
    """Per level, the released totals `(n, 1)`, and with margins the ends of their intervals `(n, 3)`."""
    with tempfile.TemporaryDirectory() as out:
        root = run_release(check_stated(Request(Path("spec"), Path(out), None, 1, i_know=True), spec), Silent())
        found = []
        for level in spine.level_names:
            path = root / "public" / "tables" / "total" / f"{level}.parquet"
            if not path.exists():
                path = root / "public" / "histograms" / f"{level}.parquet"
            table = pq.read_table(path).to_pandas().set_index("geocode").reindex(spine.level(level).geocodes)
            columns = ["total", "total:low90", "total:high90"] if margins else [table.columns[-1]]
            if "total" in table and not margins:
                columns = ["total"]
            found.append(table[columns].fillna(0).to_numpy(dtype=np.float64))
    return found


def known_spreads(truth: list[Numbers], spine: Spine) -> Any:
    """Shares whose spread is fitted to the true counts, as no release can."""

    def fitted(self: Shared, values: Numbers, variances: Numbers, parents: NDArray[np.int64]) -> Shared:
        del variances
        (level,) = (number for number, own in enumerate(spine.levels) if len(own) == len(values))
        gaps = Gaps.of(truth[level], 0 * truth[level], self.shares[:, 0], self.numbers[:, 0], parents)
        return replace(self, spreads=(estimated(gaps),))

    return mock.patch.object(Shared, "with_spreads", fitted)


def opendp_and_ratio(spec: ReleaseSpec, spine: Spine, truth: list[Numbers]) -> list[Numbers] | None:
    """Totals with OpenDP's noise of the same budgets, from the top multiplied to add up; None where it is missing."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    (universe,) = spec.universes()
    out = [truth[0]]
    for number, allocation in enumerate(allocations(universe, spine)[1:], start=1):
        (measured,) = allocation.strategy.queries
        scale = float(allocation.noises(universe, measured)[0].variance) ** 0.5
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
        mechanism = dp.m.make_gaussian(*space, scale=scale)
        noisy = np.maximum(np.array(mechanism(truth[number].astype(int).tolist()), dtype=np.float64), 0.0)
        parents = spine.levels[number].parents
        total = np.bincount(parents, weights=noisy)
        sizes = np.bincount(parents)
        share = np.where(total[parents] > 0, noisy / np.where(total > 0, total, 1)[parents], 1 / sizes[parents])
        out.append(share * out[-1][parents])
    return out


def coverage(found: Numbers, true: Numbers, expected: Numbers, spread: Numbers) -> dict[str, dict[str, float]]:
    """The share of true totals in their 90 % intervals, by size, and by standard deviations from the public share."""
    inside = (found[:, 1] <= true) & (true <= found[:, 2])
    distance = np.abs(true - expected) / spread
    sizes = {"0-9": true < 10, "10-99": (true >= 10) & (true < 100), "100-999": (true >= 100) & (true < 1000)}
    by = {
        "size": sizes | {"1,000+": true >= 1000},
        "distance": {"< 1": distance < 1, "1-2": (distance >= 1) & (distance < 2), "2+": distance >= 2},
    }
    return {
        name: {key: float(inside[rows].mean()) for key, rows in classes.items() if rows.sum() > 30}
        for name, classes in ({"all": {"all": true >= 0}} | by).items()
    }


def model_of(truth: list[Numbers], units: Numbers, spine: Spine) -> tuple[Numbers, Numbers]:
    """Expected totals of the lowest level by the public shares of the true totals above, and their deviations."""
    parents = spine.levels[-1].parents
    one = Shared.of("units", None, np.zeros(1, dtype=np.int64), units[:, None], parents)  # type: ignore[arg-type]
    gaps = Gaps.of(truth[-1], 0 * truth[-1], one.shares[:, 0], units, parents)
    expected = np.nan_to_num(one.shares[:, 0]) * truth[-2][parents]
    return expected, np.sqrt(estimated(gaps).variances(expected, units))


def measured(part: str, state: str, keys: int, rho: Fraction, covered: int) -> dict[str, Any]:
    """The figures of all keys: per way and level the mean error in persons, and coverage with shares."""
    ways: Mapping[str, dict[str, Any]] = {
        "no shares": {"use": False},
        "shares": {},
        "shares, known spread": {},
        "shares, nothing measured there": {"nothing_at_leaves": True},
        "nothing measured there": {"nothing_at_leaves": True, "use": False},
        "unrelated shares": {"column": "unrelated"},
    }
    errors: dict[str, list[list[float]]] = {name: [] for name in (*ways, "OpenDP and ratios")}
    covering: dict[str, list[dict[str, dict[str, float]]]] = {"shares": [], "no shares": []}
    widths: dict[str, list[float]] = {"shares": [], "no shares": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        areas = areas_of(part, state)
        pq.write_table(areas, folder / "areas.parquet")
        spine = read_spine(spec_of(part, folder, 1, rho).geography)
        frame = areas.to_pandas().set_index("geocode").reindex(spine.leaf_level.geocodes)
        truth = [frame["pop"].to_numpy(dtype=np.float64)]
        for level in range(spine.n_levels - 1, 0, -1):
            truth.insert(0, np.bincount(spine.levels[level].parents, weights=truth[0]))
        expected, spread = model_of(truth, frame["units"].to_numpy(dtype=np.float64), spine)
        for key in range(1, keys + 1):
            for way, changes in ways.items():
                spec = spec_of(part, folder, key, rho, **changes)
                if way == "shares, known spread":
                    with known_spreads(truth, spine):
                        found = released(spec, spine)
                else:
                    found = released(spec, spine)
                errors[way].append(
                    [float(np.abs(one[:, 0] - true).mean()) for one, true in zip(found, truth, strict=True)]
                )
            baseline = opendp_and_ratio(spec_of(part, folder, key, rho), spine, truth)
            if baseline is not None:
                errors["OpenDP and ratios"].append(_mean_errors(baseline, truth))
            if key <= covered:
                for way, runs in covering.items():
                    spec = spec_of(part, folder, key, rho, margins=True, **ways[way])
                    with_margins = released(spec, spine, margins=True)
                    runs.append(coverage(with_margins[-1], truth[-1], expected, spread))
                    widths[way].append(float((with_margins[-1][:, 2] - with_margins[-1][:, 1] + 1.0).mean()))
    return {
        "levels": list(spine.level_names),
        "mean count": [float(true.mean()) for true in truth],
        "errors": {way: np.mean(runs, axis=0).tolist() for way, runs in errors.items() if runs},
        "coverage": {way: _means(runs) for way, runs in covering.items() if runs},
        "widths": {way: float(np.mean(runs)) for way, runs in widths.items() if runs},
    }


def _mean_errors(found: list[Numbers], truth: list[Numbers]) -> list[float]:
    return [float(np.abs(one - true).mean()) for one, true in zip(found, truth, strict=True)]


def _means(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The means over several runs."""
    return {
        kind: {key: float(np.mean([one[kind][key] for one in runs if key in one[kind]])) for key in runs[0][kind]}
        for kind in runs[0]
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(LEVELS), action="append")
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--covered", type=int, default=3, help="keys of which margins are simulated, too")
    parser.add_argument("--rho", type=Fraction, default=None)
    parser.add_argument("--state", default="44")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not (SHARED / "us_2000_block_groups.parquet").exists():
        print(f"{SHARED} has no real data; nothing is measured")
        return
    defaults = {"blocks": Fraction(1, 80), "block_groups": Fraction(1, 60000)}
    results = {}
    for part in options.part or LEVELS:
        results[part] = measured(part, options.state, options.keys, options.rho or defaults[part], options.covered)
        _print(part, results[part])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def _print(part: str, result: Mapping[str, Any]) -> None:
    print(f"\n{part}: mean error in persons of a total, by level (mean count)")
    heads = [f"{level} ({count:,.0f})" for level, count in zip(result["levels"], result["mean count"], strict=True)]
    print(" " * 32 + "".join(f"{head:>20}" for head in heads))
    for way, errors in result["errors"].items():
        print(f"{way:<32}" + "".join(f"{error:>20,.2f}" for error in errors))
    for way, kinds in result["coverage"].items():
        for kind, classes in kinds.items():
            shown = ", ".join(f"{key}: {100 * share:.1f} %" for key, share in classes.items())
            print(f"coverage with {way}, by {kind}: {shown}")
    for way, width in result["widths"].items():
        print(f"mean number of persons in an interval with {way}: {width:,.1f}")


if __name__ == "__main__":
    main()
