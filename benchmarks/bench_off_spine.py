"""Errors of areas off the spine, with the block groups of the list, with regrouped units, and with bypassing.

    python benchmarks/bench_off_spine.py [--json PATH] [--keys 3]

Rhode Island 2010 (../shared/data beside the project; without it says so and ends). The areas are made up, as towns and
reservations are: runs of neighbouring blocks that begin and end anywhere in a block group. Errors are means over areas
and keys of the absolute error in persons: of the total, and summed over the 8 race groups.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parent.parent
DATA = PROJECT.parent / "shared" / "data"
LEVELS = "levels = { state = 2, county = 5, tract = 11, block_group = 12, block = 15 }"
SETTINGS = {
    "listed": "",
    "listed, bypass": "bypass = true",
    "regrouped": 'regroup = { file = "AREAS" }',
    "regrouped, bypass": 'regroup = { file = "AREAS" }\nbypass = true',
    "regrouped, keep = false": 'regroup = { file = "AREAS", keep = false }',
}
#: Kind -> how many areas, and their least and largest number of blocks.
AREAS = {"place": (60, 40, 600), "reservation": (20, 8, 60)}


def made_up_areas(blocks: np.ndarray) -> pd.DataFrame:
    """One row an area and block."""
    rng = np.random.default_rng(2010)
    rows = []
    for kind, (number, least, most) in AREAS.items():
        for code in range(number):
            size = int(np.exp(rng.uniform(np.log(least), np.log(most))))
            first = int(rng.integers(0, len(blocks) - size))
            rows += [(kind, f"{code:03d}", block) for block in blocks[first : first + size]]
    return pd.DataFrame(rows, columns=["kind", "code", "geocode"])


def errors(setting: str, key: int, areas: pd.DataFrame, folder: Path) -> dict[str, float]:
    """Mean errors of one release."""
    from pipeline.execution.progress import Silent
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.request import Request, check_request
    from pipeline.runs.run import run_release

    areas.to_parquet(folder / "areas.parquet")
    text = (PROJECT / "examples" / "rhode_island.toml").read_text(encoding="utf-8")
    text = text.replace("../../shared/data", str(DATA)).replace('"insecure-test:1"', f'"insecure-test:{key}"')
    text = text.replace("rhode_island_names.csv", str(PROJECT / "examples" / "rhode_island_names.csv"))
    text = text.replace(LEVELS, f"{LEVELS}\n{SETTINGS[setting].replace('AREAS', str(folder / 'areas.parquet'))}")
    (folder / "release.toml").write_text(f"{text}\n[publish]\nmargins = false\nmicrodata = false\n", encoding="utf-8")
    root = run_release(check_request(Request(folder / "release.toml", folder, None, 2)), Silent())
    directory = RunDirectory(root)
    race = f"{directory.main.table('race', 'block')}"
    released = pd.read_parquet(race).set_index("geocode").sort_index()
    truth = pd.read_parquet(DATA / "ri_2010_blocks.parquet").set_index("block").sort_index()
    truth = truth[[f"pop_{name}" for name in released]].set_axis(released.columns, axis=1)
    difference = released - truth.loc[released.index]
    errors_by_kind = {}
    for kind, some in areas.groupby("kind"):
        by_area = difference.loc[some["geocode"]].groupby(some["code"].to_numpy()).sum()
        errors_by_kind[f"{kind} total"] = float(by_area.sum(axis=1).abs().mean())
        errors_by_kind[f"{kind} race"] = float(by_area.abs().sum(axis=1).mean())
    for level, length in (("tract", 11), ("block group as listed", 12), ("block", 15)):
        by_geounit = difference.groupby(difference.index.str[:length]).sum()
        errors_by_kind[f"{level} total"] = float(by_geounit.sum(axis=1).abs().mean())
        errors_by_kind[f"{level} race"] = float(by_geounit.abs().sum(axis=1).mean())
    return errors_by_kind


def distances(setting: str, areas: pd.DataFrame, folder: Path) -> dict[str, float]:
    """Units, and the mean off-spine distance of each kind of area."""
    from geography.off_spine import OffSpineAreas, off_spine_distances
    from geography.regroup import regroup
    from pipeline.inputs.geography import read_listed_spine
    from pipeline.spec.release_spec import parse_spec

    text = (PROJECT / "examples" / "rhode_island.toml").read_text(encoding="utf-8")
    listed = read_listed_spine(parse_spec(text.replace("../../shared/data", str(DATA)), folder=folder).geography)
    off_spine = OffSpineAreas.of(listed, *(areas[name].to_numpy(dtype=str) for name in ("kind", "code", "geocode")))
    spine = listed if "regroup" not in setting else regroup(listed, off_spine, 100, keep="false" not in setting)
    off = off_spine_distances(spine, off_spine.moved(listed, spine))
    kinds = {f"{kind} distance": float(off[off_spine.kinds == kind].mean()) for kind in np.unique(off_spine.kinds)}
    return {"units": len(spine.levels[-2]), **kinds}


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--keys", type=int, default=3, help="runs of each setting")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"{DATA} is not there: this benchmark needs real census data")
        return
    blocks = np.sort(pd.read_parquet(DATA / "ri_2010_blocks.parquet")["block"].to_numpy(dtype=str))
    areas = made_up_areas(blocks)
    figures: dict[str, dict[str, float]] = {}
    for setting in SETTINGS:
        runs = []
        for key in range(1, options.keys + 1):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(errors(setting, key, areas, Path(folder)))
                figures[setting] = distances(setting, areas, Path(folder))
        figures[setting] |= {
            name: float(np.mean([figures_of_run[name] for figures_of_run in runs])) for name in runs[0]
        }
        print(f"{setting} done", file=sys.stderr)
    print(pd.DataFrame(figures).round(2).to_string())
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
