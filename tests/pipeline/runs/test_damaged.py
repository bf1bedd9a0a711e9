"""Whatever is spoilt in thousands of ways, inputs or releases, measurements, ledgers, keys: each ends in a message."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
import shutil
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from oracles.bad_inputs import KINDS, World, changed_rows, csv_bytes
from oracles.damage import INSTEAD, damage_database, damaged, damaged_bytes, damaged_json, restored
from oracles.how_many import SIZES
from oracles.summary_files import made_up_state, write_2010, write_2020
from oracles.watched import ends_well, for_each_number, spinewise, watched
from releases.changed import opened_files
from releases.small import QUICK, run, write_town

from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.events import Group
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.mechanisms import MechanismName
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
        ("compare", *rng.choice(((root, whole), (whole, root)))),
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


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger in one file, with two datasets of both frameworks and runs of them."""
    path = tmp_path / "ledger.sqlite"
    for name, unit in (("persons", "--rho"), ("units", "--epsilon")):
        status, printed = spinewise("ledger", "--ledger", path, "open", name, "--population", "all", unit, "7/2")
        assert status == 0, printed
    with Ledger.open(str(path)) as opened:
        runs: tuple[tuple[str, str, MechanismName], ...] = (
            ("a", "persons", "discrete_gaussian"),
            ("b", "units", "discrete_laplace"),
            ("c", "persons", "discrete_gaussian"),
        )
        for letter, dataset, mechanism in runs:
            groups = (
                Group("county", "total", mechanism, Fraction(3), 20),
                Group("block", "sex", mechanism, Fraction(9), 8),
            )
            opened.commit(opened.reserve(Charge(dataset, letter * 64, letter, "change-one", groups)))
    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")
        database.execute("pragma journal_mode = delete")
    database.close()
    return path


def _lines(rng: random.Random, path: Path, out: Path) -> tuple[object, ...]:
    line: tuple[object, ...] = rng.choice(
        (
            ("show",),
            ("show", "--json"),
            ("show", "persons", "--delta", rng.choice(("1e-10", "1/2", "0", "x"))),
            ("show", "--events"),
            ("show", "units", "--events", "--json"),
            ("export", out),
            ("export", "-"),
            ("verify",),
            ("verify", "--runs", out.parent),
            ("close", "units", "--yes"),
            ("open", "third", "--population", "p", "--rho", "1"),
        )
    )
    return ("ledger", "--ledger", path, *line)


@pytest.mark.parametrize("sizes", SIZES)
def test_ledgers(sizes: dict[str, int], ledger: Path, tmp_path: Path) -> None:
    """By byte, by SQL and as a file; `verify` accepts none of which an event has changed."""

    def each(number: int) -> None:
        rng = random.Random(f"ledger {number}")
        with restored([ledger]):
            what, changed = rng.random(), False
            if what < 0.1:
                rng.choice(INSTEAD)(ledger)
            elif what < 0.5:
                ledger.write_bytes(damaged_bytes(rng, ledger.read_bytes()))
            else:
                changed = damage_database(rng, ledger)
            line = _lines(rng, ledger, tmp_path / "exported.json")
            status, printed = spinewise(*line)
            (tmp_path / "exported.json").unlink(missing_ok=True)
            for side in ("-wal", "-shm", "-journal"):
                ledger.with_name(ledger.name + side).unlink(missing_ok=True)
            try:
                ends_well(status, printed)
                if changed and line[1] == "verify":
                    assert status, printed
            except AssertionError as error:
                error.add_note(f"{line}")
                raise

    for_each_number("ledger", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_exported_ledgers(sizes: dict[str, int], ledger: Path, tmp_path: Path) -> None:
    """By JSON value and byte; what is accepted has the events of the original."""
    path = tmp_path / "exported.json"
    assert spinewise("ledger", "--ledger", ledger, "export", path)[0] == 0
    good = path.read_bytes()
    events = json.loads(good)["events"]

    def each(number: int) -> None:
        rng = random.Random(f"exported {number}")
        with restored([path]):
            if rng.random() < 0.03:
                rng.choice(INSTEAD)(path)
            else:
                path.write_bytes(damaged_json(rng, good))
            status, printed = spinewise("ledger", "verify", "--file", path)
            ends_well(status, printed)
            if status == 0:
                kept = json.loads(path.read_bytes())["events"]
                assert kept == events[: len(kept)], printed

    for_each_number("exported ledger", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_keys(sizes: dict[str, int], tmp_path: Path) -> None:
    """Key files, and the key that a run kept: another key than the release's is refused, and none is ever shown."""
    root = run(
        write_town(tmp_path / "in", ('key = "insecure-test:1"\n', ""), ("replicates = 3", "margins = false")), tmp_path
    )
    kept = root / "restricted" / "key"
    secret = re.search(rb"[0-9a-f]{64}", kept.read_bytes())
    assert secret is not None
    good = kept.read_bytes()

    def each(number: int) -> None:
        rng = random.Random(f"key {number}")
        with restored([kept]):
            if rng.random() < 0.1:
                rng.choice(INSTEAD)(kept)
            else:
                kept.write_bytes(damaged_bytes(rng, good))
            kept.chmod(
                rng.choice((0o600, 0o600, 0o600, 0o644, 0o400))
            ) if kept.is_file() and not kept.is_symlink() else None
            status, printed = spinewise("key", "show-commitment", root)
            ends_well(status, printed)
            same = kept.is_file() and kept.read_bytes().strip() == good.strip() and not kept.stat().st_mode & 0o077
            assert (status == 0) == (same or not kept.exists()), (status, printed)
            assert secret[0][:16].decode() not in printed
            message = ""
            with watched():
                try:
                    assert isinstance(KeySource(file=kept).read(), MasterKey)
                except InputError as error:
                    message = str(error)
            assert not message or str(kept) in message
            assert secret[0][:16].decode() not in message

    for_each_number("key", sizes, each)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs(kind: str, sizes: dict[str, int], world: World) -> None:
    """No traceback, no hang, no silent acceptance, no status that does not fit."""
    ends: Counter[str] = Counter()

    def each(number: int) -> None:
        with watched():
            ends[KINDS[kind](random.Random(f"bad {kind} {number}"), world)] += 1

    for_each_number(kind, sizes, each)
    assert ends["refused"] > sizes[kind] / 10
    assert kind == "answer" or ends["accepted"]


def imported(kind: str, source: Path, out: Path, *options: str) -> None:
    """No folder is left of what is refused, which is named."""
    status, printed = spinewise("import", kind, source, "--out", out, *options)
    ends_well(status, printed)
    assert status in (0, 2), printed
    assert not status or any(name in " ".join(printed.split()) for name in (source.name, "release.toml", "nothing.csv"))
    assert out.exists() == (status == 0)
    assert not list(out.parent.glob(".out*"))
    shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_to_import(sizes: dict[str, int], tmp_path: Path) -> None:
    """CSV and Parquet files spoilt by cell and byte, some with options that do not fit."""
    write_town(tmp_path / "town")
    source = tmp_path / "persons.csv"
    source.write_bytes((tmp_path / "town" / "persons.csv").read_bytes()[:3000].rsplit(b"\n", 1)[0] + b"\n")
    pq.write_table(pa_csv.read_csv(source), source.with_suffix(".parquet"))
    with source.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    options = (
        "", "", "--geography block", "--geography block,age", "--geography nothing", "--key age", "--key nothing",
        "--count sex", "--count nothing", "--query select", "--name a/b", f"--households {source}",
        "--areas nothing.csv",
    )  # fmt: skip

    def each(number: int) -> None:
        rng = random.Random(f"table {number}")
        path = rng.choice((source, source, source.with_suffix(".parquet")))
        with restored([path]):
            by_cell = path == source and rng.random() < 0.5
            path.write_bytes(csv_bytes(rng, changed_rows(rng, rows)) if by_cell else damaged(rng, path))
            imported("table", path, tmp_path / "out", *rng.choice(options).split())

    for_each_number("table", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_summary_files(sizes: dict[str, int], tmp_path: Path) -> None:
    """Headers and segments of both layouts, in folders and zips, spoilt by field and byte."""
    state = made_up_state(1, 5)
    folders = [write_2020(state, tmp_path / "a.pl"), write_2010(state, tmp_path / "b.pl")]
    archive = tmp_path / "c.pl.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in sorted(folders[0].iterdir()):
            zipped.write(file, file.name)
    files = [archive, *(file for folder in folders for file in sorted(folder.iterdir()))]

    def each(number: int) -> None:
        rng = random.Random(f"summary {number}")
        path = rng.choice(files)
        with restored([path]):
            if path != archive and rng.random() < 0.5:
                separator = "|" if path.parent == folders[0] else ","
                rows = [line.split(separator) for line in path.read_text("latin-1").splitlines()]
                spoilt = "\n".join(separator.join(row) for row in changed_rows(rng, rows))
                path.write_bytes(f"{spoilt}\n".encode("utf-8", "replace"))
            else:
                path.write_bytes(damaged(rng, path))
            imported("pl94171", path if path == archive else path.parent, tmp_path / "out")

    for_each_number("summary", sizes, each)
