"""Signatures hold for the text and the key that they are of, and nothing else; one of a manifest is of all files."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from releases.updated import seal

from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.keys import read_private
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files
from pipeline.signatures.signing_keys import ED25519, ML_DSA_65, PublicKey, SigningKey
from pipeline.signatures.statement import (
    LONGEST_NOTE,
    drop_stale_signature,
    opened,
    sign_release,
    signature_problems,
    signed,
)

# The example of Go's golang.org/x/mod/sumdb/note.
GO_PRIVATE = b"PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz\n"
GO_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n"
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_the_example_of_go_is_signed_to_the_same_bytes() -> None:
    key = SigningKey.from_content(GO_PRIVATE, "the key")
    assert key.public().text() == GO_PUBLIC
    assert signed(GO_TEXT, key).decode() == f"{GO_TEXT}\n{GO_LINE}"


@settings(max_examples=40)
@given(data=st.data())
def test_a_note_holds_for_its_text_and_key_alone(key: SigningKey, data: st.DataObject) -> None:
    """Signed by both algorithms; cut anywhere, or with any bit turned over, it is refused or has the same text."""
    text, public = "a\n\nb\n", key.public()
    assert list(public.keys) == [ED25519, ML_DSA_65]
    note = signed(text, key)
    assert opened(note, public, "note") == text
    place, bit = data.draw(st.integers(0, len(note) - 1)), 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ReleaseError):
        opened(note[:place], public, "note")
    try:
        found = opened(note[:place] + bytes([note[place] ^ bit]) + note[place + 1 :], public, "note")
    except ReleaseError:
        return
    assert found == text


def test_the_signature_of_another_text_or_key_does_not_hold(key: SigningKey) -> None:
    note, namesake = signed("a\n", key), SigningKey.generate(key.name)
    with pytest.raises(ReleaseError, match="no Ed25519 signature of this key"):
        opened(note, namesake.public(), "note")
    opened(note + signed("a\n", namesake).partition(b"\n\n")[2], key.public(), "note")  # lines of others are ignored
    first, other = (signed(text, key).splitlines()[2] for text in ("a\n", "b\n"))
    with pytest.raises(ReleaseError, match="the Ed25519 signature of"):
        opened(note.replace(first, other), key.public(), "note")
    lines = [b"- x AAAAAAAA", *(f"\N{EM DASH} x {text}".encode() for text in ("AAA", "AAAA!", "AAAA", ""))]
    for nothing in (
        b"",
        b"\xff\n\n",
        b"a\x01\n\n" + note.partition(b"\n\n")[2],
        *(b"a\n\n" + line + b"\n" for line in lines),
    ):
        with pytest.raises(ReleaseError, match="is not a signed note"):
            opened(nothing, key.public(), "note")
    with pytest.raises(ReleaseError, match="has more than"):
        opened(note + b"x" * LONGEST_NOTE, key.public(), "note")


@pytest.mark.parametrize("line", [1, 2])
def test_each_of_both_is_required(key: SigningKey, line: int) -> None:
    """Who breaks one algorithm can still sign nothing."""
    lines = signed("a\n", key).decode().splitlines(keepends=True)
    kept = "".join(text for number, text in enumerate(lines) if number != 1 + line)
    with pytest.raises(ReleaseError, match=r"has no (Ed25519|ML-DSA-65) signature of this key"):
        opened(kept.encode(), key.public(), "note")


def test_keys_are_kept_as_secrets_are(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "agency.sign"
    key.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = read_private(path, "signing key file", 2048)
    again = SigningKey.from_content(content, "again")
    assert again.public() == key.public()
    with pytest.raises(InputError, match="exists already; a key is never overwritten"):
        key.write(path)
    secret = content.decode().split("+")[-1].strip()
    assert secret not in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)
    path.chmod(0o640)
    if os.name == "posix":
        with pytest.raises(InputError, match="found mode 0640"):
            read_private(path, "signing key file", 2048)


def test_a_damaged_key_is_refused_and_not_shown(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "agency.sign"
    key.write(path)
    content = path.read_bytes()
    for damaged in (b"", content[:-20], content.replace(b"+", b"-"), content.splitlines(keepends=True)[1], content * 2):
        with pytest.raises(InputError) as refusal:
            SigningKey.from_content(damaged, "--sign-key command")
        assert "--sign-key command: found" in str(refusal.value)
        assert content.decode().split("+")[-1][:12] not in str(refusal.value)
    public = tmp_path / "agency.pub"
    public.write_bytes(content)
    with pytest.raises(InputError, match="holds a private key"):
        PublicKey.read(public)
    text = key.public().text()
    public.write_text(text.replace("statistics.example", "statistics.exampel"))
    with pytest.raises(InputError, match="not a public signing key"):
        PublicKey.read(public)
    public.write_text(text)
    assert PublicKey.read(public) == key.public()


# Of a release


@pytest.fixture
def release(town: Path, tmp_path: Path) -> RunDirectory:
    return RunDirectory(Path(shutil.copytree(town, tmp_path / "town")))


def test_a_release_is_signed_by_the_hash_of_its_manifest_and_nothing_else_changes(
    release: RunDirectory, key: SigningKey
) -> None:
    before = {path: path.read_bytes() for path in release.public.rglob("*") if path.is_file()}
    assert "is missing: the release is not signed" in signature_problems(release, key.public())[0]
    sign_release(release, key)
    after = {path: path.read_bytes() for path in release.public.rglob("*") if path.is_file()}
    signature = after.pop(release.signature)
    assert after == before
    assert opened(signature, key.public(), "note").splitlines() == [
        "spinewise.release/1",
        "town",
        "status NOT FOR RELEASE: insecure test key",
        f"manifest {hashlib.sha256(release.manifest.read_bytes()).hexdigest()}",
    ]
    assert signature_problems(release, key.public()) == []
    assert check_public_files(release) == []
    sign_release(release, key)
    assert release.signature.read_bytes() == signature, "signed twice, the same bytes"
    drop_stale_signature(release)
    assert release.signature.exists()


def test_another_key_and_another_manifest_are_told(release: RunDirectory, key: SigningKey) -> None:
    sign_release(release, key)
    other = SigningKey.generate("somebody.example")
    assert len(signature_problems(release, other.public())) == 1
    seal(release.root, beyond_limits=("rho",))
    assert signature_problems(release, key.public()) == ["public/manifest.sig is the signature of another manifest"]
    drop_stale_signature(release)
    assert not release.signature.exists()


def test_what_is_damaged_is_not_signed(release: RunDirectory, key: SigningKey) -> None:
    release.main.measurement("county", "total").write_text("4 -1 4")
    with pytest.raises(ReleaseError, match=r"is not signed: 'public/measurements"):
        sign_release(release, key)
    assert not release.signature.exists()
