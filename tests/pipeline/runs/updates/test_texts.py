"""A version with corrected texts: the same numbers, no new charge, and followed by both programs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from releases.signed import cli, keys_in
from releases.small import public_bytes
from releases.updated import charged_release, seal

from pipeline.errors import InputError
from pipeline.execution.steps import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import release_at
from pipeline.release.manifest import read_manifest
from pipeline.release.tables import read_table, write_table
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.updates import Updated, update_release
from pipeline.signatures.statement import is_signed, sign_release, signature_problems
from pipeline.storage.paths import unchecked

PUBLISH = """[publish]
replicates = 2
unbiased = true
[report]
title = "Wrokers of two counties"
[input]"""
CORRECTIONS = '[report]\ntitle = "Workers of two counties"\nversion = "2, corrected"\n'
#: What may be another in a version with corrected texts.
DESCRIBING = ("public/manifest.json", "public/report.html", "public/datapackage.json", "public/changes.json")


@dataclass(frozen=True)
class Made:
    """A release whose title has a typing error, and the version without it."""

    spec: Path
    release: Path
    texts: Path
    events: int
    new: Updated


def correct(release: Path, texts: Path, out: Path) -> Updated:
    return update_release(release, (), out, 1, Silent(), texts=texts)


def events_of(folder: Path) -> KnownLedger:
    with Ledger.open(str(folder / "ledger.sqlite"), state=folder / "state") as ledger:
        return KnownLedger(ledger.id, ledger.events())


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("texts")
    with charged_release(folder, ("[input]", PUBLISH)) as (spec, release):
        texts = written(folder / "corrections.toml", CORRECTIONS)
        events = len(events_of(folder / "in").events)
        yield Made(spec, release, texts, events, correct(release, texts, folder / "new"))


def numbers(root: Path) -> dict[str, bytes]:
    """Every public file but those that describe the release, or are of the version before."""
    files = public_bytes(root)
    return {name: files[name] for name in files if name not in DESCRIBING and "public/replaced/" not in name}


def test_no_number_is_another_and_nothing_is_charged(made: Made) -> None:
    """The ledger has no further event, and counts the receipt that both versions state once."""
    assert numbers(made.new.root) == numbers(made.release)
    assert {"public/measurements/tract/sex.parquet", "public/histograms/tract.parquet"} <= numbers(made.release).keys()
    assert not (made.new.root / "restricted/key").exists()
    changes = json.loads((made.new.root / "public/changes.json").read_text("utf-8"))
    assert (changes["version"], changes["answers"]) == (2, [])
    assert all(table["changed"] == table["largest"] == 0 for table in changes["tables"])
    assert {one["key"]: one["after"] for one in changes["texts"]} == {
        "report.title": "Workers of two counties", "report.version": "2, corrected",
    }  # fmt: skip
    ledger = events_of(made.spec.parent)
    assert len(ledger.events) == made.events
    compared = compare_receipts(find_manifests([made.release, made.new.root]), ledger)
    assert (compared.problems, [one.cost for one in compared.spending]) == ((), [Fraction(1)])
    old, new = (read_manifest(root / "public/manifest.json") for root in (made.release, made.new.root))
    assert (new.receipts, new.privacy, new.joint, new.status) == (old.receipts, old.privacy, old.joint, old.status)
    assert (new.key_commitment, new.input_fingerprints) == (old.key_commitment, old.input_fingerprints)


def test_a_signature_is_of_the_version_that_was_signed(made: Made, tmp_path: Path) -> None:
    key, _, public = keys_in(tmp_path / "keys")
    release = shutil.copytree(made.release, tmp_path / "release" / made.release.name)
    sign_release(release_at(release), key)
    with pytest.raises(InputError, match="--signed-by"):
        correct(release, made.texts, tmp_path / "new")
    words = ("--texts", made.texts, "--out", tmp_path / "new", "--signed-by", public, "--workers", 1)
    done = cli("update", release, *words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "a signature, a proof and an entry in a log hold for the version that it replaces" in said
    new = release_at(tmp_path / "new" / release.name)
    assert not is_signed(new)
    assert signature_problems(new, key.public())
    shutil.copy(release / "public/manifest.sig", new.public / "manifest.sig")
    assert signature_problems(new, key.public())  # as a forger would: it is not of this manifest
    assert signature_problems(release_at(release), key.public()) == []


def test_what_is_not_corrected(made: Made, tmp_path: Path) -> None:
    """With answers; where nothing is another; where a published number does not follow from the measurements."""
    with pytest.raises(InputError, match=r"--texts: found .* together with --with"):
        update_release(made.release, [tmp_path], tmp_path / "new", 1, Silent(), texts=made.texts)
    with pytest.raises(InputError, match="or a file of corrected texts for readers with --texts"):
        update_release(made.release, (), tmp_path / "new", 1, Silent())
    with pytest.raises(InputError, match="corrects nothing"):
        correct(made.new.root, made.texts, tmp_path / "new")
    release = shutil.copytree(made.release, tmp_path / "release")
    path = release / "public/tables/sex/tract.parquet"
    table = read_table(unchecked(path))
    table.counts[0, 0] += 1
    write_table(path, release, [table])
    seal(release)
    with pytest.raises(InputError, match=r"sex/tract\.parquet is computed otherwise than it was published"):
        correct(release, made.texts, tmp_path / "new")
    assert not (tmp_path / "new/work").exists()
