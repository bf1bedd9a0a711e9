"""Records and key are in the measuring process alone: the memory of what estimates is searched for them."""

from __future__ import annotations

import errno
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from releases.command import PROJECT, environment
from releases.small import QUICK, request_of, run, write_town

from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import ASKED, MeasuringProcess, RecordHolder
from pipeline.confidential.refusals import described, restored
from pipeline.errors import BudgetRefusedError, InputError, MemoryShortError, RecordsError, RefusedError, SpinewiseError
from pipeline.execution.steps import Silent, Step, perform_here
from pipeline.execution.workers import WorkerError
from pipeline.model.memory_table import MemoryTable
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import LedgerError
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import CheckedRequest
from pipeline.runs.run import holder_here, release_run, run_release
from pipeline.runs.run_here import measuring_process

#: Serves one question, and says whether this process may be dumped (PR_GET_DUMPABLE), and how large a core may be.
SERVING = """
import ctypes, resource
from multiprocessing import Pipe
from pipeline.confidential.process import _serve
here, there = Pipe()
here.send(("identity", ()))
here.close()
prctl = ctypes.CDLL(None).prctl
before = prctl(3, 0, 0, 0, 0)
try:
    _serve(there, None, None, None, "insecure-test:1")
except OSError:
    pass
print(before, prctl(3, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE))
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is searched through /proc"),
    pytest.mark.usefixtures("started"),
]

#: Stands in every row of the records, in a column that nothing uses, so that whoever reads the file has seen it.
MARK = "nobody-else-writes-this-7f3a"

#: Runs a release as the argument says, and searches its own memory when the first estimate begins.
SEARCHING = """
import ctypes
import mmap
import sys
from pathlib import Path
from pipeline.confidential.custody import KeySource
from pipeline.execution.steps import Silent
from pipeline.runs.run import holder_here
from pipeline.runs.run_here import measuring_process
from pipeline.runs.rerun import universes_to_rerun
from pipeline.runs.request import Request, check_request, check_stated
from pipeline.runs.rerun import rerun_process, rerun_release
from pipeline.runs.run import run_release
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec
from spinewise.frames import records_of
import pandas as pd

spec, out, key, how = sys.argv[1:]

def text_of(name):  # never whole in the memory of this program before: it is written backwards, each byte one more
    written = Path(f"{name}-backwards").read_bytes()
    text = bytearray(len(written))
    for i, byte in enumerate(written):
        text[-1 - i] = (byte - 1) % 256
    return text

WINDOW, LONGEST = 1 << 24, 64
window = mmap.mmap(-1, WINDOW + LONGEST)  # what is read goes here, and nowhere else

def found(wanted):
    count = 0
    own = ctypes.addressof(ctypes.c_char.from_buffer(window))
    maps = open("/proc/self/maps").read().splitlines()
    with open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            place, mode = line.split()[:2]
            start, end = (int(number, 16) for number in place.split("-"))
            if not mode.startswith("rw") or start <= own < end:
                continue
            for begin in range(start, end, WINDOW):
                length = min(WINDOW + len(wanted) - 1, end - begin)
                try:
                    memory.seek(begin)
                    got = memory.readinto(memoryview(window)[:length])
                except (OSError, ValueError, OverflowError):
                    break
                at = window.find(wanted, 0, got)
                while at >= 0:
                    count += 1
                    at = window.find(wanted, at + 1, got)
    return count

class Searching(Silent):
    done = False
    def start(self, step):
        if step.stage == "estimate" and not self.done:
            self.done = True
            # What is searched for is in memory itself; how often, shows a text that nobody else has.
            for name in ("records", "key"):
                print(name, found(text_of(name)) - found(text_of("nobody")))

request = Request(Path(spec), Path(out), None, 1, KeySource(Path(key)))
checked = check_request(request)
if how == "here":
    run_release(checked, Searching(), measured=holder_here(checked))
elif how == "apart":
    with measuring_process(checked) as measured:
        run_release(checked, Searching(), measured=measured)
elif how == "table":
    table = pd.read_csv(Path(spec).parent / "persons.csv", dtype=str)
    held = check_stated(request, load_spec(request.spec), records_of(table))
    with measuring_process(held) as measured:
        run_release(held, Searching(), measured=measured)
else:
    run = RunDirectory(Path(out) / "town")
    universes = universes_to_rerun(run, None, None)
    with rerun_process(run, request.key) as measured:
        print("same", int(rerun_release(run, universes, measured, 1, Searching()).same))
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = write_town(tmp_path / "town", *QUICK)
    path.write_text(path.read_text().replace('key = "insecure-test:1"\n', ""))
    return path


def prepare(spec: Path) -> None:
    """Mark the records, make a key, and write what is to be searched for."""
    folder = spec.parent
    persons = folder / "persons.csv"
    rows = persons.read_text().splitlines()
    persons.write_text("\n".join([f"{rows[0]},note", *(f"{row},{MARK}" for row in rows[1:])]) + "\n")
    MasterKey.generate().write(folder / "key")
    secret = bytes.fromhex((folder / "key").read_text().split()[1])
    for name, text in (("records", MARK.encode()), ("key", secret), ("nobody", secrets.token_bytes(len(secret)))):
        (folder / f"{name}-backwards").write_bytes(bytes((byte + 1) % 256 for byte in reversed(text)))


def search(spec: Path, how: str) -> dict[str, int]:
    """What a process that does `how` tells of its memory."""
    folder = spec.parent
    command = [sys.executable, "-c", SEARCHING, str(spec), str(folder / "out"), str(folder / "key"), how]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return {name: int(count) for name, count in (line.split() for line in done.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize(("how", "there"), [("apart", set()), ("table", {"records"}), ("here", {"records", "key"})])
def test_the_memory_of_what_estimates_has_neither_records_nor_key(spec: Path, how: str, there: set[str]) -> None:
    """Who has the records in memory has no key; and the search finds both where they are."""
    prepare(spec)
    assert {name for name, times in search(spec, how).items() if times} == there


@pytest.mark.slow
def test_nor_where_the_records_are_a_parquet_file(spec: Path) -> None:
    """Its footer holds the least and the greatest value of each column; who looks at the columns' names has these."""
    prepare(spec)
    pa.parquet.write_table(pa.csv.read_csv(spec.parent / "persons.csv"), spec.parent / "persons.parquet")
    assert MARK.encode() in (spec.parent / "persons.parquet").read_bytes()[-4096:]
    spec.write_text(spec.read_text().replace("persons.csv", "persons.parquet"))
    assert search(spec, "apart") == {"records": 0, "key": 0}


@pytest.mark.slow
def test_nor_has_that_of_a_rerun(spec: Path) -> None:
    prepare(spec)
    run(spec, spec.parent / "out", key_file=spec.parent / "key")
    assert search(spec, "again") == {"records": 0, "key": 0, "same": 1}


def spawned() -> list[psutil.Process]:
    """The processes that the run in this one has started; the tests have others, which are not the run's."""
    return [child for child in psutil.Process().children() if "spawn_main" in str(child.cmdline())]


@pytest.mark.slow
def test_it_ends_when_all_is_measured(spec: Path, tmp_path: Path) -> None:
    """No process that has seen the records is there when the first estimate begins; the one that compares waits."""
    working: dict[str, set[int]] = {}

    class Looking(Silent):
        def start(self, step: Step) -> None:
            began = time.monotonic()
            while not (found := {process.pid for process in spawned()}) and time.monotonic() < began + 5:
                time.sleep(0.01)  # one that was started just now is not called what it will be yet
            working.setdefault(step.stage, found)

    checked = request_of(spec, tmp_path / "out")
    with measuring_process(checked) as measured:
        assert isinstance(measured, MeasuringProcess)
        measuring = measured._process.pid
        run_release(checked, Looking(), measured=measured)
    assert working["tabulate"] == working["measure"] == {measuring}
    assert measuring not in working["combine"]
    assert len(working["combine"]) == 1
    assert working["report"] == working["accuracy"] == working["combine"]
    assert spawned() == []


#: What no process that sees records has a use for: what reaches others, an engine, the second program; frames.
_STRANGERS = {"auditor", "dask", "flows", "http.client", "pandas", "prefect", "requests", "urllib.request"}
#: What measuring has no use for, beside: solvers; and settings and ledger, which a charge alone loads.
_NEEDLESS = {"asyncio", "cvxpy", "ortools", "pydantic_settings", "sqlalchemy"}
_NEEDLESS |= {"scipy.linalg", "scipy.optimize", "scipy.special"}


#: What features let see the records with it.
_OF_FEATURES = re.findall(r"features\.\w+\.confidential\b", (PROJECT / "features/confidential_registry.py").read_text())


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        (["pipeline.confidential.process"], _STRANGERS | _NEEDLESS),
        pytest.param(_OF_FEATURES, _STRANGERS | (_NEEDLESS - {"scipy.linalg"}), marks=pytest.mark.slow),
    ],
)
def test_what_it_imports_reaches_nobody_and_solves_nothing(modules: list[str], without: set[str]) -> None:
    """Nor do parts of features reach anybody, of those that are installed."""
    names = [name for name in modules if (PROJECT / f"{name.replace('.', '/')}.py").exists()]
    program = f"import {', '.join(names)}, sys; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = {*subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout.split()}
    assert {*names} <= loaded
    assert without & loaded == set()


def test_a_key_comes_by_descriptor(tmp_path: Path) -> None:
    key = MasterKey.generate()
    key.write(tmp_path / "key")
    descriptor = os.open(tmp_path / "key", os.O_RDONLY)
    with MeasuringProcess(KeySource(descriptor=descriptor), None) as process:
        assert process.identity() == key.commitment()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_that_may_pass(spec: Path, tmp_path: Path) -> None:
    class Killing(Silent):
        def start(self, step: Step) -> None:
            if step.stage == "measure":
                for child in spawned():
                    child.kill()

    checked = request_of(spec, tmp_path / "out")
    with measuring_process(checked) as measured, pytest.raises(WorkerError, match="run the same again"):
        run_release(checked, Killing(), measured=measured)
    assert not RunDirectory(tmp_path / "out" / "town").manifest.exists()
    with measuring_process(checked) as measured:
        resumed = run_release(checked, Silent(), measured=measured)
    assert RunDirectory(resumed).manifest.exists()


@pytest.mark.slow
def test_it_ends_with_the_run() -> None:
    program = (
        "import sys, time\nfrom pipeline.confidential.custody import KeySource\n"
        "from pipeline.confidential.process import MeasuringProcess\n"
        "process = MeasuringProcess(KeySource(), None); process.identity()\n"
        "print(process._process.pid, flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    number = int(starter.stdout.readline())
    starter.kill()
    starter.communicate()
    limit = time.monotonic() + 60
    while psutil.pid_exists(number) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE


def with_table(checked: CheckedRequest, table: MemoryTable) -> CheckedRequest:
    """The request with the table as the records of the release's own universe."""
    own = checked.universes[0]
    held = replace(own, input=replace(own.require_input(), file=table))
    return replace(checked, universes=(held, *checked.universes[1:]))


def test_what_is_wrong_with_a_table_stays_between_the_two(spec: Path, tmp_path: Path) -> None:
    def read(names: Sequence[str]) -> pa.Table:
        raise RecordsError(f"records, column {names[0]!r}: found 90210417 and 'x'")

    place = MemoryTable("records", "records", ("block", "age", "sex", "quarters"), read)
    checked = with_table(request_of(spec, tmp_path / "out"), place)
    with measuring_process(checked) as measured, pytest.raises(RefusedError) as refused:
        run_release(checked, Silent(), measured=measured)
    assert "90210417" not in str(refused.value)
    assert "found 90210417 and 'x'" in refused.value.reason()


@pytest.mark.parametrize(
    ("error", "kind", "text", "status"),
    [
        (InputError("a.csv: found 1"), InputError, "a.csv: found 1", 2),
        (BudgetRefusedError("nothing is left"), BudgetRefusedError, "nothing is left", 3),
        (LedgerError("is damaged"), LedgerError, "is damaged", 1),
        (MemoryShortError("x"), SpinewiseError, "x: not enough memory", 1),
    ],
)
def test_errors_cross(error: SpinewiseError, kind: type[SpinewiseError], text: str, status: int) -> None:
    back = restored(described(error, None, "charge"))
    assert type(back) is kind
    assert isinstance(back, SpinewiseError)
    assert str(back).startswith(text)
    assert back.exit_status == status


def test_a_defect_says_nothing() -> None:
    back = restored(described(ValueError("a true count: 17"), None, "check"))
    assert str(back) == "check: ValueError, a defect of the program"


def test_a_full_disk_crosses_as_what_it_is() -> None:
    back = restored(described(OSError(errno.ENOSPC, "No space left", "/full"), None, "measure"))
    assert isinstance(back, OSError)
    assert (back.errno, back.strerror, back.filename) == (errno.ENOSPC, "No space left", "/full")


def test_nothing_else_of_it_can_be_asked() -> None:
    """What it has by any other name: the key of a release, its own attributes."""
    with MeasuringProcess(KeySource(), "insecure-test:1") as process:
        for name in ("_key_of", "__class__", "begin_comparing", "_keyholder"):
            with pytest.raises(SpinewiseError, match="ValueError, a defect of the program"):
                process.ask(name)
        assert process.identity()


def test_what_it_can_be_asked_is_asked_of_it() -> None:
    """Each method that sees records, key or ledger is on the list, and none of them is done where the run is."""
    public = {name for name in vars(RecordHolder) if not name.startswith("_")}
    assert public == {*ASKED, "begin_comparing"}
    assert public <= vars(MeasuringProcess).keys()
    with MeasuringProcess(KeySource(), "insecure-test:1") as process:
        assert not {"_keyholder", "_steps"} & vars(process).keys()


def test_nothing_is_drawn_before_it_is_charged(spec: Path, tmp_path: Path) -> None:
    checked = request_of(spec, tmp_path / "out")
    with release_run(checked, Silent(), perform_here, holder_here(checked)) as going:
        for step in going.source.counting():
            step.perform()
        draw = next(step for step in going.source.drawing() if step.stage == "measure")
        with pytest.raises(ValueError, match="nothing is drawn that was not charged"):
            draw.perform()
        for step in (*going.source.charging(), draw):
            step.perform()


def test_its_memory_is_not_dumped_and_not_read_by_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVING], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "0", "0", "0"]


def test_the_process_that_runs_may_write_no_core() -> None:
    with MeasuringProcess(KeySource(), "insecure-test:1") as process:
        process.identity()
        limits = Path(f"/proc/{process._process.pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert line.split()[-3:-1] == ["0", "0"]
