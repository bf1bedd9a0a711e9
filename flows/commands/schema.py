"""`spinewise schema`: the JSON schema of the spec file."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema", short_help="Print the JSON Schema of the spec file.")(schema)


def schema() -> None:
    """Print the JSON Schema of the spec file, with which editors can complete and check it.

    Example:

        spinewise schema > release.schema.json

    As the first line of the spec, for editors that use Taplo:

        #:schema ./release.schema.json
    """
    import json

    from pipeline.spec.release_spec import spec_json_schema

    typer.echo(json.dumps(spec_json_schema(), indent=2, ensure_ascii=False))
