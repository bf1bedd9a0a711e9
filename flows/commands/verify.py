"""`spinewise verify`: recompute a release from its measurements or its records, or check its constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import (
    CentralOption,
    CombinedWithOption,
    JsonOption,
    KeyOption,
    Output,
    ReleaseArgument,
    SignedByOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from pipeline.confidential.custody import KeySource
    from pipeline.signatures.signing_keys import PublicKey


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", short_help="Check that a release is unchanged, adds up, and is signed.")(verify)


def verify(
    context: typer.Context,
    release: ReleaseArgument,
    constraints: Annotated[
        bool,
        typer.Option("--constraints", help="Check instead that it adds up, and keeps every constraint of its spec."),
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Recompute it instead from its records and its key.")
    ] = False,
    signed_by: SignedByOption = None,
    combined_with: CombinedWithOption = None,
    central: CentralOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="With --records, the records: a file, or a folder with files of the same names. "
            "[default: where they were]"
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(help="With --records, the spec, needed only without the restricted/ folder."),
    ] = None,
    key: KeyOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Check that a release is complete and unchanged, and that every number follows from its noisy measurements.

    Every file must have the hash that the manifest states, and what is computed again from the measurements must be the
    same byte for byte. Reads nothing under restricted/, so anyone who has the public/ folder can verify it.

    --signed-by: the release must also be signed with that key, which shows whose it is.

    --constraints: instead, a second program, which shares no code with the solver, checks that it adds up: counts are
    non-negative whole numbers, every parent is the sum of its children in every cell, tables and microdata agree with
    the histograms, and invariants, structural zeros, bounds and joins hold exactly. With --signed-by it must be signed.

    --records: instead, every public file is computed again from the records and the key, and compared byte by byte: the
    same noise, which costs no budget. Other records are refused before any noise is drawn. This works in restricted/
    or, where that is missing or cannot be written, in a temporary folder (set TMPDIR to choose where), which is closed
    to other users and removed at the end. Where other versions of software made the release, they are named.

    --central: a release from reports that uses counts of a central release is also compared with that one: the hash of
    its manifest, and every count.

    An answer of spinewise ask is verified too: its files, its costs, and what follows from its noisy numbers; where it
    is combined with a release, also from that release. With --release its areas are compared with those of a release.

    Fields of the manifest that no public file implies, such as versions, are named: their form alone is compared.

    Example:

        spinewise verify releases/example

        spinewise verify releases/example --constraints

        spinewise verify releases/rhode-island --signed-by agency.sign.pub

        spinewise verify releases/rhode-island --records --data persons.parquet
    """
    output = Output.of(context, json=json)
    if records:
        _refuse({"--constraints": constraints or None, "--signed-by": signed_by, "--central": central}, "--records")
        from pipeline.confidential.custody import given_source

        _recompute(release, _Records(data, spec, given_source(key), combined_with, workers), output)
        return
    _refuse({"--data": data, "--spec": spec, "--key": key}, "")
    if constraints:
        _refuse({"--central": central, "--release": combined_with}, "--constraints")
        _check_constraints(release, output, signed_by)
        return
    from pipeline.execution.threads import spare_pandas

    spare_pandas()
    from pipeline.errors import InputError
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.verify import FORM_ALONE, verify_release
    from pipeline.signatures.signing_keys import PublicKey
    from pipeline.signatures.statement import is_signed, signature_problems

    if RunDirectory(release).is_answer:
        if central is not None:
            raise InputError(f"--central: {release} is an answer; a release from reports may use a central one")
        _verify_answer(release, signed_by, combined_with, output)
        return
    if combined_with is not None:
        raise InputError(f"--release: {release} is no answer that could be combined with a release")
    run = release_at(release)
    signer = None if signed_by is None else PublicKey.read(signed_by)
    progress = output.progress()
    try:
        problems = [] if signer is None else signature_problems(run, signer)
        problems = problems or verify_release(run, load_settings(workers=workers).processes, progress, central)
    finally:
        progress.close()
    text, remarks = f"{release}: verified; all of it follows from its measurements", []
    if central is not None:
        text += f"; its central counts are those of {central}"
    elif run.central.exists():
        remarks.append(f"{release}: its central counts were not compared with their release: name it with --central")
    if signer is None and is_signed(run):
        remarks.append(f"{release}: its signature was not checked: name the key with --signed-by")
    alone = () if problems else FORM_ALONE
    if alone:
        remarks.append(
            f"{release}: of {', '.join(alone)} the form alone was compared; spinewise audit compares all but "
            "software with the key and the ledger"
        )
    _conclude(
        output,
        problems,
        f"{release}: this release does not verify",
        text + _signed_by(signer),
        {"release": str(release), "verified": not problems, "problems": problems, "form_alone": alone},
        remarks,
    )


def _refuse(options: Mapping[str, object], beside: str) -> None:
    """InputError where an option is given that says nothing of what is verified."""
    from pipeline.errors import InputError

    for name, value in options.items():
        if value is not None:
            why = f"found with {beside}, which does without" if beside else "found without --records, which it is for"
            raise InputError(f"{name}: {why}; leave one of the two out" if beside else f"{name}: {why}")


def _verify_answer(answer: Path, signed_by: Path | None, combined_with: Path | None, output: Output) -> None:
    from pipeline.published import release_at
    from pipeline.questions.manifest import read_answer
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.answers import form_alone, is_combined, release_of, verify_answer
    from pipeline.signatures.signing_keys import PublicKey
    from pipeline.signatures.statement import is_signed, require_signer, signature_problems

    key = None if signed_by is None else PublicKey.read(signed_by)
    run, combined = RunDirectory(answer), is_combined(RunDirectory(answer))
    release = release_of(run, combined_with) if combined else combined_with
    if combined_with is not None:
        require_signer(release_at(combined_with), (), key)
    problems = [] if key is None else signature_problems(run, key)
    problems = problems or verify_answer(run, release)
    text, remarks = f"{answer}: verified; its numbers follow from its measurements, and its cost from its noise", []
    if release is not None:
        text += f"; combined with {release}" if combined else f"; its areas are those of {release}"
    if key is None and is_signed(run):
        remarks.append(f"{answer}: its signature was not checked: name the key with --signed-by")
    if combined and release is None:
        remarks.append(f"{answer}: its combined numbers were not computed again: name the release with --release")
    alone = () if problems else form_alone(read_answer(run), release)
    if alone:
        remarks.append(
            f"{answer}: of {', '.join(alone)} the form alone was compared; with key and ledger spinewise audit "
            "compares all but release, software and labels, and spinewise verify --records makes all of them again"
        )
    _conclude(
        output,
        problems,
        f"{answer}: this answer does not verify",
        text + _signed_by(key),
        {"answer": str(answer), "verified": not problems, "problems": problems, "form_alone": alone},
        remarks,
    )


def _check_constraints(release: Path, output: Output, signed_by: Path | None) -> None:
    """Print whether a release keeps every constraint of its spec; exit status 1 where it does not.

    Args:
        release: its directory.
        output: of the command.
        signed_by: public key with which its manifest must be signed.
    """
    from auditor.check.release import examine
    from auditor.reading.findings import FormError
    from pipeline.errors import InputError
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
    _conclude(
        output,
        problems,
        f"{release}: this release does not keep its spec",
        f"{release}: every constraint of the spec holds ({findings.n_checks:,} checks){_signed_by(key)}",
        {"release": str(release), "holds": not problems, "checks": findings.n_checks, "problems": problems},
    )


@dataclass(frozen=True)
class _Records:
    """What a release is recomputed from: options of the command."""

    data: Path | None
    spec: Path | None
    source: KeySource
    combined_with: Path | None
    workers: int | None


def _recompute(release: Path, given: _Records, output: Output) -> None:
    """Print whether the records and the key give the same public files; exit status 1 where they do not."""
    from pipeline.execution.threads import spare_pandas

    spare_pandas()
    from pipeline.errors import InputError
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.rerun import rerun_here, universes_to_rerun

    if RunDirectory(release).is_answer:
        _rerun_answer(release, given, output)
        return
    if given.combined_with is not None:
        raise InputError(f"--release: {release} is no answer that could be combined with a release")
    settings = load_settings(workers=given.workers)
    run = release_at(release)
    universes = universes_to_rerun(run, given.data, given.spec)
    outcome = rerun_here(run, universes, given.source, settings, output.progress())
    for remark in outcome.remarks:
        output.remark(f"Note: {remark}")
    problems = [str(difference) for difference in outcome.differences]
    _conclude(
        output,
        problems[:20] + ([f"and {len(problems) - 20} more"] if problems[20:] else []),
        f"{release}: {len(problems)} of {outcome.files} public files differ, first",
        f"{release}: rerun; all {outcome.files} public files are the same",
        {"release": str(release), "same": not problems, "files": outcome.files, "problems": problems},
    )


def _rerun_answer(answer: Path, given: _Records, output: Output) -> None:
    from features.registry import part_of
    from pipeline.errors import InputError
    from pipeline.execution.settings import load_settings
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.answers import is_combined, release_of
    from pipeline.runs.rerun import key_of_run

    run = RunDirectory(answer)
    source, combined_with = key_of_run(run, given.source, load_settings()), given.combined_with
    combined = is_combined(run)
    if combined_with is not None and not combined:
        raise InputError(f"--release: {answer} is not combined with a release")
    release = release_of(run, combined_with) if combined else None
    if combined and release is None:
        output.remark("Note: combined numbers were not computed again: name the release with --release")
    rerun_answer = part_of("questions", "answering").rerun_answer
    differing, files = rerun_answer(run, given.spec, given.data, source, release), 3 if release is None else 5
    _conclude(
        output,
        differing,
        f"{answer}: {len(differing)} of {files} public files differ",
        f"{answer}: rerun; all {files} public files are the same",
        {"answer": str(answer), "same": not differing, "files": files, "problems": differing},
    )


def _signed_by(key: PublicKey | None) -> str:
    """The end of a result."""
    return "" if key is None else f"; it is signed by {key.name}"


def _conclude(
    output: Output,
    problems: Sequence[str],
    heading: str,
    text: str,
    content: dict[str, object],
    remarks: Sequence[str] = (),
) -> None:
    """Show the problems, a line each; without any, or as JSON, the result. Exit status 1 where there are some.

    Args:
        output: of the command.
        problems: a sentence each.
        heading: above them.
        text: of the result, without problems.
        content: of the result, for JSON.
        remarks: beside the result.
    """
    from pipeline.execution.console import tell_problems

    if problems and not output.json:
        tell_problems(heading, problems)
    else:
        for remark in remarks:
            output.remark(remark)
        output.result(text, content)
    if problems:
        raise typer.Exit(1)
