"""The manifest shows every change of a published file or of itself, and states the guarantee exactly."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ReleaseError
from pipeline.model.exact import decimal_text
from pipeline.model.query import Query
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import (
    Manifest,
    StatedDraw,
    check_public_files,
    public_files,
    read_manifest,
    write_manifest,
)
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.software import software
from pipeline.release.status import status
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.files import canonical_json, json_sha256, make_restricted, write_bytes

UNIVERSE = parse_spec("""
name = "test"
privacy = { rho = "2.56" }
geography = { file = "f.csv", column = "b", levels = { state = 1, tract = 2 } }
schema.attributes.sex = ["m", "f"]
strategy = { levels = { state = "1/5", tract = "4/5" }, queries = { sex = "1" } }
""").universes()[0]


HASH = "0123456789abcdef" * 4
DRAW = StatedDraw(
    universe="",
    level="tract",
    query="sex",
    file="measurements/tract/sex.parquet",
    mechanism="discrete_gaussian",
    scales=("1/2", "1/3"),
    kinds=HASH,
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A small release with its manifest."""
    run = RunDirectory(tmp_path / "release")
    make_restricted(run.staging)
    write_bytes(run.report, b"<html>", run.staging)
    write_bytes(run.main.table("race", "tract"), b"table", run.staging)
    write_bytes(run.universe("units").microdata, b"units", run.staging)
    write_manifest(run, _manifest(run))
    return run


def _manifest(run: RunDirectory) -> Manifest:
    return Manifest(
        release="test",
        software=software(),
        status=status(insecure_key=True, charged=False),
        spec={"name": "test", "privacy": {"rho": "2.56"}},
        draws=(DRAW,),
        privacy=(privacy_statement(UNIVERSE),),
        key_commitment=HASH,
        input_fingerprints={"": HASH[::-1]},
        solver={"iterations": 12, "worst": 1.5e-5},
        files=public_files(run),
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda content: content.pop("draws"), "draws"),
        (lambda content: content["draws"][0].pop("scales"), "draws.0.scales"),
        (lambda content: content["draws"][0].update(scales=["0"]), "draws.0.scales.0"),
        (lambda content: content["draws"][0].update(kinds="of all"), "draws.0.kinds"),
        (lambda content: content["draws"][0].update(mechanism="geometric"), "draws.0.mechanism"),
        (lambda content: content["draws"][0].update(true=80), "draws.0.true"),
    ],
)
def test_a_manifest_without_its_list_of_draws_or_of_another_form_is_refused(
    run: RunDirectory, change: Callable[[dict[str, Any]], object], place: str
) -> None:
    content = _manifest(run).model_dump(mode="json")
    change(content)
    write_bytes(run.manifest, canonical_json({**content, "manifest_sha256": json_sha256(content)}), run.staging)
    with pytest.raises(ReleaseError, match=rf"manifest of this format: {place}"):
        read_manifest(run.manifest)


def test_every_changed_byte_of_the_manifest_is_noticed(run: RunDirectory) -> None:
    data = run.manifest.read_bytes()
    assert read_manifest(run.manifest) == _manifest(run)
    missed = []
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= (0x01, 0x20, 0xFF)[position % 3]
        run.manifest.write_bytes(changed)
        problems = check_public_files(run)
        if len(problems) != 1 or "manifest.json is damaged" not in problems[0]:
            missed.append(position)
    assert missed == []
    run.manifest.write_bytes(data)
    assert check_public_files(run) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b'  "format": 1,\n', b'  "format": 1,\n  "format": 1,\n'),
        lambda data: data.replace(b'"test"', b'"\\u0074est"'),
        lambda data: data.replace(b'"iterations": 12', b'"iterations": 1' + b"0" * 5000),
        lambda _: b"[" * 100_000,
        lambda _: b"[]\n",
    ],
)
def test_other_damage_to_the_manifest_is_noticed(run: RunDirectory, change: object) -> None:
    data = run.manifest.read_bytes()
    changed = change(data)  # type: ignore[operator]
    assert changed != data
    run.manifest.write_bytes(changed)
    with pytest.raises(ReleaseError, match=r"manifest\.json is damaged"):
        read_manifest(run.manifest)


def _sealed(content: dict[str, object]) -> bytes:
    """A manifest of any content with the hash that belongs to it."""
    content.pop("manifest_sha256", None)
    return canonical_json({**content, "manifest_sha256": hashlib.sha256(canonical_json(content)).hexdigest()})


def test_links_and_other_things_are_not_files_of_a_release(run: RunDirectory, tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.write_bytes(b"<html>")
    run.report.unlink()
    run.report.symlink_to(same)
    assert check_public_files(run) == ["'public/report.html' is a symbolic link; a release holds only files of its own"]
    with pytest.raises(ReleaseError, match="symbolic link"):
        public_files(run)
    run.report.unlink()
    os.mkfifo(run.report)
    assert check_public_files(run) == ["'public/report.html' is not a regular file"]
    run.report.unlink()
    write_bytes(run.report, b"<html>", run.staging)
    (run.public / "more").symlink_to(tmp_path)
    assert check_public_files(run) == ["'public/more' is not in the manifest"]
    (run.public / "more").unlink()
    run.public.rename(tmp_path / "elsewhere")
    run.public.symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in check_public_files(run)[0]


def test_a_forged_path_is_never_opened(run: RunDirectory, tmp_path: Path) -> None:
    secret = tmp_path / "release" / "restricted" / "key"
    secret.write_bytes(b"key")
    content = json.loads(run.manifest.read_bytes())
    for name in ("../restricted/key", str(secret)):
        content["files"][name] = {"sha256": hashlib.sha256(b"key").hexdigest(), "bytes": 3}
    run.manifest.write_bytes(_sealed(content))
    problems = check_public_files(run)
    assert len(problems) == 2
    assert all("is missing" in problem for problem in problems)


@given(value=st.fractions(min_value=0, max_value=10**9), digits=st.integers(3, 15))
def test_a_decimal_is_the_least_of_its_digits_that_is_not_below(value: Fraction, digits: int) -> None:
    text = decimal_text(value, digits)
    shown = Fraction(text)
    assert shown >= value
    assert shown - value < max(value, shown) * Fraction(10) ** (1 - digits) or shown == value
    if Decimal(value.numerator) / value.denominator == Fraction(text) and len(text) < digits:
        assert shown == value


def test_nothing_is_promised_where_no_two_inputs_are_compared() -> None:
    total = (("state", Query.parse("total", UNIVERSE.schema)),)

    def words(**changes: Any) -> str:
        return privacy_statement(replace(UNIVERSE, **changes)).words

    assert words(neighbours="add-remove", invariants=total).startswith("Nothing is promised")
    assert "by adding or removing one record. " in words(neighbours="add-remove")
    assert "inputs differ by changing one record within the same state. " in words(invariants=total)
    assert "invariants are published exactly and are not protected" in words(invariants=total)
    assert "invariants" not in words()
