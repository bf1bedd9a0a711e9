"""Hundreds of random command lines: each ends with a status and a message, and never hangs."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from oracles.command_lines import Places, command_line, commands
from oracles.how_many import OF_A_VERSION
from oracles.watched import ends_well, for_each_number, spinewise
from releases.command import feature_module
from releases.small import QUICK, run, write_town

import flows.orchestration.server
import pipeline.runs.rerun
from pipeline.errors import InputError


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Something of every kind that a command takes; what would start a server, or test for minutes, is replaced."""
    spec = write_town(tmp_path / "in", *QUICK)
    root = run(spec, tmp_path / "out")
    nmf, ledger, key = tmp_path / "nmf", tmp_path / "ledger.sqlite", tmp_path / "key"
    monkeypatch.setenv("SPINEWISE_LEDGER", str(ledger))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    for line in (
        ("export", root, "--format", "nmf", "--out", nmf),
        ("ledger", "open", "persons", "--population", "all", "--rho", "3"),
        ("ledger", "export", tmp_path / "exported.json"),
        ("key", "new", key),
    ):
        status, printed = spinewise(*line)
        assert status == 0, printed

    def not_here(*_: object, **__: object) -> Any:
        raise InputError("not in this test")

    findings = feature_module("features.audit.findings")
    audit = findings.Audit("Audit", (findings.certain("samplers", "chi-square", "all", []),), {})
    monkeypatch.setattr(feature_module("features.audit.installed"), "audit_installed", lambda **_: audit)
    monkeypatch.setattr(flows.orchestration.server, "temporary_server", contextlib.nullcontext)
    monkeypatch.setattr(pipeline.runs.rerun, "rerun_here", not_here)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    releases = (root, root / "public")
    folder = spec.parent
    return Places(
        tmp_path / "new",
        {
            "spec": (spec,), "release": releases, "first": releases, "second": releases, "measurements": (nmf,),
            "data": (folder, folder / "persons.csv"), "source": (folder / "persons.csv", folder / "blocks.csv"),
            "areas": (folder / "blocks.csv",), "households": (folder / "units.csv",), "path": (folder,),
            "ledger": (ledger,), "runs": (tmp_path / "out",), "file": (tmp_path / "exported.json",),
        },
    )  # fmt: skip


@pytest.mark.slow
def test_command_lines(places: Places, tmp_path: Path) -> None:
    """Every command, with its options; nothing that was there is changed but by the commands that are meant to."""
    kept = {path: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    environment = dict(os.environ)
    used = set()

    def each(number: int) -> None:
        rng = random.Random(f"command line {number}")
        line = command_line(rng, places)
        used.add(line[0] if line else "")
        places.folder.mkdir(exist_ok=True)
        try:
            status, printed = spinewise(*line)
            ends_well(status, printed)
            assert {path: path.read_bytes() for path in kept} == kept
        except BaseException as error:
            error.add_note(repr(line))
            raise
        finally:
            os.environ.clear()
            os.environ.update(environment)
            shutil.rmtree(places.folder, ignore_errors=True)

    for_each_number("command line", {"command line": 2_000 if OF_A_VERSION else 240}, each, first=0)
    assert {words[0] for words, _ in commands()} <= used
