"""A small survey with an open list, answered by RAPPOR: files, spec, and the words that nobody else has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from releases.command import feature_module
from releases.survey import SPEC, Survey

RAPPOR = {"bits": "32", "hashes": "2", "cohorts": "16", "f": "1/4", "p": "1/4", "q": "3/4"}


def rappor() -> Any:
    """The mechanism."""
    return feature_module("features.local.collect.respondent").mechanism_of("rappor", RAPPOR)


def write_words(
    folder: Path, n_words: int = 4, n_others: int = 20, *, blocks_of_tract: int = 12, seed: int = 1
) -> Survey:
    """Write the files of a survey of 2 counties, 6 tracts and their blocks, some of which have no respondent.

    The truth has the words of the spec, and last all others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    blocks = np.array([f"{c}{t:02d}{b:02d}" for c in "AB" for t in range(1, 4) for b in range(1, 1 + blocks_of_tract)])
    respondents = rng.integers(0, 50, len(blocks))
    respondents[0] = 0
    shares = np.append(rng.dirichlet(np.full(n_words, 4.0)) * 0.7, np.full(n_others, 0.3 / n_others))
    said = np.array([rng.multinomial(n, rng.dirichlet(20 * shares + 0.01)) for n in respondents])
    words = [f"a{number}" for number in range(n_words)] + [f"rare{number}" for number in range(n_others)]
    texts = [words[value] for row in said for value in np.repeat(np.arange(len(words)), row).tolist()]
    mechanism = rappor()
    reports = mechanism.randomise(
        texts, feature_module("features.local.collect.bits").KeyedBytes(b"words of a test %14d" % seed)
    )
    sent = pd.DataFrame(
        {
            "block": np.repeat(blocks, respondents),
            "report": mechanism.encode(reports),
            "cohort": reports[:, 0],
            "who": [f"person-{number}" for number in range(len(texts))],
        }
    )
    sent.sample(frac=1, random_state=seed).to_csv(folder / "reports.csv", index=False)
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    stated = ", ".join(f'{name} = "{value}"' for name, value in RAPPOR.items())
    answers = ", ".join(f'"a{number}"' for number in range(n_words))
    text = SPEC.format(mechanism="rappor", epsilon="", answers=f'{answers}, "other"')
    spec = folder / "survey.toml"
    spec.write_text(text.replace('epsilon = ""', stated))
    return Survey(spec, blocks, np.hstack([said[:, :n_words], said[:, n_words:].sum(axis=1, keepdims=True)]))
