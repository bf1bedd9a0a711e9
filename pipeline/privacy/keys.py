"""The master key of a run, and every key and hash derived from it.

Derivation is HKDF with SHA-256 (RFC 5869). Its info field is a list of byte strings, each preceded by its length, and
the list by its own: two different lists are never the same bytes, whatever delimiters their members hold. The first
member states the purpose, so that no two purposes share a key:

    "stream"      the key of one (level, query), from the master key
    "draws"       the AES key of the uniforms of one (level, query), from its stream key
    "refinement"  the AES key of the further words of undecidable draws, from the stream key
    "keyed hash"  the HMAC key of fingerprints of confidential things, from the master key
    "commitment"  the commitment to the master key, which the ledger keeps; with a release's salt, the published one
    "salt"        the public salt of a release, from the master key
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from geography.errors import InputError
from pipeline.storage.durable import sync_folder

KEY_BYTES: Final = 32
#: Needs a new number with any change to a derivation, or to the noise that a key and a position give: other noise then
#: comes from other uniforms, and the ledger charges for it. Noise drawn in two ways from one stream would not be
#: independent, and budgets add up for independent noise only.
DERIVATION: Final = "spinewise keys 1"
_SALT: Final = DERIVATION.encode("ascii")
_TEST_PREFIX: Final = "insecure-test:"
_TEST_TEXT: Final = re.compile(r"insecure-test:(0|[1-9][0-9]{0,17})", re.ASCII)
_FILE_TEXT: Final = re.compile(r"spinewise-master-key-1 ([0-9a-f]{64})", re.ASCII)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
LONGEST_KEY_TEXT: Final = 1024  # bytes


class MasterKey:
    """A run's 256-bit secret. It is never shown, and refuses to be pickled: hand on stream keys, or the file's path.

    `insecure` is true for a key made of a public number, which serves tests and benchmarks.
    """

    __slots__ = ("_secret", "_text")

    def __init__(self, secret: bytes) -> None:
        """Wrap 32 bytes that come from a cryptographic source.

        Raises:
            ValueError: `secret` is not 32 bytes long.
        """
        self._secret: bytes = _checked(secret, "a master key")
        self._text: str | None = None  # of an insecure key only

    @classmethod
    def generate(cls) -> MasterKey:
        """A new key from the operating system's entropy."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> MasterKey:
        """The insecure key `insecure-test:<number>`, the same for everyone who writes that number.

        Raises:
            InputError: `text` is anything else; a real key is never written out, so the text is not echoed.
        """
        if _TEST_TEXT.fullmatch(text) is None:
            raise InputError(
                f"key: found a text of {len(text)} characters that is not {_TEST_PREFIX}<whole number>; "
                "only such a test key can be written out, a real key is generated or read from its file"
            )
        key = cls(hashlib.sha256(_encode("insecure test key", text)).digest())
        key._text = text
        return key

    @classmethod
    def read(cls, path: Path) -> MasterKey:
        """The key that `write` left at `path`.

        Raises:
            InputError: there is no such file, users other than its owner may use it, or it holds no key.
        """
        return cls.from_content(read_private(path, "key file", LONGEST_KEY_TEXT), f"key file {path}")

    @classmethod
    def from_content(cls, content: bytes, where: str) -> MasterKey:
        """The key that a key file's content is, from wherever it comes.

        Args:
            content: the bytes of a key file.
            where: the place that it comes from, for the message.

        Raises:
            InputError: it is not a key; its content is not shown.
        """
        text = content.strip().decode("ascii", errors="replace")
        if text.startswith(_TEST_PREFIX):
            return cls.from_text(text)
        match = _FILE_TEXT.fullmatch(text)
        if match is None:
            raise InputError(f"{where}: found {len(content)} bytes that are not a key as written by Spinewise")
        return cls(bytes.fromhex(match[1]))

    def write(self, path: Path) -> None:
        """Create the key file at `path` with mode 0600, whole or not at all. An existing file is never replaced.

        Raises:
            InputError: the file exists, or the folder does not take it.
        """
        text = self._text if self._text is not None else f"spinewise-master-key-1 {self._secret.hex()}"
        write_private(path, "key file", text.encode("ascii") + b"\n")

    @property
    def insecure(self) -> bool:
        """Whether the key is a public test key, whose outputs are NOT FOR RELEASE."""
        return self._text is not None

    def commitment(self, salt: str = "") -> str:
        """64 hex digits that pin the key down without revealing it.

        Args:
            salt: of a release, from `release_salt`: what is published, so that two releases do not show that they
                share a key. Without one it is the same everywhere, and not for publication.
        """
        return _derive(self._secret, "commitment", *([salt] if salt else [])).hex()

    def release_salt(self, identity: str) -> str:
        """64 hex digits, public: of the release with that identity, the same each time it is made."""
        return _derive(self._secret, "salt", identity).hex()

    def published_fingerprint(self, salt: str, universe: str, fingerprint: str) -> str:
        """64 hex digits for the manifest, which show equal records only to those who hold the key.

        Args:
            salt: of the release.
            universe: its name.
            fingerprint: of its records, keyed; the same in every release from them, and so never published.
        """
        return self.keyed_hash(f"published input/{salt}/{universe}", fingerprint.encode()) if salt else fingerprint

    def keyed_hash(self, label: str, data: bytes) -> str:
        """64 hex digits, HMAC-SHA256 of `data` under a key of its own for each `label`.

        A plain hash of confidential data could be tested against guesses; this one only by the holder of the key.
        """
        return hmac.digest(_derive(self._secret, "keyed hash", label), data, "sha256").hex()

    def stream_key(self, context: Sequence[str | bytes], level: str, query: str) -> bytes:
        """32 bytes, the key of the noise of one query at one level.

        Where noise is added, the arguments are chosen: `pipeline.confidential.measure`, and `confidential` of features.

        Args:
            context: fingerprints of the confidential input, of the spine and of the privacy-relevant part of the spec,
                in this order. Runs that differ in any of them never share noise; a run repeated draws the same.
            level: name of the level.
            query: name of the query, or of the stream of a choice.

        Raises:
            ValueError: the context is empty or has an empty member, which would tie the noise to nothing.
        """
        if isinstance(context, str | bytes) or not context or not all(context):
            raise ValueError("stream key: the context must be a sequence of fingerprints, none of them empty")
        return _derive(self._secret, "stream", *context, level, query)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MasterKey):
            return NotImplemented
        return hmac.compare_digest(self._secret, other._secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self.commitment())

    def __repr__(self) -> str:
        return f"MasterKey({self._text or 'hidden'}, commitment={self.commitment()[:12]})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a MasterKey is not pickled or copied: hand on stream keys, or the path of the key file")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a MasterKey does not give its state away")


def draws_key(stream_key: bytes) -> bytes:
    """32 bytes, the AES key of the uniforms of the stream key's (level, query)."""
    return _derive(_checked(stream_key, "a stream key"), "draws")


def refinement_key(stream_key: bytes) -> bytes:
    """32 bytes, the AES key of the further words of its undecidable draws."""
    return _derive(_checked(stream_key, "a stream key"), "refinement")


def _derive(secret: bytes, purpose: str, *members: str | bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=_SALT, info=_encode(purpose, *members)).derive(secret)


def _encode(*members: str | bytes) -> bytes:
    """The members as one byte string, from which they can be separated again."""
    encoded = [member.encode("utf-8") if isinstance(member, str) else bytes(member) for member in members]
    return len(encoded).to_bytes(8, "big") + b"".join(len(each).to_bytes(8, "big") + each for each in encoded)


def _checked(secret: bytes, name: str) -> bytes:
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise ValueError(f"{name} must be {KEY_BYTES} bytes")
    return secret


def read_private(path: Path, what: str, longest: int) -> bytes:
    """The first `longest` bytes of a file with a secret.

    Args:
        path: the file.
        what: what it is called in messages, such as "key file".
        longest: bytes that are read at most.

    Raises:
        InputError: there is no such file, or users other than its owner may use it; nothing of it is shown.
    """
    try:
        # A named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        file = os.fdopen(descriptor, "rb")
    except OSError as error:
        raise InputError(f"{what} {path}: cannot be opened ({error.strerror})") from None
    with file:
        mode = os.fstat(file.fileno()).st_mode  # of the very file that is read
        if not stat.S_ISREG(mode):
            raise InputError(f"{what} {path}: found something that is not a regular file")
        if os.name == "posix" and mode & _OTHERS:
            raise InputError(
                f"{what} {path}: found mode {stat.S_IMODE(mode):04o}, which lets users other than the owner use "
                "the key; 0600 or 0400 is allowed (chmod 600), and if others may have read it, a new key is needed"
            )
        return file.read(longest)


def write_private(path: Path, what: str, content: bytes) -> None:
    """Create a file with mode 0600, whole or not at all. An existing file is never replaced.

    Raises:
        InputError: the file exists, or the folder does not take it.
    """
    try:
        # mkstemp creates with mode 0600; link, unlike rename, fails where the name is taken.
        descriptor, temporary = tempfile.mkstemp(prefix=".key-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        finally:
            Path(temporary).unlink()
    except FileExistsError:
        raise InputError(f"{what} {path}: exists already; a key is never overwritten") from None
    except OSError as error:
        raise InputError(f"{what} {path}: cannot be written ({error.strerror})") from None
    with contextlib.suppress(OSError):  # a folder cannot be synced on every file system
        sync_folder(path.parent)
