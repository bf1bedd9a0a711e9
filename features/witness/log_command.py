"""`spinewise log ...`: an append-only log of releases that an agency publishes as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import ReleaseArgument, SignKeyOption

_HELP = """The append-only release log: a folder that any web server can publish.

Example:

    spinewise log new published/log --origin statistics.example/log --sign-key file:/secure/agency.sign

    spinewise log add published/log releases/little-state --sign-key file:/secure/agency.sign

    spinewise log verify published/log --signed-by agency.sign.pub --seen last.checkpoint
"""

log = typer.Typer(
    name="log",
    help=_HELP,
    short_help="The append-only release log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

LogArgument = Annotated[Path, typer.Argument(help="The folder of the log.", metavar="LOG", show_default=False)]
RequiredKeyOption = Annotated[
    Path, typer.Option("--signed-by", metavar="PUBLIC_KEY_FILE", help="Public key of the log.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(log)


@log.command("new")
def new(
    folder: LogArgument,
    origin: Annotated[str, typer.Option(help="The log's identity, such as statistics.example/log.")],
    sign_key: SignKeyOption = None,
) -> None:
    """Create an empty log.

    Example:

        spinewise log new published/log --origin statistics.example/log --sign-key file:/secure/agency.sign
    """
    from features.witness.log import new_log
    from pipeline.confidential.signing import required_signing_key
    from pipeline.execution.settings import load_settings

    new_log(folder, origin, required_signing_key(load_settings(), sign_key))
    typer.echo(f"{folder}: a new log, {origin}")


@log.command("add")
def add(
    folder: LogArgument,
    release: ReleaseArgument,
    sign_key: SignKeyOption = None,
) -> None:
    """Add a finished release or an answer, and sign the log's new checkpoint.

    The same release drawn again is refused. Only public files of the release are read.

    Example:

        spinewise log add published/log releases/little-state --sign-key file:/secure/agency.sign
    """
    from features.witness.log import LogError, add_entry
    from features.witness.publications import entry_of
    from pipeline.confidential.signing import required_signing_key
    from pipeline.execution.settings import load_settings
    from pipeline.published import publication_at
    from pipeline.release.manifest import check_public_files
    from pipeline.signatures.answers import changed_files

    run = publication_at(release)
    key = required_signing_key(load_settings(), sign_key)
    if problems := changed_files(run) if run.is_answer else check_public_files(run):
        raise LogError(f"{release} is not added: {problems[0]}")
    place = add_entry(folder, entry_of(run), key)
    typer.echo(f"{folder}: {release} is entry {place}")


@log.command("verify")
def verify(
    folder: LogArgument,
    signed_by: RequiredKeyOption,
    seen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your note of the newest checkpoint: the log must continue it, and the file is brought up to date.",
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A checkpoint that somebody else got; may be given several times."),
    ] = None,
) -> None:
    """Check a log from its entries to its signature, and against checkpoints that were seen before or elsewhere.

    Finds entries that were changed, a log that was rolled back, one that shows different readers different things, and
    releases that were drawn again.

    Example:

        spinewise log verify published/log --signed-by agency.sign.pub --seen last.checkpoint
    """
    from features.witness.checkpoint import read_checkpoint
    from features.witness.log import contradiction, open_log, redrawings
    from features.witness.output import read_input, write_output
    from pipeline.execution.console import tell_problems
    from pipeline.signatures.signing_keys import PublicKey

    key = PublicKey.read(signed_by)
    opened = open_log(folder, key)
    problems = redrawings(opened)
    known = [*(against or []), *([seen] if seen is not None and seen.exists() else [])]
    for path in known:
        if found := contradiction(opened, read_checkpoint(path, key)):
            problems.append(f"{path}: {found}")
    if problems:
        tell_problems(f"{folder}: this log does not verify", problems)
        raise typer.Exit(1)
    if seen is not None:
        write_output(seen, read_input(folder / "checkpoint"))
    size = opened.checkpoint.size
    typer.echo(f"{folder}: verified; {opened.checkpoint.origin}, {size} {'entry' if size == 1 else 'entries'}")


@log.command("prove")
def prove(
    folder: LogArgument,
    signed_by: RequiredKeyOption,
    out: Annotated[Path, typer.Option(help="Where to write it.", metavar="FILE", show_default=False)],
    release: Annotated[
        Path | None, typer.Option(help="Prove that this release is in the log.", metavar="RELEASE_DIR")
    ] = None,
    since: Annotated[
        Path | None, typer.Option(metavar="CHECKPOINT", help="Prove that the log has only grown since this checkpoint.")
    ] = None,
) -> None:
    """Write a proof that a release is in the log, or that the log has only grown, in the formats of C2SP.

    Example:

        spinewise log prove published/log --signed-by agency.sign.pub --release releases/little-state --out a.tlog-proof
    """
    from features.witness.checkpoint import read_checkpoint
    from features.witness.log import LogError, contradiction, open_log
    from features.witness.log_proofs import consistency_proof, inclusion_proof
    from features.witness.output import write_output
    from features.witness.publications import entry_of
    from pipeline.errors import InputError
    from pipeline.published import publication_at
    from pipeline.signatures.signing_keys import PublicKey

    if (release is None) == (since is None):
        raise InputError("one of --release and --since is needed")
    key = PublicKey.read(signed_by)
    opened = open_log(folder, key)
    if release is not None:
        proof = inclusion_proof(opened, entry_of(publication_at(release)))
    elif since is not None:
        earlier = read_checkpoint(since, key)
        if found := contradiction(opened, earlier):
            raise LogError(f"{since}: {found}")
        proof = consistency_proof(opened, earlier.size)
    write_output(out, proof)
    typer.echo(f"{out}: {len(proof)} bytes")


@log.command("check")
def check(
    proof: Annotated[Path, typer.Argument(help="What spinewise log prove wrote.", metavar="PROOF", show_default=False)],
    signed_by: RequiredKeyOption,
    release: Annotated[Path | None, typer.Option(help="The release that it is about.", metavar="RELEASE_DIR")] = None,
    since: Annotated[
        Path | None, typer.Option(metavar="CHECKPOINT", help="The checkpoint that it begins with.")
    ] = None,
) -> None:
    """Check a proof about a log that one does not have.

    Example:

        spinewise log check a.tlog-proof --signed-by agency.sign.pub --release releases/little-state
    """
    from features.witness.checkpoint import read_checkpoint
    from features.witness.log_proofs import check_growth, check_inclusion
    from features.witness.output import read_input
    from features.witness.publications import entry_of
    from pipeline.errors import InputError
    from pipeline.published import publication_at
    from pipeline.signatures.signing_keys import PublicKey

    if (release is None) == (since is None):
        raise InputError("one of --release and --since is needed")
    key = PublicKey.read(signed_by)
    content = read_input(proof)
    if release is not None:
        found = check_inclusion(content, entry_of(publication_at(release)), key)
        typer.echo(f"{release} is in the log {found.origin} of {found.size} entries")
    elif since is not None:
        earlier = read_checkpoint(since, key)
        found = check_growth(content, earlier, key)
        typer.echo(f"the log {found.origin} of {found.size} entries continues that of {earlier.size}")
