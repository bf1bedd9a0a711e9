"""`spinewise key ...`: create a key, show its commitment, destroy it; create one to sign with, and `spinewise sign`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import ReleaseArgument, SignKeyOption

_HELP = """The master key of a release: create one, show its commitment, destroy it; and keys to sign releases with.

Example:

    spinewise key new /secure/little-state.key

    spinewise run little-state.toml --key file:/secure/little-state.key
"""

keys = typer.Typer(
    name="key",
    help=_HELP,
    short_help="Create, check and destroy master keys; create signing keys.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(keys)
    app.command("sign", short_help="Sign a finished release.")(sign)


@keys.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="A new file for the key; nothing is overwritten.", show_default=False)],
) -> None:
    """Draw a key from the operating system's entropy and write it to a file with mode 0600, to be kept in a vault.

    Prints its commitment, by which the ledger knows it; manifests hold others, one for each release.

    Example:

        spinewise key new /secure/little-state.key
    """
    from pipeline.privacy.keys import MasterKey

    key = MasterKey.generate()
    key.write(file)
    typer.echo(key.commitment())


@keys.command("sign-new")
def sign_new(
    file: Annotated[Path, typer.Argument(help="Where to write it; never over another file.", show_default=False)],
    name: Annotated[str, typer.Option(help="Name of the signer, such as statistics.example/releases; it is public.")],
    ed25519_only: Annotated[
        bool,
        typer.Option(
            "--ed25519-only", help="Leave out ML-DSA-65, the signature that is secure against quantum computers."
        ),
    ] = False,
) -> None:
    """Draw a key to sign releases with: FILE with mode 0600, and FILE.pub, which is to be published.

    Prints the SHA-256 of the public key file, to be published where readers trust it: on paper, on another site.

    Example:

        spinewise key sign-new /secure/agency.sign --name statistics.example/releases
    """
    from pipeline.errors import InputError
    from pipeline.signatures.signing_keys import SigningKey

    if file.is_dir():
        raise InputError(f"signing key file {file}: is a folder; give a new file")
    public_file = file.with_name(file.name + ".pub")
    if public_file.exists():
        raise InputError(f"public key file {public_file}: exists already; a key is never overwritten")
    key = SigningKey.generate(name, post_quantum=not ed25519_only)
    key.write(file)
    try:
        with public_file.open("x", encoding="ascii") as target:
            target.write(key.public().text())
    except OSError as error:
        raise InputError(f"public key file {public_file}: cannot be written ({error.strerror})") from None
    typer.echo(key.public().fingerprint())


@keys.command("show-commitment")
def show_commitment(release: ReleaseArgument) -> None:
    """Print the commitment in the manifest, and check it against the key if the run kept one.

    Example:

        spinewise key show-commitment releases/little-state
    """
    from pipeline.confidential.custody import KeySource, key_of_release
    from pipeline.published import release_at
    from pipeline.release.manifest import read_manifest

    run = release_at(release)
    if run.key.exists():
        key_of_release(run, KeySource())
    typer.echo(read_manifest(run.manifest).key_commitment)


@keys.command("destroy")
def destroy(
    release: ReleaseArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Overwrite and remove the key that a run kept in restricted/.

    Afterwards nobody can remove the noise, and nobody can rerun the release; it can still be verified. Copies of the
    key, in backups or a vault, must be destroyed separately.

    Example:

        spinewise key destroy releases/little-state --yes
    """
    from pipeline.confidential.custody import destroy_key
    from pipeline.published import release_at

    run = release_at(release)
    if not yes:
        typer.confirm(f"Destroy the key of {release}, after which it cannot be rerun?", abort=True)
    commitment = destroy_key(run)
    typer.echo(f"{release}: the key with the commitment {commitment} is destroyed")


def sign(
    release: ReleaseArgument,
    sign_key: SignKeyOption = None,
) -> None:
    """Sign a finished release or an answer: writes public/manifest.sig or answer.sig, and changes no other file.

    The signature covers the manifest's hash, and with it every public file. Of the release only public/ is read.

    Example:

        spinewise sign releases/little-state --sign-key file:/secure/agency.sign
    """
    from pipeline.confidential.custody import required_signing_key
    from pipeline.execution.settings import load_settings
    from pipeline.published import publication_at
    from pipeline.signatures.statement import sign_release, signature_of

    run = publication_at(release)
    key = required_signing_key(load_settings(), sign_key)
    sign_release(run, key)
    typer.echo(f"{signature_of(run)}: signed by {key.name}")
