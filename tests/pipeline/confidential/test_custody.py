"""The key comes from where the operator keeps it, shows nowhere, and can be destroyed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from releases.command import environment, spinewise
from releases.prefect_server import prefect_server
from releases.small import public_bytes, run, write_town

from pipeline.confidential.custody import KeySource, destroy_key, key_of_release
from pipeline.errors import InputError
from pipeline.execution.steps import Silent
from pipeline.privacy.keys import MasterKey
from pipeline.published import release_at
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.verify import verify_release

OWN_KEY = ('key = "insecure-test:1"', "")
LIGHT = (("replicates = 3", "margins = false"), ("unbiased = true", "unbiased = false"))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    MasterKey.generate().write(tmp_path / "vault.key")
    return tmp_path / "vault.key"


def test_three_sources_give_one_key(key_file: Path) -> None:
    wanted = MasterKey.read(key_file)
    assert KeySource(file=key_file).read() == wanted
    assert KeySource(descriptor=os.open(key_file, os.O_RDONLY)).read() == wanted
    reader, writer = os.pipe()
    os.write(writer, key_file.read_bytes())
    os.close(writer)
    assert KeySource(descriptor=reader).read() == wanted
    assert KeySource(command=f"cat '{key_file}'").read() == wanted
    assert KeySource().read() is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (KeySource(descriptor=987), r"--key fd:987: cannot be read \(Bad file descriptor\)"),
        (KeySource(command=" "), "--key command: is empty"),
        (KeySource(command="no-such-program-here x"), "no-such-program-here cannot be run"),
        (KeySource(command="false SECRETWORD"), "--key command: false ended with status 1"),
        (KeySource(command="echo SECRETWORD"), "--key command: found 11 bytes that are not a key"),
        (KeySource(command="echo 'x"), "cannot be split into words"),
    ],
)
def test_what_is_no_key_is_told_and_not_shown(source: KeySource, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        source.read()
    assert "SECRETWORD" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_source_is_a_file_a_descriptor_or_a_command() -> None:
    assert KeySource.parse("file:a:b", "--key") == KeySource(file=Path("a:b"))
    assert KeySource.parse("fd:3", "--key") == KeySource(descriptor=3)
    assert KeySource.parse("command:vault get 'a:b'", "--key") == KeySource(command="vault get 'a:b'")
    assert KeySource.parse(None, "--key") == KeySource()
    for wrong in ("", "vault.key", "file:", "fd:", "fd:-1", "fd:x", f"fd:{2**31}", "File:a", "x:SECRETWORD"):
        with pytest.raises(InputError, match=r"^SPINEWISE_KEY: found none of file:PATH, fd:NUMBER") as error:
            KeySource.parse(wrong, "SPINEWISE_KEY")
        assert "SECRETWORD" not in str(error.value)


def test_after_its_end_a_key_is_nowhere_and_only_verify_is_left(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", OWN_KEY, *LIGHT)
    directory = RunDirectory(run(spec, tmp_path / "out"))
    secret = directory.key.read_text().split()[1]
    kept = os.open(directory.key, os.O_RDONLY)
    commitment = destroy_key(directory)
    assert commitment == read_manifest(directory.manifest).key_commitment
    with os.fdopen(kept) as file:
        assert set(file.read()) == {"\0"}, "overwritten, not only unlinked"
    for path in (path for path in directory.root.rglob("*") if path.is_file()):
        assert secret.encode() not in path.read_bytes()
        assert bytes.fromhex(secret) not in path.read_bytes()
    with pytest.raises(InputError, match=r"the key was destroyed; .* can be verified \(spinewise verify\)"):
        key_of_release(directory, KeySource())
    with pytest.raises(InputError, match="the key of this run was destroyed; the run cannot be repeated"):
        run(spec, tmp_path / "out")
    assert not directory.key.exists()
    with pytest.raises(InputError, match="was destroyed before"):
        destroy_key(directory)
    assert verify_release(release_at(directory.root), 1, Silent()) == []


def test_a_key_that_was_handed_in_is_not_kept(tmp_path: Path, key_file: Path) -> None:
    directory = RunDirectory(run(write_town(tmp_path / "in", OWN_KEY, *LIGHT), tmp_path / "out", key_file=key_file))
    assert not directory.key.exists()
    with pytest.raises(InputError, match="holds no key; one that was handed in"):
        destroy_key(directory)
    assert key_of_release(directory, KeySource(file=key_file)).commitment() == MasterKey.read(key_file).commitment()


def _watch_process_list(found: set[str], wanted: list[str], stop: threading.Event) -> None:
    """Add what is wanted and stands in any process's arguments or environment."""
    while not stop.is_set():
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    content = (process / name).read_bytes().decode(errors="replace")
                except OSError:
                    continue
                found |= {word for word in wanted if word in content}
        time.sleep(0.05)


@contextmanager
def _watched(watcher: threading.Thread, stop: threading.Event) -> Iterator[None]:
    """The watcher runs while the block does."""
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    """Of the engine's database."""
    (database,) = home.rglob("*.db")
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


#: The flow of a rerun, as a deployment of it performs it.
_RERUN = """
import sys
from pathlib import Path
from flows.orchestration.audit_flows import rerun
print(rerun(release=Path(sys.argv[1]), key_file=Path(sys.argv[2]), workers=1).same)
"""


@pytest.mark.slow
def test_key_and_counts_are_in_no_log_database_process_list_or_public_file(tmp_path: Path) -> None:
    """The whole command line, with the engine: run by --key fd:, recomputed by command: and as a flow, and refused.

    The server is the user's own, which keeps all that it is told: logs where the user asks for it, and no inputs of
    tasks but those that each waits for. The planted count is that of persons in one cell of one block, a number that
    stands for nothing else.
    """
    repeated = ('file = "units.csv", form = "long"', 'file = "units.csv", form = "long", repeated = "add"')
    spec = write_town(tmp_path / "in", OWN_KEY, repeated, *LIGHT)
    planted = 7_340_033
    with (tmp_path / "in" / "units.csv").open("a") as file:
        file.write(f"A0101,vacant,{planted}\n")
    key = tmp_path / "vault.key"
    MasterKey.generate().write(key)
    secret = key.read_text().split()[1]
    home = tmp_path / "prefect"
    logging: dict[str, Any] = {"PREFECT_LOGGING_LEVEL": "DEBUG", "PREFECT_LOGGING_TO_API_ENABLED": "true"}
    client = str(tmp_path / "client")
    found: set[str] = set()
    stop = threading.Event()
    watcher = threading.Thread(target=_watch_process_list, args=(found, [secret], stop))
    with prefect_server(home) as address, _watched(watcher, stop):
        engine: dict[str, Any] = {"PREFECT_HOME": client, "PREFECT_API_URL": address, "TMPDIR": str(tmp_path)}
        env = environment(COLUMNS="120", **engine, **logging)
        with key.open("rb") as file:
            command = [sys.executable, "-m", "flows.cli", "run", str(spec), "--out", str(tmp_path / "out")]
            command += ["--workers", "1", "--key", f"fd:{file.fileno()}"]
            done = subprocess.run(
                command, env=env, pass_fds=[file.fileno()], capture_output=True, text=True, check=False, timeout=300
            )
        assert done.returncode == 0, done.stderr
        root = tmp_path / "out" / "town"
        again = spinewise(
            "verify", "--records", root, "--workers", 1, "--key", f"command:cat {key}", fresh=True, **engine
        )
        assert again.returncode == 0, again.stderr
        assert "public files are the same" in again.stdout
        flow = [sys.executable, "-c", _RERUN, str(root), str(key)]
        recorded = subprocess.run(flow, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert recorded.stdout == "True\n", recorded.stderr
        shutil.copytree(tmp_path / "in", tmp_path / "bad")
        with (tmp_path / "bad" / "persons.csv").open("a") as file_:
            file_.write(f"A0101,SECRETVALUE{planted},f,house\n")
        logged = _rows(home, "select count(*) from log")
        bad = spinewise(
            "run", tmp_path / "bad" / "release.toml", "--out", tmp_path / "refused", "--workers", 1,
            "--key", f"file:{key}",
            fresh=True, **engine,
        )  # fmt: skip
        assert (bad.returncode, bad.stdout, "Traceback" in bad.stderr) == (2, "", False)
        assert bad.stderr.count("SECRETVALUE") == 1, "who is at the keyboard is told all of it, once"
        assert _rows(home, "select count(*) from log") == logged, "by default no line of a log is told"
    assert found == set(), "the process list shows the key"
    shown = done.stdout + done.stderr + again.stdout + again.stderr + recorded.stdout + recorded.stderr
    assert secret not in shown + bad.stdout + bad.stderr
    assert str(planted) not in shown
    assert "Traceback" not in shown
    for kind in ("log", "artifact", "flow_run", "task_run_state"):
        assert _rows(home, f"select count(*) from {kind}") > [(0,)], f"the engine's database has a {kind}"
    assert all(str(tmp_path) in text for (text,) in _rows(home, "select parameters from flow_run"))
    assert ("rerun of town",) in _rows(home, "select name from flow_run")
    tasks = [json.loads(text) for (text,) in _rows(home, "select task_inputs from task_run")]
    named = [item for task in tasks for items in task.values() for item in items]
    assert len(tasks) > 20
    assert all(item.keys() == {"input_type", "id"} and item["input_type"] == "task_run" for item in named)
    assert all(UUID(item["id"]) for item in named)
    places = [path for folder in (home, Path(client), root / "public") for path in folder.rglob("*") if path.is_file()]
    places += [root / "restricted" / "run.log", tmp_path / "refused" / "town" / "restricted" / "run.log"]
    for path in places:
        content = path.read_bytes()
        for word in (secret.encode(), bytes.fromhex(secret), b"SECRETVALUE"):
            assert word not in content, path
        if path.suffix != ".parquet":
            assert not any(text.encode() in content for text in (str(planted), f"{planted:,}")), path
    assert len(public_bytes(root)) > 20
    for path in (path for path in root.rglob("*") if path.is_file()):
        assert secret.encode() not in path.read_bytes(), "a key that was handed in is not kept"
