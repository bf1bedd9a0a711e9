"""What an agency signs of a release: a few lines that pin down the manifest, and with it every public file.

    spinewise.release/1
    <name of the release>
    status <as the manifest states it>
    manifest <SHA-256 of public/manifest.json, hexadecimal>
    rows <number of tables> <root of the tree over all tables, hexadecimal>

What is signed of an answer to a question is stated in `answers.py`; everything here takes both.

The signed note is `public/manifest.sig`. It is a file of its own, so that no signature changes the manifest's bytes,
and the one public file that the manifest does not list.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from pipeline.errors import ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files, read_manifest
from pipeline.signatures.answers import answer_statement, changed_files
from pipeline.signatures.notes import SignatureError, opened, read_note, signed, split_note
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.storage.files import write_bytes

#: First line of every statement. A log's checkpoint begins with its origin, which may not be this.
STATEMENT: Final = "spinewise.release/1"


def signature_of(run: RunDirectory) -> Path:
    """Where the signature of a release or an answer is."""
    return run.answer_signature if run.is_answer else run.signature


def named(run: RunDirectory) -> str:
    """What messages call it."""
    return f"public/{signature_of(run).name}"


def is_signed(run: RunDirectory) -> bool:
    """Whether there is a signature, of whatever and by whomever."""
    return os.path.lexists(signature_of(run))


def statement_of(run: RunDirectory) -> str:
    """The text that is signed for a finished release, or an answer.

    Raises:
        ReleaseError: the manifest is damaged, or is of a release from before there were trees of rows.
    """
    if run.is_answer:
        return answer_statement(run)
    manifest = read_manifest(run.manifest)
    if manifest.rows is None:
        raise ReleaseError(f"{run.manifest} states no roots of rows: it is from before releases could be signed")
    digest = hashlib.sha256(run.manifest.read_bytes()).hexdigest()
    lines = [
        STATEMENT,
        manifest.release,
        f"status {manifest.status}",
        f"manifest {digest}",
        f"rows {len(manifest.rows.tables)} {manifest.rows.root}",
    ]
    return "".join(f"{line}\n" for line in lines)


def sign_release(run: RunDirectory, key: SigningKey) -> None:
    """Write the signature of a release or an answer beside its manifest; one of this key that holds is left as it is.

    Raises:
        ReleaseError: a public file is not as the manifest says, or the signature cannot be written.
    """
    if problems := changed_files(run) if run.is_answer else check_public_files(run):
        raise ReleaseError(f"{run.root} is not signed: {problems[0]}")
    target = signature_of(run)
    if target.exists() and not signature_problems(run, key.public()):
        return
    staging = run.staging if run.staging.is_dir() else run.public
    write_bytes(target, signed(statement_of(run), key), staging)


def signature_problems(run: RunDirectory, key: PublicKey) -> list[str]:
    """Why a release or an answer is not signed by a key, in one sentence; empty where it is."""
    what, where = "answer" if run.is_answer else "release", named(run)
    try:
        if not signature_of(run).exists():
            raise SignatureError(f"{where} is missing: the {what} is not signed")
        text = opened(read_note(signature_of(run), where), key, where)
        if text != statement_of(run):
            raise SignatureError(f"{where} is the signature of another manifest")
    except ReleaseError as error:
        return [str(error)]
    return []


def drop_stale_signature(run: RunDirectory) -> None:
    """Remove a signature that is not of the manifest that is there now."""
    target, where = signature_of(run), named(run)
    if not target.exists():
        return
    try:
        if split_note(read_note(target, where), where)[0] == statement_of(run):
            return
    except ReleaseError:
        pass
    target.unlink()
