"""A signature is of one manifest, and so of every public file; it changes nothing else."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from releases.by_hand import write_release

from pipeline.errors import ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files
from pipeline.signatures.signing_keys import SigningKey
from pipeline.signatures.statement import drop_stale_signature, opened, sign_release, signature_problems


@pytest.fixture
def release(tmp_path: Path) -> RunDirectory:
    return write_release(tmp_path)


def test_what_is_signed_is_the_hash_of_the_manifest(release: RunDirectory, key: SigningKey) -> None:
    sign_release(release, key)
    assert opened(release.signature.read_bytes(), key.public(), "note").splitlines() == [
        "spinewise.release/1",
        "little",
        "status NOT FOR RELEASE: insecure test key",
        f"manifest {hashlib.sha256(release.manifest.read_bytes()).hexdigest()}",
    ]


def test_a_signature_changes_nothing_else(release: RunDirectory, key: SigningKey) -> None:
    before = {path: path.read_bytes() for path in release.public.rglob("*") if path.is_file()}
    assert "is missing: the release is not signed" in signature_problems(release, key.public())[0]
    sign_release(release, key)
    after = {path: path.read_bytes() for path in release.public.rglob("*") if path.is_file()}
    signature = after.pop(release.signature)
    assert after == before
    assert signature_problems(release, key.public()) == []
    assert check_public_files(release) == []
    sign_release(release, key)
    assert release.signature.read_bytes() == signature, "signed twice, the same bytes"


def test_another_key_and_another_manifest_are_told(release: RunDirectory, key: SigningKey, tmp_path: Path) -> None:
    sign_release(release, key)
    other = SigningKey.generate("somebody.example")
    assert len(signature_problems(release, other.public())) == 1
    redrawn = write_release(tmp_path / "again", noise="5 5 5")
    shutil.copy(release.signature, redrawn.signature)
    assert signature_problems(redrawn, key.public()) == ["public/manifest.sig is the signature of another manifest"]
    drop_stale_signature(redrawn)
    assert not redrawn.signature.exists()
    drop_stale_signature(release)
    assert release.signature.exists()


def test_what_is_damaged_is_not_signed(release: RunDirectory, key: SigningKey) -> None:
    release.main.measurement("county", "total").write_text("4 -1 4")
    with pytest.raises(ReleaseError, match=r"is not signed: 'public/measurements"):
        sign_release(release, key)
    assert not release.signature.exists()
