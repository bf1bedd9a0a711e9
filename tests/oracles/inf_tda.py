"""Flows between the tracts of Rhode Island: a release by `spinewise import flows`, and InfTDA with the same budget.

The flows are the 406,052 jobs of LODES 2019, by tract of home and tract of work. InfTDA (PETS 2025) adds noise to the
pairs of areas of each level, and fits the pairs below a pair to it in the maximum norm; it is written once more here,
in 40 lines. Both have rho = 1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.imports.flows import FlowsRequest, import_flows
from pipeline.execution.progress import Silent
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LEVELS = {"state": 2, "county": 5, "district": 8, "tract": 11}
RHO = 1.0

Counts = NDArray[np.int64]


def import_jobs(out: Path, data: Path = DATA) -> Path:
    """Import the jobs; the path of the spec."""
    request = FlowsRequest(
        data / "ri_lodes_2019_flows.parquet",
        "home_block",
        "work_block",
        "jobs",
        LEVELS,
        areas=data / "ri_2010_blocks.parquet",
        geocode="block",
        attribute="work",
        counted="jobs",
        flows=406_052,
        name="flows",
    )
    return import_flows(request, out).spec


def true_flows(folder: Path) -> pd.DataFrame:
    """Jobs by tract of home (rows) and tract of work (columns), `(244, 244)`."""
    areas = pd.read_parquet(folder / "areas.parquet")["tract"]
    flows = pd.read_parquet(folder / "flows.parquet")
    wide = flows.pivot_table(index="tract", columns="work", values="count", fill_value=0)
    return wide.reindex(index=areas, columns=areas, fill_value=0).astype(np.int64)


def release(spec: Path, out: Path, key: int) -> Path:
    """Run the spec with a test key; the release's directory."""
    text = spec.read_text("utf-8").replace("[privacy]\n", f'[privacy]\nkey = "insecure-test:{key}"\n')
    keyed = spec.with_name(f"key{key}.toml")
    keyed.write_text(text, "utf-8")
    run_release(check_request(Request(keyed, out / str(key), data=None, workers=1)), Silent())
    return next((out / str(key)).iterdir())


def inf_tda(true: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Non-negative whole numbers whose sums are those of the level above, from the top down."""
    codes = list(true.index)
    released = np.array([[int(true.to_numpy().sum())]])
    above = [code[:2] for code in codes]
    sigma = np.sqrt((len(LEVELS) - 1) / RHO)  # one flow in another pair: L2 sensitivity sqrt(2) a level
    for length in list(LEVELS.values())[1:]:
        here = [code[:length] for code in codes]
        counts = _summed(true.to_numpy(), here, here)
        noisy = counts + np.rint(rng.normal(0, sigma, counts.shape)).astype(np.int64)
        names, parents = sorted(set(here)), sorted(set(above))
        parent = np.array([parents.index(name[: len(parents[0])]) for name in names])
        fitted = np.zeros_like(counts)
        for i, j in zip(*np.nonzero(released), strict=True):
            block = np.ix_(parent == i, parent == j)
            fitted[block] = _nearest(noisy[block].ravel(), int(released[i, j]), rng).reshape(noisy[block].shape)
        released, above = fitted, here
    return pd.DataFrame(released, index=codes, columns=codes)


def _summed(counts: Counts, rows: list[str], columns: list[str]) -> Counts:
    frame = pd.DataFrame(counts, index=rows, columns=columns)
    summed: Counts = frame.T.groupby(level=0).sum().T.groupby(level=0).sum().to_numpy()
    return summed


def _nearest(noisy: Counts, total: int, rng: np.random.Generator) -> Counts:
    """Whole numbers from 0 with the sum `total`, shifted from `noisy` by the same amount where they are positive."""
    low, high = int(noisy.min()) - total - 1, int(noisy.max()) + 1
    while high - low > 1:
        shift = (low + high) // 2
        low, high = (shift, high) if np.maximum(noisy - shift, 0).sum() > total else (low, shift)
    fitted = np.maximum(noisy - high, 0)
    more = np.flatnonzero(noisy - low > 0)  # those that would be one larger
    fitted[rng.permutation(more)[: total - int(fitted.sum())]] += 1
    return fitted


def errors(released: pd.DataFrame, true: pd.DataFrame) -> dict[str, float]:
    """Mean absolute errors of margins and pairs of areas, and the part of the released pairs that have no flow."""
    codes = list(true.index)
    a, b = released.loc[codes, codes].to_numpy(), true.to_numpy()
    figures = {"homes": np.abs(a.sum(1) - b.sum(1)).mean(), "workplaces": np.abs(a.sum(0) - b.sum(0)).mean()}
    for level in ("tract", "district", "county"):
        here = [code[: LEVELS[level]] for code in codes]
        figures[f"{level} pairs"] = np.abs(_summed(a, here, here) - _summed(b, here, here)).mean()
    figures["pairs that are not there"] = ((a > 0) & (b == 0)).sum() / (a > 0).sum()
    return {name: float(value) for name, value in figures.items()}


def coverage(table: pd.DataFrame, true: pd.DataFrame) -> dict[str, float]:
    """How often the 90 % intervals of tract pairs hold, by true size."""
    low, high = (table[[f"{code}:{end}90" for code in true.columns]].to_numpy() for end in ("low", "high"))
    counts = true.to_numpy()
    held = (low <= counts) & (counts <= high)
    classes = {"0": (0, 0), "1-4": (1, 4), "5-9": (5, 9), "10-99": (10, 99), "100+": (100, 10**9)}
    return {name: float(held[(counts >= least) & (counts <= most)].mean()) for name, (least, most) in classes.items()}


def measure(keys: int) -> pd.DataFrame:
    """A row for each method and figure, a mean over keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = import_jobs(folder / "in")
        true = true_flows(folder / "in")
        rows: dict[str, list[dict[str, float]]] = {"release": [], "InfTDA": []}
        for key in range(1, keys + 1):
            public = release(spec, folder / "out", key) / "public" / "tables" / "work" / "tract.parquet"
            table = pd.read_parquet(public).set_index("geocode")
            held = {f"intervals hold, {name}": value for name, value in coverage(table, true).items()}
            rows["release"].append(errors(table[list(true.columns)], true) | held)
            rows["InfTDA"].append(errors(inf_tda(true, np.random.default_rng(key)), true))
        return pd.DataFrame({method: pd.DataFrame(each).mean() for method, each in rows.items()})
