"""`spinewise ledger ...`: open, show and close budgets, list, export and check what was spent of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pipeline.execution.options import JsonOption, LedgerOption, Output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.privacy.ledger.events import Event
    from pipeline.privacy.ledger.ledger import Ledger
    from pipeline.runs.receipts import Charging, KnownLedger

_HELP = """The privacy-loss budgets of datasets, and what was spent of them.

A run whose spec names a dataset is charged to it before anything is drawn, and refused if the budget does not suffice.

Example:

    spinewise ledger open census-2030 --rho 4 --population "residents of Little State on 1 April 2030"

    spinewise ledger show census-2030
"""

app = typer.Typer(
    short_help="The privacy-loss budgets of datasets.",
    name="ledger",
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(commands: typer.Typer) -> None:
    """Add the group of commands."""
    commands.add_typer(app)


DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's name.")]
SomeDataset = Annotated[str | None, typer.Argument(metavar="[DATASET]", help="Only this dataset.")]
ExactOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT",
        help="What may be exact: LEVEL:QUERY (an invariant), zeros (structural), bounds:NAME, inputs:NAME; repeatable.",
        show_default=False,
    ),
]


@app.callback()
def _ledger(ledger: LedgerOption = None) -> None:
    """Options before any command on a ledger."""


@app.command("open")
def open_dataset(
    context: typer.Context,
    dataset: DatasetArgument,
    population: Annotated[str, typer.Option(help="In words, who is in the dataset, and as of when.")],
    rho: Annotated[str | None, typer.Option(help='Total budget for zCDP, exact: "2.56" or "542/339".')] = None,
    epsilon: Annotated[str | None, typer.Option(help="Total budget for pure differential privacy, exact.")] = None,
    neighbours: Annotated[str, typer.Option(help="change-one or add-remove.")] = "change-one",
    exact: ExactOption = None,
    aside: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="NAME=SHARE",
            help="Set a share of the budget aside, exact: for questions, or for a release by its name; repeatable.",
            show_default=False,
        ),
    ] = None,
    unit_column: Annotated[
        str,
        typer.Option("--unit", help="Column of units with several records, which all that is charged must protect."),
    ] = "",
) -> None:
    """Give a dataset its budget, once and for all. Creates the ledger if there is none.

    Without --exact no number of it may be published exactly, and a run with invariants is refused. What is set aside
    with --for can be spent only for that purpose, which can spend nothing else.

    Example:

        spinewise ledger open census-2030 --rho 4 --population "residents on 1 April 2030" --exact state:total
    """
    from pipeline.errors import InputError
    from pipeline.model.exact import parse_exact, parse_shares
    from pipeline.privacy.ledger.ledger import amount_text, check_dataset

    text = rho if rho is not None else epsilon
    if text is None or (rho is not None and epsilon is not None):
        raise InputError("ledger open: give the total budget, either as --rho or as --epsilon")
    unit = "rho" if rho is not None else "epsilon"
    try:
        budget = parse_exact(text)
    except ValueError as error:
        raise InputError(f"--{unit}: {error}") from None
    try:
        shares = parse_shares(aside or ())
    except ValueError as error:
        raise InputError(f"--for: {error}") from None
    framework = "zcdp" if rho is not None else "pure"
    check_dataset(dataset, population, framework, budget, neighbours)  # or a ledger would be made for nothing
    with _opened(context, create=True) as opened:
        opened.open_dataset(
            dataset,
            population=population,
            framework=framework,
            budget=budget,
            neighbours=neighbours,
            exact=exact or (),
            purposes=shares,
            units=unit_column,
        )
        typer.echo(f"{dataset}: open with {unit} = {amount_text(budget)} in {opened.place}")


@app.command()
def allow(context: typer.Context, dataset: DatasetArgument, exact: ExactOption = None) -> None:
    """Declare that more of a dataset may be published exactly, which no budget covers; an event like any other.

    Each --exact covers one meaning: the same query at the same level over other areas, or with other values, needs its
    own. A closed dataset allows nothing more.

    Example:

        spinewise ledger allow census-2030 --exact county:total
    """
    with _opened(context) as opened:
        opened.allow_exact(dataset, *(exact or ()))
        typer.echo(f"{dataset}: may be exact: {', '.join(map(str, opened.dataset(dataset).allowed))}")


@app.command()
def show(
    context: typer.Context,
    dataset: SomeDataset = None,
    events: Annotated[bool, typer.Option("--events", help="Show every event instead, in order.")] = False,
    delta: Annotated[str, typer.Option(help="Delta at which the epsilon of what is spent is shown.")] = "1e-10",
    json: JsonOption = False,
) -> None:
    """Show the total, spent and remaining budget of each dataset, and its runs.

    Example:

        spinewise ledger show census-2030

        spinewise ledger show census-2030 --events --json
    """
    if events:
        _show_events(context, dataset, as_json=json)
        return
    from pipeline.errors import InputError
    from pipeline.model.exact import parse_exact
    from pipeline.privacy.ledger.report import dataset_report

    try:
        exact_delta = parse_exact(delta)
    except ValueError as error:
        raise InputError(f"--delta: {error}") from None
    with _opened(context) as opened:
        states = [opened.dataset(dataset)] if dataset is not None else list(opened.datasets().values())
        reports = [dataset_report(state, exact_delta) for state in states]
        if json:
            _echo_json(reports)
            return
        typer.echo(f"ledger {opened.place} ({opened.id[:12]})")
        for report in reports:
            for line in _told(report):
                typer.echo(line)


def _show_events(context: typer.Context, dataset: str | None, *, as_json: bool) -> None:
    with _opened(context) as opened:
        if dataset is not None:
            opened.dataset(dataset)
        found = [event for event in opened.events() if dataset in (None, event.dataset)]
    if as_json:
        _echo_json([event.as_dict() for event in found])
        return
    for event in found:
        what = {
            "open": f"{event.population}: {event.framework}, {event.neighbours}, budget {event.budget}",
            "charge": f"{event.cost} for {event.mechanism} {event.scale} on {event.query} at {event.level} "
            f"({event.count} numbers), {event.release}, run {event.run[:12]} {event.details}",
            "purpose": f"{event.budget} is set aside for {event.query}",
            "allow": f"{_subject(event)} may be exact",
            "exact": f"{_subject(event)} exactly ({event.count} numbers), {event.release}, run {event.run[:12]}",
            "key": f"of {event.release}, run {event.run[:12]}",
            "commit": f"{event.release}, run {event.run[:12]}",
            "series": f"{event.count} periods, {event.details}",
            "period": f"number {event.count + 1}, {event.release}, run {event.run[:12]}",
            "close": "",
        }.get(event.kind, "")
        typer.echo(f"{event.number:>6}  {event.time}  {event.kind:<6}  {event.dataset}  {what}".rstrip())


@app.command()
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it; - for the standard output.")],
) -> None:
    """Write the whole ledger as JSON; `verify --file` checks it anywhere.

    Example:

        spinewise ledger export ledger.json
    """
    from pipeline.errors import InputError
    from pipeline.privacy.ledger.report import export_text

    with _opened(context) as opened:
        found = opened.events()
        text = export_text(opened.id, found)
    if str(file) == "-":
        typer.echo(text, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}") from error
    typer.echo(f"{file}: {len(found)} events")


@app.command()
def verify(
    context: typer.Context,
    releases: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RELEASE]...",
            help="Compare with the receipts of these: manifests, releases, answers, or folders of them, from anywhere.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="A run's directory, or the folder of several: compare with their notes.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Check this exported ledger instead.")] = None,
) -> None:
    """Check the chain of hashes, every cost and every total; ends with status 1 if anything is wrong.

    Receipts show a ledger that was put back, or continued in two copies, and exact numbers that it did not allow; what
    they state is added up for each dataset. Where there is no ledger here, they are compared with each other.

    Example:

        spinewise ledger verify --runs releases

        spinewise ledger verify published/2030-*/manifest.json
    """
    from pipeline.errors import InputError
    from pipeline.privacy.ledger.notes import read_notes
    from pipeline.privacy.ledger.report import check_export, read_export
    from pipeline.runs.receipts import KnownLedger, find_manifests

    manifests = find_manifests(releases or ())
    if file is not None:
        count, problems = check_export(file)
        problems += _compared(manifests, KnownLedger(*read_export(file)))
        _judge(str(file), f"{count} events", problems)
        return
    try:
        opened = _opened(context)
    except InputError:
        source = _group(context).get_parameter_source("ledger")
        if not manifests or (source is not None and source.name == "COMMANDLINE"):
            raise
        _judge("what these releases state", f"{len(manifests)} manifests, no ledger", _compared(manifests, None))
        return
    with opened:
        notes = read_notes(runs) if runs is not None else {}
        if runs is not None and not notes:
            Output.of(context).remark(
                f"Warning: --runs {runs}: found no run with notes of its charges below it; nothing was compared"
            )
        events = opened.events()
        problems = list(opened.verify(notes.values())) + _compared(manifests, KnownLedger(opened.id, events))
        compared = f", and the notes of {len(notes)} runs" if runs is not None else ""
        _judge(f"ledger {opened.place}", f"{len(events)} events{compared}", problems)


@app.command("close")
def close_dataset(
    context: typer.Context,
    dataset: DatasetArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Permanently close a dataset's budget. Runs charged before can still be repeated.

    Example:

        spinewise ledger close census-2030
    """
    with _opened(context) as opened:
        state = opened.dataset(dataset)
        if not yes:
            typer.confirm(f"Close {dataset}, of which {state.unit} = {state.left} is left, permanently?", abort=True)
        opened.close_dataset(dataset)
        typer.echo(f"{dataset}: closed")


def _opened(context: typer.Context, *, create: bool = False) -> Ledger:
    from pipeline.execution.settings import load_settings
    from pipeline.privacy.ledger.ledger import Ledger

    settings = load_settings(ledger=_group(context).params["ledger"])
    return Ledger.open(settings.ledger, create=create, state=settings.state)


def _group(context: typer.Context) -> typer.Context:
    """The context of the group, of one of whose commands this is; its options are there."""
    return cast("typer.Context", context.parent)


def _subject(event: Event) -> str:
    """What an event allows or discloses; damaged events are shown, too."""
    try:
        return str(event.subject() if event.kind == "allow" else event.exact().subject)
    except ValueError:
        return "?"


def _compared(manifests: Mapping[Path, Charging], ledger: KnownLedger | None) -> list[str]:
    """Tell what the receipts add up to; returns what is wrong with them, a sentence each."""
    from pipeline.privacy.ledger.ledger import amount_text
    from pipeline.runs.receipts import compare_receipts

    found = compare_receipts(manifests, ledger)
    for one in found.spending:
        exact = f"; exact: {', '.join(one.exact)}" if one.exact else ""
        typer.echo(
            f"{one.dataset} (ledger {one.ledger[:12]}): {one.unit} = {amount_text(one.cost, up=True)} in "
            f"{one.releases} published charges{exact}"
        )
    for release in found.uncharged:
        typer.echo(f"not charged, and in no sum: {release}")
    return list(found.problems)


def _judge(what: str, extent: str, problems: list[str]) -> None:
    from pipeline.privacy.ledger.events import LedgerError

    if problems:
        raise LedgerError("\n".join([f"{what} is NOT sound:", *problems]))
    typer.echo(f"{what} is sound: {extent}")


def _told(report: Mapping[str, Any]) -> list[str]:
    from fractions import Fraction

    from pipeline.privacy.ledger.ledger import amount_text

    def amount(key: str, *, up: bool = False) -> str:
        return amount_text(Fraction(str(report[key])), up=up)

    unit = report["unit"]
    epsilon = f"; epsilon {report['epsilon']} at delta {float(Fraction(str(report['delta']))):g}"
    lines = [
        "",
        f"{report['dataset']}: {report['population']}{' (closed)' if report['closed'] else ''}",
        f"  neighbours {report['neighbours']}{f', by {of}' if (of := report.get('units')) else ''}",
        f"  budget  {unit} = {amount('budget')}",
        f"  spent   {unit} = {amount('spent', up=True)}{epsilon if unit == 'rho' else ''}",
        f"  left    {unit} = {amount('left')}",
        f"  exact   {', '.join(report['allowed']) or 'nothing may be'}",
    ]
    for one in report["purposes"]:
        left, total = (amount_text(Fraction(one[key])) for key in ("left", "budget"))
        what = f"for {one['for']}" if one["for"] else "for nothing by name"
        lines.append(f"  {what}: {unit} = {left} left of {total}")
    for one in report.get("series", []):
        drawn = one["drawn"]
        lines.append(f"  series {one['name']}: {len(drawn)} of {one['periods']} periods drawn, {', '.join(drawn)}")
    for run in report["runs"]:
        state = "drawn" if run["committed"] else "charged, not reported drawn"
        cost = amount_text(Fraction(run["cost"]), up=True)
        lines.append(f"  run {run['run'][:12]}  {run['time']}  {run['release']}: {unit} = {cost}, {state}")
        if run["exact"]:
            lines.append(f"    published exactly: {', '.join(run['exact'])}")
    return lines


def _echo_json(content: object) -> None:
    import json

    typer.echo(json.dumps(content, indent=1))
