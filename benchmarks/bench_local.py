"""Releases from randomised reports: coverage and errors by level, beside theory, debiasing alone and the central model.

    python benchmarks/bench_local.py [--part state|mixed|words]

A survey of 2 counties, 6 tracts and 240 blocks with 0 to 49 respondents, whose shares of answers differ; some surveys
for each mechanism. With `--part state`, the million people of the example state answer, in 25,000 blocks. With `--part
mixed`, the small surveys use counts of a central release above the blocks. With `--part words`, the example state
answers with words, by RAPPOR. Writes bench/local.json, local_state.json and so on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from local_held import held_if_large, shown_if_large
from local_state import measured_state, of_totals
from local_words import words_of_state
from measured_run import PROJECT
from survey_of_state import StateSurvey

from features.local.collected import CollectedAnswers
from features.local.survey import survey_of
from geography.build import spine_from_prefixes
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("", "tests")]
from local_mixed import mixed  # noqa: E402 - uses what the tests share, as does the next
from releases.survey import Survey, write_survey  # noqa: E402

_PARTS: Final = ("state", "mixed", "words")
#: Mechanism, number of answers, epsilon.
CASES: Final = (
    ("randomised_response", 2, "1"),
    ("direct_encoding", 12, "2"),
    ("unary_encoding", 12, "1"),
)
BLOCKS: Final = {"block": 1, "tract": 40, "county": 120}


def measured(survey: Survey, run: RunDirectory) -> dict[str, dict[str, float]]:
    """Of each level: share of true counts within their interval, and mean squared errors."""
    (universe,) = load_spec(survey.spec).universes()
    collected = survey_of(universe).collected
    numbers = survey.truth.sum(axis=1)
    totals = np.stack(pd.read_parquet(run.main.measurement("block", "answer")).value.to_list())
    debiased = collected.debiased(totals, numbers)
    found = {}
    for level, blocks in BLOCKS.items():
        table = pd.read_parquet(run.main.table("answer", level))
        names = [f"a{number}" for number in range(collected.n_cells)]
        truth, alone = (x.reshape(-1, blocks, len(names)).sum(axis=1) for x in (survey.truth, debiased))
        low, high, released = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90", ""))
        reports = numbers.reshape(-1, blocks).sum(axis=1)
        some, inside = reports > 0, (low <= truth) & (truth <= high)
        found[level] = held_if_large(truth[some], released[some], inside[some]) | {
            "covered": float(inside[some].mean()),
            "released": float(((released - truth) ** 2)[some].mean()),
            "alone": float(((alone - truth) ** 2)[some].mean()),
            "theory": float(collected.noise_per_report) / len(names) * float(reports[some].mean()),
        }
    return found


def as_state(survey: Survey, epsilon: str) -> StateSurvey:
    """A small survey in the form of the one of the state."""
    spec = load_spec(survey.spec)
    (universe,) = spec.universes()
    collected = survey_of(universe).collected
    assert isinstance(collected, CollectedAnswers)
    spine = spine_from_prefixes(survey.blocks, {"county": 1, "tract": 3, "block": 5})
    return StateSurvey(spine, collected, epsilon, survey.truth)


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("small", *_PARTS), default="small", help="which survey")
    parser.add_argument(
        "--surveys", type=int, help="of each mechanism; 6 small ones by default, 5 of the state, 2 of words"
    )
    given = parser.parse_args()
    if given.part == "state":
        kept("local_state", measured_state(CASES, given.surveys or 5))
    elif given.part == "mixed":
        kept("local_mixed", mixed(CASES, given.surveys or 12))
    elif given.part == "words":
        kept("local_words", words_of_state(given.surveys or 2))
    else:
        kept("local", small(given.surveys or 6))


def kept(name: str, rows: Sequence[object]) -> None:
    """Write the rows of a table."""
    out = PROJECT / "bench" / f"{name}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1))


def small(surveys: int) -> list[dict[str, str | float]]:
    """Print the table of small surveys, and return its rows."""
    print(f"{'mechanism':22} {'level':7} covered  of 10+: true / released  error: release / alone / theory / central"
          "  in many surveys: alone / theory, covered")  # fmt: skip
    results: list[dict[str, str | float]] = []
    for mechanism, n_values, epsilon in CASES:
        many: dict[str, dict[str, float]] = {}
        sums: dict[str, list[dict[str, float]]] = defaultdict(list)
        central: dict[str, float] = {}
        for seed in range(1, surveys + 1):
            with tempfile.TemporaryDirectory() as folder:
                survey = write_survey(Path(folder), mechanism, n_values, epsilon, blocks_of_tract=40, seed=seed)
                request = Request(spec=survey.spec, out=Path(folder) / "out", data=None, workers=1, key=KeySource())
                run = RunDirectory(run_release(check_request(request), Silent()))
                for level, one in measured(survey, run).items():
                    sums[level].append(one)
                many = many or of_totals(as_state(survey, epsilon), seed=2)
                plan_release = import_module("features.plan.release_plan").plan_release
                central = {row.level: row.central for row in plan_release(survey.spec, None, 1).local}
        for level, all_of_them in sums.items():
            mean = {name: float(np.mean([one[name] for one in all_of_them])) for name in all_of_them[0]}
            row = {
                name: value**0.5 if name in ("released", "alone", "theory") else value for name, value in mean.items()
            }
            of_many = many[level]
            named: dict[str, str | float] = {"mechanism": mechanism, "epsilon": epsilon, "level": level}
            results.append(named | {"central": central[level]} | of_many | row)
            errors = " / ".join(f"{row[name]:7.2f}" for name in ("released", "alone", "theory"))
            print(f"{mechanism:22} {level:7} {row['covered']:6.1%}  {shown_if_large(row)}  "
                  f"{errors} / {central[level]:7.2f}  "
                  f"{of_many['to theory']:6.3f} {of_many['covered in many']:6.1%}")  # fmt: skip
    return results


if __name__ == "__main__":
    main()
