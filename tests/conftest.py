"""Fixtures shared by all tests."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import absl.logging
import pytest
from hypothesis import HealthCheck, settings
from oracles.how_many import OF_A_VERSION
from releases.command import forks
from releases.forked import Births
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from pipeline.execution.threads import limit_threads
from pipeline.privacy.keys import MasterKey

# As in the commands, before numpy is loaded: workers whose small matrices have two threads each wait for one another.
limit_threads()

# Whoever starts the tests in the background of a script, without control of jobs, has Ctrl-C ignored by all that they
# start: a run would rightly not end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Rich and Typer ask who starts the tests how wide a page is, and whether it has colours: here as where nobody looks.
os.environ |= {"COLUMNS": "80", "LINES": "24"}
for told in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(told, None)

# Examples are the same in every run of the tests, and others in those of a version; none has to be quick.
settings.register_profile(
    "spinewise",
    deadline=None,
    derandomize=not OF_A_VERSION,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("spinewise")

#: Releases that several folders look at.
pytest_plugins = ["releases.fixtures"]

# absl, which dp_accounting brings, keeps the stream that is stderr when it is imported: here the one of pytest.
# Told to end (Prefect and Dask tell all handlers as they set up their logs), it closes any that is not stderr then, as
# pytest's is not while a command's output is redirected.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

PROJECT = Path(__file__).resolve().parent.parent


#: Modules that take long, most by their slow tests: they begin first, so that none is worked on alone at the end.
LONG = (
    "tests/system/test_operations.py", "tests/project/test_docs_run.py", "tests/features/test_taken_away.py",
    "tests/flows/orchestration/test_worker.py", "tests/features/audit/test_installed.py",
    "tests/project/test_wheel.py", "tests/system/test_faults.py", "tests/pipeline/privacy/ledger/test_machine.py",
    "tests/system/test_imports.py", "tests/flows/orchestration/test_deployments.py",
    "tests/system/test_changed_files.py", "tests/system/test_path.py", "tests/system/test_rhode_island.py",
    "tests/project/test_planted.py", "tests/features/audit/test_samplers.py",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long modules first."""
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONG)))


class _ModulesOrCases(LoadScopeScheduling):
    """A worker takes a whole module, whose releases it makes once; of one of the matrix a case, by names of tests."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False  # by how many tests a module has, whatever they take
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        case = test.partition("[")[2].rstrip("]").partition(":")[0] if module.startswith("tests/matrix/") else ""
        return f"{module} {case}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """What each worker is given to do."""
    return _ModulesOrCases(config, log)


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """High-water marks of ledgers are kept in a folder of the tests, not in the user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPINEWISE_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def births() -> Iterator[Births]:
    """Processes that runs start are born of one that has loaded the program; see `started`."""
    born = Births(lambda: forks().nursery(), os.environ)
    born.begin()
    yield born
    born.end()


@pytest.fixture(scope="module")
def started(births: Births) -> Iterator[None]:
    """In this module each process is started by its interpreter, as outside of the tests."""
    births.end()
    yield
    births.begin()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real census data beside the project; the test is skipped where it is absent."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real census data (../shared/data) is not beside the project")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _keys_of_the_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keys that are drawn in this process are the same in every run of a module's tests, and so is their noise."""
    place, drawn = request.node.nodeid, itertools.count()

    def generate(cls: type[MasterKey]) -> MasterKey:
        return cls(hashlib.sha256(f"{place} {next(drawn)}".encode()).digest())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MasterKey, "generate", classmethod(generate))
        yield


@pytest.fixture(scope="module", autouse=True)
def _settings_end_with_the_module() -> Iterator[None]:
    """A command that is called in this process sets variables for the processes that it starts."""
    before = {name: value for name, value in os.environ.items() if name.startswith("SPINEWISE_")}
    yield
    for name in [name for name in os.environ if name.startswith("SPINEWISE_")]:
        if name not in before:
            del os.environ[name]
    os.environ.update(before)
