"""`spinewise audit`: test what is installed, a finished release, or an answer to a question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption, KeyOption, Output, WorkersOption

if TYPE_CHECKING:
    from features.audit.findings import Audit, Finding


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit", short_help="Test the installed samplers, a finished release, or an answer.")(audit)


def audit(
    context: typer.Context,
    release: Annotated[
        Path | None,
        typer.Argument(
            help="Audit this finished release, or answer to a question, instead of what is installed.",
            metavar="[RELEASE_DIR]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the reports audit.html and audit.json; default: audit, for a release its restricted/audit.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute instead of several.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=10**6, help="The same seed gives the same findings.")] = 1,
    workers: WorkersOption = None,
    key: KeyOption = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="Compare the release with what this ledger was charged.")
    ] = None,
    reconstruct: Annotated[
        bool,
        typer.Option(
            "--reconstruct", help="Attack the release as an outsider would, and report how well the attack succeeds."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Test the privacy of the installed samplers and pipeline, or of a finished release.

    Of the installation: every noise distribution against its definition, the key streams against published vectors, and
    how well whole runs on neighbouring records can be told apart. Every test is also run on deliberate faults, to show
    that it can fail. Uses public test keys and made-up records.

    Of a release, with its restricted/ folder: that what was added to the true counts is the noise that the spec gives,
    bound to the key and the records, that nothing else is published, and that all of it follows from the measurements.
    A second program, which shares no code with this one, redraws noise from the key and recomputes what is stated;
    python -P -m auditor RELEASE_DIR starts it alone. With --reconstruct it tries to reconstruct records as an outsider
    would, and compares its success with what is guaranteed. Of an answer, with its restricted/ folder: the second
    program draws noise and choices again, and recomputes how far a person moves the numbers, what that costs, the caps
    of units, the table and the charges. The reports are computed from true counts: they are for the agency alone, and
    have mode 0600.

    The status is 0 if everything is as it should be, else 1.

    Example:

        spinewise audit --out audit

        spinewise audit releases/rhode-island

        spinewise audit answers/count-county-be726a6f --ledger ledger.db
    """
    from features.audit.findings import collected
    from features.audit.finished import attack_findings, audit_answer, audit_release
    from features.audit.installed import audit_installed
    from features.audit.report import write_audit
    from pipeline.confidential.custody import given_source
    from pipeline.errors import InputError
    from pipeline.execution.console import error_console
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.release.layout import RunDirectory

    if reconstruct and (release is None or RunDirectory(release).is_answer):
        raise InputError("--reconstruct: attacks a release; give its directory")
    output = Output.of(context, json=json)
    counts = {True: 0, False: 0}
    errors = error_console()

    def tell(finding: Finding) -> None:
        counts[finding.passed] += 1
        if output.verbose:
            errors.print(
                f"{'passed' if finding.passed else 'FAILED'} {finding.group}: {finding.check}, {finding.subject}"
            )
        elif errors.is_terminal and not output.quiet:
            errors.print(f"{counts[True]} passed, {counts[False]} failed", end="\r")

    processes = load_settings(workers=workers).processes
    if release is None:
        folder = Path("audit") if out is None else out
        found = audit_installed(quick=quick, seed=seed, workers=processes, report=tell)
    elif RunDirectory(release).is_answer:
        run = RunDirectory(release)
        folder = run.restricted / "audit" if out is None else out
        found = audit_answer(run, given_source(key), ledger, tell)
    else:
        run = release_at(release)
        folder = run.restricted / "audit" if out is None else out
        found = audit_release(run, given_source(key), ledger, processes, tell)
        if reconstruct:
            found = replace(found, findings=(*found.findings, *collected(tell, attack_findings(run.root, folder))))
    html, _ = write_audit(found, folder, private=release is not None)
    if not output.quiet and not json:
        _show(found)
    if alone := found.about.get("compared in form alone"):
        output.remark(f"compared in form alone: {alone}")
    verdict = "passed" if found.passed else f"{len(found.failed)} of {len(found.findings)} checks FAILED"
    output.result(f"{found.title}: {verdict}; see {html}", {**found.as_dict(), "report": str(html)})
    if not found.passed:
        raise typer.Exit(1)


def _show(audit: Audit) -> None:
    """A table of the findings, those of one check and many distributions in one line; what failed in full below it."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    table = Table("", "check", "passed", "least p or largest delta", "limit", box=None, pad_edge=False)
    rows: dict[tuple[str, str], list[Finding]] = {}
    for finding in audit.findings:
        rows.setdefault((finding.group, finding.check), []).append(finding)
    for (group, check), findings in rows.items():
        valued = [finding for finding in findings if finding.value is not None and finding.limit is not None]
        valued.sort(key=lambda finding: finding.value or 0.0, reverse=group == "pipeline")
        decided = [f"{valued[0].value:.3g}", f"{valued[0].limit:.3g}"] if valued else ["", ""]
        passed = sum(finding.passed for finding in findings)
        table.add_row(group, check, f"{passed} of {len(findings)}", *decided)
    console.print(table)
    for finding in audit.failed:
        console.print(f"FAILED {finding.group}: {finding.check}, {finding.subject}: {finding.detail}", soft_wrap=True)
