"""Releases from randomised reports: coverage and errors by level, beside theory and debiasing alone.

    python benchmarks/bench_local.py [--part small|state|mixed|answers] [--surveys N] [--json PATH]

small: a survey of 2 counties, 6 tracts and 240 blocks with 0 to 49 respondents, whose shares of answers differ; some
surveys for each mechanism. state: the million people of the example state answer, in 25,000 blocks. mixed: the small
surveys use counts of a central release above the blocks, beside what `plan` says, reports alone and that release alone.

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
from collections.abc import Callable, Sequence
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
from pipeline.execution.steps import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec
from postprocess.statistics import half_widths

sys.path[:0] = [str(PROJECT / name) for name in ("", "tests")]
from releases.mixed import write_mixed  # noqa: E402 - uses what the tests share, as does the next
from releases.survey import write_survey  # noqa: E402

#: Mechanism, number of answers, epsilon.
CASES: Final = (
    ("randomised_response", 2, "1"),
    ("direct_encoding", 12, "2"),
    ("unary_encoding", 12, "1"),
)
SMALL_LEVELS: Final = {"county": 1, "tract": 3, "block": 5}
#: rho of the central release: half of it at counties, a quarter at tracts, and one at blocks, which is not used here.
RHO: Final = "1/50"
#: Persons from which on a count is large: intervals of smaller ones hold more, since numbers are whole.
LARGE: Final = 10
#: Numbers of a level that are looked at in many surveys, about; the error of their error is below 1 % then.
_NUMBERS: Final = 50_000
_AT_ONCE: Final = 500
#: Areas and reports of each in which randomisers are looked at by themselves.
AREAS, REPORTS = 2_000, 200
#: People of the state, and answers whose randomising is timed.
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

#: Root mean square errors in persons; the sums are of squares.
ERRORS: Final = ("released", "alone", "theory", "planned", "reports alone", "central alone")

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
#: Of each level, by name: squared errors, and shares of what is covered.
Measures = dict[str, dict[str, float]]
Row = dict[str, str | float]


@dataclass(frozen=True, eq=False)
class Answered:
    """A survey, with the true answers that nobody else has.

    Attributes:
        spec: its file.
        spine: its areas.
        truth: `(n_blocks, n_values)` true answers.
    """

    spec: Path
    spine: Spine
    truth: Ints

    @property
    def collected(self) -> Collected:
        """How answers are randomised."""
        (universe,) = load_spec(self.spec).universes()
        return survey_of(universe).collected

    def summed(self, level: int, values: Ints) -> Ints:
        """Numbers of blocks `(n_blocks, m)` added up to a level."""
        return np.add.reduceat(values, self.spine.leaf_offsets(level)[:-1], axis=0)


def small_survey(folder: Path, mechanism: str, n_values: int, epsilon: str, seed: int) -> Answered:
    """240 blocks."""
    written = write_survey(folder, mechanism, n_values, epsilon, blocks_of_tract=40, seed=seed)
    return Answered(written.spec, spine_from_prefixes(written.blocks, SMALL_LEVELS), written.truth)


def state_survey(folder: Path, mechanism: str, n_values: int, epsilon: str, seed: int) -> Answered:
    """The people of the example state answer, the same in each survey, which `seed` randomises.

    How depends on a person's age and group: the shares of the answers differ between the 16 of them, and so between
    areas as much as these do.
    """
    rng = np.random.default_rng(1)
    spine = spine_from_prefixes(block_codes(1), LEVELS)
    people = populate(spine, PEOPLE, 1).toarray()
    # Falling shares of answers, from common to rare.
    usual = 1 / np.arange(1, n_values + 1)
    shares = rng.dirichlet(8 * usual / usual.sum() + 0.1, size=people.shape[1])
    truth = np.zeros((len(people), n_values), dtype=np.int64)
    for cell, of_cell in enumerate(shares):
        truth += rng.multinomial(people[:, cell], of_cell)
    blocks, values = np.nonzero(truth)
    numbers = truth[blocks, values]
    parameters = {"epsilon": epsilon} | ({} if mechanism == "randomised_response" else {"values": str(n_values)})
    randomiser = mechanism_of(mechanism, parameters)
    sent = randomiser.randomise(np.repeat(values, numbers), KeyedBytes(b"a survey of the state %8d" % seed))
    codes = spine.leaf_level.geocodes[np.repeat(blocks, numbers)]
    pq.write_table(pa.table({"block": codes.tolist(), "report": randomiser.encode(sent)}), folder / "reports.parquet")
    pq.write_table(spine.to_table(), folder / "blocks.parquet")
    spec = folder / "state.toml"
    answers = ", ".join(f'"a{number}"' for number in range(n_values))
    spec.write_text(SPEC.format(mechanism=mechanism, epsilon=epsilon, answers=answers))
    return Answered(spec, spine, truth)


def _run(spec: Path, out: Path) -> RunDirectory:
    request = Request(spec=spec, out=out, data=None, workers=1, key=KeySource())
    return RunDirectory(run_release(check_request(request), Silent()))


def of_release(run: RunDirectory, survey: Answered) -> Measures:
    """The mean squared errors of released counts, and the shares that intervals hold: of all, and of large counts."""
    names = [f"a{number}" for number in range(survey.truth.shape[1])]
    found: Measures = {}
    for number, level in enumerate(survey.spine.levels):
        table, truth = pd.read_parquet(run.main.table("answer", level.name)), survey.summed(number, survey.truth)
        some, released = truth.sum(axis=1) > 0, table[names].to_numpy()
        found[level.name] = {"areas": int(some.sum()), "released": float(((released - truth) ** 2)[some].mean())}
        if f"{names[0]}:low90" in table:
            low, high = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
            inside = ((low <= truth) & (truth <= high))[some]
            found[level.name]["covered"] = float(inside.mean())
            for of, counts in (("true", truth[some]), ("released", released[some])):
                large = counts >= LARGE
                found[level.name] |= {f"{of} large": float(large.sum()), f"{of} held": float(inside[large].sum())}
    return found


def of_reports(run: RunDirectory, survey: Answered) -> Measures:
    """The mean squared errors of debiased counts."""
    totals, found = np.stack(pd.read_parquet(run.main.measurement("block", "answer")).value.to_list()), {}
    for number, level in enumerate(survey.spine.levels):
        truth = survey.summed(number, survey.truth)
        alone = survey.collected.debiased(survey.summed(number, totals), truth.sum(axis=1))
        found[level.name] = {"alone": float(((alone - truth) ** 2)[truth.sum(axis=1) > 0].mean())}
    return found


def of_totals(survey: Answered) -> Measures:
    """Of debiased counts, in many surveys whose totals are drawn from the mechanism's distribution."""
    rng, collected = np.random.default_rng(2), survey.collected
    found = {}
    for number, level in enumerate(survey.spine.levels):
        truth = survey.summed(number, survey.truth)
        truth = truth[truth.sum(axis=1) > 0]
        left = surveys = -(-_NUMBERS // len(truth))
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
        to_theory = (squares / counted / theory) ** 0.5
        found[level.name] = {"theory": theory, "to theory": to_theory, "covered in many": covered / counted}
    return found


def _held(collected: Collected, debiased: Reals, truth: Ints, reports: Ints) -> NDArray[np.bool_]:
    """Whether intervals by standard errors hold the truth: those of a release, where counts are large."""
    each, k = reports[:, None], collected.n_cells
    counts = np.rint(debiased + (each - debiased.sum(axis=1, keepdims=True)) / k).astype(np.int64)
    stated = np.sqrt(each * float(collected.unit_variance) * (1 - 1 / k))
    cells = np.arange(k)
    standard = stated * collected.own_errors(cells, cells[None, :], counts, each)
    return np.asarray(np.abs(counts - truth) <= half_widths(standard))


def mean_of(surveys: Sequence[Measures]) -> Measures:
    """Means over surveys; of squared errors the root."""
    found: Measures = {}
    for level, first in surveys[0].items():
        means = {name: float(np.mean([one[level][name] for one in surveys])) for name in first}
        found[level] = {name: mean**0.5 if name in ERRORS else mean for name, mean in means.items()}
    return found


def show(case: tuple[str, int, str], found: Measures) -> list[Row]:
    """Print and return a row for each level; of large counts the shares that are held."""
    rows: list[Row] = []
    for level, one in found.items():
        for of in ("true", "released"):
            held, large = one.pop(f"{of} held"), one.pop(f"{of} large")
            one[f"{of} large covered"] = held / large if large else float("nan")
        print(f"{case[0]:20} {level:12}", "  ".join(f"{name} {value:.4g}" for name, value in one.items()), flush=True)
        rows.append({"mechanism": case[0], "epsilon": case[2], "level": level, **one})
    return rows


def releases(written: Callable[..., Answered], surveys: int) -> list[Row]:
    """Whole releases of surveys, and of the first of each mechanism many surveys without a release."""
    rows: list[Row] = []
    for case in CASES:
        found, many = [], Measures()
        for seed in range(1, surveys + 1):
            with tempfile.TemporaryDirectory() as name:
                survey = written(Path(name), *case, seed)
                run = _run(survey.spec, Path(name) / "out")
                many = many or of_totals(survey)
                parts = of_release(run, survey), of_reports(run, survey), many
                found.append({level: parts[0][level] | parts[1][level] | parts[2][level] for level in many})
        rows += show(case, mean_of(found))
    return rows


def mixed(surveys: int) -> list[Row]:
    """Mixed designs, beside the plan, reports alone and the central release alone."""
    rows: list[Row] = []
    plan_release = import_module("features.plan.release_plan").plan_release
    for case in CASES:
        found = []
        for seed in range(1, surveys + 1):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                both = write_mixed(folder / "mixed", *case, rho=RHO, example=True, blocks_of_tract=40, seed=seed)
                central = _run(both.central, both.central.parent / "out")
                spec, alone = both.survey.spec, both.survey.spec.with_name("alone.toml")
                stated = spec.read_text().replace("respondents = 20", "respondents = 25")
                spec.write_text(stated)
                alone.write_text(stated[: stated.index("[collect.central]")] + stated[stated.index("[input]") :])
                survey = Answered(spec, spine_from_prefixes(both.survey.blocks, SMALL_LEVELS), both.survey.truth)
                measures = of_release(_run(spec, folder / "out"), survey)
                planned = {row.level: row.local for row in plan_release(spec, 1).local}
                others = {"reports alone": _run(alone, folder / "alone"), "central alone": central}
                for other, run in others.items():
                    for level, one in of_release(run, survey).items():
                        measures[level] |= {other: one["released"], "planned": planned[level] ** 2}
                found.append(measures)
        rows += show(case, mean_of(found))
    return rows


def show_errors(name: str, errors: Reals, theory: Reals) -> dict[str, float]:
    """Print and return the error by theory, the measured one as a ratio, the coverage."""
    ratio = math.sqrt(((errors / theory) ** 2).mean())
    covered = float((np.abs(errors) < NormalDist().inv_cdf(0.95) * theory).mean())
    print(f"{name:<42} {math.sqrt((theory**2).mean()):>10.2f} {ratio:>8.3f} {covered:>9.1%}")
    return {"theory": math.sqrt((theory**2).mean()), "ratio": ratio, "covered": covered}


def of_areas(collected: Collected, values: Ints, sent: Any) -> tuple[Reals, Reals]:
    """Mean true counts of areas whose respondents have these values, and errors of their debiased counts."""
    groups = np.repeat(np.arange(AREAS), REPORTS)
    reports = collected.mechanism.randomise(sent, KeyedBytes(bytes(range(32))))
    true = np.zeros((AREAS, collected.n_cells))
    np.add.at(true, (groups, values), 1)
    counts = collected.debiased(collected.totals(reports, groups, AREAS), np.full(AREAS, REPORTS))
    return true.mean(axis=0), counts - true


def rate(action: Callable[[], Any], count: int = PEOPLE) -> float:
    """Answers per second of processor time."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        action()
        seconds.append(time.process_time() - started)
    return count / statistics.median(seconds)


def show_speed() -> None:
    """Lines of answers per second, exact and in floating point, and as a ratio; OpenDP; totals."""
    import opendp.prelude as dp

    rng = np.random.default_rng(3)
    unary = OptimisedUnaryEncoding.for_epsilon(12, Fraction(1))
    values = rng.integers(0, 12, PEOPLE)
    q = float(unary.q)

    def floating() -> NDArray[np.bool_]:
        bits = rng.random((PEOPLE, 12)) < q
        bits[np.arange(PEOPLE), values] = rng.random(PEOPLE) < 0.5
        return bits

    exact = rate(lambda: unary.randomise(values, SystemBytes()))
    numpy_rate = rate(floating)
    print(
        f"unary encoding, 12 values: {exact:,.0f} answers a second, numpy's floats {numpy_rate:,.0f}: "
        f"{exact / numpy_rate:.2f}"
    )
    response = RandomisedResponse(Fraction(3, 4))
    answers = rng.integers(0, 2, PEOPLE)
    many = rate(lambda: response.randomise(answers, SystemBytes()))
    dp.enable_features("contrib")
    measured = dp.m.make_randomized_response_bool(0.75)
    few = answers[:20_000].astype(bool).tolist()
    theirs = rate(lambda: [measured(answer) for answer in few], len(few))
    print(f"randomised response: {many:,.0f} answers a second, OpenDP's {theirs:,.0f}: {many / theirs:,.0f}")
    reports = unary.randomise(values, KeyedBytes(bytes(range(32))))
    groups = rng.integers(0, 5_000, PEOPLE)

    def added() -> Ints:
        totals = np.zeros((5_000, 12), dtype=np.int64)
        np.add.at(totals, groups, reports)
        return totals

    summed = rate(lambda: unary.totals(reports, groups, 5_000))
    slow = rate(added)
    print(f"totals of 5,000 areas: {summed:,.0f} reports a second, numpy.add.at {slow:,.0f}: {summed / slow:.1f}")


def answers() -> list[Row]:
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
            shares = (2 / 3) ** np.arange(mechanism.values)  # from frequent to rare
            values = np.random.default_rng(1).choice(len(shares), AREAS * REPORTS, p=shares / shares.sum())
            true, errors = of_areas(CollectedAnswers(mechanism), values, values)
            name = f"{mechanism.name}, {mechanism.values} values, epsilon {epsilon}"
            theory = np.sqrt(REPORTS * mechanism.unit_variances(true))
            rows.append({"mechanism": name} | show_errors(name, errors, theory))
    quarter, rest = Fraction(1, 4), Fraction(3, 4)
    for bits, n_listed, n_words in ((32, 40, 50), (64, 250, 300)):
        words = tuple(f"word {number}" for number in range(n_words))
        collected = CollectedWords(Rappor(bits, 2, 64, quarter, quarter, rest), words[:n_listed])
        shares = 1 / np.arange(1, n_words + 1)
        values = np.random.default_rng(2).choice(n_words, AREAS * REPORTS, p=shares / shares.sum())
        true, errors = of_areas(collected, np.minimum(values, n_listed), [words[value] for value in values])
        variances = [collected.variances_of(np.arange(n_listed) == word) @ true for word in range(n_listed)]
        name = f"rappor, a word of {n_listed}"
        rows.append({"mechanism": name} | show_errors(name, errors[:, :-1], np.sqrt(variances)))
    print(f"Speed, {PEOPLE:,} answers, one thread")
    show_speed()
    return rows


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("small", "state", "mixed", "answers"), default="small")
    parser.add_argument("--surveys", type=int, default=6, help="of each mechanism")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.part == "mixed":
        rows = mixed(given.surveys)
    elif given.part == "answers":
        rows = answers()
    else:
        rows = releases(state_survey if given.part == "state" else small_survey, given.surveys)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
