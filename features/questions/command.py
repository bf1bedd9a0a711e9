"""`spinewise ask`: a question on the records, explained or answered under the ledger."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import (
    DataOption,
    JsonOption,
    KeyOption,
    LedgerOption,
    Output,
    SignedByOption,
    SignKeyOption,
    SpecArgument,
)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ask", short_help="Ask a question about the records, charged to the ledger.")(ask)


def ask(
    context: typer.Context,
    spec: SpecArgument,
    question: Annotated[
        str,
        typer.Argument(help='Such as "count by tract, sex where age >= 65".', metavar="QUESTION", show_default=False),
    ],
    rho: Annotated[str | None, typer.Option(help="The budget, exact, where the spec's framework is zcdp.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="The budget, exact, where the spec's framework is pure.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show noise, interval and cost; reads no records and spends nothing.")
    ] = False,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="Ends to which the amount is clipped.", metavar="LOW HIGH")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="What the amount is rounded to.")] = None,
    name: Annotated[str | None, typer.Option(help="The answer's name. [default: made from the question]")] = None,
    out: Annotated[Path, typer.Option(help="Folder in which to create the answer's directory.")] = Path("answers"),
    release: Annotated[
        Path | None,
        typer.Option(
            help="A finished release of the spec: with --explain, to see whether it answers already; else to "
            "combine the answer with.",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    sign_key: SignKeyOption = None,
    signed_by: SignedByOption = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question about the confidential records, with noise, and charge it to the dataset's budget.

    The spec names the dataset; without a ledger there is no answer. The charge is made before anything is drawn. The
    same question with the same budget, key and records gives the same numbers again and is not charged again.

    With --release, counts that are sums of the release's cells are combined with it by least squares, at no cost. A
    signed release needs its signer's key: --signed-by, or the one that the answer is signed with.

    Example:

        spinewise ask release.toml "count by county where age >= 65" --rho 1/200 --explain
    """
    from pipeline.execution.threads import spare_pandas

    spare_pandas()
    if ledger is not None:
        os.environ["SPINEWISE_LEDGER"] = ledger
    from features.questions.answering import answer_question
    from features.questions.explaining import explain_question, why_not
    from features.questions.request import QuestionRequest, check_question
    from pipeline.confidential.custody import configured_source, given_source, signing_key
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.questions.manifest import read_answer
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.answers import combine_answer
    from pipeline.signatures.signing_keys import PublicKey
    from pipeline.signatures.statement import drop_stale_signature, is_signed, require_signer, sign_release
    from pipeline.spec.release_spec import load_spec

    output = Output.of(context, json=json)
    parsed = load_spec(spec)
    source = given_source(key) if key is not None or explain else configured_source(parsed, load_settings())
    request = QuestionRequest(parsed, question, rho, epsilon, between, unit, out, name, data, source)
    checked = check_question(request)
    if explain:
        explained = explain_question(checked, release)
        output.result(str(explained), asdict(explained))
        return
    settings = load_settings()
    signer = signing_key(settings, sign_key)
    if release is not None:
        trusted = None if signed_by is None else PublicKey.read(signed_by)
        if trusted is None and signer is not None and is_signed(release_at(release)):
            trusted = signer.public()
        require_signer(release_at(release), (), trusted)
    alone = None if release is None else why_not(checked, release)  # before anything is spent
    root = answer_question(checked)
    manifest = read_answer(RunDirectory(root))
    output.remark(f"charged to {manifest.dataset!r}: {checked.unit} = {manifest.cost}; {manifest.note}")
    if alone is not None:
        output.remark(f"not combined with {release}: {alone}")
    elif release is not None:
        output.remark(f"combined with {release}: {combine_answer(RunDirectory(root), release).note}")
    drop_stale_signature(RunDirectory(root))
    if signer is not None:
        sign_release(RunDirectory(root), signer)
    output.result(str(root), {"answer": manifest.answer, "directory": str(root), "cost": str(manifest.cost)})
