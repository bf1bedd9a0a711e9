"""`spinewise plan`: the guarantee, the errors and the memory of a release; and the best division of its budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption, Output, SpecArgument

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
    context: typer.Context,
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
    worst_group: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help='With --rho and --like: minimises the error of the group that noise hurts most, "LEVEL: QUERY; ...".',
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
    chart: Annotated[
        Path | None, typer.Option(help="Write a chart of the errors to this .html, .svg or .png file.")
    ] = None,
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
        typer.Option(
            help="An earlier release, for errors by size of area; also for how well the same shares fitted or, "
            "with --worst-group, for how large the groups are."
        ),
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
    cliques: Annotated[
        bool,
        typer.Option(
            "--cliques",
            help="With --like, an earlier release or a public sample: proposes cliques for [marginals] from it.",
        ),
    ] = False,
    most_cells: Annotated[
        int | None,
        typer.Option(min=1, help="With --cliques: cells of a clique, at most. [default: 10000]"),
    ] = None,
    solver: Annotated[
        str, typer.Option(help="descent; or cvxpy, to solve the whole problem at once, for small spines.")
    ] = "descent",
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

    --worst-group: the best division for the group with the largest error relative to its mean number of people.

    --records-per-unit: for each cap on the records of a unit, what the cap cuts off and the noise that it needs.

    --amounts: for each clipping limit, the amount lost and the noise that it needs.

    --cliques: the pairs of attributes that depend most on each other in public data, grown into a tree of tables;
    --write writes the spec with them. The records of the spec are refused as public data.

    Example:

        spinewise plan examples/rhode_island.toml --chart plan.html

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

    output = Output.of(context, json=json)
    if spine:
        _show_spine(spec, write)
        return
    options = PlanOptions(
        target=target,
        weights=weights,
        worst_group=worst_group,
        like=like,
        rho=rho,
        least=least,
        universe=universe,
        estimator=estimator,
        write=write,
        chart=chart,
        solver=solver,
        details=details,
        cliques=cliques,
        most_cells=most_cells,
    )
    _check(options)
    if cliques:
        _propose(spec, options, output)
        return
    guess = SharesGuess(shares_spread, None if worst_group is not None else like)
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
    if chart is not None:
        from features.plan.chart import write_chart

        write_chart(chart, planned, best)
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
    worst_group: str | None
    like: Path | None
    rho: str | None
    least: float
    universe: str
    estimator: str | None
    write: Path | None
    chart: Path | None
    solver: str
    details: bool = False
    cliques: bool = False
    most_cells: int | None = None

    @property
    def divides(self) -> bool:
        """Whether a division of the budget is to be found."""
        return any(one is not None for one in (self.target, self.weights, self.worst_group))


def _check(options: PlanOptions) -> None:
    """Refuse options that contradict each other, before anything is read."""
    from pipeline.errors import InputError

    aims = {"--target": options.target, "--weights": options.weights, "--worst-group": options.worst_group}
    if len(given := [name for name, text in aims.items() if text is not None]) > 1:
        raise InputError(f"found {given[0]} and {given[1]}; one of the two is allowed")
    _check_cliques(options)
    if options.worst_group is not None and (options.rho is None or options.like is None):
        raise InputError(
            "--worst-group needs --rho, the budget that is to be divided, and --like, an earlier release, which tells "
            "how large groups are"
        )
    if options.weights is not None and options.rho is None:
        raise InputError("--weights needs --rho, the budget that is to be divided")
    if options.rho is not None and not options.divides:
        raise InputError("--rho needs what the budget is to be divided for: --target, --weights or --worst-group")
    if options.write is not None and not options.divides and not options.cliques:
        raise InputError("--write needs something to write: a division, found for --target, --weights or --worst-group")
    if options.write is not None and options.write.exists():
        raise InputError(f"--write {options.write}: there is a file already; name another, nothing is overwritten")
    for option, value, allowed in (
        ("--estimator", options.estimator or "full", ("full", "topdown")),
        ("--solver", options.solver, ("descent", "cvxpy")),
    ):
        if value not in allowed:
            raise InputError(f"{option}: found {value!r}; allowed are {' and '.join(allowed)}")
    if options.chart is not None:
        from features.plan.chart import check_chart

        check_chart(options.chart)


def _check_cliques(options: PlanOptions) -> None:
    """Refuse what does not go with proposed cliques."""
    from pipeline.errors import InputError

    if options.most_cells is not None and not options.cliques:
        raise InputError("--most-cells is for --cliques, whose tables it limits")
    if options.cliques and options.like is None:
        raise InputError("--cliques needs --like, an earlier release or a file with a public sample")
    others = {"--universe": options.universe, "--estimator": options.estimator, "--chart": options.chart}
    given = [name for name, value in others.items() if value] + ["a division"] * options.divides
    if options.cliques and given:
        raise InputError(f"found --cliques and {given[0]}; one of the two is allowed")


def _propose(path: Path, options: PlanOptions, output: Output) -> None:
    """Print cliques that public data propose, and write the spec with them where that is asked for."""
    import json

    from features.plan.cliques import MOST_CELLS, proposed_cliques
    from features.plan.write_spec import write_section
    from pipeline.inputs.geography import read_spine
    from pipeline.spec.release_spec import load_spec

    assert options.like is not None
    spec = load_spec(path)
    found = proposed_cliques(spec, read_spine(spec.geography), options.like, options.most_cells or MOST_CELLS)
    if options.write is not None:
        write_section(path, options.write, *found.section)
    if output.json:
        typer.echo(json.dumps(found.data(), indent=2, ensure_ascii=False))
        return
    for line in found.lines:
        typer.echo(line)
    if options.write is not None:
        output.remark(f"Spec written to {options.write}")


def _best(planned: Plan, options: PlanOptions) -> Best:
    from features.plan.best import find_best
    from features.plan.targets import parse_targets, parse_weights, worst_group_aims
    from pipeline.errors import InputError

    expectation = _universe_plan(planned, options.universe).expectation
    if expectation.universe.together is not None:
        raise InputError(
            "--target, --weights, --worst-group: the budget of universes that are estimated together cannot be divided "
            "yet; leave it out"
        )
    budget = None if options.rho is None else _budget(options.rho)
    if options.target is not None:
        aims = parse_targets(options.target, expectation.universe)
        return find_best(expectation, aims, "largest", budget, options.least, options.solver)
    if options.worst_group is not None and options.like is not None:
        aims = worst_group_aims(options.worst_group, expectation, options.like)
        return find_best(expectation, aims, "largest", budget, options.least, options.solver)
    aims = parse_weights(options.weights or "", expectation.universe)
    return find_best(expectation, aims, "sum", budget, options.least, options.solver)


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
    for path, what in ((options.write, "Spec"), (options.chart, "Chart")):
        if path is not None:
            output.remark(f"{what} written to {path}")


def _echo_json(planned: Plan, best: Best | None) -> None:
    import json

    content = planned.data() | ({} if best is None else {"best": best.data()})
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
