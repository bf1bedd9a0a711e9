"""`spinewise spine`: the geography that a spec describes."""

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
        Path | None,
        typer.Option(help="Also write the spine to this new .csv or .parquet file, one column for each level."),
    ] = None,
) -> None:
    """Show the spine that a release by this spec would have. Reads only public files, and spends no budget.

    Shows for each level how many areas there are, how many children they have, how many have no siblings, and how many
    are measured (geography.bypass measures an area without siblings once, at the level above). If the spec regroups
    leaves for areas off the spine, also shows how many areas must be added and subtracted for those, before and after.

    Example:

        spinewise spine examples/rhode_island.toml
    """
    from flows.checks.spine_report import describe_spine
    from pipeline.errors import InputError
    from pipeline.spec.release_spec import load_spec
    from pipeline.storage.plain_tables import write_csv, write_plain_parquet

    if out is not None:
        if out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: found the ending {out.suffix!r}; .csv and .parquet are allowed")
        if out.exists():
            raise InputError(f"--out {out}: exists already; name a new file")
    described, lines = describe_spine(load_spec(spec))
    for line in lines:
        typer.echo(line)
    if out is not None:
        write = write_csv if out.suffix == ".csv" else write_plain_parquet
        write(out, iter([described.to_table()]))
