"""A mixed design: a survey whose respondents randomised, and a central release of the same persons' true answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from releases.survey import Survey, write_survey

_CENTRAL = """
name = "register"
{purpose}

[privacy]
rho = "{rho}"
{dataset}

[input]
file = "true_answers.csv"
form = "long"
geocode = "block"

[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 1, tract = 3, block = 5 }}

[schema.attributes]
answer = [{answers}]

[strategy]
queries = {{ answer = "1" }}
levels = {{ county = "1/2", tract = "1/4", block = "1/4" }}

[publish]
margins = false
microdata = false
"""
_USED = """
[collect.central]
release = "{release}"
rho = "{rho}"
levels = {{ county = "1/2", tract = "1/4" }}
"""


@dataclass(frozen=True, eq=False)
class MixedSurvey:
    """The survey, and the spec of the central release that it uses, which stands in `central.parent / "out"`."""

    survey: Survey
    central: Path


def write_mixed(
    folder: Path, mechanism: str = "direct_encoding", n_values: int = 4, epsilon: str = "1", *,
    rho: str = "1/10", dataset: str = "", example: bool = False, blocks_of_tract: int = 12, seed: int = 1,
) -> MixedSurvey:  # fmt: skip
    """Write the files of `write_survey` and those of a central release, which has to be run before the survey's.

    Args:
        folder: for the survey's files; those of the central release are in `register` below it.
        mechanism, n_values, epsilon, blocks_of_tract, seed: see `write_survey`.
        rho: of the central release.
        dataset: that it is charged to; empty for none.
        example: both say that they are about made-up data.
    """
    survey = write_survey(folder, mechanism, n_values, epsilon, blocks_of_tract=blocks_of_tract, seed=seed)
    place = folder / "register"
    place.mkdir()
    names = [f"a{number}" for number in range(n_values)]
    rows = pd.DataFrame(
        {
            "block": np.repeat(survey.blocks, n_values),
            "answer": np.tile(names, len(survey.blocks)),
            "count": survey.truth.ravel(),
        }
    )
    rows.to_csv(place / "true_answers.csv", index=False)
    pd.DataFrame({"block": survey.blocks}).to_csv(place / "blocks.csv", index=False)
    purpose = 'purpose = "example"' if example else ""
    central = place / "register.toml"
    central.write_text(
        _CENTRAL.format(
            purpose=purpose,
            rho=rho,
            dataset=f'dataset = "{dataset}"' if dataset else "",
            answers=", ".join(f'"{name}"' for name in names),
        )
    )
    text = survey.spec.read_text().replace('name = "survey"', f'name = "survey"\n{purpose}')
    used = _USED.format(release="register/out/register", rho=rho)
    survey.spec.write_text(text.replace("[input]", f"{used}\n[input]"))
    return MixedSurvey(survey, central)
