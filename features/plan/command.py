"""`spinewise plan`: the guarantee, the errors and the memory of a release; and the best division of its budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption, Output, QuietOption, SpecArgument, VerboseOption

if TYPE_CHECKING:
    from fractions import Fraction

    from features.plan.best import Best
    from features.plan.release_plan import Plan, UniversePlan

#: Columns where the output is no terminal.
_PLAIN_WIDTH = 120


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", short_help="Predict the errors of a release and the memory of its run.")(plan)


def plan(
    spec: SpecArgument,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGETS",
            help='Limits on errors, "LEVEL: QUERY <= PERSONS; ...": finds the smallest budget that keeps them.',
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="WEIGHTS",
            help='With --rho: weights of errors, "LEVEL: QUERY = WEIGHT; ..."; minimises their weighted sum.',
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            help='The budget to divide, exact: "2.56" or "542/339"; with --target, minimises the largest excess.'
        ),
    ] = None,
    least: Annotated[
        float, typer.Option(min=0.0, help="Share of the budget that every query of the spec gets at least.")
    ] = 0.001,
    universe: Annotated[
        str, typer.Option(help="Divide the budget of this companion instead of the release's own.")
    ] = "",
    estimator: Annotated[str | None, typer.Option(help="full or topdown. [default: the spec's]")] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write a copy of the spec with the new budget and division to this file.")
    ] = None,
    share_error: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=1.0,
            help="With randomised reports: the standard error of a share for which the needed number of "
            "respondents is shown.",
        ),
    ] = 0.05,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes of the planned run. [default: all cores]")
    ] = None,
    shares_spread: Annotated[
        str | None,
        typer.Option(
            metavar="GUESSES",
            help='A guess of how far areas are from their public shares, "NAME: persons = 2.5, relative = 0.2; '
            '...": persons per 1 of the public number, and how far areas deviate beyond chance. Predicts the '
            "gain.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="An earlier release, for errors by size of area, and for how well the same shares fitted."),
    ] = None,
    records_per_unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNITS",
            help='How many units have how many records, "1 = 600, 2 = 250, 3+ = 150", or the directory of an answer to '
            "'count units by records_per_unit'; shows what each at_most leaves out.",
        ),
    ] = None,
    amounts: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNTS",
            help='How many records have which amount, "wages: 10000 = 600, 30000 = 350, 90000+ = 50; ..." '
            "(how many units, where the ends are of a unit's total); shows the amount lost to each clipping limit.",
        ),
    ] = None,
    spine: Annotated[
        bool,
        typer.Option(
            "--spine",
            help="Show the areas of the release instead; --write writes them to a new .csv or .parquet file.",
        ),
    ] = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Every query at every level, the guarantee in full, and how a run is done."),
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    json: JsonOption = False,
) -> None:
    """Predict the privacy guarantee and the errors of a release, and the memory of its run. Spends no budget.

    Reads no records: only the spec, the list of areas and public counts. Prints a few lines: the budget, the errors
    that it buys, and the memory that the run takes at most. --details adds, for every query and level, the mean error
    of one number, and the sum of the errors in one area, averaged over the level; both in persons.

    --target finds the smallest budget that keeps errors within limits, and its best division among levels and queries:
    "tract: race <= 8" limits the sum of the errors in a tract, "tract: race <= 2 each" the error of one number. --rho
    and --weights find the best division of a given budget. --write writes a copy of the spec with what was found.

    --spine: for each level how many areas there are, how many children they have, how many have no siblings, and how
    many are measured (geography.bypass measures an area without siblings once, at the level above); if the spec
    regroups leaves for areas off the spine, also how many areas must be added and subtracted for those, before and
    after. With --write, the file has one column for each level.

    --like: errors by table, level and size of area, with the sizes of an earlier release.

    --records-per-unit: for each cap on the records of a unit, what the cap cuts off and the noise that it needs.

    --amounts: for each clipping limit, the amount lost and the noise that it needs.

    Example:

        spinewise plan examples/rhode_island.toml --target "tract: total <= 2.0; county: race <= 5" --write better.toml

        spinewise plan examples/rhode_island.toml --rho 2.56 --weights "tract: race = 1; block: total = 2"

        spinewise plan examples/rhode_island.toml --spine

        spinewise plan examples/us2000_housing.toml --shares-spread "housing: persons = 2.4, relative = 0.25"
    """
    from features.plan.amounts import AmountsHeld
    from features.plan.caps import RecordsPerUnit
    from features.plan.release_plan import plan_release
    from features.plan.shares import SharesGuess
    from pipeline.execution.workers import default_workers

    output = Output(quiet, verbose, json)
    if spine:
        _show_spine(spec, write)
        return
    options = PlanOptions(
        target=target,
        weights=weights,
        rho=rho,
        least=least,
        universe=universe,
        estimator=estimator,
        write=write,
        details=details,
    )
    _check(options)
    guess = SharesGuess(shares_spread, like)
    count = default_workers() if workers is None else workers
    records = None if records_per_unit is None else RecordsPerUnit.of(records_per_unit)
    held = None if amounts is None else AmountsHeld.of(amounts)
    planned = plan_release(
        spec, estimator, count, guess, like=like, share_error=share_error, records=records, held=held
    )
    best = None
    if options.divides:
        best = _best(planned, options)
    elif universe:
        _universe_plan(planned, universe)
    if write is not None and best is not None:
        from features.plan.write_spec import write_divided

        write_divided(spec, write, best.universe)
    if json:
        _echo_json(planned, best)
    else:
        _print(planned, best, options, output)


def _show_spine(spec: Path, write: Path | None) -> None:
    """Print the areas that the release will have, and write them to a file where that is asked for."""
    from features.plan.spine_report import describe_spine
    from pipeline.errors import InputError
    from pipeline.spec.release_spec import load_spec
    from pipeline.storage.plain_tables import write_csv, write_plain_parquet

    if write is not None:
        if write.suffix not in (".csv", ".parquet"):
            raise InputError(f"--write {write}: found the ending {write.suffix!r}; .csv and .parquet are allowed")
        if write.exists():
            raise InputError(f"--write {write}: exists already; name a new file")
    described, lines = describe_spine(load_spec(spec))
    for line in lines:
        typer.echo(line)
    if write is not None:
        to_file = write_csv if write.suffix == ".csv" else write_plain_parquet
        to_file(write, iter([described.to_table()]))


@dataclass(frozen=True)
class PlanOptions:
    """What is requested in addition to the plan; see the options of the command."""

    target: str | None
    weights: str | None
    rho: str | None
    least: float
    universe: str
    estimator: str | None
    write: Path | None
    details: bool

    @property
    def divides(self) -> bool:
        """Whether a division of the budget is to be found."""
        return self.target is not None or self.weights is not None


def _check(options: PlanOptions) -> None:
    """Refuse options that contradict each other, before anything is read."""
    from pipeline.errors import InputError

    if options.target is not None and options.weights is not None:
        raise InputError("found --target and --weights; one of the two is allowed")
    if options.weights is not None and options.rho is None:
        raise InputError("--weights needs --rho, the budget that is to be divided")
    if options.rho is not None and not options.divides:
        raise InputError("--rho needs what the budget is to be divided for: --target or --weights")
    if options.write is not None and not options.divides:
        raise InputError("--write needs something to write: a division, found for --target or --weights")
    if options.write is not None and options.write.exists():
        raise InputError(f"--write {options.write}: there is a file already; name another, nothing is overwritten")
    if options.estimator not in (None, "full", "topdown"):
        raise InputError(f"--estimator: found {options.estimator!r}; allowed are full and topdown")


def _best(planned: Plan, options: PlanOptions) -> Best:
    from features.plan.best import find_best
    from features.plan.targets import parse_targets, parse_weights
    from pipeline.errors import InputError

    expectation = _universe_plan(planned, options.universe).expectation
    if expectation.universe.together is not None:
        raise InputError(
            "--target, --weights: the budget of universes that are estimated together cannot be divided yet; leave it "
            "out"
        )
    budget = None if options.rho is None else _budget(options.rho)
    if options.target is not None:
        aims = parse_targets(options.target, expectation.universe)
        return find_best(expectation, aims, "largest", budget, options.least)
    aims = parse_weights(options.weights or "", expectation.universe)
    return find_best(expectation, aims, "sum", budget, options.least)


def _budget(rho: str) -> Fraction:
    from pipeline.errors import InputError
    from pipeline.model.exact import parse_exact

    try:
        budget = parse_exact(rho)
    except ValueError as error:
        raise InputError(f"--rho: {error}") from None
    if budget <= 0:
        raise InputError(f"--rho: found {rho}; it must be above 0")
    return budget


def _universe_plan(planned: Plan, name: str) -> UniversePlan:
    from pipeline.errors import InputError

    names = [plan.universe.name for plan in planned.universes]
    if name not in names:
        companions = ", ".join(repr(companion) for companion in names if companion) or "none"
        raise InputError(f"--universe: no companion {name!r}; the companions are {companions}")
    return planned.universes[names.index(name)]


def _print(planned: Plan, best: Best | None, options: PlanOptions, output: Output) -> None:
    from rich.console import Console

    from features.plan.show import Called, show_asked, show_best, show_changes, show_plan, show_summary

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, _PLAIN_WIDTH)
    if options.details:
        show_plan(planned, console)
    else:
        show_summary(planned, console)
        show_asked(planned, console)
    if best is not None:
        show_best(best, console, Called.of(planned.spec, best.universe), details=options.details)
        show_changes(_universe_plan(planned, best.universe.name), best, console)
    if options.write is not None:
        output.remark(f"Spec written to {options.write}")


def _echo_json(planned: Plan, best: Best | None) -> None:
    import json

    content = planned.data() | ({} if best is None else {"best": best.data()})
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
