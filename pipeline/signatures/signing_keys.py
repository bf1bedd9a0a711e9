"""The keys that an agency signs with: Ed25519 (RFC 8032) and, beside it, ML-DSA-65 (FIPS 204) against later machines.

Keys are written as Go's and C2SP's tools write those of signed notes, one line for each algorithm:

    <name>+<8 hex digits>+<base64 of type and public key>
    PRIVATE+KEY+<name>+<8 hex digits>+<base64 of type and seed>

The digits begin the SHA-256 of name, newline, type and public key. The type is 0x01 for Ed25519, and 0xff with a
text of our own for ML-DSA-65, which C2SP has not numbered. A note is signed by the key when each of its algorithms has
signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey

from pipeline.errors import InputError
from pipeline.privacy.keys import write_private
from pipeline.storage.paths import read_small

ED25519: Final = b"\x01"
ML_DSA_65: Final = b"\xffspinewise ML-DSA-65\n"
#: Bytes of the public keys; a private key is a seed of 32 bytes for both.
_PUBLIC_BYTES: Final = {ED25519: 32, ML_DSA_65: 1952}
_NAMES: Final = {ED25519: "Ed25519", ML_DSA_65: "ML-DSA-65"}
_SEED_BYTES: Final = 32
#: Of FIPS 204: signatures for other purposes are of other messages.
_CONTEXT: Final = b"spinewise signed note"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", re.ASCII)
_PRIVATE: Final = "PRIVATE+KEY+"
LONGEST_SIGNING_KEY_TEXT: Final = 2048  # bytes
LONGEST_PUBLIC_KEY_TEXT: Final = 16384  # bytes


@dataclass(frozen=True)
class PublicKey:
    """What signatures of an agency are checked with.

    Attributes:
        name: of the signer, such as "statistics.example/releases".
        keys: type of algorithm -> public key.
    """

    name: str
    keys: dict[bytes, bytes]

    @classmethod
    def read(cls, path: Path) -> PublicKey:
        """The key in a file; InputError where there is none."""
        try:
            content = read_small(path, LONGEST_PUBLIC_KEY_TEXT)
        except OSError as error:
            raise InputError(f"public key file {path}: cannot be opened ({error.strerror})") from None
        if content.lstrip().startswith(_PRIVATE.encode()):
            raise InputError(f"public key file {path}: holds a private key; the file with the public key is needed")
        return cls(*_parsed(content, f"public key file {path}", private=False))

    def text(self) -> str:
        """The key as it is written to a file."""
        return "".join(
            f"{self.name}+{self.key_id(kind).hex()}+{base64.b64encode(kind + key).decode()}\n"
            for kind, key in self.keys.items()
        )

    def key_id(self, kind: bytes) -> bytes:
        """Four bytes that a signature line begins with."""
        return _key_id(self.name, kind, self.keys[kind])

    def fingerprint(self) -> str:
        """64 hex digits, the SHA-256 of the file's text, to be compared over another channel."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def verifies(self, kind: bytes, signature: bytes, text: bytes) -> bool:
        """Whether a signature of one algorithm is of `text`.

        Raises:
            InputError: the installed cryptography does not know the algorithm.
        """
        try:
            if kind == ED25519:
                Ed25519PublicKey.from_public_bytes(self.keys[kind]).verify(signature, text)
            else:
                MLDSA65PublicKey.from_public_bytes(self.keys[kind]).verify(signature, text, _CONTEXT)
        except InvalidSignature:
            return False
        except UnsupportedAlgorithm:
            raise _unsupported() from None
        return True


class SigningKey:
    """An agency's private key. It is never shown, and refuses to be pickled."""

    __slots__ = ("_seeds", "name")

    def __init__(self, name: str, seeds: dict[bytes, bytes]) -> None:
        self.name = name
        self._seeds = seeds

    @classmethod
    def generate(cls, name: str, *, post_quantum: bool = True) -> SigningKey:
        """A new key from the operating system's entropy.

        Raises:
            InputError: the name cannot be in a signature line, or cryptography was built without ML-DSA.
        """
        if _NAME.fullmatch(name) is None:
            raise InputError(
                f"--name: found {name!r}; allowed are up to 200 letters, digits and . _ / - such as "
                "statistics.example/releases"
            )
        kinds = [ED25519, ML_DSA_65] if post_quantum else [ED25519]
        key = cls(name, {kind: secrets.token_bytes(_SEED_BYTES) for kind in kinds})
        key.public()  # raises where an algorithm is not there
        return key

    @classmethod
    def from_content(cls, content: bytes, where: str) -> SigningKey:
        """The key that a key file's content is; InputError, which shows nothing of it, where it is none."""
        name, seeds = _parsed(content, where, private=True)
        return cls(name, seeds)

    def write(self, path: Path) -> None:
        """Create the key file with mode 0600; InputError where there is one, since a key is never overwritten."""
        public = self.public()
        lines = [
            f"{_PRIVATE}{self.name}+{public.key_id(kind).hex()}+{base64.b64encode(kind + seed).decode()}\n"
            for kind, seed in self._seeds.items()
        ]
        write_private(path, "signing key file", "".join(lines).encode("ascii"))

    def public(self) -> PublicKey:
        """The public key; InputError where cryptography does not know an algorithm."""
        return PublicKey(self.name, {kind: _public_bytes(kind, seed) for kind, seed in self._seeds.items()})

    def signatures(self, text: bytes) -> dict[bytes, bytes]:
        """Type of algorithm -> signature. Ed25519 gives the same one each time, ML-DSA adds fresh randomness."""
        signatures = {ED25519: Ed25519PrivateKey.from_private_bytes(self._seeds[ED25519]).sign(text)}
        if (seed := self._seeds.get(ML_DSA_65)) is not None:
            try:
                signatures[ML_DSA_65] = MLDSA65PrivateKey.from_seed_bytes(seed).sign(text, _CONTEXT)
            except UnsupportedAlgorithm:
                raise _unsupported() from None
        return signatures

    def __repr__(self) -> str:
        return f"SigningKey({self.name}, hidden)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SigningKey is not pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a SigningKey does not give its state away")


def _public_bytes(kind: bytes, seed: bytes) -> bytes:
    if kind == ED25519:
        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    try:
        return MLDSA65PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()
    except UnsupportedAlgorithm:
        raise _unsupported() from None


def _unsupported() -> InputError:
    return InputError(
        "ML-DSA-65: the installed cryptography was built without it (OpenSSL 3.5 or newer is needed); install it from "
        "PyPI, or make a key with spinewise key sign-new --ed25519-only"
    )


def _key_id(name: str, kind: bytes, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + kind + public).digest()[:4]


def _parsed(content: bytes, where: str, *, private: bool) -> tuple[str, dict[bytes, bytes]]:
    """The name, and the key of each algorithm; InputError where the lines are not those of one key."""
    refusal = InputError(
        f"{where}: found {len(content)} bytes that are not a {'private' if private else 'public'} signing key of "
        "spinewise"
    )
    names, keys = set(), {}
    try:
        # Signs that texts take for white space or ends of lines beside these, such as a file separator, are damage.
        for line in content.strip().decode("ascii").replace("\r\n", "\n").split("\n"):
            name, digits, encoded = line.removeprefix(_PRIVATE if private else "").split("+", 2)
            raw = base64.b64decode(encoded, validate=True)
            kind = next(kind for kind in _PUBLIC_BYTES if raw.startswith(kind))
            key = raw[len(kind) :]
            public = _public_bytes(kind, key) if private and len(key) == _SEED_BYTES else key
            whole = len(public) == _PUBLIC_BYTES[kind] and line.startswith(_PRIVATE) == private
            if not whole or kind in keys or _NAME.fullmatch(name) is None:
                raise refusal
            if not hmac.compare_digest(bytes.fromhex(digits), _key_id(name, kind, public)):
                raise refusal
            names.add(name)
            keys[kind] = key
    except (ValueError, StopIteration, binascii.Error):
        raise refusal from None
    if len(names) != 1 or ED25519 not in keys:
        raise refusal
    return names.pop(), keys


def algorithms(key: PublicKey) -> str:
    """The names of a key's algorithms: "Ed25519 and ML-DSA-65"."""
    return " and ".join(_NAMES[kind] for kind in key.keys)
