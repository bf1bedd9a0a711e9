"""A town whose people are born, die and move: records of several years, and the spec of their series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_input
from releases.small import write_spec

YEARS = ("2031", "2032", "2033")

SPEC = """
name = "padron"

[privacy]
rho = "2"
key = "insecure-test:1"

[series]
name = "padron"
from = 2031
to = 2033
spells = 2

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }

[schema.attributes]
born = ["before 2000", "since 2000"]
sex = ["f", "m"]

[strategy.queries]
total = "1/2"
"born * sex" = "1/2"

[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"

[input]
file = "persons-2031.csv"
form = "microdata"
geocode = "block"

[tables]
total = "total"
sex = { query = "sex", levels = ["county", "tract"] }

[postprocess]
solver = "batched"

[publish]
replicates = 2
unbiased = true
"""


@dataclass(frozen=True)
class MadeSeries:
    """A folder with the input of the town, and the folder with its releases."""

    given: Path
    out: Path

    @property
    def spec(self) -> Path:
        """The spec of all periods."""
        return self.given / "release.toml"

    def release(self, year: str) -> Path:
        """The directory of a year's release."""
        return self.out / f"padron-{year}"


#: Of a spec whose periods have noise of their own.
INDEPENDENT = (("spells = 2\n", ""),)


def write_series_town(folder: Path, *changes: tuple[str, str], spec: str = SPEC) -> Path:
    """Write the spec, and the records of each year to persons-YEAR.csv; `changes` are texts and what replaces them."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    blocks = np.array([f"{county}{tract:02d}{block:02d}" for county in "AB" for tract in (1, 2) for block in (1, 2, 3)])
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    n = 600
    people = pd.DataFrame(
        {
            "person": np.arange(n),
            "block": rng.choice(blocks, n),
            "born": rng.choice(["before 2000", "since 2000"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    for year in YEARS:
        people.sample(frac=1, random_state=int(year)).to_csv(folder / f"persons-{year}.csv", index=False)
        people = people[rng.random(len(people)) > 0.02]
        moves = rng.random(len(people)) < 0.1
        people = people.assign(block=np.where(moves, rng.choice(blocks, len(people)), people["block"]))
        n_born, last = int(rng.poisson(12)), int(people["person"].max())
        babies = pd.DataFrame(
            {
                "person": np.arange(n_born) + last + 1,
                "block": rng.choice(blocks, n_born),
                "born": "since 2000",
                "sex": rng.choice(["f", "m"], n_born),
            }
        )
        people = pd.concat([people, babies], ignore_index=True)
    return write_spec(folder, spec, changes)


def true_counts(folder: Path, year: str, query: list[str], prefix: int) -> NDArray[np.int64]:
    """True answers `(n_geounits, size)` of a year's records, counted by pandas: areas are prefixes of blocks."""
    people = pd.read_csv(folder / f"persons-{year}.csv")
    blocks = pd.read_csv(folder / "blocks.csv")["block"].str[:prefix].unique()
    area = people["block"].str[:prefix]
    if not query:
        return area.value_counts().reindex(sorted(blocks), fill_value=0).to_numpy().astype(np.int64)[:, None]
    values = {"born": ["before 2000", "since 2000"], "sex": ["f", "m"]}
    columns = pd.MultiIndex.from_product([values[one] for one in query])
    counts = people.groupby([area, *query]).size().unstack(query, fill_value=0)
    return counts.reindex(index=sorted(blocks), columns=columns, fill_value=0).to_numpy().astype(np.int64)


def drawn_again(release: Path, level: str, query: str, scale: Fraction, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The noise of a release, drawn again with its key from what its streams depend on."""
    opened = open_finished(release, check_hashes=True)
    records = recorded_input(RunDirectory(release))
    assert records is not None
    context = (records[""], opened.spine.fingerprint(), opened.universes[0].privacy_fingerprint())
    stream = MasterKey.from_text("insecure-test:1").stream_key(context, level, query)
    return sampler_for(DiscreteGaussian(scale)).draw(stream, 0, math.prod(shape)).reshape(shape)
