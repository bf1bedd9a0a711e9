"""Finished releases and noisy measurements, damaged in thousands of ways: every command ends in a message and a status.

Half of the damage is hidden: the manifest gets the hashes of the damaged files, as somebody would write it who wants
the readers to go on. `verify` accepts nothing that is not what was published, and `export` reads nothing that is not.
No command waits for a named pipe: whoever opens one to read waits in the system, where no alarm of Python's reaches.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from oracles.damage import INSTEAD, damaged, damaged_json, restored
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
    spec = write_town(folder / "in", *QUICK, ("unbiased = true", "unbiased = true\nmargins = true\nmicrodata = true"))
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
    return [("verify", root, "--workers", 1), ("audit", root, "--out", out / "audit")] if rng.random() < 0.03 else lines


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


def _damage(rng: random.Random, path: Path, others: list[Path]) -> bool:
    """Damage a file, or put one of the others in its place; whether it has other bytes now, and can be read."""
    content = path.read_bytes()
    if rng.random() < 0.12:
        rng.choice(INSTEAD)(path)
        return False
    if others and rng.random() < 0.06:
        changed = rng.choice([file for file in others if file.suffix == path.suffix and file != path] or [path])
        path.write_bytes(changed.read_bytes())
    else:
        path.write_bytes(damaged(rng, path))
    return path.read_bytes() != content


@contextmanager
def _told(*what: object) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(f"{what}")
        raise


def _tidy(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()


@pytest.mark.parametrize("sizes", SIZES)
def test_releases(sizes: dict[str, int], damaged_town: Town, tmp_path: Path) -> None:
    """One or two public files, or the histograms, key and notes in restricted/, are damaged; then they are read."""
    town = damaged_town
    public = town.root / "public"
    restricted = [path for path in sorted((town.root / "restricted").rglob("*")) if path.is_file()]
    whole = {path: path.read_bytes() for path in [*town.files, town.manifest]}

    def each(number: int) -> None:
        rng = random.Random(f"release {number}")
        private = rng.random() < 0.04
        paths = rng.sample(restricted if private else town.files, rng.choice((1, 1, 1, 2)))
        hidden = rng.random() < 0.5
        _tidy(tmp_path / "out")
        with restored([*paths, town.manifest]):
            taken = [path for path in paths if _damage(rng, path, town.files)]
            if hidden and not private:
                _with_hashes(town)
            line = rng.choice(_readers(town, rng, tmp_path / "out"))
            if private:
                line = rng.choice(
                    (("audit", town.root, "--out", tmp_path / "out"), ("key", "show-commitment", town.root))
                )
            elif not hidden and rng.random() < 0.3:
                line = ("verify", town.root, "--workers", 1)
            with _told(line, paths):
                with opened_files(public) as opened:
                    status, printed = spinewise(*line)
                ends_well(status, printed)
                if status == 0 and not private and line[:2] == ("verify", town.root):
                    assert taken == [], f"accepted: {printed}"
                if status == 0 and not private and line[0] == "export" and not hidden:
                    read = [path for path in taken if path.relative_to(public).as_posix() in opened]
                    assert read == [], f"accepted: {printed}"
        assert {path: path.read_bytes() for path in whole} == whole

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
            with _told(line):
                ends_well(*spinewise(*line))

    for_each_number("manifest", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_noisy_measurements(sizes: dict[str, int], damaged_town: Town, tmp_path: Path) -> None:
    """Files in the exchange layout, for `spinewise run --measurements`: what is refused leaves no release behind."""
    folder, out = tmp_path / "nmf", tmp_path / "out"
    shutil.copytree(damaged_town.nmf, folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    spec = damaged_town.spec.with_name("estimated.toml")
    spec.write_text(damaged_town.spec.read_text("utf-8").replace("margins = true", "margins = false"), "utf-8")

    def each(number: int) -> None:
        rng = random.Random(f"nmf {number}")
        path = rng.choice(files)
        with restored([path]), _told(path):
            _damage(rng, path, [])
            _tidy(out)
            status, printed = spinewise("run", spec, "--measurements", folder, "--out", out, "--workers", 1)
            ends_well(status, printed)
            assert (status == 0) == (out / "town" / "public" / "manifest.json").exists()
            assert status == 0 or not (out / "town").exists()

    for_each_number("nmf", sizes, each)


@contextmanager
def waited_for(pipe: Path) -> Iterator[list[Path]]:
    """Makes the pipe; the list has an entry as soon as somebody waits for it, who is let go by a second thread."""
    os.mkfifo(pipe)
    waiting: list[Path] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno not in (errno.ENXIO, errno.ENOENT):
                    raise
            else:
                waiting.append(pipe)

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield waiting
    finally:
        over.set()
        watch.join()


def test_who_waits_for_a_pipe_is_seen_and_let_go(tmp_path: Path) -> None:
    with waited_for(tmp_path / "pipe") as waiting:
        assert (tmp_path / "pipe").read_bytes() == b""
    assert waiting


@pytest.mark.slow
def test_no_command_waits_for_a_pipe_in_a_release(damaged_town: Town, tmp_path: Path) -> None:
    """In the place of every file of the release, public and restricted, under some of the commands, in turn."""
    root, found, rng = damaged_town.root, set(), random.Random(1)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for number, path in enumerate(files):
        out = tmp_path / str(number)
        out.mkdir()
        lines = [
            *_readers(damaged_town, rng, out),
            ("verify", root, "--workers", 1),
            ("verify", "--records", root, "--workers", 1),
            ("audit", root, "--out", out / "audited"),
        ]
        with restored([path]):
            path.unlink()
            with waited_for(path) as waiting:
                for line in lines[number % 4 :: 4]:
                    ends_well(*spinewise(*line))
                    found |= {(line[0], place) for place in waiting}
                    waiting.clear()
    assert len(files) > 50
    assert found == set()
