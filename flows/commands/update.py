"""`spinewise update`: a new version of a release, with answers to questions or with corrected texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import (
    JsonOption,
    Output,
    ReleaseArgument,
    SignedByOption,
    WorkersOption,
)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("update", short_help="Update a release with answers, or correct its texts.")(update)


def update(
    context: typer.Context,
    release: ReleaseArgument,
    answers: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="ANSWER_DIR",
            help="An answer of spinewise ask; may be given several times.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML_FILE", help="Corrected texts for readers, under the keys that they have in the spec."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder in which to create the new version's directory.")] = Path("updated"),
    signed_by: SignedByOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Make a new version of a finished release, with answers or with corrected texts; print its directory.

    Reads public files only: no records, no key, no ledger. It costs nothing, since release and answers were charged
    when they were made; the new version states what both cost together. Estimates, whole numbers, intervals, tables and
    report are computed anew, and what changed is in changes.json and in the report. The release itself is not changed.
    The same command resumes an update that was stopped, and does nothing if it is finished.

    --texts: a file with what is to be corrected of [report] (but polygons) and of the labels of levels, attributes,
    values and tables, such as its title. No number changes, or there is no new version; every other key is refused. A
    signature of the release does not hold for the version, whose manifest is another: sign it too.

    Answers must be counts of a level's areas by attributes of the release's schema, with or without a condition, asked
    under the same ledger. An answer whose counts differ from the release's by more than noise explains is of other
    records, and is refused. Where the release is signed, it and every answer must be signed by the key of --signed-by,
    or else by the one of the settings. spinewise verify works on the new version as on every release.

    Example:

        spinewise update releases/example --with answers/count-tract-sex-0a1b2c3d --out updated

        spinewise update releases/example --texts corrections.toml --out corrected
    """
    from pipeline.execution.threads import spare_pandas

    spare_pandas()
    from pipeline.confidential.custody import signing_key
    from pipeline.execution.faults import stopping_loses_nothing
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.runs.updates import update_release
    from pipeline.signatures.signing_keys import PublicKey
    from pipeline.signatures.statement import is_signed

    stopping_loses_nothing()
    output = Output.of(context, json=json)
    progress = output.progress()
    try:
        settings = load_settings(workers=workers)
        signer = None if signed_by is not None else signing_key(settings)
        key = PublicKey.read(signed_by) if signed_by is not None else None
        if key is None and signer is not None and is_signed(release_at(release)):
            key = signer.public()
        made = update_release(release, answers or (), out, settings.processes, progress, key, texts)
    finally:
        progress.close()
    changes = made.changes
    if made.done_before:
        output.remark("done before, from the same release: nothing was computed")
    for text in changes.texts:
        output.remark(f"{text.key}: {text.before!r} is now {text.after!r}")
    if changes.texts:
        output.remark(
            "its manifest is another: a signature, a proof and an entry in a log hold for the version that it replaces"
        )
    output.remark(
        f"version {changes.version}: {changes.changed:,} of {changes.numbers:,} numbers are others than before, "
        f"{changes.outside:,} of them outside of the interval that they had; the largest change is {changes.largest:,}"
    )
    for one in made.doubts:
        output.remark(one)
    for one in made.beyond_limits:
        output.remark(f"beyond the usual limits, release and answers together: {one}")
    content = {"directory": str(made.root), "version": changes.version, "changed": changes.changed}
    output.result(str(made.root), content | {"numbers": changes.numbers, "outside": changes.outside})
