"""The walk of docs/operations.md, typed as it stands there, with a real server and worker on this machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from oracles.postgresql import NoServerError
from oracles.postgresql import server as postgresql
from project.documents import PROJECT, code_blocks
from releases.command import needs
from releases.county import keep_county
from releases.prefect_server import answers, ask
from releases.series_town import YEARS, write_series_town
from releases.small import public_bytes, run_period

from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest

Found = TypeVar("Found")
#: One county of the example.
COUNTY = "99001"
#: What docs/operations.md says, and what stands for it here.
PORT, DATABASE = "4200", "postgresql+asyncpg://spinewise@localhost/prefect"


def walk_block(name: str) -> list[list[str]]:
    """The words of each line of a block of the page; the walk is its first six."""
    blocks = [one for one in code_blocks("sh") if one.page == PROJECT / "docs" / "operations.md"]
    block = blocks[("postgresql", "server", "worker", "deploy", "run", "result").index(name)]
    return [shlex.split(line, comments=True) for line in block.text.splitlines()]


@dataclass
class Shell:
    """Someone who types the page's commands in a folder."""

    folder: Path
    port: int
    variables: dict[str, str]
    database: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def lines(self, *blocks: str) -> Iterator[list[str]]:
        """The commands of blocks, once their exports are done."""
        for block in blocks:
            for words in walk_block(block):
                words = [word.replace(PORT, str(self.port)).replace(DATABASE, self.database) for word in words]
                if words[0] == "export":
                    name, _, value = words[1].partition("=")
                    self.variables[name] = value
                else:
                    yield words

    def start(self, name: str, *blocks: str) -> None:
        """Type what does not end."""
        (words,) = self.lines(*blocks)
        with (self.folder / f"{name}.log").open("wb") as log:
            self.started.append(
                subprocess.Popen(
                    words, cwd=self.folder, env=self.variables, stdout=log, stderr=log, start_new_session=True
                )
            )

    def type(self, words: list[str]) -> str:
        """Type a command that ends, and well; what it printed."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, (
            f"{shlex.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        )
        return done.stdout

    def ask(self, path: str, query: object = None) -> Any:
        """What the server answers."""
        return ask(f"{self.api}/{path}", query)

    def runs(self, **tags: list[str]) -> list[dict[str, Any]]:
        """Runs with these tags that have come to an end well."""
        query = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}, "tags": tags}}
        found: list[dict[str, Any]] = self.ask("flow_runs/filter", query)
        return found

    def wait(self, what: str, look: Callable[[], Found], seconds: float) -> Found:
        """The first answer that is true."""
        until = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < until, f"{what} within {seconds} s\n{self.logs()}"
            time.sleep(0.2)
        return found

    def answers(self) -> bool:
        return answers(f"{self.api}/health")

    def schedules(self, deployment: str, key: str) -> bool:
        """Whether the server schedules a run of a deployment, once for a key; it may be busy."""
        query = {"state": {"type": "SCHEDULED"}, "idempotency_key": key}
        answer = self.ask(f"deployments/{deployment}/create_flow_run", query)
        assert answer == 503 or isinstance(answer, dict), answer
        return answer != 503

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in self.folder.glob("*.log"))

    def end(self) -> None:
        """End what was started, with all that it has started."""
        for process in reversed(self.started):
            for process_id in [process.pid, *children(process.pid)]:
                try:
                    os.kill(process_id, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


def children(parent: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(parent).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@contextmanager
def shell(folder: Path, database: str = "") -> Iterator[Shell]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SPINEWISE_"))}
    variables |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PREFECT_HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_COLORS": "false",
        "PYTHONUNBUFFERED": "1",
    }
    one = Shell(folder, port, variables, database)
    try:
        yield one
    finally:
        one.end()


def begin(one: Shell, *server: str) -> None:
    """Server, worker, example, and the deployments with their schedules."""
    one.start("server", *server)
    one.wait("the server answers", one.answers, 150)
    for words in one.lines("deploy"):
        one.type(words)
        if words[:2] == ["spinewise", "example"]:
            keep_county(one.folder / "demo", COUNTY)
    # A worker that runs already takes over the folders of a new deployment with its next sign of life only.
    one.start("worker", "worker")


@pytest.mark.slow
def test_walk(tmp_path: Path) -> None:
    """All of the page, on PostgreSQL where it is installed: a run that cron has started, one by hand, and the result.

    The process of the first run is killed, and another run resumes it.
    """
    with ExitStack() as stack:
        try:
            url = stack.enter_context(postgresql()).replace("postgresql://", "postgresql+asyncpg://")
        except NoServerError:
            url = ""
        one = stack.enter_context(shell(tmp_path, url))
        begin(one, *(("postgresql",) if url else ()), "server")
        run = RunDirectory(tmp_path / "releases" / "example")
        one.wait("cron starts a run", run.main.true_histogram("block").exists, 240)
        kill_runs(one)
        (again, *_) = one.wait("the run is followed by another", lambda: one.runs(all_=["retry:1"]), 240)
        assert again["deployment_id"]
        assert (tmp_path / "home" / "prefect.db").exists() == (not url), "the database is PostgreSQL's"
        for words in one.lines("run", "result"):
            one.type(words)
        assert_form(one)
        assert_one_at_a_time(one)
        logged = {log["message"] for log in one.ask("logs/filter", {"limit": 200})}
        assert any(text.startswith("estimate county: 1 geounits, ") and "memory" in text for text in logged)
    assert read_manifest(run.manifest).status == "EXAMPLE: made-up data, about nobody"
    secret = run.key.read_text().split()[1]
    for path in (*(tmp_path / "home").rglob("*"), *tmp_path.glob("*.log")):
        content = path.read_bytes() if path.is_file() else b""
        assert secret.encode() not in content, path
        assert bytes.fromhex(secret) not in content, path


def kill_runs(one: Shell) -> None:
    """Kill the processes of the worker's runs."""
    killed = [number for number in children(one.started[1].pid) if "prefect.engine" in command_of(number)]
    for number in killed:
        os.kill(number, signal.SIGKILL)
    assert killed


@pytest.mark.slow
@needs("years")
def test_releases_of_a_series_are_made_as_their_records_arrive(tmp_path: Path) -> None:
    """By cron; a missing year stops them and is told; a killed run is resumed; never twice, and as if made by hand."""
    spec, arrived = write_series_town(tmp_path / "in"), tmp_path / "arrived"
    told, out = tmp_path / "told.json", tmp_path / "releases"
    arrived.mkdir()
    with shell(tmp_path) as one:
        one.variables["SPINEWISE_ON_FAILURE_COMMAND"] = f"tee {told}"
        one.start("server", "server")
        one.wait("the server answers", one.answers, 150)
        one.variables["PREFECT_API_URL"] = one.api
        waited = arrived / "persons-{period}.csv"
        deployed = ["spinewise", "deploy", str(spec), "--out", str(out), "--wait-for", str(waited)]
        one.type([*deployed, "--cron", "* * * * *", "--retry-delay", "1"])
        one.start("worker", "worker")

        arrive(tmp_path, "2031")
        (by_cron,) = one.wait("cron releases the first year", lambda: one.runs(all_=["auto-scheduled"]), 240)[:1]
        assert by_cron["state"]["message"] == f"padron: waits for {arrived / 'persons-2032.csv'}, of period 2032"
        assert [path.name for path in out.iterdir()] == ["padron-2031"]
        one.type([*deployed, "--retry-delay", "1"])  # from here on by hand
        deployment = one.ask("deployments/name/spinewise%20release/padron")
        assert deployment["schedules"] == []

        arrive(tmp_path, "2033")
        one.wait("a run is scheduled", lambda: one.schedules(deployment["id"], "2033"), 60)
        message = json.loads(one.wait("the operator is told", lambda: told.read_text() if told.exists() else "", 120))[
            "message"
        ]
        assert f"period 2032 is missing: {arrived / 'persons-2032.csv'} is not there" in message
        assert not (out / "padron-2033").exists()

        arrive(tmp_path, "2032")
        one.wait("a run is scheduled", lambda: one.schedules(deployment["id"], "2032"), 60)
        begun = out / "padron-2032" / "restricted" / "histograms" / "block.parquet"
        one.wait("the second year is begun", begun.exists, 120)
        kill_runs(one)
        (again,) = one.wait("the run is followed by another", lambda: one.runs(all_=["retry:1"]), 120)
        assert again["state"]["message"] == "padron: all releases of the series are made"
    for year in YEARS:
        run_period(spec, tmp_path / "by hand", year, arrived / f"persons-{year}.csv")
        made = public_bytes(out / f"padron-{year}")
        assert made == public_bytes(tmp_path / "by hand" / f"padron-{year}")


def arrive(folder: Path, year: str) -> None:
    """Records are moved into place, whole."""
    (folder / "in" / f"persons-{year}.csv").rename(folder / "arrived" / f"persons-{year}.csv")


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def assert_form(one: Shell) -> None:
    """The page's form has a field with a type and a text for each parameter, and none for a key."""
    deployment = one.ask("deployments/name/spinewise%20release/example")
    fields = deployment["parameter_openapi_schema"]["properties"]
    stated = {"spec", "out", "data", "workers", "key_file", "scheduler", "scratch", "i_know"}
    stated |= {"period", "arrival"}
    assert set(fields) == stated
    assert all(shown["description"] for shown in fields.values())
    assert fields["workers"]["anyOf"][0] == {"minimum": 1, "type": "integer"}
    assert fields["spec"]["format"] == "path"
    assert deployment["enforce_parameter_schema"]
    assert set(deployment["tags"]) == {"spinewise", "release"}
    assert [one["schedule"]["timezone"] for one in deployment["schedules"]] == ["Europe/Vienna"]


def assert_one_at_a_time(one: Shell) -> None:
    """The queue of the release's directory lets one run through."""
    queues = one.ask("work_pools/spinewise/queues/filter", {})
    limits = {queue["name"]: queue["concurrency_limit"] for queue in queues}
    assert [limit for name, limit in limits.items() if name.startswith("directory ")] == [1]
    assert limits["audit"] == 1
