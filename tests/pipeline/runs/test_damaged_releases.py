"""Finished releases and noisy measurements, damaged in thousands of ways: every command ends in a message and a status.

Half of the damage is hidden: the manifest gets the hashes of the damaged files, as somebody would write it who wants
the readers to go on. `verify` accepts nothing that is not what was published, and `export` reads nothing that is not.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from oracles.damage import INSTEAD, damaged_bytes, damaged_json, damaged_parquet, restored
from oracles.how_many import SIZES
from oracles.watched import ends_well, for_each_number, spinewise
from releases.changed import opened_files
from releases.small import QUICK, run, write_town

from pipeline.storage.files import canonical_json, json_sha256

_HASH = "manifest_sha256"


@dataclass(frozen=True)
class Town:
    """The spec, a release of it to be damaged, a whole one, and its measurements in the exchange layout."""

    spec: Path
    root: Path
    whole: Path
    nmf: Path

    @property
    def files(self) -> list[Path]:
        """The public files but the manifest."""
        return [path for path in sorted((self.root / "public").rglob("*")) if path.is_file() and path != self.manifest]

    @property
    def manifest(self) -> Path:
        return self.root / "public" / "manifest.json"


@pytest.fixture(scope="module")
def damaged_town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("damaged")
    changes = [(old, new.replace("replicates = 2", "margins = true\nreplicates = 2")) for old, new in QUICK]
    spec = write_town(folder / "in", *changes, ("unbiased = true", "unbiased = true\nmicrodata = true"))
    root = run(spec, folder / "out")
    whole = folder / "whole"
    shutil.copytree(root, whole)
    status, printed = spinewise("export", root, "--format", "nmf", "--out", folder / "nmf")
    assert status == 0, printed
    yield Town(spec, root, whole, folder / "nmf")
    shutil.rmtree(folder)


def _readers(town: Town, rng: random.Random, out: Path) -> list[tuple[object, ...]]:
    """Command lines that read a release; those that take long are rare."""
    root, whole = town.root, town.whole
    lines: list[tuple[object, ...]] = [
        ("verify", "--constraints", root),
        ("query", root),
        ("query", root, "age * sex", "--at", rng.choice(("county", "tract", "block"))),
        ("query", root, "total", "--area", "mine=A0101,A0102"),
        ("query", root, "--table", "detail", "--at", "block", "--format", "csv"),
        ("query", root, "status", "--at", "tract", "--companion", "units", "--format", "json"),
        ("compare", *rng.choice(((root, whole), (whole, root))), "--html", out / "page.html"),
        ("export", root, "--format", rng.choice(("csv", "nmf", "parquet", "xlsx")), "--out", out / "export"),
        ("key", "show-commitment", root),
    ]
    if rng.random() < 0.03:
        lines = [("verify", root, "--workers", 1), ("audit", root, "--out", out / "audit")]
    return lines


def _with_hashes(town: Town) -> None:
    """The manifest lists the files as they are now."""
    content = json.loads(town.manifest.read_bytes())
    for name, entry in content["files"].items():
        path = town.root / "public" / name
        if path.is_file():
            data = path.read_bytes()
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    town.manifest.write_bytes(_sealed(content))


def _sealed(content: Any) -> bytes:
    """A manifest with the hash of itself."""
    if isinstance(content, dict):
        content.pop(_HASH, None)
        content[_HASH] = json_sha256(content)
    return canonical_json(content)


def _damage(rng: random.Random, town: Town, path: Path) -> bool:
    """Damage a file; whether it is one that has other bytes now, and can be read."""
    content = path.read_bytes()
    if rng.random() < 0.12:
        rng.choice(INSTEAD)(path)
        return False
    if rng.random() < 0.06:
        other = rng.choice([file for file in town.files if file.suffix == path.suffix and file != path] or [path])
        changed = other.read_bytes()
    elif path.suffix == ".parquet":
        changed = damaged_parquet(rng, content)
    elif path.suffix in (".json", ".geojson"):
        changed = damaged_json(rng, content)
    else:
        changed = damaged_bytes(rng, content)
    path.write_bytes(changed)
    return changed != content


def _tidy(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()


@pytest.mark.parametrize("sizes", SIZES)
def test_releases(sizes: dict[str, int], damaged_town: Town, tmp_path: Path) -> None:
    """One or two public files, or the histograms, key and notes in restricted/, are damaged; then they are read."""
    town = damaged_town
    restricted = [path for path in sorted((town.root / "restricted").rglob("*")) if path.is_file()]
    whole = {path.relative_to(town.whole): path.read_bytes() for path in town.whole.rglob("*") if path.is_file()}

    def each(number: int) -> None:
        rng = random.Random(f"release {number}")
        private = rng.random() < 0.04
        paths = rng.sample(restricted if private else town.files, rng.choice((1, 1, 1, 2)))
        hidden = rng.random() < 0.5
        _tidy(tmp_path / "out")
        with restored([*paths, town.manifest]):
            changed = [_damage(rng, town, path) for path in paths]
            if hidden and not private:
                _with_hashes(town)
            line = rng.choice(_readers(town, rng, tmp_path / "out"))
            if private:
                line = rng.choice(
                    (("audit", town.root, "--out", tmp_path / "out"), ("key", "show-commitment", town.root))
                )
            elif not hidden and rng.random() < 0.3:
                line = ("verify", town.root, "--workers", 1)
            with opened_files(town.root / "public") as opened:
                status, printed = spinewise(*line)
            try:
                ends_well(status, printed)
                if (
                    status == 0
                    and not private
                    and (line[:2] == ("verify", town.root) or (line[0] == "export" and not hidden))
                ):
                    taken = [path for path, other in zip(paths, changed, strict=True) if other]
                    if line[0] == "export":
                        taken = [path for path in taken if path.relative_to(town.root / "public").as_posix() in opened]
                    assert taken == [], f"accepted: {printed}"
            except AssertionError as error:
                error.add_note(f"{line}, damaged {[str(path) for path in paths]}")
                raise
        assert {path: (town.root / path).read_bytes() for path in whole if path.parts[0] == "public"} == {
            path: content for path, content in whole.items() if path.parts[0] == "public"
        }

    for_each_number("release", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_manifests(sizes: dict[str, int], damaged_town: Town, tmp_path: Path) -> None:
    """The manifest damaged by value, mostly with the right hash of itself, and the spine under it."""
    town = damaged_town
    good = town.manifest.read_bytes()

    def each(number: int) -> None:
        rng = random.Random(f"manifest {number}")
        _tidy(tmp_path / "out")
        with restored([town.manifest]):
            changed = damaged_json(rng, good)
            if rng.random() < 0.7:
                with suppress(ValueError, RecursionError):
                    changed = _sealed(json.loads(changed))
            town.manifest.write_bytes(changed)
            line = rng.choice(_readers(town, rng, tmp_path / "out"))
            status, printed = spinewise(*line)
            try:
                ends_well(status, printed)
            except AssertionError as error:
                error.add_note(f"{line}")
                raise

    for_each_number("manifest", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_noisy_measurements(sizes: dict[str, int], damaged_town: Town, tmp_path: Path) -> None:
    """Files in the exchange layout, for `spinewise run --measurements`: what is refused leaves no release behind."""
    town, folder = damaged_town, tmp_path / "nmf"
    shutil.copytree(town.nmf, folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    spec = town.spec.with_name("estimated.toml")
    text = town.spec.read_text("utf-8").replace("margins = true", "margins = false")
    spec.write_text(text, "utf-8")

    def each(number: int) -> None:
        rng = random.Random(f"nmf {number}")
        path = rng.choice(files)
        with restored([path]):
            _spoil(rng, path)
            _tidy(tmp_path / "out")
            status, printed = spinewise(
                "run", spec, "--measurements", folder, "--out", tmp_path / "out", "--workers", 1
            )
            try:
                ends_well(status, printed)
                assert (status == 0) == (tmp_path / "out" / "town" / "public" / "manifest.json").exists()
                assert status == 0 or not (tmp_path / "out" / "town").exists()
            except AssertionError as error:
                error.add_note(f"{path.relative_to(folder)}")
                raise

    for_each_number("nmf", sizes, each)


def _spoil(rng: random.Random, path: Path) -> None:
    if rng.random() < 0.1:
        rng.choice(INSTEAD)(path)
        return
    damage: Callable[[random.Random, bytes], bytes] = damaged_parquet if path.suffix == ".parquet" else damaged_bytes
    path.write_bytes(damage(rng, path.read_bytes()))
