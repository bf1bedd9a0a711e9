"""A small town with everything that a spec can state: bounds, invariants, impossible cells, a companion, recodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.confidential.custody import KeySource
from pipeline.execution.steps import Perform, Progress, Silent, perform_here
from pipeline.runs.request import CheckedRequest, Request, check_request
from pipeline.runs.run import run_release

SPEC = """
name = "town"
structural_zeros = [ { age = "child", quarters = "prison" } ]

[privacy]
rho = "2"
key = "insecure-test:1"

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }

[schema.attributes]
age = ["child", "adult", "old"]
sex = ["f", "m"]
quarters = ["house", "dorm", "prison"]

[schema.recodes.grown]
attribute = "age"
groups = { young = ["child"], grown = ["adult", "old"] }

[strategy.queries]
total = "1/4"
"grown * sex" = "1/4"
detailed = "1/2"

[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"

[invariants]
county = ["total"]

[[bounds]]
name = "group quarters"
level = "block"
file = "facilities.csv"
geocode = "block"
query = "quarters"
lower = 1
upper = 60
columns = { dorm = "dorms", prison = "prisons" }

[input]
file = "persons.csv"
form = "microdata"
geocode = "block"

[tables]
total = "total"
sex = { query = "sex * grown", levels = ["county", "tract"] }
detail = "detailed"

[publish]
replicates = 3
unbiased = true

[companions.units]
structural_zeros = []
privacy = { rho = "1" }
schema.attributes.status = ["occupied", "vacant"]
strategy = { queries = { total = "1/2", status = "1/2" }, levels = { county = "1/4", tract = "1/4", block = "1/2" } }
invariants = { block = ["total"] }
input = { file = "units.csv", form = "long", geocode = "block" }
"""

#: Changes for a run that is to be quick: cvxpy's second opinion takes most of the time of so small a one.
QUICK = (
    ("replicates = 3", "replicates = 2"),
    ("[companions.units]", '[postprocess]\nsolver = "batched"\n\n[companions.units]'),
)


#: A change for detail that is measured in counties alone, and below them totals and quarters.
DETAIL_IN_COUNTIES = (
    'county = "1/4"\ntract = "1/4"\nblock = "1/2"\n\n[invariants]',
    'county = "1/4"\ntract = { share = "1/4", queries = { total = "1" } }\n'
    'block = { share = "1/2", queries = { total = "1/2", quarters = "1/2" } }\n\n[invariants]',
)
#: A change for a table of the detail of every level, also where nothing determines it.
DETAIL_EVERYWHERE = ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county", "tract", "block"] }')

#: What the town's spec publishes exactly, as its datasets must allow it.
PEOPLE_EXACT = ("county:total", "zeros", "bounds:group quarters")
UNITS_EXACT = ("block:total",)


def write_town(folder: Path, *changes: tuple[str, str], seed: int = 5, spec: str = SPEC) -> Path:
    """Write the town's files and spec; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    blocks = [
        f"{county}{tract:02d}{block:02d}"
        for county in "AB"
        for tract in range(1, 4)
        for block in range(1, int(rng.integers(2, 8)))
    ]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    dorms, prisons = (rng.random((2, len(blocks))) < 0.25).astype(int)
    pd.DataFrame({"block": blocks, "dorms": dorms, "prisons": prisons}).to_csv(folder / "facilities.csv", index=False)
    people = []
    for block, dorm, prison in zip(blocks, dorms, prisons, strict=True):
        household = 0 if rng.random() < 0.3 else int(rng.poisson(25))
        people += [
            (block, rng.choice(["child", "adult", "old"]), rng.choice(["f", "m"]), "house") for _ in range(household)
        ]
        people += [(block, "adult", rng.choice(["f", "m"]), "dorm") for _ in range(int(rng.integers(1, 30)) * dorm)]
        people += [(block, "old", "m", "prison") for _ in range(int(rng.integers(1, 30)) * prison)]
    persons = pd.DataFrame(people, columns=["block", "age", "sex", "quarters"]).sample(frac=1, random_state=seed)
    persons.to_csv(folder / "persons.csv", index=False)
    counts = rng.poisson(8, (len(blocks), 2))
    units = pd.DataFrame({"block": np.repeat(blocks, 2), "status": ["occupied", "vacant"] * len(blocks)})
    units.assign(count=counts.ravel()).to_csv(folder / "units.csv", index=False)
    return write_spec(folder, spec, changes)


def write_spec(folder: Path, spec: str, changes: Sequence[tuple[str, str]]) -> Path:
    """Write release.toml: a spec with other texts in the place of some of its own, each of which it has once."""
    for old, new in changes:
        assert spec.count(old) == 1, f"{old!r} stands {spec.count(old)} times in the spec"
        spec = spec.replace(old, new)
    path = folder / "release.toml"
    path.write_text(spec, "utf-8")
    return path


def changed(text: str, changes: Sequence[tuple[str, str]]) -> str:
    """A spec with other texts in the place of some, wherever it has them."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def request_of(
    spec: Path,
    out: Path,
    *,
    workers: int = 1,
    data: Path | None = None,
    key_file: Path | None = None,
    i_know: bool = False,
) -> CheckedRequest:
    key = KeySource(key_file)
    return check_request(Request(spec=spec, out=out, data=data, workers=workers, key=key, i_know=i_know))


def run(
    spec: Path,
    out: Path,
    *,
    workers: int = 1,
    data: Path | None = None,
    key_file: Path | None = None,
    progress: Progress | None = None,
    perform: Perform = perform_here,
    i_know: bool = False,
) -> Path:
    """Run a release without any engine; its directory."""
    checked = request_of(spec, out, workers=workers, data=data, key_file=key_file, i_know=i_know)
    return run_release(checked, progress or Silent(), perform)


def run_period(
    spec: Path, out: Path, period: str, data: Path | None = None, *, progress: Progress | None = None
) -> Path:
    """Run one release of a series without any engine; its directory."""
    checked = check_request(Request(spec=spec, out=out, data=data, workers=1, period=period))
    return run_release(checked, progress or Silent())


def public_bytes(root: Path) -> dict[str, bytes]:
    """The content of every file under public/."""
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / "public").rglob("*") if path.is_file()}
