"""`spinewise verify --constraints`, once `spinewise check`: whether a release keeps every constraint of its spec."""

from __future__ import annotations

from pathlib import Path

import typer

from pipeline.execution.options import JsonOption, Output, QuietOption, ReleaseArgument, VerboseOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", short_help="Check that a release keeps every constraint of its spec.", hidden=True)(check)


def check(
    release: ReleaseArgument,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    json: JsonOption = False,
) -> None:
    """Check that a release keeps every constraint of its spec, with code that shares nothing with the solver.

    Checks that counts are whole numbers and not negative, that every parent is the sum of its children in every cell,
    that tables and microdata agree with the histograms, and that invariants, structural zeros, bounds and joins hold
    exactly; and that each file that it reads is the one that the manifest lists. Warns where randomised reports hold
    signs of frequent words that are not listed. Reads nothing under restricted/. The same as spinewise verify
    --constraints.

    Example:

        spinewise check releases/rhode-island
    """
    check_constraints(release, Output(quiet, verbose, json))


def check_constraints(release: Path, output: Output, signed_by: Path | None = None) -> None:
    """Print whether a release keeps every constraint of its spec; exit status 1 where it does not.

    Args:
        release: its directory.
        output: of the command.
        signed_by: public key with which its manifest must be signed.
    """
    from auditor.check.release import examine
    from auditor.reading.errors import FormError
    from pipeline.errors import InputError
    from pipeline.execution.console import tell_problems
    from pipeline.published import release_at
    from pipeline.release.manifest import check_public_files
    from pipeline.signatures.signing_keys import PublicKey
    from pipeline.signatures.statement import signature_problems

    key = None if signed_by is None else PublicKey.read(signed_by)
    try:
        findings = examine(release)
    except FormError as error:
        raise InputError(str(error)) from None
    problems = [*findings.problems, *findings.changed]
    if key is not None:  # what is signed are the hashes of all files
        run = release_at(release)
        problems = [*signature_problems(run, key), *check_public_files(run), *findings.problems]
    if problems and not output.json:
        tell_problems(f"{release}: this release does not keep its spec", problems)
    else:
        output.result(
            f"{release}: every constraint of the spec holds ({findings.n_checks:,} checks)"
            + ("" if key is None else f"; it is signed by {key.name}"),
            {"release": str(release), "holds": not problems, "checks": findings.n_checks, "problems": problems},
        )
    if problems:
        raise typer.Exit(1)
