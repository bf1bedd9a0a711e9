"""`spinewise sign`: sign a finished release."""

from __future__ import annotations

import typer

from pipeline.execution.options import ReleaseArgument, SignKeyOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sign", short_help="Sign a finished release.")(sign)


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
