"""`spinewise prove`: prove a published number to somebody who does not have the release, and check such a proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.execution.options import JsonOption, SignedByOption

if TYPE_CHECKING:
    from features.witness.proof import Wanted


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prove", short_help="Prove a row of a signed release, or check a proof.")(prove)


def prove(
    release: Annotated[
        Path | None, typer.Argument(help="The directory of a signed release.", metavar="RELEASE_DIR")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Name of the table.")] = None,
    area: Annotated[str | None, typer.Option(help="Geocode of the area.")] = None,
    level: Annotated[str | None, typer.Option(help="Its level, where several have that geocode.")] = None,
    companion: Annotated[str, typer.Option(help="Name of the companion whose table it is.")] = "",
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM=VALUE", help="Of an answer: a value of what it is by; may be given several times."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it. [default: TABLE-AREA.proof.json]", metavar="FILE")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Check this proof instead of making one.", metavar="PROOF")] = None,
    signed_by: SignedByOption = None,
    json: JsonOption = False,
) -> None:
    """Write a proof that a row stands in a table of a signed release or answer, or check one.

    Whoever has the proof and the agency's public key can check the numbers without the release: with --check, or with
    the one file features/witness/check_proof.py, which needs nothing else of this software. Of an answer, --table is
    answer or measurements, and --area and --group name the row.

    Example:

        spinewise prove releases/little-state --table race --area 44007

        spinewise prove --check race-44007.proof.json --signed-by agency.sign.pub
    """
    from features.witness.proof import Wanted
    from pipeline.errors import InputError
    from pipeline.published import publication_at

    if check is not None:
        if signed_by is None:
            raise InputError("--check needs --signed-by, the public key file of the agency")
        if release is not None or table is not None or area is not None:
            raise InputError("--check takes a proof alone: no release, --table or --area")
        _check(check, signed_by, json)
        return
    if release is not None and publication_at(release).is_answer:
        pairs = [text.partition("=") for text in group or []]
        if bad := [text for text, pair in zip(group or [], pairs, strict=True) if not pair[1]]:
            raise InputError(f"--group: found {bad[0]!r}; TERM=VALUE is needed, such as sex=f")
        groups = tuple((name, value) for name, _, value in pairs)
        _make(release, Wanted(table or "answer", area, group=groups), out, json)
        return
    if release is None or table is None or area is None:
        raise InputError("a release, --table and --area are needed; or --check and --signed-by")
    groups = tuple((text, "") for text in group or [])
    _make(release, Wanted(table, area, level, companion, groups), out, json)


def _make(release: Path, wanted: Wanted, out: Path | None, json: bool) -> None:
    from features.witness.output import write_output
    from features.witness.proof import make_proof
    from pipeline.execution.options import Output
    from pipeline.published import publication_at

    proof = make_proof(publication_at(release), wanted)
    named = [part for part in (wanted.table, wanted.area, *(value for _, value in wanted.group)) if part]
    target = out or Path(f"{'-'.join(named)}.proof.json".replace("/", "_"))
    write_output(target, proof)
    Output(json=json).result(f"{target}: {len(proof)} bytes", {"proof": str(target), "bytes": len(proof)})


def _check(proof: Path, signed_by: Path, json: bool) -> None:
    from features.witness.check_proof import BadProofError, check
    from features.witness.output import read_input
    from pipeline.errors import ReleaseError
    from pipeline.execution.options import Output
    from pipeline.signatures.signing_keys import PublicKey

    key = PublicKey.read(signed_by)
    try:
        proved = check(read_input(proof), key.text())
    except BadProofError as error:
        raise ReleaseError(f"{proof}: {error}") from None
    Output(json=json).result(_told(proved), proved)


def _told(proved: dict[str, Any]) -> str:
    if "answer" in proved:
        cells = [f"  {name}: {text}" for name, text in proved["cells"].items()]
        return "\n".join(
            [f"proved: {proved['question']}, as {proved['signer']} has signed it in {proved['answer']}", *cells]
        )
    margins = proved.get("margins", {})
    lines = [
        f"  {label}: {count:,}" + (f" ± {margins[label]:g}" if margins.get(label) is not None else "")
        for label, count in proved["counts"].items()
    ]
    companion = f" of {proved['companion']}" if proved["companion"] else ""
    place = f"{proved['table']}{companion}, {proved['level']} {proved['geocode']}"
    head = f"proved: {place}, as {proved['signer']} has signed it in {proved['release']} ({proved['status']})"
    return "\n".join([head, *lines])
