"""`spinewise spine`: the geography that a spec gives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("spine", short_help="Show the areas that a release will have.")(spine)


def spine(
    spec: Annotated[Path, typer.Argument(help="The release spec, a TOML file.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Also write the spine to this new file, .csv or .parquet: a column a level.")
    ] = None,
) -> None:
    """Show the spine that a release by this spec would have; reads public files only, and spends nothing.

    For each level: how many areas, how many children they have, how many have no siblings, and how many are measured
    (geography.bypass measures an area without siblings once, at the level above). Where the spec regroups leaves for
    areas off the spine, also how many areas have to be added and subtracted for those, before and after.

    Example:

        spinewise spine examples/rhode_island.toml
    """
    from flows.checks.spine_report import describe_spine
    from pipeline.errors import InputError
    from pipeline.export.plain import write_csv, write_plain_parquet
    from pipeline.spec.release_spec import load_spec

    if out is not None:
        if out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: found the ending {out.suffix!r}; .csv and .parquet are allowed")
        if out.exists():
            raise InputError(f"--out {out}: exists already; name a new file")
    found, lines = describe_spine(load_spec(spec))
    for line in lines:
        typer.echo(line)
    if out is not None:
        write = write_csv if out.suffix == ".csv" else write_plain_parquet
        write(out, iter([found.to_table()]))
