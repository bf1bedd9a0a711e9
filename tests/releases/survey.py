"""Small surveys whose respondents randomised their answers: files, spec, and the answers that nobody else has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    source = feature_module("features.local.collect.bits").KeyedBytes(b"a survey of a test %8d" % seed)
    rng, blocks, respondents = _asked(blocks_of_tract, seed)
    shares = rng.dirichlet(np.full(n_values, 2.0))
    truth = np.array([rng.multinomial(n, rng.dirichlet(20 * shares + 0.1)) for n in respondents])
    values = np.concatenate([np.repeat(np.arange(n_values), row) for row in truth])
    parameters = {"epsilon": epsilon} | ({} if mechanism == "randomised_response" else {"values": str(n_values)})
    randomiser = feature_module("features.local.collect.respondent").mechanism_of(mechanism, parameters)
    texts = randomiser.encode(randomiser.randomise(values, source))
    answers = ", ".join(f'"a{number}"' for number in range(n_values))
    text = SPEC.format(mechanism=mechanism, epsilon=epsilon, answers=answers)
    spec = _written(folder, text, blocks, respondents, {"report": texts}, seed)
    return Survey(spec, blocks, truth)


RAPPOR = {"bits": "32", "hashes": "2", "cohorts": "16", "f": "1/4", "p": "1/4", "q": "3/4"}


def write_words(
    folder: Path, n_words: int = 4, n_others: int = 20, *, blocks_of_tract: int = 12, seed: int = 1
) -> Survey:
    """Write the files of such a survey with an open list, answered by RAPPOR.

    The truth has the words of the spec, and last all others.
    """
    source = feature_module("features.local.collect.bits").KeyedBytes(b"words of a test %14d" % seed)
    rng, blocks, respondents = _asked(blocks_of_tract, seed)
    shares = np.append(rng.dirichlet(np.full(n_words, 4.0)) * 0.7, np.full(n_others, 0.3 / n_others))
    said = np.array([rng.multinomial(n, rng.dirichlet(20 * shares + 0.01)) for n in respondents])
    words = [f"a{number}" for number in range(n_words)] + [f"rare{number}" for number in range(n_others)]
    texts = [words[value] for row in said for value in np.repeat(np.arange(len(words)), row).tolist()]
    randomiser = feature_module("features.local.collect.respondent").mechanism_of("rappor", RAPPOR)
    reports = randomiser.randomise(texts, source)
    answers = ", ".join(f'"a{number}"' for number in range(n_words))
    text = SPEC.format(mechanism="rappor", epsilon="", answers=f'{answers}, "other"')
    text = text.replace('epsilon = ""', ", ".join(f'{name} = "{value}"' for name, value in RAPPOR.items()))
    sent = {"report": randomiser.encode(reports), "cohort": reports[:, 0]}
    spec = _written(folder, text, blocks, respondents, sent, seed)
    return Survey(spec, blocks, np.hstack([said[:, :n_words], said[:, n_words:].sum(axis=1, keepdims=True)]))


def _asked(blocks_of_tract: int, seed: int) -> tuple[np.random.Generator, NDArray[np.str_], NDArray[np.int64]]:
    """Of the blocks the codes and how many are asked in each, nobody in the first; the generator draws the rest."""
    rng = np.random.default_rng(seed)
    names = [f"{c}{t:02d}{b:02d}" for c in "AB" for t in range(1, 4) for b in range(1, 1 + blocks_of_tract)]
    respondents = rng.integers(0, 50, len(names))
    respondents[0] = 0
    return rng, np.array(names), respondents


def _written(
    folder: Path,
    text: str,
    blocks: NDArray[np.str_],
    respondents: NDArray[np.int64],
    sent: Mapping[str, Sequence[object]],
    seed: int,
) -> Path:
    """Write blocks, what each respondent sent, in any order, and the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    who = [f"person-{number}" for number in range(int(respondents.sum()))]
    reports = pd.DataFrame({"block": np.repeat(blocks, respondents), **sent, "who": who})
    reports.sample(frac=1, random_state=seed).to_csv(folder / "reports.csv", index=False)
    spec = folder / "survey.toml"
    spec.write_text(text)
    return spec
