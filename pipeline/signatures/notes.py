"""Signed notes, as C2SP's signed-note states them: a text, an empty line, and a line for each signature.

    — <name> <base64 of four bytes that identify the key, and the signature>

Lines of other keys are ignored, so that others can sign too; the lines of the key that is asked for must be there,
one for each of its algorithms, and hold.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from pipeline.errors import ReleaseError
from pipeline.signatures.signing_keys import PublicKey, SigningKey, algorithms

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
