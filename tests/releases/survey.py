"""A small survey whose respondents randomised their answers: files, spec, and the answers that nobody else has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from releases.command import feature_module

SPEC = """
name = "survey"

[privacy]
framework = "local"

[collect]
mechanism = "{mechanism}"
parameters = {{ epsilon = "{epsilon}" }}
respondents = 20

[input]
file = "reports.csv"
form = "reports"
geocode = "block"
columns = {{ respondent = "who" }}

[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 1, tract = 3, block = 5 }}

[schema.attributes]
answer = [{answers}]

[publish]
replicates = 4

[postprocess]
solver = "batched"
"""


@dataclass(frozen=True, eq=False)
class Survey:
    """The survey's files, and what is behind them.

    Attributes:
        spec: its file.
        blocks: `(n,)` geocodes.
        truth: `(n, n_values)` the true answers.
    """

    spec: Path
    blocks: NDArray[np.str_]
    truth: NDArray[np.int64]

    @property
    def reports(self) -> Path:
        """The file of reports."""
        return self.spec.parent / "reports.csv"


def write_survey(
    folder: Path,
    mechanism: str = "direct_encoding",
    n_values: int = 4,
    epsilon: str = "1",
    *,
    blocks_of_tract: int = 12,
    seed: int = 1,
) -> Survey:
    """Write the files of a survey of 2 counties, 6 tracts and their blocks, some of which have no respondent."""
    device = feature_module("features.local.device")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    names = [f"{c}{t:02d}{b:02d}" for c in "AB" for t in range(1, 4) for b in range(1, 1 + blocks_of_tract)]
    blocks = np.array(names)
    respondents = rng.integers(0, 50, len(blocks))
    respondents[0] = 0
    shares = rng.dirichlet(np.full(n_values, 2.0))
    truth = np.array([rng.multinomial(n, rng.dirichlet(20 * shares + 0.1)) for n in respondents])
    values = np.concatenate([np.repeat(np.arange(n_values), row) for row in truth])
    codes = np.repeat(blocks, respondents)
    parameters = {"epsilon": epsilon} | ({} if mechanism == "randomised_response" else {"values": str(n_values)})
    randomiser = device.mechanism_of(mechanism, parameters)
    texts = randomiser.encode(randomiser.randomise(values, device.KeyedBytes(b"a survey of a test %8d" % seed)))
    who = [f"person-{number}" for number in range(len(texts))]
    reports = pd.DataFrame({"block": codes, "report": texts, "who": who}).sample(frac=1, random_state=seed)
    reports.to_csv(folder / "reports.csv", index=False)
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    answers = ", ".join(f'"a{number}"' for number in range(n_values))
    spec = folder / "survey.toml"
    spec.write_text(SPEC.format(mechanism=mechanism, epsilon=epsilon, answers=answers))
    return Survey(spec, blocks, truth)
