"""A round holds if drand has signed it, and in no other case: real rounds, a chain of our own, and every forgery."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pytest
from releases.chain import beacon_text, chain_info, chain_round

from pipeline.errors import InputError
from pipeline.release.beacon import parse_beacon

# Published by the League of Entropy: quicknet, and the older chain whose rounds build on each other.
QUICKNET = {
    "public_key": (
        "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
        "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
    ),
    "period": 3,
    "genesis_time": 1692803367,
    "hash": "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971",
    "groupHash": "f477d5c89f21a17c863a7f937c6a6d15859414d2be09cd448d4279af331c5d3e",
    "schemeID": "bls-unchained-g1-rfc9380",
    "metadata": {"beaconID": "quicknet"},
}
QUICKNET_ROUND = {
    "round": 657413,
    "randomness": "fc1873a13f3545aeade8401532ef5519920652eee6b0d2b19ca12643b87b3587",
    "signature": ("b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b"),
}
CHAINED = {
    "public_key": "868f005eb8e6e4ca0a47c8a77ceaa5309a47978a7c71bc5cce96366b5d7a569937c529eeda66c7293784a9402801af31",
    "period": 30,
    "genesis_time": 1595431050,
    "hash": "8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce",
    "groupHash": "176f93498eac9ca337150b46d21dd58673ea4e3581185f869672e59fa4cb390a",
    "schemeID": "pedersen-bls-chained",
    "metadata": {"beaconID": "default"},
}
CHAINED_ROUND = {
    "round": 3311596,
    "randomness": "647c07b2abbf7ff2afb4d670214f565e5cd9f9c91bfdcecb59a21f3c78d73920",
    "signature": (
        "a696b9409ababce45749c3a4ec369074453dd4a79967734e1390d969c8ad8d98897d217b9121e92c8ddebbddda8d92f9"
        "00e3bd6bf9deb166863b1a19390d743f82774001487594c5c09e581db7365f02b70a2c8cc41ce32446ef08e4890c4754"
    ),
    "previous_signature": (
        "8ed588f2a7716fb1349e2d9803da5db0005e98a83783c353d4a08f183236a9ad91d70ddb01266f4b7c576983db464b43"
        "0e65680b9e0098552758afd6c1e6afcb77e3f62fe1b93d42d1cb63abbb2205512fe12fbf74ea9c5ac3b8f5c1e283a1d8"
    ),
}
GENESIS = 1_900_000_000


def parsed(info: dict[str, Any], one: dict[str, Any]) -> str:
    return parse_beacon(json.dumps({"info": info, "round": one}).encode(), "beacon").randomness


@pytest.mark.parametrize(("info", "one"), [(QUICKNET, QUICKNET_ROUND), (CHAINED, CHAINED_ROUND)])
def test_published_rounds_hold(info: dict[str, Any], one: dict[str, Any]) -> None:
    assert parsed(info, one) == one["randomness"]


def test_the_clock_of_a_chain() -> None:
    beacon = parse_beacon(json.dumps({"info": QUICKNET, "round": QUICKNET_ROUND}).encode(), "beacon")
    assert beacon.published.timestamp() == 1692803367 + 657412 * 3


def test_a_chain_of_ones_own_holds() -> None:
    beacon = parse_beacon(beacon_text(GENESIS, 7).encode(), "beacon")
    assert (beacon.chain, beacon.round) == (chain_info(GENESIS)["hash"], 7)


@pytest.mark.parametrize("name", ["public_key", "period", "genesis_time", "hash", "groupHash"])
def test_another_chain_is_refused(name: str) -> None:
    """Whoever could put in a key or a clock of his own could choose the randomness, or the time."""
    value = QUICKNET[name]
    changed = value + 1 if isinstance(value, int) else CHAINED[name]
    with pytest.raises(InputError):
        parsed({**QUICKNET, name: changed}, QUICKNET_ROUND)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"round": 657414}, "the signature is not that of the chain's public key"),
        ({"randomness": "00" * 32}, "the randomness is not the hash of the signature"),
        ({"signature": chain_round(657413)["signature"]}, "the signature is not that of"),
        ({"signature": "c0" + "00" * 47}, "the signature is not that of"),
        ({"signature": "00"}, "the signature is not that of"),
        ({"signature": "xyz"}, "that are not a round of a beacon"),
        ({"round": "657413"}, "that are not a round of a beacon"),
        ({"round": 0}, "that are not a round of a beacon"),
    ],
)
def test_another_round_is_refused(changed: dict[str, Any], message: str) -> None:
    """Chosen randomness with its own hash has no signature; a signature of another round is of another round."""
    with pytest.raises(InputError, match=message):
        parsed(QUICKNET, {**QUICKNET_ROUND, **changed})


def test_randomness_of_ones_own_choice_is_refused() -> None:
    signature = "ab" * 48
    forged = {"signature": signature, "randomness": hashlib.sha256(bytes.fromhex(signature)).hexdigest()}
    with pytest.raises(InputError, match="the signature is not that of"):
        parsed(QUICKNET, {**QUICKNET_ROUND, **forged})


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"info": 1, "round": 2}', b"[" * 100_000, b"\xff"])
def test_what_is_no_beacon_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="that are not a round of a beacon"):
        parse_beacon(content, "--beacon-file x")


def test_a_scheme_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(InputError, match="found the scheme 'bls-bn254-unchained-on-g1'"):
        parsed({**QUICKNET, "schemeID": "bls-bn254-unchained-on-g1"}, QUICKNET_ROUND)


def test_without_the_library_nothing_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py_arkworks_bls12381", None)
    with pytest.raises(InputError, match="needs py-arkworks-bls12381: pip install"):
        parsed(QUICKNET, QUICKNET_ROUND)
