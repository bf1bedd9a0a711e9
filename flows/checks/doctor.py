"""What is missing or wrong on this machine, and how to fix it: the examinations of `spinewise doctor`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from geography.errors import SpinewiseError
from pipeline.errors import InputError
from pipeline.execution.settings import (
    CONFIG_VARIABLE,
    Settings,
    load_settings,
    memory_for_a_run,
    project_file,
    unknown_variables,
    user_file,
)
from pipeline.publishing.provenance import accepted_inputs
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec

if TYPE_CHECKING:
    from pipeline.privacy.ledger.dataset import DatasetState
    from pipeline.privacy.ledger.events import Exact


def undeclared_numbers(spec: Path, datasets: Mapping[str, DatasetState]) -> dict[str, list[Exact]]:
    """Dataset -> what a run of the spec would publish of it exactly, though the ledger does not allow it.

    Args:
        spec: names its datasets; its public inputs are read, its records are not.
        datasets: of the ledger.

    Raises:
        InputError: a public input cannot be read, or does not fit.
    """
    from pipeline.confidential.disclosures import exact_disclosures, inputs_from_records
    from pipeline.privacy.ledger.events import undeclared

    stated = load_spec(spec)
    public = open_listed(stated, stated.universes())
    asked: dict[str, list[Exact]] = {}
    for universe in public.universes:
        exact = exact_disclosures(universe, public.spine, public.inputs.of(BOUNDS)[universe.name])
        exact += inputs_from_records(universe, public.spine, accepted_inputs(public.spec))
        asked.setdefault(universe.dataset, []).extend(exact)
    found: dict[str, list[Exact]] = {}
    for name, exacts in asked.items():
        if name not in datasets:
            continue
        state = datasets[name]
        new = [exact for exact in sorted(exacts) if exact not in state.disclosed]
        refused = new if state.closed else undeclared(state.allowed, state.disclosed, new)
        if refused:
            found[name] = refused
    return found


State = Literal["well", "note", "wrong"]

#: Free space that the release of a state and its checkpoints take, in bytes.
ENOUGH_SPACE: Final = 2_000_000_000
#: Seconds that Prefect's server is given to answer.
_PATIENCE: Final = 5.0
#: Persons by which a solver may miss a known solution.
_TOLERANCE: Final = 1e-5


# -- small problems whose solution is known, one for each solver ------------------------------------------------------


def _by_cvxpy(solver: str, **settings: float) -> float:
    """The nearest point to (1, -2, 4) with coordinates from 0 that add up to 4 is (0.5, 0, 3.5)."""
    import cvxpy as cp

    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([1.0, -2.0, 4.0]))), [x >= 0, cp.sum(x) == 4])
    problem.solve(solver=solver, **settings)
    return float(np.abs(x.value - np.array([0.5, 0.0, 3.5])).max())


def _by_flow() -> float:
    """Two units from node 0 to node 2, of which the cheap route carries one: cost 1 + 5."""
    from ortools.graph.python import min_cost_flow

    network = min_cost_flow.SimpleMinCostFlow()
    for start, end, capacity, cost in ((0, 1, 1, 0), (1, 2, 1, 1), (0, 2, 5, 5)):
        network.add_arc_with_capacity_and_unit_cost(start, end, capacity, cost)
    for node, supply in ((0, 2), (1, 0), (2, -2)):
        network.set_node_supply(node, supply)
    network.solve()
    return abs(network.optimal_cost() - 6.0)


def _by_milp() -> float:
    """The maximum of x + y over whole numbers with 2x + 2y <= 5 is 2."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    solution = milp(
        np.array([-1.0, -1.0]),
        integrality=np.ones(2),
        bounds=Bounds(0, np.inf),
        constraints=LinearConstraint(np.array([[2.0, 2.0]]), -np.inf, 5.0),
    )
    return abs(float(solution.fun) + 2.0)


#: Name -> how far the solver is from the solution of a small problem.
SOLVERS: Final[dict[str, Callable[[], float]]] = {
    "SCS": partial(_by_cvxpy, "SCS", eps=1e-9),
    "Clarabel": partial(_by_cvxpy, "CLARABEL", max_threads=1),
    "minimum-cost flow": _by_flow,
    "HiGHS": _by_milp,
}


@dataclass(frozen=True)
class Examined:
    """The result of one examination.

    Attributes:
        what: its subject, in a word or two.
        state: "well"; "note", worth knowing but no obstacle; "wrong", a run would fail or give a wrong result.
        found: what there is.
        remedy: what to do about it; "" where nothing needs to be done.
    """

    what: str
    state: State
    found: str
    remedy: str = ""


def examine(
    spec: Path | None = None, begins: Callable[[str], None] = lambda _: None, **flags: object
) -> Iterator[Examined]:
    """Examine everything in turn; what cannot be examined is itself wrong.

    Args:
        spec: of the release that is to be run here; its records are not read.
        begins: told the subject of each examination before it begins, some of which take seconds.
        **flags: settings given with the command.
    """
    try:
        settings = load_settings(**flags)
    except SpinewiseError as error:
        yield Examined("settings", "wrong", str(error), "correct it where it is set")
        return
    yield _settings(settings)
    examinations: list[tuple[str, Callable[[], Iterator[Examined]]]] = [
        ("Python", _python),
        ("packages", _packages),
        ("solvers", _solvers),
        ("output", lambda: _output(settings.out)),
        ("ledger", lambda: _ledger(settings, spec)),
        ("Prefect", lambda: _prefect(settings)),
    ]
    if spec is not None:
        examinations.append(("spec", lambda: _spec(spec, settings)))
    for what, look in examinations:
        begins(what)
        try:
            yield from look()
        except SpinewiseError as error:
            yield Examined(what, "wrong", str(error), "correct it where the message says")
        except Exception as error:  # a broken library may raise anything, and that is what is examined
            yield Examined(
                what, "wrong", f"{type(error).__name__}: {error}", "reinstall Spinewise in an empty environment"
            )


def _settings(settings: Settings) -> Examined:
    files = [str(path) for path in (project_file(), user_file()) if path.is_file()]
    read = f"read from {', '.join(files)} and the environment" if files else "from the environment and by default"
    if unknown := unknown_variables():
        return Examined(
            "settings",
            "note",
            f"{', '.join(unknown)}: no such setting; it has no effect",
            f"known are {', '.join('SPINEWISE_' + name.upper() for name in type(settings).model_fields)} and "
            f"{CONFIG_VARIABLE}",
        )
    return Examined("settings", "well", read)


def _python() -> Iterator[Examined]:
    description = f"{sys.version.split()[0]} ({sys.executable})"
    required = metadata.metadata("spinewise")["Requires-Python"] or ">=3.11"
    if not SpecifierSet(required).contains(sys.version.split()[0].rstrip("+")):
        yield Examined("Python", "wrong", description, f"install a Python {required}")
    elif sys.maxsize < 2**32:
        yield Examined("Python", "wrong", f"{description}, 32-bit", "install a 64-bit Python")
    else:
        yield Examined("Python", "well", description)


def _packages() -> Iterator[Examined]:
    """Every required package is installed in an allowed version."""
    wrong, count = [], 0
    for text in metadata.requires("spinewise") or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        count += 1
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append((requirement, "is not installed"))
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append((requirement, f"is {version}, and {requirement.specifier} is needed"))
    for requirement, how in wrong:
        yield Examined(
            "packages", "wrong", f"{requirement.name} {how}", f"pip install '{requirement.name}{requirement.specifier}'"
        )
    if not wrong:
        yield Examined("packages", "well", f"{count} in versions that work together")


def _solvers() -> Iterator[Examined]:
    """Each solver solves a small problem whose solution is known."""
    broken = []
    for name, solve in SOLVERS.items():
        try:
            distance = solve()
        except Exception as error:  # a library that cannot be loaded is what is examined
            broken.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if distance > _TOLERANCE:
            broken.append(f"{name} is {distance:.2g} off")
    for text in broken:
        yield Examined("solvers", "wrong", text, "reinstall cvxpy, scs, clarabel, ortools and highspy")
    if not broken:
        yield Examined("solvers", "well", "SCS, Clarabel, minimum-cost flow and HiGHS solve small problems")


def _output(out: Path) -> Iterator[Examined]:
    """The folder of releases can be written to, closed to others, and has space."""
    existing = out.resolve()
    while not existing.exists():
        existing = existing.parent
    where = f"{out.resolve()}" + ("" if existing == out.resolve() else " (will be made)")
    if not existing.is_dir():
        yield Examined("output", "wrong", f"{existing} is a file", "name another folder: --out, SPINEWISE_OUT")
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".spinewise-doctor-", dir=existing) as folder:
            Path(folder, "written").write_bytes(b"x")
            Path(folder).chmod(0o700)
            mode = Path(folder).stat().st_mode & 0o777
    except OSError as error:
        yield Examined(
            "output", "wrong", f"{where}: cannot be written to ({error.strerror})",
            "give yourself access, or name another folder: --out, SPINEWISE_OUT",
        )  # fmt: skip
        return
    if mode != 0o700:
        yield Examined(
            "output", "wrong", f"{where}: the file system does not protect folders from others (mode {mode:04o})",
            "name a folder on a file system with permissions: --out, SPINEWISE_OUT",
        )  # fmt: skip
        return
    free = shutil.disk_usage(existing).free
    state: State = "well" if free >= ENOUGH_SPACE else "note"
    remedy = "" if state == "well" else "a large release takes more: make room, or name another folder"
    yield Examined("output", state, f"{where}: writable, {free / 1e9:.1f} GB free", remedy)


def _ledger(settings: Settings, spec: Path | None) -> Iterator[Examined]:
    """The ledger, if the spec needs one or there is one, is sound and has the spec's datasets."""
    from pipeline.privacy.ledger.ledger import Ledger, UndeclaredError
    from pipeline.spec.release_spec import load_spec

    needed = (
        []
        if spec is None
        else sorted({universe.dataset for universe in load_spec(spec).universes() if universe.dataset})
    )
    try:
        with Ledger.open(settings.ledger, state=settings.state) as ledger:
            place, problems, known = ledger.place, list(ledger.verify([])), ledger.datasets()
    except InputError as error:
        if needed:
            yield Examined("ledger", "wrong", str(error), f"spinewise ledger open {needed[0]}, or set SPINEWISE_LEDGER")
        else:
            yield Examined(
                "ledger", "note", "there is none", "only a spec that names a dataset needs one: spinewise ledger open"
            )
        return
    for problem in problems:
        yield Examined("ledger", "wrong", f"{place}: {problem}", "see docs/ledger.md; charge nothing to it until then")
    for name in needed:
        if name not in known:
            yield Examined("ledger", "wrong", f"{place} has no dataset {name!r}", f"spinewise ledger open {name}")
    if problems or any(name not in known for name in needed):
        return
    refused = undeclared_numbers(spec, known) if spec is not None and needed else {}
    for name, exact in refused.items():
        refusal, _, remedy = str(UndeclaredError(known[name], exact)).partition("; ")
        yield Examined("ledger", "wrong", f"{place}: {refusal}", remedy.partition("; refused")[0])
    if not refused:
        yield Examined("ledger", "well", f"{place}: sound, {len(known)} datasets")


def _prefect(settings: Settings) -> Iterator[Examined]:
    """The configured server answers with the same version, and a worker of the pool is online."""
    from flows.orchestration.probe import (
        ONE_WRITER,
        authorization,
        installed_version,
        may_keep_in_sqlite,
        open_to_others,
        server_url,
        workers_online,
    )

    url = server_url()
    if not url:
        yield Examined(
            "Prefect", "note", "no server is configured; each run starts one of its own and ends it",
            "for schedules: prefect server start, and PREFECT_API_URL=http://127.0.0.1:4200/api",
        )  # fmt: skip
        return
    try:
        request = urllib.request.Request(f"{url}/admin/version", headers=authorization())
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            version = answer.read().decode().strip().strip('"')
    except (OSError, ValueError) as error:
        yield Examined(
            "Prefect", "wrong", f"{url} does not answer ({error})",
            "start it: prefect server start; or correct PREFECT_API_URL",
        )  # fmt: skip
        return
    if version != installed_version():
        yield Examined(
            "Prefect", "wrong", f"{url} is version {version}, installed here is {installed_version()}",
            f"install the same version on both: pip install prefect=={version}",
        )  # fmt: skip
        return
    if exposed := open_to_others(url):
        yield Examined(
            "Prefect", "wrong", f"{exposed}, without a password",
            "PREFECT_SERVER_API_AUTH_STRING=name:password for the server, PREFECT_API_AUTH_STRING for workers and "
            "clients; or let it listen on this machine alone: prefect server start --host 127.0.0.1",
        )  # fmt: skip
    workers = workers_online(settings.work_pool)
    if workers is None:
        yield Examined(
            "Prefect", "note", f"{url} answers; there is no work pool {settings.work_pool!r}",
            "spinewise deploy creates it with the first deployment",
        )  # fmt: skip
    elif not workers:
        yield Examined(
            "Prefect", "note", f"{url} answers; no worker of the pool {settings.work_pool!r} is online",
            "spinewise worker",
        )  # fmt: skip
    elif workers > 1 and may_keep_in_sqlite():
        yield Examined("Prefect", "note", f"{url} answers, {workers} workers online", ONE_WRITER)
    else:
        yield Examined("Prefect", "well", f"{url} answers, {workers} workers online")


def _spec(spec: Path, settings: Settings) -> Iterator[Examined]:
    """The spec is valid, its files can be read, and its run fits into memory."""
    from pipeline.cost.memory import check_memory, fitting
    from pipeline.inputs.geography import read_spine
    from pipeline.runs.request import Request, check_request

    workers = settings.processes
    checked = check_request(Request(spec, settings.out, None, workers))
    for universe in checked.universes:
        path = universe.require_input().file
        if isinstance(path, Path) and not os.access(path, os.R_OK):
            yield Examined("records", "wrong", f"{path} cannot be read", "correct [input] in the spec, or give --data")
    spine = read_spine(checked.spec.geography)
    yield Examined("spec", "well", f"{checked.spec.name}: {spine.n_leaves:,} leaves, {spine.n_levels} levels")
    fit = fitting(checked.spec, spine, workers, memory_for_a_run(settings))
    if fit.fits:
        yield Examined("memory", "well", fit.summary)
        return
    try:
        check_memory(checked.spec, fit)
    except InputError as error:
        refusal, _, remedy = str(error).partition("; what helps: ")
        yield Examined("memory", "wrong", refusal, remedy)
