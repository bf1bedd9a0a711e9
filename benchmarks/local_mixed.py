"""Mixed designs: counts of a central release above, reports below; beside either of them alone."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from local_held import held_if_large, shown_if_large
from releases.mixed import write_mixed
from releases.survey import Survey

from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release

#: Blocks of an area of each level.
BLOCKS: Final = {"block": 1, "tract": 40, "county": 120}
#: rho of the central release: half of it at counties, a quarter at tracts, and one at blocks, which is not used here.
RHO: Final = "1/50"
_LARGE: Final = ("true large", "true large held", "released large", "released large held")


def _run(spec: Path, out: Path) -> RunDirectory:
    request = Request(spec=spec, out=out, data=None, workers=1, key=KeySource())
    return RunDirectory(run_release(check_request(request), Silent()))


def _squares(survey: Survey, run: RunDirectory, level: str) -> tuple[float, float, tuple[float, ...]]:
    """The mean squared error of a release at a level; the share of counts that are held; of large ones."""
    table = pd.read_parquet(run.main.table("answer", level))
    names = [f"a{number}" for number in range(survey.truth.shape[1])]
    truth = survey.truth.reshape(-1, BLOCKS[level], len(names)).sum(axis=1)
    some = truth.sum(axis=1) > 0
    error = float(((table[names].to_numpy() - truth) ** 2)[some].mean())
    if f"{names[0]}:low90" not in table:
        return error, float("nan"), ()
    low, high = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
    inside = ((low <= truth) & (truth <= high))[some]
    large = held_if_large(truth[some], table[names].to_numpy()[some], inside)
    return error, float(inside.mean()), tuple(large[name] for name in _LARGE)


def mixed(cases: tuple[tuple[str, int, str], ...], surveys: int) -> list[dict[str, str | float]]:
    """Print the table of mixed designs, and return its rows."""
    print(f"{'mechanism':20} {'level':7} covered  of 10+: true / released  error: mixed / planned / reports / central")
    rows: list[dict[str, str | float]] = []
    for mechanism, n_values, epsilon in cases:
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        planned: dict[str, float] = {}
        for seed in range(1, surveys + 1):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                both = write_mixed(
                    folder / "mixed", mechanism, n_values, epsilon,
                    rho=RHO, example=True, blocks_of_tract=40, seed=seed,
                )  # fmt: skip
                central = _run(both.central, both.central.parent / "out")
                stated = both.survey.spec.read_text().replace("respondents = 20", "respondents = 25")
                both.survey.spec.write_text(stated)
                ours = _run(both.survey.spec, folder / "out")
                plan_release = import_module("features.plan.release_plan").plan_release
                planned = {row.level: row.local for row in plan_release(both.survey.spec, None, 1).local}
                alone = both.survey.spec.with_name("alone.toml")
                alone.write_text(stated[: stated.index("[collect.central]")] + stated[stated.index("[input]") :])
                reports = _run(alone, folder / "alone")
                for level in BLOCKS:
                    error, covered, large = _squares(both.survey, ours, level)
                    others = (_squares(both.survey, run, level)[0] for run in (reports, central))
                    found[level].append((covered, error, *others, *large))
        for level, each in found.items():
            covered, *means = np.mean(each, axis=0).tolist()
            error, reports_alone, central_alone = np.sqrt(means[:3]).tolist()
            of_large = dict(zip(_LARGE, means[3:], strict=True))
            rows.append(
                {"mechanism": mechanism, "epsilon": epsilon, "level": level, "covered": covered, "mixed": error,
                 "planned": planned[level], "reports alone": reports_alone, "central alone": central_alone} | of_large
            )  # fmt: skip
            print(f"{mechanism:20} {level:7} {covered:6.1%}   {shown_if_large(of_large)}  "
                  f"{error:7.2f} / {planned[level]:7.2f} / "
                  f"{reports_alone:7.2f} / {central_alone:7.2f}", flush=True)  # fmt: skip
    return rows
