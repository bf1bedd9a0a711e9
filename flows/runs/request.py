"""A user's request for a run, and the checks of it that are made before anything is read or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from flows.runs.beacons import check_beacon
from flows.runs.given_records import require_given, with_given
from flows.settings import load_settings, where_set
from pipeline.errors import InputError
from pipeline.model.memory_table import Source
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.tables import check_labels
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from pipeline.witness.beacon import Beacon

EngineName = Literal["local", "dask"]
ENGINES: tuple[str, ...] = get_args(EngineName)


@dataclass(frozen=True)
class Engine:
    """What works on the parts of a large spine; the release does not depend on it.

    Attributes:
        name: "local", or "dask".
        scheduler: address of the Dask scheduler.
        scratch: folder, path or fsspec address, that this process and all Dask workers can reach; the run's own
            directory by default.
    """

    name: str = "local"
    scheduler: str | None = None
    scratch: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise InputError(f"--engine: found {self.name!r}; allowed are {' and '.join(ENGINES)}")
        if self.name == "dask" and self.scheduler is None:
            raise InputError("--engine dask needs --scheduler ADDRESS, such as tcp://10.0.0.5:8786")
        if self.name != "dask" and (self.scheduler or self.scratch):
            raise InputError("--scheduler and --scratch are for --engine dask")


@dataclass(frozen=True)
class Request:
    """A release to be run.

    Attributes:
        spec: the spec file.
        out: the folder in which the release's directory is made.
        data: records instead of the spec's: a file for the release's own, or a folder with files of the same names.
        workers: number of processes.
        key_file: of the master key; None if the run keeps its own.
        key: the master key itself, where the operator supplies it in another way.
        engine: what works on the parts of a large spine.
        beacon: the round that the spec names, once it is published.
    """

    spec: Path
    out: Path
    data: Path | None
    workers: int
    key_file: Path | None
    key: MasterKey | None = field(default=None, repr=False)
    engine: Engine = Engine()
    beacon: Beacon | None = None


@dataclass(frozen=True, eq=False)
class CheckedRequest:
    """A request whose spec has been read and is valid.

    Attributes:
        universes: with the records that the request names.
    """

    request: Request
    spec: ReleaseSpec
    universes: tuple[Universe, ...]

    @property
    def run(self) -> RunDirectory:
        """The directory of the release."""
        return RunDirectory(self.request.out / self.spec.name)


def check_request(request: Request) -> CheckedRequest:
    """Read the spec and check everything that can be checked without the records and without writing anything.

    Raises:
        InputError: something is wrong; the message names the place, what was found and what is allowed.
    """
    return check_stated(request, load_spec(request.spec))


def check_stated(request: Request, spec: ReleaseSpec, records: Mapping[str, Source] | None = None) -> CheckedRequest:
    """Check a request with a spec that was read before, or was never in a file; `request.spec` is not used.

    Args:
        request: what the user asks for.
        spec: its spec.
        records: records of some universes, supplied by the caller; see `with_given`.
    """
    universes = with_given(with_data(spec.universes(), request.data), records or {})
    require_given(universes, "missing; give records=..., or name the file in the spec's [input]")
    for universe in universes:
        universe.require_input()
        for check in universe_checks(universe):
            check()
    check_beacon(spec, request.beacon)
    check_datasets(universes, insecure_key=spec.privacy.key is not None)
    if spec.privacy.key is None and not universes[0].dataset and load_settings().require_ledger:
        raise InputError(
            f"{spec.source}: privacy.dataset: missing; a run that is not charged to a dataset's budget is refused here "
            f"({where_set('require_ledger')})"
        )
    if request.key is not None or request.key_file is not None:
        if spec.privacy.key is not None:
            second_key = "a key on the command line" if request.key_file is None else f"--key-file {request.key_file}"
            raise InputError(
                f"{spec.source}: privacy.key: found {spec.privacy.key!r} and {second_key}; one key is allowed, remove "
                "one of the two"
            )
        given_key(request)
    elif spec.privacy.key is not None:
        MasterKey.from_text(spec.privacy.key)
    return CheckedRequest(request, spec, universes)


def universe_checks(universe: Universe) -> list[Callable[[], object]]:
    """The checks of a universe that can be made before any file is read.

    Each raises InputError if it fails: there is no noise for the budget, or two columns of a table would have the same
    name.
    """
    tables = [partial(check_labels, table.name, table.query.answer_labels()) for table in universe.tables]
    return [partial(privacy_statement, universe), *tables]


def check_datasets(universes: Sequence[Universe], *, insecure_key: bool) -> None:
    """Check everything about the charge that can be checked before anything is read.

    Raises:
        InputError: some universes name a dataset and others do not, or a test key would be charged.
    """
    named = [universe for universe in universes if universe.dataset]
    if not named:
        return
    for universe in universes:
        if not universe.dataset:
            where = universe.key("privacy.dataset")
            raise InputError(f"{where}: missing; either every histogram of a run names its dataset, or none does")
    if insecure_key:
        raise InputError(
            f"privacy.dataset: found {named[0].dataset!r} with an insecure-test key; a run with a test key is "
            "not a release and cannot be charged to a ledger: remove one of the two"
        )


def check_ledger_is_used(universes: Sequence[Universe], *, asked_for: bool) -> str:
    """A warning about a ledger that is named for a run which would not be charged to it; "" if it would be.

    Args:
        universes: of the release.
        asked_for: the ledger was named for this run, not for all runs.

    Raises:
        InputError: it was named for this run, and the spec names no dataset.
    """
    if any(universe.dataset for universe in universes):
        return ""
    reason = "the spec names no dataset (privacy.dataset), so nothing is charged"
    if asked_for:
        raise InputError(f"--ledger: {reason}; name a dataset in the spec, or leave --ledger out")
    return f"SPINEWISE_LEDGER is set, but {reason}"


def with_data(universes: Sequence[Universe], data: Path | None) -> tuple[Universe, ...]:
    """The universes with the records that `--data` names.

    Raises:
        InputError: `data` does not exist, or is a folder without the files that the spec names.
    """
    if data is None:
        return tuple(universes)
    if not data.exists():
        raise InputError(f"--data {data}: no such file or folder")
    changed = []
    for universe in universes:
        records = universe.require_input()
        if data.is_dir():
            path: Source = data / records.file.name
            if not (data / records.file.name).is_file():
                raise InputError(f"--data {data}: the folder has no file {records.file.name}, which the spec names")
        else:
            path = records.file if universe.name else data
        file = path.resolve() if isinstance(path, Path) else path
        changed.append(replace(universe, input=replace(records, file=file)))
    return tuple(changed)


def given_key(request: Request) -> MasterKey | None:
    """The key that the operator supplies; None if the run is to have its own. InputError if it cannot be read."""
    if request.key is not None or request.key_file is None:
        return request.key
    return MasterKey.read(request.key_file)


def master_key(checked: CheckedRequest, run: RunDirectory) -> MasterKey:
    """The key of the run: the operator's, the spec's test key, or the run's own, which is drawn if there is none yet.

    Raises:
        InputError: a key cannot be read or written, or the run's own was destroyed.
    """
    handed_in = given_key(checked.request)
    if handed_in is not None:
        return handed_in
    if run.key.exists():
        return MasterKey.read(run.key)
    if run.key_destroyed.exists():
        raise InputError(f"{run.root}: the key of this run was destroyed; the run cannot be repeated, only verified")
    text = checked.spec.privacy.key
    key = MasterKey.generate() if text is None else MasterKey.from_text(text)
    key.write(run.key)
    return key


def key_identity(checked: CheckedRequest) -> str:
    """What is public about the key's origin; a different key makes a different run."""
    handed_in = given_key(checked.request)
    if handed_in is not None:
        return handed_in.commitment()
    text = checked.spec.privacy.key
    return "the run's own" if text is None else MasterKey.from_text(text).commitment()
