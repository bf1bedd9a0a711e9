"""A key is never shown, its file is private, and no two purposes or streams share a derived key."""

from __future__ import annotations

import copy
import hashlib
import hmac
import itertools
import os
import pickle
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.privacy import keys
from pipeline.privacy.keys import MasterKey, draws_key, refinement_key

SECRET = bytes(range(1, 33))
CONTEXT = ("input", "spine", "privacy")


def _decode(encoded: bytes) -> list[bytes]:
    """The members of an encoding, read back from the bytes alone."""
    count, rest = int.from_bytes(encoded[:8], "big"), encoded[8:]
    members = []
    for _ in range(count):
        length = int.from_bytes(rest[:8], "big")
        members.append(rest[8 : 8 + length])
        rest = rest[8 + length :]
    assert rest == b""
    return members


def _hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256 for one block of output."""
    extracted = hmac.digest(b"spinewise keys 1", secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


@settings(deadline=None)
@given(st.lists(st.text() | st.binary(), max_size=6))
def test_the_encoding_can_be_read_back(members: list[str | bytes]) -> None:
    """So it is injective: no delimiter in a member makes two lists the same."""
    wanted = [m.encode() if isinstance(m, str) else m for m in members]
    assert _decode(keys._encode(*members)) == wanted


def test_no_two_streams_share_a_key() -> None:
    """All contexts, levels and queries made of a few hostile words, with two and three fingerprints."""
    words = ["a", "b", "ab", "a|b", "a\x00b", "\x00\x00\x00\x00\x00\x00\x00\x01a", "stream"]
    key = MasterKey(SECRET)
    wanted = list(itertools.product(words, repeat=4))
    found = {key.stream_key((a, b), level, query) for a, b, level, query in wanted}
    found |= {key.stream_key((a, b, "c"), level, query) for a, b, level, query in wanted}
    assert len(found) == 2 * len(wanted)


def test_derivation_is_hkdf_and_purposes_are_apart() -> None:
    key = MasterKey(SECRET)
    stream = key.stream_key(CONTEXT, "block", "total")
    assert stream == _hkdf(SECRET, keys._encode("stream", *CONTEXT, "block", "total"))
    assert key.commitment() == _hkdf(SECRET, keys._encode("commitment")).hex()
    hash_key = _hkdf(SECRET, keys._encode("keyed hash", "input"))
    assert key.keyed_hash("input", b"data") == hmac.digest(hash_key, b"data", hashlib.sha256).hex()
    assert draws_key(stream) == _hkdf(stream, keys._encode("draws"))
    assert refinement_key(stream) == _hkdf(stream, keys._encode("refinement"))
    derived = {stream, bytes.fromhex(key.commitment()), hash_key, draws_key(stream), refinement_key(stream), SECRET}
    assert len(derived) == 6


def test_a_stream_is_of_its_context_and_key() -> None:
    base = MasterKey(SECRET).stream_key(CONTEXT, "block", "total")
    assert base != MasterKey(SECRET[::-1]).stream_key(CONTEXT, "block", "total")
    assert base == MasterKey(SECRET).stream_key([c.encode() for c in CONTEXT], "block", "total")
    for context in [(), ("input", ""), "input"]:
        with pytest.raises(ValueError, match="context"):
            MasterKey(SECRET).stream_key(context, "block", "total")


@pytest.mark.parametrize("key", [MasterKey(SECRET), MasterKey.from_text("insecure-test:3")], ids=["real", "test"])
def test_a_key_is_never_shown(key: MasterKey) -> None:
    shown = f"{key!r} {key} {key:} {[key]} {key!a}"
    for hidden in (key._secret.hex(), repr(key._secret), str(list(key._secret))):
        assert hidden not in shown
    assert not hasattr(key, "__dict__")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(key, protocol)
    with pytest.raises(TypeError):
        copy.copy(key)
    with pytest.raises(TypeError):
        key.__getstate__()


def test_insecure_keys_are_marked_and_repeatable() -> None:
    one, two = MasterKey.from_text("insecure-test:1"), MasterKey.from_text("insecure-test:2")
    assert one.insecure
    assert one == MasterKey.from_text("insecure-test:1")
    assert hash(one) == hash(MasterKey.from_text("insecure-test:1"))
    assert one != two
    assert MasterKey(one._secret) != one  # the mark is part of the key


@pytest.mark.parametrize(
    "text", ["", "1", *(f"insecure-test:{n}" for n in ["", "-1", "01", "1 ", "1\n", "٣", "9" * 19])]
)
def test_other_texts_are_refused_without_an_echo(text: str) -> None:
    with pytest.raises(InputError, match="insecure-test:<whole number>") as caught:
        MasterKey.from_text(text)
    secret = "5ec2e7" * 8
    with pytest.raises(InputError) as caught:
        MasterKey.from_text(secret)
    assert secret not in str(caught.value)


@pytest.mark.parametrize("key", [MasterKey.generate(), MasterKey.from_text("insecure-test:12")], ids=["real", "test"])
def test_a_key_file_is_private_whole_and_never_replaced(tmp_path: Path, key: MasterKey) -> None:
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        key.write(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert MasterKey.read(path) == key
    assert MasterKey.read(path).insecure == key.insecure
    content = path.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        MasterKey.generate().write(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    MasterKey.generate().write(path)
    path.chmod(mode)
    with pytest.raises(InputError, match=f"{mode:04o}.*0600"):
        MasterKey.read(path)
    path.chmod(0o400)
    MasterKey.read(path)


def test_what_is_no_key_file_is_refused_without_an_echo(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        MasterKey.read(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot be opened"):
        MasterKey.read(tmp_path)
    with pytest.raises(InputError, match="not a regular file"):
        MasterKey.read(Path("/dev/null"))
    with pytest.raises(InputError, match="cannot be written"):
        MasterKey.generate().write(tmp_path / "absent" / "key")
    path = tmp_path / "damaged"
    MasterKey.generate().write(path)
    half = path.read_text()[:50]
    path.write_text(half)
    with pytest.raises(InputError, match="50 bytes that are not a key") as caught:
        MasterKey.read(path)
    assert half not in str(caught.value)
