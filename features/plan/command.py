"""`spinewise plan`: the guarantee, the errors and the memory of a release; and the best division of its budget."""

from __future__ import annotations

import json as library
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption, Output, SpecArgument

if TYPE_CHECKING:
    from fractions import Fraction

    from features.plan.best import Best
    from features.plan.release_plan import PlannedRelease, UniversePlan
    from pipeline.estimation.expectation import Expectation

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
    write: Annotated[
        Path | None, typer.Option(help="Write a copy of the spec with the new budget and division to this file.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes of the planned run. [default: all cores]")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="An earlier release, for errors by size of area, and for how well the same shares fitted."),
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

    --like: errors by table, level and size of area, with the sizes of an earlier release; and what shares from public
    counts gain if they fit as they did there.

    Example:

        spinewise plan examples/rhode_island.toml --target "tract: total <= 2.0; county: race <= 5" --write better.toml

        spinewise plan examples/rhode_island.toml --rho 2.56 --weights "tract: race = 1; block: total = 2"

        spinewise plan examples/rhode_island.toml --spine

        spinewise plan examples/us2000_housing.toml --like releases/us2000-housing
    """
    from features.plan.release_plan import plan_release
    from pipeline.execution.settings import load_settings

    output = Output.of(context, json=json)
    if spine:
        _show_spine(spec, write)
        return
    _check(target, weights, rho, write)
    planned = plan_release(spec, load_settings(workers=workers).processes, like)
    divided = _universe_plan(planned, universe)
    best = None
    if target is not None or weights is not None:
        best = _best(divided.expectation, target, weights, None if rho is None else _budget(rho), least)
    if write is not None and best is not None:
        from features.plan.write_spec import write_divided

        write_divided(spec, write, best.universe)
    if json:
        content = planned.data() | ({} if best is None else {"best": best.data()})
        typer.echo(library.dumps(content, indent=2, ensure_ascii=False))
        return
    _print(planned, divided, best, details=details)
    if write is not None:
        output.remark(f"Spec written to {write}")


def _show_spine(spec: Path, write: Path | None) -> None:
    """Print the areas that the release will have, and write them to a file where that is asked for."""
    from features.plan.spine_report import describe_spine
    from pipeline.errors import InputError
    from pipeline.execution.console import output_console
    from pipeline.spec.release_spec import load_spec
    from pipeline.storage.plain_tables import write_csv, write_plain_parquet

    if write is not None:
        if write.suffix not in (".csv", ".parquet"):
            raise InputError(f"--write {write}: found the ending {write.suffix!r}; .csv and .parquet are allowed")
        if write.exists():
            raise InputError(f"--write {write}: exists already; name a new file")
    described, tables = describe_spine(load_spec(spec))
    console = output_console(_PLAIN_WIDTH)
    for table in tables:
        console.print(table)
    if write is not None:
        to_file = write_csv if write.suffix == ".csv" else write_plain_parquet
        to_file(write, iter([described.to_table()]))


def _check(target: str | None, weights: str | None, rho: str | None, write: Path | None) -> None:
    """Refuse options that contradict each other, before anything is read."""
    from pipeline.errors import InputError

    if target is not None and weights is not None:
        raise InputError("found --target and --weights; one of the two is allowed")
    if weights is not None and rho is None:
        raise InputError("--weights needs --rho, the budget that is to be divided")
    if target is weights is None and rho is not None:
        raise InputError("--rho needs what the budget is to be divided for: --target or --weights")
    if target is weights is None and write is not None:
        raise InputError("--write needs something to write: a division, found for --target or --weights")
    if write is not None and write.exists():
        raise InputError(f"--write {write}: there is a file already; name another, nothing is overwritten")


def _best(
    expectation: Expectation, target: str | None, weights: str | None, budget: Fraction | None, least: float
) -> Best:
    from features.plan.best import find_best
    from features.plan.targets import parse_aims
    from pipeline.errors import InputError

    universe = expectation.universe
    if universe.together is not None:
        raise InputError(
            "--target, --weights: the budget of universes that are estimated together cannot be divided yet; leave it "
            "out"
        )
    if target is not None:
        return find_best(expectation, parse_aims("--target", target, universe), "largest", budget, least)
    return find_best(expectation, parse_aims("--weights", weights or "", universe), "sum", budget, least)


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


def _universe_plan(planned: PlannedRelease, name: str) -> UniversePlan:
    from pipeline.errors import InputError

    names = [plan.universe.name for plan in planned.universes]
    if name not in names:
        companions = ", ".join(repr(companion) for companion in names if companion) or "none"
        raise InputError(f"--universe: no companion {name!r}; the companions are {companions}")
    return planned.universes[names.index(name)]


def _print(planned: PlannedRelease, divided: UniversePlan, best: Best | None, *, details: bool) -> None:
    from features.plan.show import CalledInPlan, show_asked, show_best, show_changes, show_plan, show_summary
    from pipeline.execution.console import output_console

    console = output_console(_PLAIN_WIDTH)
    if details:
        show_plan(planned, console)
    else:
        show_summary(planned, console)
        show_asked(planned, console)
    if best is not None:
        show_best(best, console, CalledInPlan.of(planned.spec, best.universe), details=details)
        show_changes(divided, best, console)
