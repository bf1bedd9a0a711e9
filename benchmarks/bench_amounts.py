"""Amounts: sums and means of a release, questions about them, and quantiles, beside OpenDP on the same budget.

    python benchmarks/bench_amounts.py [--part release|questions|quantiles] [--keys 12] [--less 0] [--json PATH]
        [--draws 1000] [--rho 1/200] [--epsilon 1/5] [--write FOLDER]

All of the employee income of 58,654 persons, the Austrian EU-SILC 2006 as a synthetic population. Truths are of amounts
as they are clipped and rounded, but for sums of releases.

release: `examples/wages.toml`, by region, sex, age band and activity: clipped to 0 to 60,000, in units of 500, with rho
= 1 for the counts and 1 for the sums. The spine below the region is made up by a public rule: the SHA-256 of "district
HOUSEHOLD", its first 8 bytes as a number, gives one of 6 districts by its remainder, and one of 8 sectors in the
district by the next one. OpenDP has the same clip, the same neighbours (one record is another), and for each table of
each level the same part of the same rho: sums of clipped whole euros (the sensitivity is that of `make_sum` on bounded
data) with the noise of `make_gaussian`, whose scale is found by its own privacy map. Its numbers are then cut at 0.
Errors are those of both from the sums of clipped amounts. Each key is another release; ratios are of means over keys.
Coverage is shown of all sums and by how many standard errors, as the plan foretells them, the true sum is: below 1, 1
to 3, and 3 or more. The standard error of a coverage is from how it differs between keys, since numbers of one release
err together. --less 20000 takes so much from each income and from both ends of the clip, so that sums are of either
sign; OpenDP's are then not cut. Two thirds of all persons are at the lower end.

questions: mean and sum by region and sex, in steps of 100 up to 60,000, each key another answer. Beside the error of
the sums that of a Gaussian mechanism with the same ends and budget on real numbers.

quantiles: median and quartile of those who have an income, by region and sex, in the same steps. Errors are in records:
how many lie between the number and the true quantile. OpenDP's is its mechanism on the same candidates, given all of
the budget, where the program keeps an eighth (under epsilon a sixteenth) for the counts that make an interval; a
changed record is two for it, one that goes and one that comes. The program's mean error is computed from the
probabilities of its choices, and that of what was drawn stands beside it; OpenDP's is drawn, so that the ratio has a
standard error, and computed by its formula, which gives the ratio without one.

--write only writes the records and the list of areas that the example names. Needs ../shared/data beside the project;
without it says so and ends.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.amounts.means import path_of, read_means
from features.questions.answering import answered
from features.questions.request import QuestionRequest, check_question
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import RecordHolder
from pipeline.execution.steps import Silent
from pipeline.model.promise import Promise
from pipeline.model.universe import Universe
from pipeline.privacy.budget import Framework
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.choices import PermuteAndFlip
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.quantiles import Rank, Ranked, losses
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.windows import bought, counts_in_windows, filtered, interval
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec
from pipeline.storage.paths import unchecked
from postprocess.statistics import NORMAL_QUANTILE

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "wages.toml"
POPULATION = EXAMPLE.parents[2] / "shared" / "data" / "eusilc_population.parquet"
OPENDP_DRAWS = 5
HIGH, PREFIXES = 60_000, {"country": 2, "region": 3, "district": 4, "sector": 5}
BANDS = ((15, "0-15"), (29, "16-29"), (44, "30-44"), (59, "45-59"), (200, "60+"))
ACTIVITY = {"1": "full time", "2": "part time"}
#: Standard errors between which true sums are taken together.
SIZES = ((0.0, 1.0), (1.0, 3.0), (3.0, math.inf))
#: Numbers over all keys of which a coverage is shown.
FEW = 100

#: Steps of 100 that a quantile is chosen from.
STEPS = 601
Groups = list[NDArray[np.int64]]
QUESTION_SPEC = """
name = "eusilc"
privacy = {{ rho = "1", dataset = "eusilc" }}
geography = {{ file = "areas.csv", levels = ["region", "district"] }}
schema.attributes.sex = ["female", "male"]
strategy = {{ queries = {{ sex = "1" }}, levels = {{ region = "1/2", district = "1/2" }} }}
input = {{ file = "{records}", form = "microdata", geocode = "district" }}
[questions.income]
column = "employee_income"
between = ["0", "60000"]
unit = "100"
missing = "0"
"""


def write_inputs(folder: Path, less: int) -> None:
    """The records and the list of sectors, made from the population by the public rule."""
    table = pq.read_table(POPULATION)
    regions = sorted(set(table.column("region").to_pylist()))
    number = {region: str(place + 1) for place, region in enumerate(regions)}

    def sector(region: str, household: int) -> str:
        drawn = int.from_bytes(hashlib.sha256(f"district {household}".encode()).digest()[:8], "big")
        return f"AT{number[region]}{drawn % 6}{drawn // 6 % 8}"

    columns = {
        "sector": map(sector, table.column("region").to_pylist(), table.column("household").to_pylist()),
        "sex": table.column("sex").to_pylist(),
        "age_band": (next(b for last, b in BANDS if age <= last) for age in table.column("age").to_pylist()),
        "activity": (ACTIVITY.get(str(one), "other") for one in table.column("activity").to_pylist()),
        "employee_income": (income - less for income in table.column("employee_income").to_pylist()),
    }
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), folder / "wages_persons.parquet")
    areas = [f"AT{r + 1}{d}{s}" for r in range(len(regions)) for d in range(6) for s in range(8)]
    pa_csv.write_csv(pa.table({"sector": areas}), folder / "wages_sectors.csv")


def truths(folder: Path, universe: Universe) -> dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """(table, level) -> true sums of clipped amounts, not rounded, and true counts; `(n_geounits, size)` by geocode."""
    records = pq.read_table(folder / "wages_persons.parquet")
    codes = np.array(records.column("sector").to_pylist())
    (amount,) = universe.measure.amounts
    ends = float(amount.low), float(amount.high)
    clipped = np.clip(records.column("employee_income").to_numpy(), *ends)
    areas = np.array(pa_csv.read_csv(folder / "wages_sectors.csv").column("sector").to_pylist())
    found = {}
    for table in universe.tables:
        terms = [universe.schema.attribute(term) for term in table.query.terms]
        group = np.zeros(len(codes), dtype=np.int64)
        for attribute in terms:
            place = {value: i for i, value in enumerate(attribute.values)}
            values = [place[value] for value in records.column(attribute.name).to_pylist()]
            group = group * len(attribute.values) + np.array(values)
        for level, length in PREFIXES.items():
            units = sorted({code[:length] for code in areas.tolist()})
            row = np.searchsorted(units, [code[:length] for code in codes.tolist()])
            at, shape = row * table.query.size + group, (len(units), table.query.size)
            sums = np.zeros(math.prod(shape))
            np.add.at(sums, at, clipped)
            counts = np.bincount(at, minlength=math.prod(shape)).astype(np.int64)
            found[table.name, level] = sums.reshape(shape), counts.reshape(shape)
    return found


def opendp_scale(rho: Fraction, less: int) -> float:
    """The scale at which OpenDP's Gaussian noise on a vector of sums costs rho; a record moves one or two of them."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    distance = max(math.sqrt(2) * max(less, HIGH - less), HIGH)
    return float(dp.binary_search_param(lambda scale: dp.m.make_gaussian(*space, scale), distance, float(rho)))


def opendp_sums(true: NDArray[np.float64], scale: float, *, cut: bool) -> NDArray[np.float64]:
    """Noisy sums in whole euros, cut at 0 where none is below."""
    import opendp.prelude as dp

    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    noisy = dp.m.make_gaussian(*space, scale)(np.rint(true).astype(int).ravel().tolist())
    found = np.array(noisy, dtype=np.float64).reshape(true.shape)
    return np.maximum(found, 0) if cut else found


def stated(less: int) -> str:
    """The example, with both ends of its clip less so much."""
    return EXAMPLE.read_text("utf-8").replace('["0", "60000"]', f'["{-less}", "{HIGH - less}"]')


def releases(folder: Path, keys: int, less: int) -> Iterator[tuple[ReleaseSpec, RunDirectory]]:
    """The example released with each of so many keys."""
    text = stated(less)
    for key in range(1, keys + 1):
        spec = parse_spec(text.replace('"insecure-test:1"', f'"insecure-test:{key}"'), "spec", folder)
        checked = check_stated(Request(EXAMPLE, folder / str(key), None, 1, i_know=True), spec)
        yield spec, RunDirectory(run_release(checked, Silent()))


def inside(low: NDArray[np.float64], high: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which truths their intervals hold."""
    return np.asarray((low <= true) & (true <= high))


def percent(share: tuple[float, float] | None) -> str:
    """A share and its standard error."""
    return "-" if share is None else f"{share[0]:.1%} +- {100 * share[1]:.1f}"


def share_over(keys: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of what each key has, and its standard error: keys are independent, numbers of one key are not."""
    return float(keys.mean()), float(keys.std(ddof=1) / math.sqrt(len(keys))) if len(keys) > 1 else math.nan


def foretold(folder: Path, less: int) -> dict[tuple[str, str], float]:
    """(query, level) -> standard error of a sum, as the plan foretells it."""
    (folder / "wages.toml").write_text(stated(less), encoding="utf-8")
    plan = import_module("features.plan.release_plan")
    rows = plan.plan_release(folder / "wages.toml", 1).amounts
    return {(row.query, row.level): (row.sum_margin or math.nan) / NORMAL_QUANTILE for row in rows}


def measured(folder: Path, keys: int, less: int) -> list[dict[str, Any]]:
    """For each table and level: mean absolute errors, and the shares of intervals that hold the truth."""
    write_inputs(folder, less)
    standard = foretold(folder, less)
    by_size: dict[tuple[str, str], list[list[float]]] = {}
    numbers: dict[tuple[str, str], list[int]] = {}
    errors: dict[tuple[str, str], list[list[float]]] = {}
    for spec, run in releases(folder, keys, less):
        universe = spec.universes()[1]
        true = truths(folder, universe)
        for (table, level), (sums, counts) in true.items():
            strategy = universe.strategy.level(level)
            query = next(t.query for t in universe.tables if t.name == table)
            share = next(m.share for m in strategy.queries if m.query.terms == query.terms) * strategy.share
            scale, cut = opendp_scale(universe.budget * share, less), less <= 0
            others = [np.abs(opendp_sums(sums, scale, cut=cut) - sums).mean() for _ in range(OPENDP_DRAWS)]
            means = read_means(unchecked(path_of(run, universe.name, table, level)))
            lows, highs, assured = means.sums.lows, means.sums.highs, means.means
            assert lows is not None
            assert highs is not None
            assert assured is not None
            assert assured.lows is not None
            assert assured.highs is not None
            some = (counts > 0) & ~np.isnan(assured.values)
            truth = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
            size = np.abs(sums) / standard[query.name, level]
            held = inside(lows, highs, sums)
            classes = [(size >= least) & (size < most) for least, most in SIZES]
            numbers[table, level] = [int(c.sum()) for c in classes]
            by_size.setdefault((table, level), []).append([float(held[c].mean()) if c.any() else 0 for c in classes])
            errors.setdefault((table, level), []).append([
                float(np.abs(means.sums.values - sums).mean()),
                float(np.mean(others)),
                float(held.mean()),
                float(inside(assured.lows, assured.highs, truth)[some].mean()),
                float(np.median((assured.highs - assured.lows)[some]) / 2),
            ])  # fmt: skip
    rows: list[dict[str, Any]] = []
    for table, level in itertools.product(dict.fromkeys(t for t, _ in errors), PREFIXES):
        found, sizes = np.array(errors[table, level]), np.array(by_size[table, level])
        own, other_error, _, _, margin = found.mean(axis=0).tolist()
        rows.append({
            "table": table, "level": level, "error": own, "opendp": other_error, "ratio": own / other_error,
            "sums_inside": share_over(found[:, 2]), "means_inside": share_over(found[:, 3]), "mean_margin": margin,
            "numbers": numbers[table, level],
            "inside_by_size": [
                share_over(held) if keys * n >= FEW else None
                for n, held in zip(numbers[table, level], sizes.T, strict=True)
            ],
        })  # fmt: skip
    return rows


def questions(folder: Path, keys: int, rho: str) -> None:
    """Print errors of means and sums that are asked for, and how often their intervals hold."""
    people = pd.read_parquet(POPULATION, columns=["household", "region", "sex", "employee_income"])
    # A spine that is made up: a region's households in ten districts, by their numbers.
    people["district"] = people["region"] + " " + (people["household"] % 10).astype(str)
    people.to_parquet(folder / "records.parquet")
    people[["region", "district"]].drop_duplicates().to_csv(folder / "areas.csv", index=False)
    (folder / "release.toml").write_text(QUESTION_SPEC.format(records=folder / "records.parquet"), "utf-8")
    os.environ["SPINEWISE_LEDGER"], os.environ["SPINEWISE_STATE"] = str(folder / "ledger"), str(folder / "state")
    with Ledger.open(str(folder / "ledger"), create=True, state=folder / "state") as ledger:
        ledger.open_dataset(
            "eusilc", population="made up", framework="zcdp", budget=Fraction(10**6), neighbours="change-one"
        )
    spec = load_spec(folder / "release.toml")
    steps = np.floor(people["employee_income"].fillna(0).clip(0, 60_000) / 100 + 0.5) * 100
    truth = people.assign(income=steps).groupby(["region", "sex"])["income"].agg(["mean", "sum", "count"])
    for statistic in ("mean", "sum"):
        rows = []
        for number in range(keys):
            MasterKey.generate().write(folder / f"{statistic}{number}.key")
            source = KeySource(folder / f"{statistic}{number}.key")
            request = QuestionRequest(
                spec, f"{statistic} income by region, sex", rho, out=folder / "answers", key=source
            )
            checked = check_question(replace(request, name=f"{statistic}{number}"))
            root = answered(checked, RecordHolder(source, checked.spec.privacy.key))
            rows.append(pd.read_csv(root / "public" / "answer.csv").set_index(["region", "sex"]))
        drawn = pd.concat(rows).join(truth.add_prefix("true "))
        errors = (drawn[statistic] - drawn[f"true {statistic}"]).abs()
        inside = drawn[f"true {statistic}"].between(drawn[f"{statistic}:low90"], drawn[f"{statistic}:high90"])
        line = (
            f"{statistic}: {len(drawn)} numbers, mean error {errors.mean():,.1f}, in its interval {inside.mean():.1%}"
        )
        if statistic == "sum":
            gaussian = 60_000 * math.sqrt(2 / (2 * Fraction(rho))) * math.sqrt(2 / math.pi)
            line += f"; a Gaussian mechanism on real numbers {gaussian:,.1f}"
        print(line)
    print(f"true means {truth['mean'].min():,.0f} to {truth['mean'].max():,.0f}, of {truth['count'].min():,} and more")


def quantiles(draws: int, rho: str, epsilon: str) -> None:
    """Print the errors of a median and a quartile under both promises."""
    people = pd.read_parquet(POPULATION, columns=["region", "sex", "employee_income"])
    steps = np.floor(people["employee_income"].fillna(0).clip(0, 60_000) / 100 + 0.5).astype(int)
    people = people.assign(step=steps)[steps > 0]
    groups = [group.to_numpy() for _, group in people.groupby(["region", "sex"])["step"]]
    print(f"{len(groups)} groups of {min(map(len, groups)):,} to {max(map(len, groups)):,}")
    budgets: tuple[tuple[Framework, str], ...] = (("zcdp", rho), ("pure", epsilon))
    for (framework, budget), quantile in product(budgets, (Fraction(1, 2), Fraction(1, 4))):
        print(f"{'rho' if framework == 'zcdp' else 'epsilon'} {budget}, quantile {quantile}:")
        compare(groups, Budget(framework, Fraction(budget)), quantile, draws)


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
    """Print the errors of both programs, and their ratio."""
    ours = expected_error(groups, budget, quantile)
    drawn, covered, wide = spinewise(groups, budget, quantile, draws)
    print(f"  mean error {ours:.2f} records, drawn {drawn}; in its interval {covered:.1%}, {wide:,.0f} wide")
    try:
        theirs = opendp(groups, budget, quantile, draws)
    except ImportError:
        print("  opendp is not installed, and was not compared")
        return
    ratio = ours / theirs.mean
    error = ratio * theirs.deviation / theirs.mean
    print(f"  opendp {version('opendp')}: {theirs}, ratio {ratio:.3f} (standard error {error:.3f})")
    expected = opendp_expected(groups, budget, quantile)
    print(f"    by its formula {expected:.2f} records, ratio {ours / expected:.3f}")


def chosen_by(
    groups: Groups, budget: Budget, quantile: Fraction
) -> Iterator[tuple[NDArray[np.int64], Ranked, MeasuredPart]]:
    """Of each group its histogram `(1, STEPS)`, and with what number and interval are made."""
    choice, windows = bought(Rank(quantile, STEPS, 0), Promise(budget.framework, "change-one", budget.amount))
    for values in groups:
        yield np.bincount(values, minlength=STEPS)[None].astype(np.int64), choice, windows


def expected_error(groups: Groups, budget: Budget, quantile: Fraction) -> float:
    """The mean error in records, from the probabilities of all choices."""
    means = []
    for values, (histogram, choice, _) in zip(groups, chosen_by(groups, budget, quantile), strict=True):
        (row,) = losses(histogram, choice).tolist()
        probabilities = choice.mechanism.probabilities(row)
        means.append(math.fsum(p * rank_error(values, step, quantile) for step, p in enumerate(probabilities)))
    return fmean(means)


def spinewise(groups: Groups, budget: Budget, quantile: Fraction, draws: int) -> tuple[Error, float, float]:
    """The error of what is drawn, the share of intervals with the truth, and their median width in amounts."""
    errors, covered, widths, framework = [], [], [], budget.framework
    for number, (histogram, choice, windows) in enumerate(chosen_by(groups, budget, quantile)):
        values = groups[number]
        true = int(np.searchsorted(np.cumsum(histogram[0]), math.ceil(quantile * len(values))))
        key = bytes([number, quantile.denominator]) + bytes(29)
        steps = choice.mechanism.draw(key + b"q", np.repeat(losses(histogram, choice), draws, axis=0))
        counts = filtered(counts_in_windows(np.repeat(histogram, draws, axis=0), steps), framework)
        noisy = counts + sampler_for(windows.mechanism).draw(key + b"w", 0, counts.size).reshape(counts.shape)
        for step, row in zip(steps.tolist(), noisy.tolist(), strict=True):
            low, high = interval(step, row, STEPS, quantile, framework, windows.mechanism.variance)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("release", "questions", "quantiles"), default="release")
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--less", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--draws", type=int, default=1000, help="of a quantile")
    parser.add_argument("--rho", default="1/200", help="of a question or a quantile")
    parser.add_argument("--epsilon", default="1/5", help="of a quantile")
    options = parser.parse_args()
    if not POPULATION.is_file():
        print("bench_amounts: ../shared/data is not beside the project; nothing is measured")
        return
    if options.write is not None:
        options.write.mkdir(parents=True, exist_ok=True)
        write_inputs(options.write, options.less)
        return
    if options.part == "quantiles":
        quantiles(options.draws, options.rho, options.epsilon)
        return
    with tempfile.TemporaryDirectory() as name:
        if options.part == "questions":
            questions(Path(name), options.keys, options.rho)
            return
        rows = measured(Path(name), options.keys, options.less)
    print(
        f"{'table':12} {'level':9} {'error':>10} {'OpenDP':>10} {'ratio':>6} {'sums in':>13} {'means in':>13} "
        f"{'margin':>9}   sums in: below 1, 1 to 3, 3 or more standard errors (numbers of a release)"
    )
    for row in rows:
        print(
            f"{row['table']:12} {row['level']:9} {row['error']:10,.0f} {row['opendp']:10,.0f} {row['ratio']:6.2f} "
            f"{percent(row['sums_inside']):>13} {percent(row['means_inside']):>13} {row['mean_margin']:9,.0f}   "
            + "  ".join(
                f"{percent(share):>13} ({n})" for share, n in zip(row["inside_by_size"], row["numbers"], strict=True)
            )
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
