"""A row is proved to somebody who has a proof and a public key; what was changed is proved to nobody."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.by_hand import write_release

import features.witness.check_proof as checker
from features.witness.check_proof import BadProofError, check
from features.witness.proof import Wanted, make_proof
from pipeline.errors import InputError, ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files, read_manifest
from pipeline.signatures.signing_keys import SigningKey
from pipeline.signatures.statement import drop_stale_signature, sign_release, signature_problems


@pytest.fixture
def signed_release(release: RunDirectory, key: SigningKey) -> RunDirectory:
    sign_release(release, key)
    return release


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


def test_another_key_and_another_manifest_are_told(
    signed_release: RunDirectory, key: SigningKey, tmp_path: Path
) -> None:
    other = SigningKey.generate("somebody.example")
    assert len(signature_problems(signed_release, other.public())) == 1
    redrawn = write_release(tmp_path / "again", noise="5 5 5")
    shutil.copy(signed_release.signature, redrawn.signature)
    assert signature_problems(redrawn, key.public()) == ["public/manifest.sig is the signature of another manifest"]
    drop_stale_signature(redrawn)
    assert not redrawn.signature.exists()
    drop_stale_signature(signed_release)
    assert signed_release.signature.exists()


def test_what_is_damaged_is_not_signed(release: RunDirectory, key: SigningKey) -> None:
    release.main.measurement("county", "total").write_text("4 -1 4")
    with pytest.raises(ReleaseError, match=r"is not signed: 'public/measurements"):
        sign_release(release, key)
    assert not release.signature.exists()


@pytest.mark.parametrize("table", ["race", "total"])
def test_every_row_is_proved_with_its_numbers(signed_release: RunDirectory, key: SigningKey, table: str) -> None:
    companion = "homes" if table == "total" else ""
    for path in (signed_release.universe(companion).public / "tables" / table).glob("*.parquet"):
        frame = pd.read_parquet(path).set_index("geocode")
        for geocode, row in frame.iterrows():
            proof = make_proof(signed_release, Wanted(table, str(geocode), companion=companion))
            assert len(proof) < 10_000
            start = time.process_time()
            proved = check(proof, key.public().text())
            assert time.process_time() - start < 1
            assert (proved["table"], proved["geocode"], proved["level"]) == (table, geocode, path.stem)
            assert proved["signer"] == "statistics.example/releases"
            assert proved["status"] == "NOT FOR RELEASE: insecure test key"
            for label, count in proved["counts"].items():
                assert row[label] == count
            for label, ends in proved.get("intervals", {}).items():
                for suffix, end in zip((":low90", ":high90"), ends, strict=True):
                    assert row[label + suffix] == end or (end is None and pd.isna(row[label + suffix]))


def changes(proof: dict[str, Any]) -> list[dict[str, Any]]:
    """The proof with one thing changed, everything in it once."""
    changed: list[dict[str, Any]] = []

    def visit(value: Any, put: Any) -> None:
        if isinstance(value, dict):
            for name in value:
                visit(value[name], lambda new, name=name: put({**value, name: new}))
        elif isinstance(value, list):
            for number in range(len(value)):
                visit(value[number], lambda new, number=number: put([*value[:number], new, *value[number + 1 :]]))
            put(value[1:] if value else [0])
        elif isinstance(value, bool):
            put(not value)
        elif isinstance(value, int | float):
            put(value + 1)
        elif value is None:
            put(1.5)
        else:
            put(value[:-2] + ("0" if value[-2:-1] != "0" else "1") + value[-1:] if value else "x")

    visit(proof, changed.append)
    return changed


def test_no_number_label_place_or_hash_can_be_changed(signed_release: RunDirectory, key: SigningKey) -> None:
    public = key.public().text()
    proof = json.loads(make_proof(signed_release, Wanted("race", "44003")))
    check(json.dumps(proof).encode(), public)
    tried = changes(proof)
    assert len(tried) > 30
    for forged in tried:
        with pytest.raises(BadProofError):
            check(json.dumps(forged).encode(), public)


def test_the_proof_of_another_agency_or_of_nobody_is_refused(signed_release: RunDirectory) -> None:
    proof = make_proof(signed_release, Wanted("race", "44003"))
    other = SigningKey.generate("statistics.example/releases").public().text()
    for public in (other, "", "nonsense", other.splitlines()[1]):
        with pytest.raises(BadProofError):
            check(proof, public)
    for content in (b"", b"[]", b"{}", b"\xff", proof[:-9], b'{"format": "spinewise proof 1"}', b"[" * 100_000):
        with pytest.raises(BadProofError):
            check(content, other)


def test_the_checker_is_one_file_that_needs_nothing_of_ours(
    signed_release: RunDirectory, key: SigningKey, tmp_path: Path
) -> None:
    shutil.copy(checker.__file__, tmp_path / "check_proof.py")
    (tmp_path / "proof").write_bytes(make_proof(signed_release, Wanted("race", "44003")))
    (tmp_path / "pub").write_text(key.public().text())
    command = [sys.executable, "-I", "check_proof.py", "proof", "pub"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["geocode"] == "44003"
    (tmp_path / "pub").write_text(SigningKey.generate("x").public().text())
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not signed by this key" in done.stderr


def test_the_rows_are_hashed_as_the_documents_say(release: RunDirectory) -> None:
    """The root of a table, from pandas and the words of the documentation alone."""
    path = release.main.table("race", "county")
    frame = pd.read_parquet(path)
    labels = [
        name for name in frame.columns if name != "geocode" and not name.endswith((":moe90", ":low90", ":high90"))
    ]
    level = []
    for _, row in frame.iterrows():
        code = str(row["geocode"]).encode()
        data = struct.pack(">I", len(code)) + code
        data += b"".join(struct.pack(">q", int(row[label])) for label in labels)
        for end in [row[label + suffix] for suffix in (":low90", ":high90") for label in labels]:
            data += bytes.fromhex("7ff8000000000000") if pd.isna(end) else struct.pack(">d", end)
        level.append(hashlib.sha256(b"\x00" + data).digest())
    while len(level) > 1:
        pairs = [level[place : place + 2] for place in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    rows = read_manifest(release.manifest).rows
    assert rows is not None
    assert rows.tables["tables/race/county.parquet"].root == level[0].hex()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted("rice", "44003"), "--table: found 'rice'; the release has race"),
        (Wanted("../race", "44003"), "--table"),
        (Wanted("race", "44999"), "--area: found '44999'"),
        (Wanted("race", "44003", "state"), "--level: found 'state'"),
        (Wanted("race", "44003", "tract"), "--area: found '44003'"),
        (Wanted("race", "44003", companion="homes"), "--table: found 'race'; the release has total"),
    ],
)
def test_what_is_not_there_is_told(signed_release: RunDirectory, wanted: Wanted, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        make_proof(signed_release, wanted)
    assert str(refusal.value).startswith(message)


def test_nothing_is_proved_of_an_unsigned_release(release: RunDirectory) -> None:
    with pytest.raises(ReleaseError, match="is not signed"):
        make_proof(release, Wanted("race", "44003"))
