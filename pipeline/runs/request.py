"""A user's request for a run, and the checks of it that are made before anything is read or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pipeline.confidential.custody import KeySource
from pipeline.cost.limits import check_possible
from pipeline.errors import InputError, SpecError
from pipeline.execution.settings import load_settings, where_set
from pipeline.model.link import tables_of
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.record_source import UNPROVED
from pipeline.model.universe import Universe, promised
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.limits import beyond_limits
from pipeline.publishing.promises import check_statements
from pipeline.publishing.provenance import check_accepted, check_inputs
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.added import promises
from pipeline.release.draws import check_drawn_labels
from pipeline.release.layout import RunDirectory
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.tables import check_labels, long_terms
from pipeline.runs.answers import answer_problems
from pipeline.spec.input_section import read_expectation
from pipeline.spec.periods import at_period
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import is_file


def check_chosen(spec: ReleaseSpec, release: Universe) -> None:
    """Verify the answers that upper ends are from; a published spec has only their names, and they were verified.

    Args:
        spec: with the companions.
        release: its own universe, with which its companions of amounts share the records.

    Raises:
        SpecError: an answer does not verify, was changed since the spec was read, or has another promise.
        ReleaseError: its manifest cannot be read.
    """
    for name, chosen in spec.chosen_ends.items():
        if not chosen.answer.is_absolute():
            continue
        run = RunDirectory(chosen.answer)
        manifest = read_answer(run)
        problems = answer_problems(run.public, manifest)
        if sha256_file(run.public / "answer.json") != chosen.sha256:
            problems.append("answer.json: was changed since the spec was read")
        if problems:
            raise SpecError(
                f"{spec.source}: companions.{name}.between: the answer {chosen.answer} does not verify: {problems[0]}"
            )
        for what, (own, theirs) in promises(manifest, release).items():
            if own != theirs:
                raise SpecError(
                    f"{spec.source}: companions.{name}.between: the answer {chosen.answer} has another promise: "
                    f"{what}: found {own}, and {theirs} of the release; ask for the clip with the release's own "
                    "[privacy]"
                )


def with_given(universes: Sequence[Universe], records: Mapping[str, Source]) -> tuple[Universe, ...]:
    """The universes with the records that were supplied for them.

    Args:
        universes: of the release.
        records: universe ("" for the release's own) -> its records; universes without an entry stay as they are, and
            amounts, and counts of what is clipped, are of the release's own records.

    Raises:
        InputError: no universe has the name, or the spec does not say how the records are read.
    """
    names = [universe.name for universe in universes if not universe.own_records]
    if unknown := [name for name in records if name not in names]:
        raise InputError(
            f'records: {unknown[0]!r} is no companion; allowed are "" for the release\'s own records'
            f"{''.join(f', {name!r}' for name in names if name)}"
        )
    changed = []
    for universe in universes:
        source = records.get("" if universe.own_records else universe.name)
        if source is not None:
            stated = universe.require_input()
            universe = replace(universe, input=replace(stated, file=source))
        changed.append(universe)
    return tuple(changed)


def require_given(universes: Sequence[Universe], why: str) -> None:
    """Raises InputError, with the reason `why`, where a universe expects a table in memory and none was supplied."""
    for universe in promised(universes):
        source = universe.require_input().file
        if isinstance(source, MemoryTable) and not source.given:
            raise InputError(f"{source}: {why}")


@dataclass(frozen=True)
class Engine:
    """What works on the parts of a large spine; the release does not depend on it.

    Attributes:
        scheduler: address of the Dask scheduler; None for this machine.
        scratch: folder, path or fsspec address, that this process and all Dask workers can reach; the run's own
            directory by default.
    """

    scheduler: str | None = None
    scratch: str | None = None

    def __post_init__(self) -> None:
        if self.scratch is not None and self.scheduler is None:
            raise InputError("--scratch is for a Dask cluster: give --scheduler, too")


@dataclass(frozen=True)
class Request:
    """A release to be run.

    Attributes:
        spec: the spec file.
        out: the folder in which the release's directory is made.
        data: records instead of the spec's: a file for the release's own, or a folder with files of the same names.
        workers: number of processes.
        key: where the master key is; nowhere if the run is to have its own.
        engine: what works on the parts of a large spine.
        i_know: run although something is beyond `pipeline.privacy.limits`.
        period: of a series, which one is released; None of a release that is alone.
    """

    spec: Path
    out: Path
    data: Path | None
    workers: int
    key: KeySource = field(default_factory=KeySource)
    engine: Engine = Engine()
    i_know: bool = False
    period: str | None = None


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
    spec = at_period(spec, request.period, request.out)
    universes = with_given(with_data(spec.universes(), request.data), records or {})
    require_given(universes, "missing; give records=..., or name the file in the spec's [input]")
    for check in stated_checks(spec, universes, key=request.key, i_know=request.i_know):
        check()
    if request.engine.scheduler is not None and any(universe.strategy.where_positive for universe in universes):
        raise InputError(
            f'{spec.source}: strategy: where = "parent positive": what is drawn at a level follows from the level '
            "above, so that parts of the spine cannot be worked on elsewhere; run it without --scheduler"
        )
    return CheckedRequest(request, spec, universes)


def stated_checks(
    spec: ReleaseSpec,
    universes: Sequence[Universe],
    *,
    key: KeySource | None = None,
    i_know: bool = False,
) -> list[Callable[[], object]]:
    """All that is checked of a spec before a file is read: a run stops at the first that fails, `validate` tells all.

    Each raises InputError if it fails, with a message that begins with the spec's source.

    Args:
        spec: that is to be run.
        universes: of the spec, with the records that the request names.
        key: that the request names beside the spec.
        i_know: what is beyond the usual limits is meant.
    """
    checks: list[Callable[[], object]] = []
    counted = promised(universes)
    for universe in universes:
        checks += [universe.require_input, partial(check_proved, universe)] if universe in counted else []
        checks += universe_checks(spec, universe)
    checks.append(partial(check_statements, spec, universes))
    checks += [
        partial(check_inputs, spec),
        partial(check_accepted, spec),
        partial(check_chosen, spec, universes[0]),
        partial(check_datasets, universes, insecure_key=spec.privacy.key is not None),
    ]
    if spec.privacy.key is not None:
        checks += [partial(check_one_key, spec.privacy.key, key), partial(MasterKey.from_text, spec.privacy.key)]
    else:
        checks += [] if i_know else [partial(check_limits, spec.universes(), spec.source)]
        checks += [partial(check_is_charged, spec)] if counted else []
    return [partial(_placed, spec.source, check) for check in checks]


def _placed(source: str, check: Callable[[], object]) -> object:
    """Perform a check; its message begins with where the spec is from."""
    try:
        return check()
    except InputError as error:
        lines = str(error).splitlines() or [""]
        if all(line.startswith((f"{source}: ", " ")) for line in lines):
            raise
        begun = (line if line.startswith((f"{source}: ", " ")) else f"{source}: {line}" for line in lines)
        raise type(error)("\n".join(begun)) from None


def universe_checks(spec: ReleaseSpec, universe: Universe) -> list[Callable[[], object]]:
    """The checks of a universe of a spec that can be made before any file is read.

    Each raises InputError if it fails: there are more cells than can be solved, there is no noise for the budget, two
    columns of a table would have the same name, or a link says of records what no bound can state.
    """
    tables: list[Callable[[], object]] = [
        partial(check_labels, f"tables.{table.name}", table.query.answer_labels()) for table in universe.tables
    ]
    tables += [partial(long_terms, table.name, table.query) for table in universe.tables]
    links = [] if universe.name else [link for one in spec.stated_links() for link in one.links(one.universes)]
    tables += [partial(check_labels, f"tables.{table.name}", table.labels) for table in tables_of(links)]
    if spec.publish.draws:
        tables += [partial(check_drawn_labels, table.name, table.query.answer_labels()) for table in universe.tables]
    checks: list[Callable[[], object]] = [
        partial(check_possible, spec, universe),
        *(partial(privacy_statement, one) for one in promised([universe])),
        *tables,
    ]
    checks += [check for link in links for check in link.checks()]
    return [partial(_placed, spec.source, check) for check in checks]


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


def check_one_key(stated: str, given: KeySource | None) -> None:
    """Raises InputError where a spec with a test key is run with another."""
    if given not in (None, KeySource()):
        raise InputError(f"privacy.key: found {stated!r} and {given}; one key is allowed, remove one of the two")


def check_is_charged(spec: ReleaseSpec) -> None:
    """Raises InputError for a run that no ledger counts, where the settings want one that does."""
    if spec.privacy.dataset is None and load_settings().require_ledger:
        raise InputError(
            "privacy.dataset: missing; a run that is not charged to a dataset's budget is refused here "
            f"({where_set('require_ledger')})"
        )


def check_limits(universes: Sequence[Universe], source: str) -> None:
    """Refuse what is beyond `pipeline.privacy.limits`; a run with a test key can never be official and is not checked.

    Raises:
        SpecError: a line for each.
    """
    if found := beyond_limits(universes):
        lines = [f"{source}: {one}; if it is meant, run with --i-know (in Python: i_know=True)" for one in found]
        raise SpecError("\n".join(lines))


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


def check_proved(universe: Universe) -> None:
    """InputError where the records of an imported table still have to be proved to be all there."""
    if universe.input is not None and universe.input.expect == UNPROVED:
        raise InputError(
            f"{universe.key('input.expect')}: unproved; say how many records and areas the file is known to hold: "
            "expect = { records = N, areas = M }"
        )


def with_data(universes: Sequence[Universe], data: Path | None) -> tuple[Universe, ...]:
    """The universes with the records that `--data` names.

    Where the spec says what its own records are known to hold, a file FILE.expect.toml beside these says it of them.

    Raises:
        InputError: `data` does not exist, or is a folder without the files that the spec names; or it is not said how
            many records and areas they hold.
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
            if not is_file(data / records.file.name):
                raise InputError(
                    f"--data {data}: the folder has no file {records.file.name}, which {universe.key('input.file')} of "
                    "the spec names"
                )
        else:
            path = records.file if universe.name and not universe.own_records else data
        file = path.resolve() if isinstance(path, Path) else path
        expect = records.expect
        if isinstance(file, Path) and file != records.file and expect is not None:
            expect = read_expectation(file, universe.key("input.expect"))
        changed.append(replace(universe, input=replace(records, file=file, expect=expect)))
    return tuple(changed)
