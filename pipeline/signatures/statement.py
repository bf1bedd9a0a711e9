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

Signed notes, as C2SP's signed-note states them: a text, an empty line, and a line for each signature.

    — <name> <base64 of four bytes that identify the key, and the signature>

Lines of other keys are ignored, so that others can sign too; the lines of the key that is asked for must be there,
one for each of its algorithms, and hold.

Whether what is used together is signed by one key: a signed release is used with answers of the same signer only.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.combined import COMBINED, SUMMARY, read_combination
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files, read_manifest
from pipeline.signatures.signing_keys import PublicKey, SigningKey, algorithms
from pipeline.storage.files import sha256_file, write_bytes

#: Bytes of a note that is read at most: sixteen signatures of 5 kB, and its text.
LONGEST_NOTE = 1 << 17
_DASH = "— "


class SignatureError(ReleaseError):
    """A signature is missing, or is not of this text."""


def signed(text: str, key: SigningKey) -> bytes:
    """The note with the key's signatures.

    Args:
        text: lines, each ended.
    """
    if not text.endswith("\n") or any(ord(letter) < 32 and letter != "\n" for letter in text):
        raise ValueError("the text of a note is lines without control characters, each ended")
    public = key.public()
    lines = [
        f"{_DASH}{key.name} {base64.b64encode(public.key_id(kind) + signature).decode()}\n"
        for kind, signature in key.signatures(text.encode()).items()
    ]
    return f"{text}\n{''.join(lines)}".encode()


def split_note(note: bytes, where: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Text and signature lines (name, bytes) of a note; nothing is checked but the form.

    Raises:
        SignatureError: it is not a note.
    """
    refusal = SignatureError(f"{where} is not a signed note")
    if len(note) > LONGEST_NOTE:
        raise SignatureError(f"{where} has more than {LONGEST_NOTE} bytes, which no signed note has")
    try:
        content = note.decode()
    except UnicodeDecodeError:
        raise refusal from None
    text, blank, lines = content.rpartition("\n\n")
    if not blank or not lines.endswith("\n") or any(ord(letter) < 32 and letter != "\n" for letter in content):
        raise refusal
    signatures = []
    for line in lines[:-1].split("\n"):
        name, space, encoded = line.removeprefix(_DASH).partition(" ")
        if not line.startswith(_DASH) or not space or not name or "+" in name:
            raise refusal
        try:
            raw = base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error):
            raise refusal from None
        if len(raw) <= 4:
            raise refusal
        signatures.append((name, raw))
    return text + "\n", signatures


def opened(note: bytes, key: PublicKey, where: str) -> str:
    """The text of a note that the key has signed with each of its algorithms.

    Raises:
        SignatureError: a signature is missing or wrong; the text must then not be used.
    """
    text, signatures = split_note(note, where)
    for kind in key.keys:
        own = [raw[4:] for name, raw in signatures if name == key.name and raw[:4] == key.key_id(kind)]
        kind_name = algorithms(PublicKey(key.name, {kind: key.keys[kind]}))
        if not own:
            raise SignatureError(f"{where} has no {kind_name} signature of this key of {key.name}")
        if not all(key.verifies(kind, signature, text.encode()) for signature in own):
            raise SignatureError(f"{where}: the {kind_name} signature of {key.name} is not of this text")
    return text


def read_note(path: Path, where: str) -> bytes:
    """The bytes of a note; SignatureError where there is no such file, or only a link."""
    if path.is_symlink() or not path.is_file():
        raise SignatureError(f"{where} is missing or not a file of its own")
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_NOTE + 1)
    except OSError as error:
        raise SignatureError(f"{where} cannot be read: {error.strerror}") from None


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
        what, name, status, path = "answer", read_answer(run).answer, "official", run.answer_manifest
    else:
        manifest = read_manifest(run.manifest)
        what, name, status, path = "release", manifest.release, manifest.status, run.manifest
    lines = [f"spinewise.{what}/1", name, f"status {status}", f"manifest {sha256_file(path)}"]
    if run.is_answer and (summary := run.public / SUMMARY).is_file():
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


def require_signer(release: RunDirectory, answers: Sequence[RunDirectory], key: PublicKey | None) -> None:
    """Refuse a signed release whose signature does not hold, and answers that are not of its signer.

    Args:
        release: finished; where it is not signed and no key is named, nothing is asked of anybody.
        answers: that are used with it.
        key: of the signer, from somewhere that is trusted; a signature alone does not say whose it is.

    Raises:
        InputError: the release is signed and no key is named; or with one, a signature is missing or does not hold.
    """
    if key is None:
        if is_signed(release):
            raise InputError(
                f"{release.root}: is signed, so that it and the answers used with it need a valid signature of one "
                "key: name its public key with --signed-by"
            )
        return
    for run in (release, *answers):
        if problems := signature_problems(run, key):
            raise InputError(f"{run.root}: {problems[0]}")
