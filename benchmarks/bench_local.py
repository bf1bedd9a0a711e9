"""Releases from randomised reports: coverage and errors by level, beside theory, debiasing alone and the central model.

    python benchmarks/bench_local.py [--part small|state|mixed|answers] [--surveys N] [--reports 1000000] [--json PATH]

small: a survey of 2 counties, 6 tracts and 240 blocks with 0 to 49 respondents, whose shares of answers differ; some
surveys for each mechanism. state: the million people of the example state answer, in 25,000 blocks. mixed: the small
surveys use counts of a central release above the blocks.

answers: the randomisers of `spinewise.collect` by themselves. Errors: the root mean square error of debiased counts of
2,000 areas of 200 reports each, divided by what exact variances say, with the coverage of 90 % intervals. Speed:
answers randomised per second beside numpy's floating-point generator doing the same, and beside OpenDP, which
randomises an answer per call; totals beside `numpy.add.at`; medians by processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from measured_run import PROJECT
from numpy.typing import NDArray

from features.example.example import LEVELS, block_codes
from features.example.population import populate
from features.local.collect.bits import KeyedBytes, SystemBytes
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.rappor import Rappor
from features.local.collect.respondent import mechanism_of
from features.local.collected import Collected, CollectedAnswers, CollectedWords
from features.local.survey import survey_of
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec
from postprocess.statistics import half_widths

sys.path[:0] = [str(PROJECT / name) for name in ("", "tests")]
from releases.mixed import write_mixed  # noqa: E402 - uses what the tests share, as does the next
from releases.survey import Survey, write_survey  # noqa: E402

#: Mechanism, number of answers, epsilon.
CASES: Final = (
    ("randomised_response", 2, "1"),
    ("direct_encoding", 12, "2"),
    ("unary_encoding", 12, "1"),
)
#: Blocks of an area of each level of a small survey.
BLOCKS: Final = {"block": 1, "tract": 40, "county": 120}
#: rho of the central release: half of it at counties, a quarter at tracts, and one at blocks, which is not used here.
RHO: Final = "1/50"
#: Persons from which on a count is large: intervals of smaller ones hold more, since numbers are whole.
LARGE: Final = 10
_OF_LARGE: Final = ("true large", "true large held", "released large", "released large held")
#: Numbers of a level that are looked at in many surveys, about; the error of their error is below 1 % then.
_NUMBERS: Final = 50_000
_AT_ONCE: Final = 500
#: Areas and reports of each in which randomisers are looked at by themselves.
AREAS, REPORTS = 2_000, 200
PEOPLE: Final = 1_000_000

SPEC: Final = """
name = "state"

[privacy]
framework = "local"

[collect]
mechanism = "{mechanism}"
parameters = {{ epsilon = "{epsilon}" }}
respondents = 40

[input]
file = "reports.parquet"
form = "reports"
geocode = "block"

[geography]
file = "blocks.parquet"
column = "block"
levels = {{ state = 2, county = 5, tract = 11, block_group = 12, block = 15 }}

[schema.attributes]
answer = [{answers}]

[publish]
replicates = 4
"""

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
#: Of a level: means of squared errors, and shares of what is covered.
Measures = dict[str, float]
Row = dict[str, str | float]


def held_if_large(truth: Ints, released: Ints, inside: NDArray[np.bool_]) -> Measures:
    """Of counts that are large, by what is true and by what is released: how many there are, and are held."""
    found: Measures = {}
    for of, counts in (("true", truth), ("released", released)):
        found |= {
            f"{of} large": float((counts >= LARGE).sum()),
            f"{of} large held": float(inside[counts >= LARGE].sum()),
        }
    return found


def shown_if_large(row: Mapping[str, float | str]) -> str:
    """The shares that are held of large counts."""
    pairs = [(float(row[f"{of} large held"]), float(row[f"{of} large"])) for of in ("true", "released")]
    return " / ".join(f"{held / n:6.1%}" if n else "     -" for held, n in pairs)


@dataclass(frozen=True, eq=False)
class StateSurvey:
    """Who answers what where in the example state, before it is randomised.

    Attributes:
        spine: 25,000 blocks.
        collected: how answers are randomised.
        epsilon: of a report.
        truth: `(n_blocks, n_values)` true answers.
    """

    spine: Spine
    collected: CollectedAnswers
    epsilon: str
    truth: NDArray[np.int64]

    @property
    def reports(self) -> NDArray[np.int64]:
        """How many of each block."""
        return self.truth.sum(axis=1)

    def write(self, folder: Path, seed: int) -> Path:
        """Write the blocks, the randomised reports and the spec; its path is returned."""
        folder.mkdir(parents=True, exist_ok=True)
        mechanism, n_values = self.collected.mechanism, self.truth.shape[1]
        blocks, values = np.nonzero(self.truth)
        numbers = self.truth[blocks, values]
        sent = mechanism.randomise(np.repeat(values, numbers), KeyedBytes(b"a survey of the state %8d" % seed))
        codes = self.spine.leaf_level.geocodes[np.repeat(blocks, numbers)]
        pq.write_table(
            pa.table({"block": codes.tolist(), "report": mechanism.encode(sent)}), folder / "reports.parquet"
        )
        pq.write_table(self.spine.to_table(), folder / "blocks.parquet")
        answers = ", ".join(f'"a{number}"' for number in range(n_values))
        spec = folder / "state.toml"
        spec.write_text(SPEC.format(mechanism=mechanism.name, epsilon=self.epsilon, answers=answers))
        return spec


def state_survey(mechanism: str, n_values: int, epsilon: str, seed: int) -> StateSurvey:
    """The people of the example state answer.

    How depends on a person's age and group: the shares of the answers differ between the 16 of them, and so between
    areas as much as these do.

    Args:
        mechanism: of reports.
        n_values: answers there are.
        epsilon: of a report.
        seed: of the state, of its people and of their answers.
    """
    rng = np.random.default_rng(seed)
    spine = spine_from_prefixes(block_codes(seed), LEVELS)
    people = populate(spine, PEOPLE, seed).toarray()
    parameters = {"epsilon": epsilon} | ({} if mechanism == "randomised_response" else {"values": str(n_values)})
    randomiser = mechanism_of(mechanism, parameters)
    assert isinstance(randomiser, ListedMechanism)
    # Falling shares of answers, from common to rare.
    usual = 1 / np.arange(1, n_values + 1)
    shares = rng.dirichlet(8 * usual / usual.sum() + 0.1, size=people.shape[1])
    truth = np.zeros((len(people), n_values), dtype=np.int64)
    for cell, of_cell in enumerate(shares):
        truth += rng.multinomial(people[:, cell], of_cell)
    return StateSurvey(spine, CollectedAnswers(randomiser), epsilon, truth)


def _run(spec: Path, out: Path) -> RunDirectory:
    request = Request(spec=spec, out=out, data=None, workers=1, key=KeySource())
    return RunDirectory(run_release(check_request(request), Silent()))


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


def small(surveys: int) -> list[Row]:
    """Print the table of small surveys, and return its rows."""
    print(f"{'mechanism':22} {'level':7} covered  of 10+: true / released  error: release / alone / theory / central"
          "  in many surveys: alone / theory, covered")  # fmt: skip
    results: list[Row] = []
    for mechanism, n_values, epsilon in CASES:
        many: dict[str, dict[str, float]] = {}
        sums: dict[str, list[dict[str, float]]] = defaultdict(list)
        central: dict[str, float] = {}
        for seed in range(1, surveys + 1):
            with tempfile.TemporaryDirectory() as folder:
                survey = write_survey(Path(folder), mechanism, n_values, epsilon, blocks_of_tract=40, seed=seed)
                run = _run(survey.spec, Path(folder) / "out")
                for level, one in measured(survey, run).items():
                    sums[level].append(one)
                many = many or of_totals(as_state(survey, epsilon), seed=2)
                plan_release = import_module("features.plan.release_plan").plan_release
                central = {row.level: row.central for row in plan_release(survey.spec, 1).local}
        for level, all_of_them in sums.items():
            mean = {name: float(np.mean([one[name] for one in all_of_them])) for name in all_of_them[0]}
            row = {
                name: value**0.5 if name in ("released", "alone", "theory") else value for name, value in mean.items()
            }
            of_many = many[level]
            named: Row = {"mechanism": mechanism, "epsilon": epsilon, "level": level}
            results.append(named | {"central": central[level]} | of_many | row)
            errors = " / ".join(f"{row[name]:7.2f}" for name in ("released", "alone", "theory"))
            print(f"{mechanism:22} {level:7} {row['covered']:6.1%}  {shown_if_large(row)}  "
                  f"{errors} / {central[level]:7.2f}  "
                  f"{of_many['to theory']:6.3f} {of_many['covered in many']:6.1%}")  # fmt: skip
    return results


def summed(spine: Spine, level: int, values: Ints) -> Ints:
    """Numbers of leaves `(n_leaves, m)` added up to a level."""
    return np.add.reduceat(values, spine.leaf_offsets(level)[:-1], axis=0)


def of_runs(survey: StateSurvey, runs: int) -> dict[str, Measures]:
    """Of each level: what is measured in whole releases."""
    found: dict[str, list[Measures]] = {level.name: [] for level in survey.spine.levels}
    for seed in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            spec = survey.write(Path(folder), seed)
            run = _run(spec, Path(folder) / "out")
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
        found[level.name] = large | {
            "covered": float(inside[some].mean()),
            "released": float(((released - truth) ** 2)[some].mean()),
            "alone": float(((alone - truth) ** 2)[some].mean()),
        }
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


def _held(collected: Collected, debiased: Reals, truth: Ints, reports: Ints) -> NDArray[np.bool_]:
    """Whether intervals by standard errors hold the truth: those of a release, where counts are large."""
    each, k = reports[:, None], collected.n_cells
    counts = np.rint(debiased + (each - debiased.sum(axis=1, keepdims=True)) / k).astype(np.int64)
    stated = np.sqrt(each * float(collected.unit_variance) * (1 - 1 / k))
    cells = np.arange(k)
    standard = stated * collected.own_errors(cells, cells[None, :], counts, each)
    return np.asarray(np.abs(counts - truth) <= half_widths(standard))


def state(runs: int) -> list[Row]:
    """Print the table of all mechanisms and levels, and return its rows."""
    print(f"{'mechanism':20} {'level':11} {'areas':>6} covered  of 10 and more: true / released  "
          "error: release / alone / theory  in many surveys: alone / theory, covered, surveys")  # fmt: skip
    rows: list[Row] = []
    for mechanism, n_values, epsilon in CASES:
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
            print(f"{mechanism:20} {level.name:11} {areas:6} {row['covered']:6.1%}  {large}  {errors}   {of_many}",
                  flush=True)  # fmt: skip
    return rows


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
    return error, float(inside.mean()), tuple(large[name] for name in _OF_LARGE)


def mixed(surveys: int) -> list[Row]:
    """Print the table of mixed designs, and return its rows."""
    print(f"{'mechanism':20} {'level':7} covered  of 10+: true / released  error: mixed / planned / reports / central")
    rows: list[Row] = []
    for mechanism, n_values, epsilon in CASES:
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
                planned = {row.level: row.local for row in plan_release(both.survey.spec, 1).local}
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
            of_large = dict(zip(_OF_LARGE, means[3:], strict=True))
            rows.append(
                {"mechanism": mechanism, "epsilon": epsilon, "level": level, "covered": covered, "mixed": error,
                 "planned": planned[level], "reports alone": reports_alone, "central alone": central_alone} | of_large
            )  # fmt: skip
            print(f"{mechanism:20} {level:7} {covered:6.1%}   {shown_if_large(of_large)}  "
                  f"{error:7.2f} / {planned[level]:7.2f} / "
                  f"{reports_alone:7.2f} / {central_alone:7.2f}", flush=True)  # fmt: skip
    return rows


def shares_of(n_values: int) -> Reals:
    """From frequent to rare: each two thirds of the one before."""
    shares = (2 / 3) ** np.arange(n_values)
    return np.asarray(shares / shares.sum())


def show_errors(name: str, errors: Reals, theory: Reals) -> dict[str, float]:
    """Print and return the error by theory, the measured one as a ratio, the coverage."""
    ratio = math.sqrt(((errors / theory) ** 2).mean())
    covered = float((np.abs(errors) < NormalDist().inv_cdf(0.95) * theory).mean())
    print(f"{name:<42} {math.sqrt((theory**2).mean()):>10.2f} {ratio:>8.3f} {covered:>9.1%}")
    return {"theory": math.sqrt((theory**2).mean()), "ratio": ratio, "covered": covered}


def errors_of(mechanism: ListedMechanism) -> tuple[Reals, Reals]:
    """Errors of the counts of areas, and their standard errors."""
    shares = shares_of(mechanism.values)
    values = np.random.default_rng(1).choice(len(shares), AREAS * REPORTS, p=shares)
    groups = np.repeat(np.arange(AREAS), REPORTS)
    reports = mechanism.randomise(values, KeyedBytes(bytes(range(32))))
    counts = mechanism.debias(mechanism.totals(reports, groups, AREAS), np.full(AREAS, REPORTS))
    true = np.zeros_like(counts)
    np.add.at(true, (groups, values), 1)
    return counts - true, np.sqrt(REPORTS * mechanism.unit_variances(true.sum(axis=0)))


def errors_of_words(mechanism: Rappor, n_listed: int, n_words: int) -> tuple[Reals, Reals]:
    """The same of words of which some are listed; shares fall as the rank rises."""
    words = tuple(f"word {number}" for number in range(n_words))
    shares = 1 / np.arange(1, n_words + 1)
    values = np.random.default_rng(2).choice(n_words, AREAS * REPORTS, p=shares / shares.sum())
    groups = np.repeat(np.arange(AREAS), REPORTS)
    reports = mechanism.randomise([words[value] for value in values], KeyedBytes(bytes(range(32))))
    listed = CollectedWords(mechanism, words[:n_listed])
    true = np.zeros((AREAS, n_listed + 1))
    np.add.at(true, (groups, np.minimum(values, n_listed)), 1)
    counts = listed.debiased(listed.totals(reports, groups, AREAS), np.full(AREAS, REPORTS))
    variances = np.array([listed.variances_of(np.arange(n_listed) == word) for word in range(n_listed)])
    return (counts - true)[:, :-1], np.sqrt(variances @ true.mean(axis=0))


def rate(action: Callable[[], Any], count: int, repeats: int) -> float:
    """Answers per second of processor time."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        action()
        seconds.append(time.process_time() - started)
    return count / statistics.median(seconds)


def opendp_response(p: float) -> Callable[[bool], bool]:
    """Randomised response of OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measured: Callable[[bool], bool] = dp.m.make_randomized_response_bool(p)
    return measured


def show_speed(n_reports: int, repeats: int) -> None:
    """Lines of answers per second, exact and in floating point, and as a ratio; OpenDP; totals."""
    rng = np.random.default_rng(3)
    unary = OptimisedUnaryEncoding.for_epsilon(12, Fraction(1))
    values = rng.integers(0, 12, n_reports)
    q = float(unary.q)

    def floating() -> NDArray[np.bool_]:
        bits = rng.random((n_reports, 12)) < q
        bits[np.arange(n_reports), values] = rng.random(n_reports) < 0.5
        return bits

    exact = rate(lambda: unary.randomise(values, SystemBytes()), n_reports, repeats)
    numpy_rate = rate(floating, n_reports, repeats)
    print(
        f"unary encoding, 12 values: {exact:,.0f} answers a second, numpy's floats {numpy_rate:,.0f}: "
        f"{exact / numpy_rate:.2f}"
    )
    response = RandomisedResponse(Fraction(3, 4))
    answers = rng.integers(0, 2, n_reports)
    many = rate(lambda: response.randomise(answers, SystemBytes()), n_reports, repeats)
    measured = opendp_response(0.75)
    few = answers[:20_000].astype(bool).tolist()
    theirs = rate(lambda: [measured(answer) for answer in few], len(few), repeats)
    print(f"randomised response: {many:,.0f} answers a second, OpenDP's {theirs:,.0f}: {many / theirs:,.0f}")
    reports = unary.randomise(values, KeyedBytes(bytes(range(32))))
    groups = rng.integers(0, 5_000, n_reports)

    def added() -> Ints:
        totals = np.zeros((5_000, 12), dtype=np.int64)
        np.add.at(totals, groups, reports)
        return totals

    summed = rate(lambda: unary.totals(reports, groups, 5_000), n_reports, repeats)
    slow = rate(added, n_reports, repeats)
    print(f"totals of 5,000 areas: {summed:,.0f} reports a second, numpy.add.at {slow:,.0f}: {summed / slow:.1f}")


def answers(n_reports: int) -> list[Row]:
    """Print errors, coverage and speed of the randomisers."""
    print(f"Errors of counts of {AREAS:,} areas of {REPORTS} reports")
    print(f"{'mechanism':<42} {'theory':>10} {'ratio':>8} {'covered':>9}")
    rows: list[Row] = []
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)):
        mechanisms: tuple[ListedMechanism, ...] = (
            RandomisedResponse.for_epsilon(epsilon),
            DirectEncoding.for_epsilon(12, epsilon),
            OptimisedUnaryEncoding.for_epsilon(12, epsilon),
        )
        for mechanism in mechanisms:
            name = f"{mechanism.name}, {mechanism.n_values} values, epsilon {epsilon}"
            rows.append({"mechanism": name} | show_errors(name, *errors_of(mechanism)))
    quarter, rest = Fraction(1, 4), Fraction(3, 4)
    for bits, n_listed, n_words in ((32, 40, 50), (64, 250, 300)):
        name = f"rappor, a word of {n_listed}"
        found = errors_of_words(Rappor(bits, 2, 64, quarter, quarter, rest), n_listed, n_words)
        rows.append({"mechanism": name} | show_errors(name, *found))
    print(f"Speed, {n_reports:,} answers, one thread")
    show_speed(n_reports, 3)
    return rows


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("small", "state", "mixed", "answers"), default="small")
    parser.add_argument(
        "--surveys", type=int, help="of each mechanism; 6 small ones by default, 5 of the state, 12 mixed"
    )
    parser.add_argument("--reports", type=int, default=1_000_000, help="answers whose randomising is timed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.part == "state":
        rows = state(given.surveys or 5)
    elif given.part == "mixed":
        rows = mixed(given.surveys or 12)
    elif given.part == "answers":
        rows = answers(given.reports)
    else:
        rows = small(given.surveys or 6)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
