"""What an agency signs of a release or of an answer: a few lines that pin down the manifest, and so every public file.

    spinewise.release/1                 spinewise.answer/1
    <name of the release>               <name of the answer>
    status <as the manifest states it>  status official
    manifest <SHA-256 of                manifest <SHA-256 of public/answer.json, hexadecimal>
      public/manifest.json,             combined <SHA-256 of public/combined.json, hexadecimal>
      hexadecimal>

The last line of an answer is there where it is combined with a release. Every answer is charged before it is drawn, so
that there is no other status.

The signed note is `public/manifest.sig` or `public/answer.sig`. It is a file of its own, so that no signature changes
the manifest's bytes, and the one public file that the manifest does not list.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.errors import ReleaseError
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.combined import COMBINED, SUMMARY, read_combination
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files, read_manifest
from pipeline.signatures.notes import SignatureError, opened, read_note, signed, split_note
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.storage.files import sha256_file, write_bytes


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
    """The text that is signed for a finished release, or an answer; ReleaseError where its manifest is damaged."""
    if run.is_answer:
        return _answer_statement(run)
    manifest = read_manifest(run.manifest)
    lines = [
        "spinewise.release/1",
        manifest.release,
        f"status {manifest.status}",
        f"manifest {sha256_file(run.manifest)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _answer_statement(run: RunDirectory) -> str:
    lines = [
        "spinewise.answer/1",
        read_answer(run).answer,
        "status official",
        f"manifest {sha256_file(run.answer_manifest)}",
    ]
    if (summary := run.public / SUMMARY).is_file():
        lines.append(f"combined {sha256_file(summary)}")
    return "".join(f"{line}\n" for line in lines)


def sign_release(run: RunDirectory, key: SigningKey) -> None:
    """Write the signature of a release or an answer beside its manifest; one of this key that holds is left as it is.

    Raises:
        ReleaseError: a public file is not as the manifest says, or the signature cannot be written.
    """
    if problems := _changed_files(run) if run.is_answer else check_public_files(run):
        raise ReleaseError(f"{run.root} is not signed: {problems[0]}")
    target = signature_of(run)
    if target.exists() and not signature_problems(run, key.public()):
        return
    staging = run.staging if run.staging.is_dir() else run.public
    write_bytes(target, signed(statement_of(run), key), staging)


def _changed_files(run: RunDirectory) -> list[str]:
    """Public files of an answer that do not have the hash that its manifest states, a sentence each."""
    stated = dict(read_answer(run).files)
    if (run.public / SUMMARY).is_file():
        stated |= {COMBINED: read_combination(run).files.get(COMBINED, "")}
    return [
        f"public/{name} is missing or was changed"
        for name, digest in sorted(stated.items())
        if "/" in name or not (run.public / name).is_file() or sha256_file(run.public / name) != digest
    ]


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
