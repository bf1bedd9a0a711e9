"""Rounds of a public randomness beacon, as drand publishes them, checked to the last signature.

A chain is known by its hash, which pins down its public key and its clock:

    SHA-256(period, 4 bytes || time of round 1, 8 bytes || public key || group hash || name unless it is "default")

A round's randomness is the SHA-256 of its signature, and there is one signature of a round only: a BLS signature on the
curve BLS12-381 has no second form. So a round that was named before it was published cannot be chosen.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.errors import InputError, SpinewiseError
from pipeline.missing import install_command

#: Bytes of a beacon's file at most.
LONGEST_BEACON: Final = 1 << 16
_ON_G1: Final = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
_ON_G2: Final = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"
#: Scheme -> whether its signatures are on the first group, and whether they are of the signature before.
_SCHEMES: Final = {
    "bls-unchained-g1-rfc9380": (True, False),
    "pedersen-bls-unchained": (False, False),
    "pedersen-bls-chained": (False, True),
}


#: Hash of a chain -> when its first round was published, and seconds between rounds: of the League of Entropy.
_CLOCKS: Final = {
    "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971": (1692803367, 3),
    "8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce": (1595431050, 30),
}


class BeaconAwaitedError(SpinewiseError):
    """A run has committed itself to a round that is not published yet; nothing is wrong, and nothing is drawn."""


def due(chain: str, number: int) -> datetime | None:
    """When a round of a well-known chain is published; None for other chains."""
    if (clock := _CLOCKS.get(chain)) is None:
        return None
    return datetime.fromtimestamp(clock[0] + (number - 1) * clock[1], UTC)


@dataclass(frozen=True)
class Beacon:
    """A round of a chain, checked when it is made.

    Attributes:
        chain: hash of the chain, hexadecimal.
        round: number of the round.
        randomness: hexadecimal.
        signature, previous_signature: hexadecimal; the latter "" in a chain whose rounds do not build on each other.
        public_key, group_hash, scheme, name: of the chain.
        period: seconds between rounds.
        genesis_time: of round 1, seconds since 1970.

    Raises:
        InputError: something does not fit, or the library that checks signatures is missing.
    """

    chain: str
    round: int
    randomness: str
    signature: str
    previous_signature: str
    public_key: str
    period: int
    genesis_time: int
    group_hash: str
    scheme: str
    name: str

    def __post_init__(self) -> None:
        where = f"beacon: round {self.round} of {self.chain[:12]}"
        if self.scheme not in _SCHEMES:
            raise InputError(f"{where}: found the scheme {self.scheme!r}; allowed are {', '.join(_SCHEMES)}")
        if self.chain_hash() != self.chain:
            raise InputError(f"{where}: the chain's description does not have the chain's hash")
        if not _signed(self):
            raise InputError(f"{where}: the signature is not that of the chain's public key")
        if hashlib.sha256(bytes.fromhex(self.signature)).hexdigest() != self.randomness:
            raise InputError(f"{where}: the randomness is not the hash of the signature")

    def chain_hash(self) -> str:
        """The hash of the chain as it is described, hexadecimal."""
        content = struct.pack(">Iq", self.period, self.genesis_time)
        content += bytes.fromhex(self.public_key) + bytes.fromhex(self.group_hash)
        content += b"" if self.name in ("", "default") else self.name.encode()
        return hashlib.sha256(content).hexdigest()

    @property
    def published(self) -> datetime:
        """When the round was due, by the chain's clock; before, nobody knew it."""
        return datetime.fromtimestamp(self.genesis_time + (self.round - 1) * self.period, UTC)


def parse_beacon(content: bytes, where: str) -> Beacon:
    """The round in a file: JSON with `info`, as drand answers /CHAIN/info, and `round`, as it answers /CHAIN/public/N.

    Args:
        content: of the file.
        where: it comes from, for messages.

    Raises:
        InputError: it is of another form, or anything in it does not hold.
    """
    try:
        stated = json.loads(content)
        info, found = stated["info"], stated["round"]
        metadata = info.get("metadata") or {}
        beacon = Beacon(
            chain=_hexadecimal(info["hash"], 32),
            round=_whole(found["round"]),
            randomness=_hexadecimal(found["randomness"], 32),
            signature=_hexadecimal(found["signature"], None),
            previous_signature=_hexadecimal(found.get("previous_signature") or "", None),
            public_key=_hexadecimal(info["public_key"], None),
            period=_whole(info["period"]),
            genesis_time=_whole(info["genesis_time"]),
            group_hash=_hexadecimal(info["groupHash"], None),
            scheme=str(info["schemeID"]),
            name=str(metadata.get("beaconID", "")),
        )
        beacon.published.isoformat()  # which is a time
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, struct.error):
        raise InputError(
            f"{where}: found {len(content)} bytes that are not a round of a beacon; JSON is needed with info (the "
            "chain, as drand answers /CHAIN/info) and round (as it answers /CHAIN/public/N)"
        ) from None
    return beacon


def _hexadecimal(text: Any, length: int | None) -> str:
    raw = bytes.fromhex(text)
    if raw.hex() != text or (length is not None and len(raw) != length) or len(raw) > 1024:
        raise ValueError
    return str(text)


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value < 1 << 62:
        raise ValueError
    return value


def _signed(beacon: Beacon) -> bool:
    """Whether the signature is of the round under the public key: RFC 9380 to the curve, and one pairing."""
    try:
        from py_arkworks_bls12381 import GT, G1Point, G2Point
    except ImportError:
        raise InputError(
            f"beacon: checking a round needs py-arkworks-bls12381: {install_command('py-arkworks-bls12381')}"
        ) from None
    on_first, chained = _SCHEMES[beacon.scheme]
    message = (bytes.fromhex(beacon.previous_signature) if chained else b"") + struct.pack(">Q", beacon.round)
    digest = hashlib.sha256(message).digest()
    signature, key = bytes.fromhex(beacon.signature), bytes.fromhex(beacon.public_key)
    try:
        if on_first:
            point, public = G1Point.from_compressed_bytes(signature), G2Point.from_compressed_bytes(key)
            if G2Point.identity() == public:
                return False
            return GT.pairing_check([point, -G1Point.hash_to_curve(digest, _ON_G1)], [G2Point(), public])
        other, first = G2Point.from_compressed_bytes(signature), G1Point.from_compressed_bytes(key)
        if first == G1Point.identity():
            return False
        return GT.pairing_check([G1Point(), -first], [other, G2Point.hash_to_curve(digest, _ON_G2)])
    except ValueError:
        return False
