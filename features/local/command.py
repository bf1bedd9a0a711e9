"""`spinewise words`: which words of an open list the reports of a survey contain."""

from __future__ import annotations

import json as library
from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import JsonOption, Output, QuietOption, SpecArgument


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("words", short_help="Find the words of an open list in randomised reports.")(words)


def words(
    spec: SpecArgument,
    candidates: Annotated[
        Path, typer.Option(help="Text file with a candidate in each line, such as a dictionary.", show_default=False)
    ],
    level: Annotated[
        float, typer.Option(min=1e-9, max=0.5, help="Probability of finding any word that nobody reported.")
    ] = 0.05,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find which candidate words the reports of a RAPPOR survey contain, and print the attribute's values for its spec.

    A word is found if it is significantly present in the reports taken together; the list marks the words already in
    the spec. A warning is given where the reports suggest frequent words that are not among the candidates. Nothing is
    spent: the reports were randomised before they were sent.

    Example:

        spinewise words medicines.toml --candidates dictionary.txt
    """
    from features.local.words import words_of_reports

    output = Output(quiet, False, json)
    found = words_of_reports(spec, candidates, level=level)
    data = found.data()
    if unused := sum(found.unused.values()):
        output.remark(f"{unused:,} reports cannot be used")
    lines = [f"{found.reports:,} reports, {found.found.n_candidates:,} candidates, {len(found.found.words):,} found"]
    for remark in found.signs:
        output.remark(f"Warning: {remark}")
    for row in data["words"]:
        also = "" if row["listed"] else ", not in the spec"
        lines.append(f"{row['word']}: {row['count']:,} ({row['low90']:,} to {row['high90']:,}){also}")
    lines += ["", f"{found.attribute} = {library.dumps(found.values, ensure_ascii=False)}"]
    output.result("\n".join(lines), data)
