"""The survey of the example state: coverage and errors of whole runs, and of many surveys by debiased totals alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from local_held import Measures, held_if_large, shown_if_large, shown_inverted, with_inverted_test
from numpy.typing import NDArray
from survey_of_state import StateSurvey, state_survey

from features.local.collected import Collected
from geography.spine import Spine
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from postprocess.statistics import half_widths

#: Numbers of a level that are looked at in many surveys, about; the error of their error is below 1 % then.
_NUMBERS: Final = 50_000
_AT_ONCE: Final = 500


def summed(spine: Spine, level: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of leaves `(n_leaves, m)` added up to a level."""
    return np.add.reduceat(values, spine.leaf_offsets(level)[:-1], axis=0)


def of_runs(survey: StateSurvey, runs: int) -> dict[str, Measures]:
    """Of each level: what is measured in whole releases."""
    found: dict[str, list[Measures]] = {level.name: [] for level in survey.spine.levels}
    for seed in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            spec = survey.write(Path(folder), seed)
            request = Request(spec=spec, out=Path(folder) / "out", data=None, workers=1, key=KeySource())
            run = RunDirectory(run_release(check_request(request), Silent()))
            for level, one in _of_run(survey, run).items():
                found[level].append(one)
    return {level: {name: float(np.mean([one[name] for one in all_of_them])) for name in all_of_them[0]}
            for level, all_of_them in found.items()}  # fmt: skip


def _of_run(survey: StateSurvey, run: RunDirectory) -> dict[str, Measures]:
    totals = np.stack(pd.read_parquet(run.main.measurement("block", "answer")).value.to_list())
    names = [f"a{number}" for number in range(survey.collected.n_cells)]
    found = {}
    for number, level in enumerate(survey.spine.levels):
        table = pd.read_parquet(run.main.table("answer", level.name))
        low, high, released = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90", ""))
        truth, of_level = (summed(survey.spine, number, each) for each in (survey.truth, totals))
        reports = truth.sum(axis=1)
        alone, some = survey.collected.debiased(of_level, reports), reports > 0
        inside = (low <= truth) & (truth <= high)
        large = held_if_large(truth[some], released[some], inside[some])
        union = with_inverted_test(truth[some], released[some], low[some], high[some], reports[some])
        found[level.name] = (
            large
            | union
            | {
                "covered": float(inside[some].mean()),
                "width": float((high - low)[some].mean()),
                "released": float(((released - truth) ** 2)[some].mean()),
                "alone": float(((alone - truth) ** 2)[some].mean()),
            }
        )
    return found


def of_totals(survey: StateSurvey, seed: int) -> dict[str, Measures]:
    """Of each level: what is measured in many surveys, whose totals are drawn from the mechanism's distribution."""
    rng, collected = np.random.default_rng(seed), survey.collected
    found = {}
    for number, level in enumerate(survey.spine.levels):
        truth = summed(survey.spine, number, survey.truth)
        truth = truth[truth.sum(axis=1) > 0]
        left, surveys = -(-_NUMBERS // len(truth)), -(-_NUMBERS // len(truth))
        squares = covered = 0.0
        while left:
            some = min(left, max(1, _AT_ONCE * 100 // len(truth)))
            many, left = np.tile(truth, (some, 1)), left - some
            reports = many.sum(axis=1)
            debiased = collected.debiased(collected.totals_of(many, rng), reports)
            squares += float(((debiased - many) ** 2).sum())
            covered += float(_held(collected, debiased, many, reports).sum())
        counted = surveys * truth.size
        theory = float(collected.noise_per_report) / collected.n_cells * float(truth.sum(axis=1).mean())
        found[level.name] = {
            "theory": theory, "to theory": (squares / counted / theory) ** 0.5,
            "covered in many": covered / counted, "surveys": float(surveys),
        }  # fmt: skip
    return found


def _held(
    collected: Collected, debiased: NDArray[np.float64], truth: NDArray[np.int64], reports: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether intervals by standard errors hold the truth: those of a release, where counts are large."""
    each, k = reports[:, None], collected.n_cells
    counts = np.rint(debiased + (each - debiased.sum(axis=1, keepdims=True)) / k).astype(np.int64)
    stated = np.sqrt(each * float(collected.unit_variance) * (1 - 1 / k))
    cells = np.arange(k)
    standard = stated * collected.own_errors(cells, cells[None, :], counts, each)
    return np.asarray(np.abs(counts - truth) <= half_widths(standard))


def measured_state(cases: tuple[tuple[str, int, str], ...], runs: int) -> list[dict[str, str | float]]:
    """Print the table of all mechanisms and levels, and return its rows."""
    print(f"{'mechanism':20} {'level':11} {'areas':>6} covered  of 10 and more: true / released  "
          "error: release / alone / theory  in many surveys: alone / theory, covered, surveys")  # fmt: skip
    rows: list[dict[str, str | float]] = []
    for mechanism, n_values, epsilon in cases:
        survey = state_survey(mechanism, n_values, epsilon, seed=1)
        whole, many = of_runs(survey, runs), of_totals(survey, seed=2)
        for number, level in enumerate(survey.spine.levels):
            row = whole[level.name] | many[level.name]
            for name in ("released", "alone", "theory"):
                row[name] **= 0.5
            areas = int((summed(survey.spine, number, survey.truth).sum(axis=1) > 0).sum())
            rows.append({"mechanism": mechanism, "epsilon": epsilon, "level": level.name, "areas": areas, **row})
            errors = " / ".join(f"{row[name]:8.2f}" for name in ("released", "alone", "theory"))
            of_many = f"{row['to theory']:6.3f} {row['covered in many']:6.1%} {row['surveys']:8.0f}"
            large = shown_if_large(row)
            print(f"  {shown_inverted(row)}")
            print(f"{mechanism:20} {level.name:11} {areas:6} {row['covered']:6.1%}  {large}  {errors}   {of_many}",
                  flush=True)  # fmt: skip
    return rows
