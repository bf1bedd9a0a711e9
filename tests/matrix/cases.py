"""The cases of the matrix: those of the core, and those that each kind of release states in its folder of tests.

Between them they have every kind of measurement, of public input and of publication.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from releases.chosen import write_chosen
from releases.named import write_named_town
from releases.positive_town import TOPDOWN, write_positive
from releases.small import QUICK, write_town

from features.registry import FEATURES, is_installed
from matrix.case import KEY, Case, Refusal, opened, released, run_of, write_key

#: A town with everything that a spec can state, under pure differential privacy.
_PURE = (('rho = "2"', 'framework = "pure"\nepsilon = "2"'), ('privacy = { rho = "1" }', 'privacy = { epsilon = "1" }'))
#: Areas that have one child alone are not measured twice.
_BYPASS = (
    ("levels = { county = 1, tract = 3, block = 5 }", "levels = { county = 1, tract = 3, block = 5 }\nbypass = true"),
)
#: The baseline of benchmarks, where each level is estimated from its own measurements.
_TOPDOWN = (("[companions.units]", '[postprocess]\nsolver = "batched"\nestimator = "topdown"\n\n[companions.units]'),)


def _chosen(folder: Path) -> None:
    """Blocks whose detail is chosen privately, with margins of error."""
    write_chosen(folder, ("margins = false\nmicrodata = false", "replicates = 2"))
    write_key(folder)


_SAMPLED = """
name = "sampled"
privacy = { rho = "1/4", key = "insecure-test:1" }
geography = { file = "people.csv", column = "leaf", levels = { nation = 1, region = 2, area = 3, leaf = 6 } }
schema.attributes = { group = ["a", "b", "c", "d", "e"] }
input = { file = "people.csv", form = "wide", geocode = "leaf", cells = [ { counts = "{group}" } ] }
tables = { total = "total", group = "group" }
publish = { microdata = false }

[strategy]
queries = { total = "1/4", group = "3/4" }
levels = { nation = "1/5", region = "1/5", area = "1/5", leaf = "2/5" }
"""


def _sampled(folder: Path) -> None:
    """30 areas of 95 leaves, few enough to be quick and so many that they are simulated by a sample."""
    rng, areas, leaves = np.random.default_rng(1), 30, 95
    codes = [f"E{area // 10}{area % 10}{leaf:03d}" for area in range(areas) for leaf in range(leaves)]
    means = np.array([60, 20, 30, 1300, 20.0]) * np.exp(rng.normal(0, 0.8, (areas, 1, 5)))
    counts = rng.poisson(means * np.exp(rng.normal(0, 0.5, (areas, leaves, 5)))).reshape(areas * leaves, 5)
    pd.DataFrame(counts, columns=list("abcde")).assign(leaf=codes).to_csv(folder / "people.csv", index=False)
    (folder / "release.toml").write_text(_SAMPLED, encoding="utf-8")


_WIDE = {"age": 116, "relation": 42, "race": 63}
_PEOPLED = """
name = "peopled"
privacy = { rho = "4", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { state = 1, county = 2, block = 3 } }
input = { file = "persons.csv", form = "microdata", geocode = "block" }
tables = { total = "total", origin = "race * hispanic" }
publish = { margins = false, microdata = false }

[schema.attributes]
ATTRIBUTES
sex = ["f", "m"]
hispanic = ["no", "yes"]

[strategy.levels]
state = { share = "1/3", queries = { total = "1/4", sex = "1/4", detailed = "1/2" } }
county = { share = "1/3", queries = { total = "1/4", sex = "1/4", "race * hispanic" = "1/2" } }
block = { share = "1/3", queries = { total = "1/4", sex = "1/4", "race * hispanic" = "1/2" } }
"""


def _peopled(folder: Path) -> None:
    """A schema of more than a million cells: few persons, the detail measured at the top, sums below."""
    values = {name: [str(number) for number in range(size)] for name, size in _WIDE.items()}
    listed = "\n".join(f"{name} = {of}" for name, of in values.items())
    (folder / "release.toml").write_text(_PEOPLED.replace("ATTRIBUTES", listed.replace("'", '"')), encoding="utf-8")
    rng, n = np.random.default_rng(2), 500
    blocks = [f"1{county}{block}" for county in range(3) for block in range(4)]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    columns = {
        "block": blocks,
        **{name: of[:12] for name, of in values.items()},
        "sex": ["f", "m"],
        "hispanic": ["no", "yes"],
    }
    people = {name: rng.choice(of, n) for name, of in columns.items()}
    pd.DataFrame(people).to_csv(folder / "persons.csv", index=False)


def _contradicted(folder: Path) -> None:
    """Exact numbers of quarters, of which facilities have room for fewer."""
    path = folder / "release.toml"
    text = path.read_text("utf-8").replace("upper = 60", "upper = 5")
    path.write_text(text.replace('county = ["total"]', 'county = ["total"]\nblock = ["quarters"]'), "utf-8")


#: Those of no feature.
CORE: Final[Sequence[Case]] = (
    released("town", lambda folder: write_town(folder, *QUICK), "release.toml", "town", full=True),
    released("pure", lambda folder: write_town(folder, *QUICK, *_PURE), "release.toml", "town"),
    released("bypass", lambda folder: write_town(folder, *QUICK, *_BYPASS), "release.toml", "town"),
    released("topdown", lambda folder: write_town(folder, QUICK[0], *_TOPDOWN), "release.toml", "town"),
    released("named", write_named_town, "release.toml", "town"),
    released(
        "positive",
        write_positive,
        "state.toml",
        "state",
        full=True,
        without={"export --format nmf": "which the layout has no place for"},
    ),
    released("positive_topdown", lambda folder: write_positive(folder, TOPDOWN), "state.toml", "state"),
    released("peopled", _peopled, "release.toml", "peopled"),
    Case(
        "chosen",
        _chosen,
        (opened("people", "1"), run_of("release.toml", "out", "--key", f"file:{KEY}")),
        ("out/chosen",),
        charged=True,
        full=True,
    ),
    released("sampled", _sampled, "release.toml", "sampled"),
)
#: What the core refuses.
REFUSED: Final[Sequence[Refusal]] = (
    Refusal(
        "town",
        _contradicted,
        (
            "the constraints contradict each other: block A0101, by 1",
            "is exactly 6 (invariant",
            "at most 5 (group",
        ),
    ),
    Refusal("town", ('key = "insecure-test:1"', 'dataset = "town"'), ("companions.units.privacy.dataset: missing",)),
    Refusal(
        "chosen",
        ('dataset = "people"', 'dataset = "people"\nkey = "insecure-test:1"'),
        ("a run with a test key is not a release",),
        run_of("release.toml"),
    ),
    Refusal("chosen", lambda folder: (folder / KEY).unlink(), ("key file key: cannot be opened",)),
)


def _of_feature(name: str) -> Any:
    """The module with its cases, which lies in its folder of tests; None where it states none."""
    path = Path(__file__).resolve().parents[1] / "features" / name / "cases.py"
    if not is_installed(name) or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"cases_of_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_STATED = [module for feature in FEATURES if (module := _of_feature(feature.name)) is not None]
CASES: Final[Sequence[Case]] = (*CORE, *(case for module in _STATED for case in module.CASES))
REFUSALS: Final[Sequence[Refusal]] = (*REFUSED, *(row for module in _STATED for row in module.REFUSALS))
