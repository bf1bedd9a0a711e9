"""`spinewise validate`: report everything that is wrong with spec and records; spends no budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import JsonOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate", short_help="Check spec and records without spending budget.")(validate)


def validate(
    spec: Annotated[
        Path | None, typer.Argument(help="The release spec, a TOML file.", metavar="SPEC", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="The records: a file, or a folder with files named as in the spec. [default: where the spec says]",
            metavar="[DATA]",
            show_default=False,
        ),
    ] = None,
    before: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="In a series, the records of a period before that of DATA; repeatable, the earliest first. "
            "Counts how many persons have how many spells.",
            show_default=False,
        ),
    ] = None,
    i_know: Annotated[
        bool,
        typer.Option("--i-know", help="Accept what is beyond the usual limits, as `spinewise run --i-know` does."),
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the spec file instead; no SPEC is needed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check spec, geography, bounds and every record in one pass, and report everything that is wrong.

    Each problem is listed with the number of rows that have it, the first of them, what was found and what is allowed.
    Writes nothing and spends no budget. The records of companions are those that the spec names, unless DATA is a
    folder. The output shows values of the records: only people who may see the records may see it.

    DATA SPEC is accepted too: the one of the two whose name ends in .toml is the spec.

    The exit status is 0 if a run would accept the input, else 2. Remarks do not stop a run.

    --schema: the JSON Schema of the spec file, with which editors can complete and check it. As the first line of the
    spec, for editors that use Taplo: #:schema ./release.schema.json

    Example:

        spinewise validate release.toml

        spinewise validate release.toml persons.parquet

        spinewise validate --schema > release.schema.json
    """
    if schema:
        import json as text

        from pipeline.spec.release_spec import spec_json_schema

        typer.echo(text.dumps(spec_json_schema(), indent=2, ensure_ascii=False))
        return
    if spec is None:
        from pipeline.errors import InputError

        raise InputError("Missing argument 'SPEC', a TOML file; --schema alone does without")
    from flows.checks.validation import validate as check

    if data is not None and data.suffix == ".toml" and spec.suffix != ".toml":
        spec, data = data, spec
    validation = check(data, spec, periods_before=before or (), i_know=i_know)
    if json:
        import json as text

        typer.echo(text.dumps(validation.as_dict(), indent=1, ensure_ascii=False))
    else:
        for finding in validation.findings:
            typer.echo(f"{finding.part}: {finding.text}")
        for remark in validation.remarks:
            typer.echo(f"remark: {remark}")
        counted = f"{validation.n_rows:,} rows, {validation.n_counted:,} counted, {validation.n_leaves:,} leaves"
        n = len(validation.findings)
        verdict = "no problem found" if validation.passed else f"{n:,} problem{'s' if n > 1 else ''}"
        checked = spec if data is None else f"{data} for {spec}"
        typer.echo(f"{checked}: {verdict} ({counted})")
    if not validation.passed:
        raise typer.Exit(2)
