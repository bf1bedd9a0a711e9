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
from oracles.inf_tda import import_jobs, measure

from features.imports.flows import FlowsRequest, import_flows
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
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
@pytest.mark.usefixtures("shared_data")
def test_figures_of_the_how_to() -> None:
    """Errors and intervals that docs/howto/flows.md states, of one key; margins are an order nearer than InfTDA's."""
    figures = measure(1)
    ours, other = figures["release"], figures["InfTDA"]
    stated = {"homes": 2.2, "workplaces": 2.2, "tract pairs": 1.0, "district pairs": 2.5, "county pairs": 3.5}
    assert {name: ours[name] for name in stated} == pytest.approx(stated, rel=0.2)
    stated = {"homes": 22.1, "workplaces": 40.1, "tract pairs": 1.0, "district pairs": 1.2, "county pairs": 1.1}
    assert {name: other[name] for name in stated} == pytest.approx(stated, rel=0.2)
    held = [value for name, value in ours.items() if str(name).startswith("intervals hold")]
    assert len(held) == 5
    assert min(held) > 0.87
