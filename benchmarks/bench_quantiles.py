"""How near private quantiles of an amount are, beside those of OpenDP on the same budget, and how often intervals hold.

    python benchmarks/bench_quantiles.py [--draws 1000] [--rho 1/200] [--epsilon 1/5]

58,654 made-up persons of EU-SILC: median and quartile of the employee income of those who have one, by region and sex,
in steps of 100 up to 60,000. Errors are in records: how many lie between the number and the true quantile. OpenDP's is
its mechanism on the same candidates, given all of the budget, where the program keeps an eighth (under epsilon a
sixteenth) for the counts that make an interval; a changed record is two for it, one that goes and one that comes. Both
draw for the same groups. The truth is of amounts as they are clipped and rounded. The program's mean error is computed
from the probabilities of its choices, and that of what was drawn stands beside it; OpenDP's is drawn, so that the ratio
has a standard error, which is printed, and computed by its formula, which gives the ratio without one.

Needs the data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.privacy.budget import Framework
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.quantiles import Rank, Ranked, losses
from pipeline.questions.sensitivity import Measured
from pipeline.questions.windows import bought, counts_in_windows, filtered, interval

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "eusilc_population.parquet"
STEPS = 601
Groups = list[NDArray[np.int64]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--rho", default="1/200")
    parser.add_argument("--epsilon", default="1/5")
    arguments = parser.parse_args()
    if not DATA.is_file():
        print(f"{DATA}: not there, nothing was measured")
        return
    people = pd.read_parquet(DATA, columns=["region", "sex", "employee_income"])
    steps = np.floor(people["employee_income"].fillna(0).clip(0, 60_000) / 100 + 0.5).astype(int)
    people = people.assign(step=steps)[steps > 0]
    groups = [group.to_numpy() for _, group in people.groupby(["region", "sex"])["step"]]
    print(f"{len(groups)} groups of {min(map(len, groups)):,} to {max(map(len, groups)):,}")
    budgets: tuple[tuple[Framework, str], ...] = (("zcdp", arguments.rho), ("pure", arguments.epsilon))
    for (framework, budget), quantile in product(budgets, (Fraction(1, 2), Fraction(1, 4))):
        print(f"{'rho' if framework == 'zcdp' else 'epsilon'} {budget}, quantile {quantile}:")
        compare(groups, Budget(framework, Fraction(budget)), quantile, arguments.draws)


@dataclass(frozen=True)
class Budget:
    """What each method may spend."""

    framework: Framework
    amount: Fraction


@dataclass(frozen=True)
class Error:
    """A mean error in records, and its standard error."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} records (standard error {self.deviation:.2f})"


def compare(groups: Groups, budget: Budget, quantile: Fraction, draws: int) -> None:
    """Print the errors of all methods, and the ratio to each other one."""
    ours = expected_error(groups, budget, quantile)
    drawn, covered, wide = spinewise(groups, budget, quantile, draws)
    print(f"  mean error {ours:.2f} records, drawn {drawn}; in its interval {covered:.1%}, {wide:,.0f} wide")
    for name, method, most in (("opendp", opendp, draws), ("tmlt.analytics", tumult, 20)):
        try:
            theirs = method(groups, budget, quantile, min(draws, most))
        except ImportError:
            print(f"  {name} is not installed, and was not compared")
            continue
        ratio = ours / theirs.mean
        error = ratio * theirs.deviation / theirs.mean
        print(f"  {name} {version(name)}: {theirs}, ratio {ratio:.3f} (standard error {error:.3f})")
        if name == "opendp":
            expected = opendp_expected(groups, budget, quantile)
            print(f"    by its formula {expected:.2f} records, ratio {ours / expected:.3f}")


def chosen_by(
    groups: Groups, budget: Budget, quantile: Fraction
) -> Iterator[tuple[NDArray[np.int64], Ranked, Measured]]:
    """Of each group its histogram `(1, STEPS)`, and with what number and interval are made."""
    choice, windows = bought(Rank(quantile, STEPS, 0), budget.framework, "change-one", budget.amount, 1)
    for values in groups:
        yield np.bincount(values, minlength=STEPS)[None].astype(np.int64), choice, windows


def expected_error(groups: Groups, budget: Budget, quantile: Fraction) -> float:
    """The mean error in records, from the probabilities of all choices."""
    means = []
    for values, (histogram, choice, _) in zip(groups, chosen_by(groups, budget, quantile), strict=True):
        (row,) = losses(histogram, choice).tolist()
        probabilities = choice.chooser.probabilities(row)
        means.append(math.fsum(p * rank_error(values, step, quantile) for step, p in enumerate(probabilities)))
    return fmean(means)


def spinewise(groups: Groups, budget: Budget, quantile: Fraction, draws: int) -> tuple[Error, float, float]:
    """The error of what is drawn, the share of intervals with the truth, and their median width in amounts."""
    errors, covered, widths, framework = [], [], [], budget.framework
    for number, (histogram, choice, windows) in enumerate(chosen_by(groups, budget, quantile)):
        values = groups[number]
        true = int(np.searchsorted(np.cumsum(histogram[0]), math.ceil(quantile * len(values))))
        key = bytes([number, quantile.denominator]) + bytes(29)
        steps = choice.chooser.draw(key + b"q", np.repeat(losses(histogram, choice), draws, axis=0))
        counts = filtered(counts_in_windows(np.repeat(histogram, draws, axis=0), steps), framework)
        noisy = counts + sampler_for(windows.noise).draw(key + b"w", 0, counts.size).reshape(counts.shape)
        for step, row in zip(steps.tolist(), noisy.tolist(), strict=True):
            low, high = interval(step, row, STEPS, quantile, framework, windows.noise.variance)
            covered.append(low <= true <= high)
            widths.append(100 * (high - low))
        errors.append([rank_error(values, step, quantile) for step in steps.tolist()])
    return mean_of(errors), fmean(covered), float(np.median(widths))


def opendp_at(budget: Budget, quantile: Fraction) -> tuple[float, Any]:
    """The least scale of OpenDP's mechanism that costs the budget for a changed record, and the mechanism."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    candidates = list(range(STEPS))
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    measure = dp.zero_concentrated_divergence() if budget.framework == "zcdp" else dp.max_divergence()

    def at(scale: float) -> dp.Measurement:
        return dp.m.make_private_quantile(*space, measure, candidates=candidates, alpha=float(quantile), scale=scale)

    # Two groups, each by one record; or one group by two.
    def cost(scale: float) -> float:
        moved: Any = at(scale).map
        return max(2 * float(moved(1)), float(moved(2)))

    scale: float = dp.binary_search(lambda one: cost(one) <= float(budget.amount), bounds=(1e-3, 1e6))
    return scale, at(scale)


def opendp(groups: Groups, budget: Budget, quantile: Fraction, draws: int) -> Error:
    """The error of OpenDP's mechanism."""
    _, measurement = opendp_at(budget, quantile)
    errors = []
    for values in groups:
        given = values.tolist()
        errors.append([rank_error(values, int(measurement(given)), quantile) for _ in range(draws)])
    return mean_of(errors)


def opendp_expected(groups: Groups, budget: Budget, quantile: Fraction) -> float:
    """The mean error of OpenDP's mechanism by its formula: noise on |(1 - q) less - q more|, Gumbel's under rho.

    Exponential noise, as it is under epsilon, is permute-and-flip (Ding et al. 2021).
    """
    scale, _ = opendp_at(budget, quantile)
    q, means = float(quantile), []
    for values in groups:
        upto = np.cumsum(np.bincount(values, minlength=STEPS))
        less, more = np.concatenate([[0], upto[:-1]]), len(values) - upto
        scores = np.abs((1 - q) * less - q * more)
        if budget.framework == "zcdp":
            weights = np.exp(-scores / scale)
        else:
            units = np.rint(scores * quantile.denominator).astype(int).tolist()
            weights = np.array(PermuteAndFlip(Fraction(2 / scale) / quantile.denominator).probabilities(units))
        off = [rank_error(values, step, quantile) for step in range(STEPS)]
        means.append(float(weights @ np.array(off) / weights.sum()))
    return fmean(means)


def tumult(groups: Groups, budget: Budget, quantile: Fraction, draws: int) -> Error:
    """The error of Tumult Analytics on Spark; a changed record is two. ImportError where it is missing.

    It wants Java, and pandas below 2, so that it hardly ever is beside the program.
    """
    analytics: Any = import_module("tmlt.analytics")
    spark: Any = import_module("pyspark.sql").SparkSession.builder.master("local[1]").getOrCreate()
    budget_of = analytics.RhoZCDPBudget if budget.framework == "zcdp" else analytics.PureDPBudget
    # Copies of a group are groups of their own: one evaluation, which is slow, draws for all.
    parts = [
        pd.DataFrame({"group": f"{number}:{draw}", "step": values})
        for number, values in enumerate(groups)
        for draw in range(draws)
    ]
    keys = analytics.KeySet.from_dict({"group": [str(part["group"].iloc[0]) for part in parts]})
    session = analytics.Session.from_dataframe(
        budget_of(float("inf")),
        "people",
        spark.createDataFrame(pd.concat(parts)),
        protected_change=analytics.AddMaxRows(2),
    )
    query = analytics.QueryBuilder("people").groupby(keys)
    query = query.quantile("step", float(quantile), low=0, high=STEPS - 1, name="found")
    found = session.evaluate(query, budget_of(float(budget.amount))).toPandas()
    errors: list[list[float]] = [[] for _ in groups]
    for group, step in zip(found["group"], found["found"], strict=True):
        number = int(group.split(":")[0])
        errors[number].append(rank_error(groups[number], round(step), quantile))
    return mean_of(errors)


def mean_of(errors: list[list[float]]) -> Error:
    """The mean over groups, which are given, and draws, which vary."""
    drawn = np.array(errors)
    variance = (drawn.var(axis=1, ddof=1) / drawn.shape[1]).sum() / len(drawn) ** 2
    return Error(float(drawn.mean()), math.sqrt(variance))


def rank_error(values: NDArray[np.int64], step: int, quantile: Fraction) -> float:
    """How many records lie between a step and the quantile."""
    below, upto = int((values < step).sum()), int((values <= step).sum())
    target = float(quantile) * len(values)
    return max(below - target, target - upto, 0.0)


if __name__ == "__main__":
    main()
