"""A beacon's chain of one's own: what drand publishes, signed with a key that everybody knows."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from py_arkworks_bls12381 import G1Point, G2Point, Scalar

_SECRET = Scalar(20_300_401)
_PUBLIC = (G2Point() * _SECRET).to_compressed_bytes()
_GROUP = hashlib.sha256(b"a group of one").digest()


def chain_info(genesis: int, period: int = 3, name: str = "local") -> dict[str, Any]:
    """As drand answers /CHAIN/info."""
    content = struct.pack(">Iq", period, genesis) + _PUBLIC + _GROUP + name.encode()
    return {
        "public_key": _PUBLIC.hex(),
        "period": period,
        "genesis_time": genesis,
        "hash": hashlib.sha256(content).hexdigest(),
        "groupHash": _GROUP.hex(),
        "schemeID": "bls-unchained-g1-rfc9380",
        "metadata": {"beaconID": name},
    }


def chain_round(number: int) -> dict[str, Any]:
    """As drand answers /CHAIN/public/N."""
    digest = hashlib.sha256(struct.pack(">Q", number)).digest()
    point = G1Point.hash_to_curve(digest, b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_") * _SECRET
    signature = point.to_compressed_bytes()
    return {"round": number, "randomness": hashlib.sha256(signature).hexdigest(), "signature": signature.hex()}


def beacon_text(genesis: int, number: int, **changed: object) -> str:
    """A beacon's file; `changed` replaces what the round states."""
    return json.dumps({"info": chain_info(genesis), "round": {**chain_round(number), **changed}})
