"""Checkpoints of a log, as C2SP's tlog-checkpoint states them: the signed size and root of its tree at some time."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import InputError, ReleaseError
from pipeline.signatures.notes import opened, read_note, signed
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from pipeline.signatures.statement import STATEMENT

_ORIGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", re.ASCII)
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True)
class Checkpoint:
    """How a log stood.

    Attributes:
        origin: the log's identity, such as "statistics.example/log".
        size: entries.
        root: of the tree over them, 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    def signed(self, key: SigningKey) -> bytes:
        """The signed note."""
        return signed(self.text(), key)


def check_origin(origin: str) -> str:
    """The origin, if a log can have it; InputError otherwise."""
    if _ORIGIN.fullmatch(origin) is None or origin == STATEMENT:
        raise InputError(
            f"--origin: found {origin!r}; allowed are up to 200 letters, digits and . _ / - such as "
            "statistics.example/log"
        )
    return origin


def opened_checkpoint(note: bytes, key: PublicKey, where: str) -> Checkpoint:
    """The checkpoint of a note that the key has signed.

    Raises:
        ReleaseError: a signature is missing or wrong, or the text is not that of a checkpoint.
    """
    lines = opened(note, key, where).split("\n")
    refusal = ReleaseError(f"{where} is not a checkpoint of a log")
    if len(lines) != 4 or lines[0] == STATEMENT or _SIZE.fullmatch(lines[1]) is None:
        raise refusal
    try:
        root = base64.b64decode(lines[2], validate=True)
    except (ValueError, binascii.Error):
        raise refusal from None
    if len(root) != 32:
        raise refusal
    return Checkpoint(lines[0], int(lines[1]), root)


def read_checkpoint(path: Path, key: PublicKey) -> Checkpoint:
    """The checkpoint in a file; ReleaseError as `opened_checkpoint`, InputError where it is a folder."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; the file of a checkpoint is needed")
    return opened_checkpoint(read_note(path, str(path)), key, str(path))
