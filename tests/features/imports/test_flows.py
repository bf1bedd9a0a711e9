"""Flows between areas: each is counted once, in its two areas, and the spec that is written gives right numbers."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from features.imports.flows import FlowsRequest, import_flows
from pipeline.errors import InputError
from pipeline.execution.steps import Silent
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec

PROJECT = Path(__file__).resolve().parents[3]
LEVELS = {"region": 1, "town": 3}
TOWNS = [f"{region}{number:02d}" for region in "NSE" for number in range(4)]


def made_up(folder: Path, *, seed: int = 5, n: int = 2000) -> list[tuple[str, str]]:
    """commuters.csv and towns.csv with a town that nobody lives or works in; the pairs."""
    rng = np.random.default_rng(seed)
    pairs = [(TOWNS[int(rng.integers(0, 11))], TOWNS[min(int(rng.integers(0, 14)), 10)]) for _ in range(n)]
    pd.DataFrame(pairs, columns=["home", "work"]).to_csv(folder / "commuters.csv", index=False)
    pd.DataFrame({"town": TOWNS}).to_csv(folder / "towns.csv", index=False)
    return pairs


def request_of(folder: Path, **changes: Any) -> FlowsRequest:
    """An import of the made-up commuters."""
    request = FlowsRequest(
        folder / "commuters.csv", "home", "work", None, LEVELS, areas=folder / "towns.csv", attribute="work"
    )
    return replace(request, **changes)


def counts_of(folder: Path) -> dict[tuple[str, str], int]:
    """The pairs of flows.parquet."""
    table = pd.read_parquet(folder / "flows.parquet")
    assert not table.duplicated(["town", "work"]).any()
    return dict(zip(zip(table["town"], table["work"], strict=True), table["count"].tolist(), strict=True))


def test_every_flow_is_counted_once(tmp_path: Path) -> None:
    """The pairs are those of the file; all areas are origins and destinations, those without flows too."""
    pairs = made_up(tmp_path)
    imported = import_flows(request_of(tmp_path, flows=2000), tmp_path / "out")
    assert counts_of(tmp_path / "out") == dict(Counter(pairs))
    assert "2,000 flows" in imported.messages[0]
    spec = load_spec(imported.spec)
    universe = spec.universes()[0]
    assert universe.schema.attributes[0].values == tuple(sorted(TOWNS))
    areas = pd.read_parquet(tmp_path / "out" / "areas.parquet")
    assert list(areas.columns) == ["all", "region", "town"]
    assert sorted(areas["town"]) == sorted(TOWNS)
    content = tomllib.loads(imported.spec.read_text("utf-8"))
    assert content["schema"]["recodes"]["work_region"]["groups"] == {r: f"{r}00..{r}03" for r in "ENS"}
    assert not any(str(n) in imported.spec.read_text("utf-8") for n in ("2,000", "2000"))  # no count of the records
    assert (tmp_path / "out" / "flows.parquet").stat().st_mode & 0o077 == 0


def test_the_spec_runs_and_its_numbers_are_right(tmp_path: Path) -> None:
    """With a budget so large that noise is rare, what is released are the flows; margins are their sums."""
    pairs = made_up(tmp_path)
    spec = import_flows(request_of(tmp_path), tmp_path / "out").spec
    spec.write_text(spec.read_text("utf-8").replace('rho = "1"', 'rho = "1e6"'), "utf-8")
    root = run_release(check_request(Request(spec, tmp_path / "r", data=None, workers=1, i_know=True)), Silent())
    table = pd.read_parquet(root / "public" / "tables" / "work" / "town.parquet").set_index("geocode")
    truth = Counter(pairs)
    assert all(table.loc[home, work] == truth[home, work] for home in TOWNS for work in TOWNS)
    regions = pd.read_parquet(root / "public" / "tables" / "work_region" / "region.parquet").set_index("geocode")
    assert regions.loc["N", "S"] == sum(home[0] == "N" and work[0] == "S" for home, work in pairs)
    whole = pd.read_parquet(root / "public" / "tables" / "work" / "all.parquet").set_index("geocode")
    assert whole.loc["all", "N01"] == sum(work == "N01" for _, work in pairs)


def test_forms_of_the_same_flows(tmp_path: Path) -> None:
    """Pairs with counts, a lookup table with the levels as columns, and finer codes give the same folder."""
    pairs = made_up(tmp_path)
    import_flows(request_of(tmp_path), tmp_path / "out")
    counts = Counter(pairs)
    rows = [(*pair, n) for pair, n in counts.items()] + [("N00", "N00", 0)]
    pq.write_table(
        pa.table(dict(zip(("o", "d", "n"), map(list, zip(*rows, strict=True)), strict=True))), tmp_path / "c.parquet"
    )
    counted = request_of(tmp_path, file=tmp_path / "c.parquet", origin="o", destination="d", count="n")
    import_flows(counted, tmp_path / "counted")
    lookup = pd.DataFrame({"region": [town[0] for town in TOWNS], "town": TOWNS})
    lookup.to_csv(tmp_path / "lookup.csv", index=False)
    import_flows(
        request_of(tmp_path, levels=("region", "town"), areas=tmp_path / "lookup.csv"), tmp_path / "with_lookup"
    )
    pd.DataFrame([(f"{h}7", f"{w}8") for h, w in pairs], columns=["home", "work"]).to_csv(
        tmp_path / "fine.csv", index=False
    )
    pd.DataFrame({"code": [f"{town}{i}" for town in TOWNS for i in range(10)]}).to_csv(
        tmp_path / "codes.csv", index=False
    )
    fine = request_of(tmp_path, file=tmp_path / "fine.csv", areas=tmp_path / "codes.csv", geocode="code")
    import_flows(fine, tmp_path / "fine")
    for name in ("counted", "with_lookup", "fine"):
        assert counts_of(tmp_path / name) == dict(counts), name
        assert pd.read_parquet(tmp_path / name / "areas.parquet").equals(
            pd.read_parquet(tmp_path / "out" / "areas.parquet")
        )


def test_coarser_destinations(tmp_path: Path) -> None:
    """With the regions as destinations, towns of origin keep their flows."""
    pairs = made_up(tmp_path)
    import_flows(request_of(tmp_path, destinations="region"), tmp_path / "out")
    assert counts_of(tmp_path / "out") == dict(Counter((home, work[0]) for home, work in pairs))


def test_elsewhere(tmp_path: Path) -> None:
    """A destination that the list lacks is refused with its rows, or counted as one more."""
    made_up(tmp_path)
    with (tmp_path / "commuters.csv").open("a") as file:
        file.write("N00,XX1\nN00,YY2\n")
    with pytest.raises(InputError, match=r"column 'work'.*not a leaf.*'XX1', 'YY2'"):
        import_flows(request_of(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    import_flows(request_of(tmp_path, elsewhere="abroad"), tmp_path / "out")
    assert counts_of(tmp_path / "out")["N00", "abroad"] == 2
    content = tomllib.loads((tmp_path / "out" / "release.toml").read_text("utf-8"))
    assert content["schema"]["attributes"]["work"] == [*sorted(TOWNS), "abroad"]
    assert content["schema"]["recodes"]["work_region"]["groups"]["abroad"] == ["abroad"]
    with (tmp_path / "commuters.csv").open("a") as file:
        file.write("N00,\n")
    with pytest.raises(InputError, match=r"column 'work': a missing geocode in 1 row"):
        import_flows(request_of(tmp_path, elsewhere="abroad"), tmp_path / "again")


def test_without_a_list_the_spec_has_to_be_accepted(tmp_path: Path) -> None:
    """Areas of the flows are not public: a run refuses them with the line that is missing."""
    pairs = made_up(tmp_path)
    imported = import_flows(request_of(tmp_path, areas=None), tmp_path / "out")
    areas = pd.read_parquet(tmp_path / "out" / "areas.parquet")
    assert sorted(areas["town"]) == sorted({town for pair in pairs for town in pair})
    with pytest.raises(InputError, match="accept"):
        run_release(check_request(Request(imported.spec, tmp_path / "r", data=None, workers=1)), Silent())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": ("region", "town"), "areas": None}, "--levels: without lengths they are columns of a list"),
        ({"destinations": "county"}, "--destinations: 'county' is not a level; the levels are region, town"),
        ({"areas": None, "elsewhere": "abroad"}, "--elsewhere: without --areas"),
        ({"elsewhere": "N00"}, "--elsewhere: 'N00' is the code of an area"),
        ({"flows": 1999}, "--flows states 1,999; the file has 2,000"),
        ({"origin": "house"}, "house"),
        ({"geocode": "zip"}, "zip"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Each mistake is one message, and nothing is written."""
    made_up(tmp_path)
    with pytest.raises(InputError, match=message):
        import_flows(request_of(tmp_path, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


#: Levels of the 406,052 jobs of LODES 2019 by tract of home and tract of work.
DISTRICTS = {"state": 2, "county": 5, "district": 8, "tract": 11}
#: Of the release, and of InfTDA (PETS 2025), which adds noise to the pairs of areas of each level, and fits those below
#: a pair to it in the maximum norm.
RHO = 1.0
Counts = NDArray[np.int64]


def import_jobs(out: Path, data: Path) -> Path:
    """Import the jobs; the path of the spec."""
    request = FlowsRequest(
        data / "ri_lodes_2019_flows.parquet",
        "home_block",
        "work_block",
        "jobs",
        DISTRICTS,
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
    sigma = np.sqrt((len(DISTRICTS) - 1) / RHO)  # one flow in another pair: L2 sensitivity sqrt(2) a level
    for length in list(DISTRICTS.values())[1:]:
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
    """Mean absolute errors of margins and pairs of areas."""
    codes = list(true.index)
    a, b = released.loc[codes, codes].to_numpy(), true.to_numpy()
    figures = {"homes": np.abs(a.sum(1) - b.sum(1)).mean(), "workplaces": np.abs(a.sum(0) - b.sum(0)).mean()}
    for level in ("tract", "district", "county"):
        here = [code[: DISTRICTS[level]] for code in codes]
        figures[f"{level} pairs"] = np.abs(_summed(a, here, here) - _summed(b, here, here)).mean()
    return {name: float(value) for name, value in figures.items()}


def coverage(table: pd.DataFrame, true: pd.DataFrame) -> dict[str, float]:
    """How often the 90 % intervals of tract pairs hold, by true size."""
    low, high = (table[[f"{code}:{end}90" for code in true.columns]].to_numpy() for end in ("low", "high"))
    counts = true.to_numpy()
    held = (low <= counts) & (counts <= high)
    classes = {"0": (0, 0), "1-4": (1, 4), "5-9": (5, 9), "10-99": (10, 99), "100+": (100, 10**9)}
    return {name: float(held[(counts >= least) & (counts <= most)].mean()) for name, (least, most) in classes.items()}


def measure(data: Path, folder: Path) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Errors of a release, how often its intervals hold, and errors of InfTDA."""
    spec = import_jobs(folder / "in", data)
    true = true_flows(folder / "in")
    public = release(spec, folder / "out", 1) / "public" / "tables" / "work" / "tract.parquet"
    table = pd.read_parquet(public).set_index("geocode")
    other = errors(inf_tda(true, np.random.default_rng(1)), true)
    return errors(table[list(true.columns)], true), coverage(table, true), other


def test_jobs_of_a_state(shared_data: Path, tmp_path: Path) -> None:
    """The real file: all 406,052 jobs, and the spec of examples/ is what the import writes, but for key and paths."""
    spec = import_jobs(tmp_path / "out", shared_data)
    table = pd.read_parquet(tmp_path / "out" / "flows.parquet")
    source = pd.read_parquet(shared_data / "ri_lodes_2019_flows.parquet")
    by_tract = source.groupby([source["home_block"].str[:11], source["work_block"].str[:11]])["jobs"].sum()
    assert table.set_index(["tract", "work"])["count"].to_dict() == by_tract.to_dict()
    written = tomllib.loads(spec.read_text("utf-8"))
    example = tomllib.loads((PROJECT / "examples" / "flows.toml").read_text("utf-8"))
    assert example.pop("purpose") == "example"
    assert example["privacy"].pop("key") == "insecure-test:1"
    for section in ("geography", "input"):
        example[section]["file"] = example[section]["file"].removeprefix("../flows_files/")
    assert example == written


@pytest.mark.slow
def test_figures_of_the_how_to(shared_data: Path, tmp_path: Path) -> None:
    """Errors and intervals that docs/howto/flows.md states, of one key; margins are an order nearer than InfTDA's."""
    ours, held, other = measure(shared_data, tmp_path)
    stated = {"homes": 2.2, "workplaces": 2.2, "tract pairs": 1.0, "district pairs": 2.5, "county pairs": 3.5}
    assert ours == pytest.approx(stated, rel=0.2)
    stated = {"homes": 22.1, "workplaces": 40.1, "tract pairs": 1.0, "district pairs": 1.2, "county pairs": 1.1}
    assert other == pytest.approx(stated, rel=0.2)
    assert len(held) == 5
    assert min(held.values()) > 0.87
