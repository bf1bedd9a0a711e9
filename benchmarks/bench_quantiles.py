"""How near private quantiles of an amount are, beside those of OpenDP on the same budget, and how often intervals hold.

    python benchmarks/bench_quantiles.py [--draws 400] [--rho 1/200]

58,654 made-up persons of EU-SILC: median and quartile of the employee income of those who have one, by region and sex,
in steps of 100 up to 60,000. Errors are in records: how many lie between the number and the true quantile. OpenDP's is
its exponential mechanism on the same candidates, given all of the budget, where the program keeps an eighth for the
counts that make an interval; a changed record is two for it, one that goes and one that comes. Both draw for the same
groups. The truth is of amounts as they are clipped and rounded.

Needs the data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.quantiles import Rank, losses
from pipeline.questions.windows import bought, counts_in_windows, filtered, interval

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "eusilc_population.parquet"
STEPS = 601


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--rho", default="1/200")
    arguments = parser.parse_args()
    if not DATA.is_file():
        print(f"{DATA}: not there, nothing was measured")
        return
    people = pd.read_parquet(DATA, columns=["region", "sex", "employee_income"])
    steps = np.floor(people["employee_income"].fillna(0).clip(0, 60_000) / 100 + 0.5).astype(int)
    people = people.assign(step=steps)[steps > 0]
    groups = [group.to_numpy() for _, group in people.groupby(["region", "sex"])["step"]]
    print(f"{len(groups)} groups of {min(map(len, groups)):,} to {max(map(len, groups)):,}, rho = {arguments.rho}")
    for quantile in (Fraction(1, 2), Fraction(1, 4)):
        ours, covered, wide = spinewise(groups, quantile, Fraction(arguments.rho), arguments.draws)
        line = f"quantile {quantile}: mean error {ours:.2f} records, in its interval {covered:.1%}, {wide:,.0f} wide"
        try:
            theirs = opendp(groups, quantile, float(Fraction(arguments.rho)), arguments.draws)
            line += f"; OpenDP {version('opendp')} {theirs:.2f} records, ratio {ours / theirs:.2f}"
        except ImportError:
            line += "; OpenDP is not installed"
        try:
            theirs = tumult(groups, quantile, Fraction(arguments.rho), min(arguments.draws, 20))
            line += f"; tumult-analytics {version('tmlt.analytics')} {theirs:.2f} records, ratio {ours / theirs:.2f}"
        except ImportError:
            line += "; tumult-analytics is not installed, and was not compared"
        print(line)


def spinewise(
    groups: list[NDArray[np.int64]], quantile: Fraction, rho: Fraction, draws: int
) -> tuple[float, float, float]:
    """Mean error in records, share of intervals with the truth, and their median width in amounts."""
    choice, windows = bought(Rank(quantile, STEPS, 0), "zcdp", "change-one", rho, 1)
    errors, covered, widths = [], [], []
    for number, values in enumerate(groups):
        histogram = np.bincount(values, minlength=STEPS)[None].astype(np.int64)
        upto = np.cumsum(histogram[0])
        true = int(np.searchsorted(upto, math.ceil(quantile * len(values))))
        key = bytes([number, quantile.denominator]) + bytes(29)
        steps = Exponential(choice.scale).draw(key + b"q", np.repeat(losses(histogram, choice), draws, axis=0))
        counts = filtered(counts_in_windows(np.repeat(histogram, draws, axis=0), steps), "zcdp")
        noisy = counts + sampler_for(windows.noise).draw(key + b"w", 0, counts.size).reshape(counts.shape)
        for step, row in zip(steps.tolist(), noisy.tolist(), strict=True):
            low, high = interval(step, row, STEPS, quantile, "zcdp", windows.noise.variance)
            covered.append(low <= true <= high)
            widths.append(100 * (high - low))
        errors += [rank_error(values, step, quantile) for step in steps.tolist()]
    return fmean(errors), fmean(covered), float(np.median(widths))


def opendp(groups: list[NDArray[np.int64]], quantile: Fraction, rho: float, draws: int) -> float:
    """Mean error in records of OpenDP's mechanism; its scale is the least that costs rho for a changed record."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    candidates = list(range(STEPS))
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()

    def at(scale: float) -> dp.Measurement:
        return dp.m.make_private_quantile(
            *space, dp.zero_concentrated_divergence(), candidates=candidates, alpha=float(quantile), scale=scale
        )

    # Two groups, each by one record; or one group by two.
    def cost(scale: float) -> float:
        moved: Any = at(scale).map
        return max(2 * float(moved(1)), float(moved(2)))

    scale: float = dp.binary_search(lambda one: cost(one) <= rho, bounds=(1e-3, 1e6))
    measurement = at(scale)
    return fmean(
        rank_error(values, int(measurement(values.tolist())), quantile) for values in groups for _ in range(draws)
    )


def tumult(groups: list[NDArray[np.int64]], quantile: Fraction, rho: Fraction, draws: int) -> float:
    """Mean error in records of Tumult Analytics on Spark; a changed record is two. ImportError where it is missing.

    It wants Java, and pandas below 2, so that it hardly ever is beside the program.
    """
    analytics: Any = import_module("tmlt.analytics")
    spark: Any = import_module("pyspark.sql").SparkSession.builder.master("local[1]").getOrCreate()
    # Copies of a group are groups of their own: one evaluation, which is slow, draws for all.
    parts = [
        pd.DataFrame({"group": f"{number}:{draw}", "step": values})
        for number, values in enumerate(groups)
        for draw in range(draws)
    ]
    keys = analytics.KeySet.from_dict({"group": [str(part["group"].iloc[0]) for part in parts]})
    session = analytics.Session.from_dataframe(
        analytics.RhoZCDPBudget(float("inf")),
        "people",
        spark.createDataFrame(pd.concat(parts)),
        protected_change=analytics.AddMaxRows(2),
    )
    query = analytics.QueryBuilder("people").groupby(keys)
    query = query.quantile("step", float(quantile), low=0, high=STEPS - 1, name="found")
    found = session.evaluate(query, analytics.RhoZCDPBudget(float(rho))).toPandas()
    return fmean(
        rank_error(groups[int(group.split(":")[0])], round(step), quantile)
        for group, step in zip(found["group"], found["found"], strict=True)
    )


def rank_error(values: NDArray[np.int64], step: int, quantile: Fraction) -> float:
    """How many records lie between a step and the quantile."""
    below, upto = int((values < step).sum()), int((values <= step).sum())
    target = float(quantile) * len(values)
    return max(below - target, target - upto, 0.0)


if __name__ == "__main__":
    main()
