"""What a plan foretells of joined persons and households: by hand on one level, and by many runs on three."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import request_of

from features.plan.release_plan import plan_release
from pipeline.execution.steps import Silent
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.reading.release import open_release
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec

SPEC = """
name = "plan"
privacy = { rho = "2", key = "insecure-test:1" }
geography = { file = "blocks.csv", levels = LEVELS }
schema.attributes.residence = ["household", "quarters"]
strategy = { queries = { residence = "1" }, levels = SHARES }
input = { file = "persons.csv", form = "microdata", geocode = "block" }
publish = { margins = false, microdata = false }
postprocess.solver = "batched"
TABLES
[companions.homes]
privacy = { rho = "2" }
schema.attributes = { size = [SIZES], tenure = ["own", "rent"] }
strategy = { queries = QUERIES, levels = SHARES }
input = { file = "homes.csv", form = "microdata", geocode = "block" }
[[join]]
companion = "homes"
where = { residence = "household" }
size = "size"
"""
THREE = {
    "LEVELS": '["city", "tract", "block"]',
    "SHARES": '{ city = "1/4", tract = "1/4", block = "1/2" }',
    "SIZES": '"1", "2", "3", "4", "5"',
    "QUERIES": '{ total = "1/5", detailed = "4/5" }',
}
ONE = {
    "LEVELS": '["block"]',
    "SHARES": '{ block = "1" }',
    "SIZES": '"1", "2", "3", "4", "5", "6", "7"',
    "QUERIES": '{ size = "1" }',
}


def _written(folder: Path, texts: dict[str, str], more: str = "") -> Path:
    """Blocks with about a hundred households each, so that no count is near 0."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    codes = [(f"t{tract}", f"t{tract}b{block}") for tract in range(4) for block in range(5)]
    homes = [(block, int(size), tenure) for _, block in codes for size in range(1, 6) for tenure in ("own", "rent")
             for _ in range(int(rng.integers(12, 30)))]  # fmt: skip
    persons = [(block, "household") for block, size, _ in homes for _ in range(size)]
    persons += [(block, "quarters") for _, block in codes for _ in range(25)]
    pd.DataFrame(homes, columns=["block", "size", "tenure"]).to_csv(folder / "homes.csv", index=False)
    pd.DataFrame(persons, columns=["block", "residence"]).to_csv(folder / "persons.csv", index=False)
    areas = pd.DataFrame([("c", *code) for code in codes], columns=["city", "tract", "block"])
    areas.to_csv(folder / "blocks.csv", index=False)
    text = SPEC
    for old, new in ({"TABLES": ""} | texts).items():
        text = text.replace(old, new)
    path = folder / "plan.toml"
    path.write_text(text + more)
    return path


def test_on_one_level_it_is_what_persons_and_sizes_say_together(tmp_path: Path) -> None:
    """Sizes 1 to 7 with variance w each, persons with v: 7 w - (28 w)^2 / (140 w + v)."""
    path = _written(tmp_path, ONE)
    plan = plan_release(path, 1)
    (row,) = plan.joined
    persons, homes = load_spec(path).universes()
    v, w = (
        noise_for(each.framework, each.strategy_budget, level.share, query.share, each.neighbours).variance
        for each, (level,) in ((each, each.strategy.levels) for each in (persons, homes))
        for query in level.queries
    )
    assert row.persons == pytest.approx(v**0.5, rel=1e-9)
    assert row.households_apart == pytest.approx((7 * w) ** 0.5, rel=1e-9)
    assert row.households == pytest.approx((7 * w - (28 * w) ** 2 / (140 * w + v)) ** 0.5, rel=1e-9)
    assert row.geounits == 20


@pytest.mark.slow
def test_many_runs_err_as_foretold(tmp_path: Path) -> None:
    """And not as households that are released apart, by far."""
    path = _written(tmp_path, THREE)
    rows = {row.level: row for row in plan_release(path, 1).joined}
    homes = pd.read_csv(tmp_path / "homes.csv")["block"]
    true = {"city": pd.Series("c", index=homes.index), "tract": homes.str[:2], "block": homes}
    errors: dict[str, list[np.ndarray]] = {level: [] for level in true}
    text = path.read_text()
    for key in range(1, 25):
        path.write_text(text.replace("insecure-test:1", f"insecure-test:{key}"))
        root = run_release(request_of(path, tmp_path / f"out{key}"), Silent())
        release = open_release(root).companion("homes")
        for level, codes in true.items():
            counted = codes.value_counts()
            found = release.query("total").at(level)["total"]
            errors[level].append((found - counted.reindex(found.index)).to_numpy())
    for level, share in (("block", 0.1), ("tract", 0.2), ("city", 0.35)):
        measured = float(np.sqrt(np.mean(np.square(errors[level]))))
        foretold, apart = rows[level].households, rows[level].households_apart
        assert foretold is not None
        assert apart is not None
        assert measured == pytest.approx(foretold, rel=share), level
        assert apart > (1 + share) * foretold, level
