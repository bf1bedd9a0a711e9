"""Ledgers, exported ledgers and key files, damaged in thousands of ways: commands end in a message and a status."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from oracles.damage import INSTEAD, damage_database, damaged_bytes, damaged_json, restored
from oracles.how_many import SIZES
from oracles.watched import ends_well, for_each_number, spinewise, watched
from releases.small import run, write_town

from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError
from pipeline.privacy.accounting.mechanisms import MechanismName
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import Group
from pipeline.privacy.ledger.ledger import Charge, Ledger, RunFingerprint


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
            opened.commit(opened.reserve(Charge(dataset, RunFingerprint(letter * 64), letter, "change-one", groups)))
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
