"""Rerun a release from its records and its key, compare every public file, and report the first difference of each."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from pipeline.confidential.custody import KeySource, check_made_here, key_of_settings
from pipeline.confidential.process import MeasuringProcess, RecordHolder
from pipeline.errors import InputError, MemoryShortError, RefusedError, ReleaseError
from pipeline.estimation.expectation import published_tables
from pipeline.execution.job import Job
from pipeline.execution.settings import Settings
from pipeline.execution.steps import Perform, Progress, listener_of, perform_here
from pipeline.execution.workers import Workers
from pipeline.metadata.products import products_of
from pipeline.model.memory_table import Source
from pipeline.model.universe import Universe
from pipeline.published import open_finished, refuse_unwritten
from pipeline.publishing.provenance import status_of
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, read_manifest, version_differences
from pipeline.release.run_directory import empty_staging, held, make_run_folders, recorded_identity
from pipeline.run import ReleaseRun
from pipeline.runs.finished import kept_inputs
from pipeline.runs.open_public import PublicSide, open_listed, open_published
from pipeline.runs.request import require_given, with_data, with_given
from pipeline.runs.run import Measuring
from pipeline.runs.run_here import retrying
from pipeline.spec.release_spec import ReleaseSpec, as_spec
from pipeline.storage.files import differing_keys, sha256_file, temporary_folder, write_bytes
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import local_name

_NOTHING = "nothing was drawn, since its noise was never charged"
_KEY = "the key"  # in the identity; it is compared with the manifest's commitment


def refuse_other_run(run: RunDirectory, public: PublicSide) -> None:
    """Compare what public/ states with what the run recorded when it began.

    Where restricted/ is gone, the operator's own spec was compared instead; see `refuse_other_inputs`.

    Raises:
        InputError: they are not the same.
    """
    if run.record.exists():
        recorded, stated = recorded_identity(run), public.identity()
        if differing := [name for name in differing_keys(recorded, stated) if name != _KEY]:
            raise InputError(
                f"{run.root}: public/ is not what was run here: {', '.join(differing)} differ from what "
                f"{run.record} recorded; {_NOTHING}"
            )


def refuse_other_inputs(
    run: RunDirectory, public: PublicSide, spec: ReleaseSpec, universes: Sequence[Universe]
) -> None:
    """Compare public/ with the spec that the operator gives, and with the public inputs that it names.

    Raises:
        InputError: they are not the same, or an input cannot be read.
    """
    own, stated = open_listed(spec, universes).identity(), public.identity()
    if differing := differing_keys(own, stated):
        raise InputError(
            f"{run.root}: public/ is not what {spec.source} gives: {', '.join(differing)} differ; {_NOTHING}"
        )


def universes_to_rerun(
    run: RunDirectory, data: Path | None, spec: Path | ReleaseSpec | None, records: Mapping[str, Source] | None = None
) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file if one is given, and otherwise from what
    the run kept in restricted/. Where that is gone, the public inputs are compared with those that the spec names.

    Args:
        run: the release.
        data: records instead of those that the spec or the run name: a file, or a folder with files of the same names.
        spec: the spec that the release was made with, or its file; None to use what the run kept.
        records: records of some universes, supplied by the caller; see `with_given`.

    Raises:
        InputError: the spec is that of another release, or nothing says how the records are read.
    """
    check_made_here(run)
    manifest = read_manifest(run.manifest)
    public = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    if spec is None:
        sources = kept_inputs(run, public.universes())
        universes: tuple[Universe, ...] = tuple(
            replace(universe, input=sources.get(universe.name)) for universe in public.universes()
        )
    else:
        stated, universes = _as_published(run, as_spec(spec), manifest.spec)
        own, released = json.loads(json.dumps(stated.public_dict())), manifest.spec
        if differing := differing_keys(own, released):
            raise InputError(
                f"--spec {stated.source}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the "
                "spec that the release was made with is needed"
            )
        if not run.record.exists():
            public_side = open_published(open_finished(run.root, check_hashes=False), universes)
            refuse_other_inputs(run, public_side, as_spec(spec), as_spec(spec).universes())
    for universe in universes:
        universe.require_input()
    universes = with_given(with_data(universes, data), records or {})
    require_given(
        universes,
        f"were a table in memory when {run.root} was made, and it keeps no copy; give them again, with "
        "spinewise.rerun(..., records=...) or as a file with --data FILE",
    )
    return universes


def _as_published(
    run: RunDirectory, stated: ReleaseSpec, published: Mapping[str, object]
) -> tuple[ReleaseSpec, tuple[Universe, ...]]:
    """The spec as its release has it, and its universes: without the tables that the measurements do not determine.

    A spec of another release is left as it is.
    """
    universes = stated.universes()
    if _without_tables(json.loads(json.dumps(stated.public_dict()))) != _without_tables(published):
        return stated, universes
    side = open_published(open_finished(run.root, check_hashes=False), universes)
    spec, remaining, _ = published_tables(stated, universes, side.spine, side.inputs.of(BOUNDS))
    return spec, remaining


def _without_tables(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A public spec as JSON, or a companion in it."""
    parts = {name: part for name, part in spec.items() if name != "tables"}
    if companions := parts.get("companions"):
        parts["companions"] = [[name, _without_tables(companion)] for name, companion in companions]
    return parts


#: Parts of the manifest that are compared by themselves.
_APART = {"files", "manifest_sha256", "software"}


@dataclass(frozen=True)
class FileDifference:
    """One file that is not the same.

    Attributes:
        file: path from the run's directory.
        level, geounit: where it differs first; "" where that is not known, or it has none.
        what: a description of the difference.
    """

    file: str
    level: str
    geounit: str
    what: str

    def __str__(self) -> str:
        where = [f"level {self.level}"] if self.level else []
        where += [f"geounit {self.geounit}"] if self.geounit else []
        return f"{self.file}: {', '.join([*where, self.what])}"


#: Of a public file by its path: the number of its product, and of its level from 1 at the top; 0 for none.
Places = Mapping[str, tuple[int, int]]


def places_of(job: Job) -> Places:
    """The places of all files that a release has by its spec."""
    levels = ["", *job.spine.level_names]
    return {
        job.run.name_of(file.path): (number, levels.index(file.level))
        for number, product in enumerate(products_of(job.spec.of_features))
        for file in product.files(job)
    }


def compare_public(
    release: RunDirectory, recomputed: RunDirectory, places: Places, levels: Sequence[str]
) -> list[FileDifference]:
    """The differences of `recomputed` from `release`, in the order in which a run writes files.

    Args:
        release: the published release.
        recomputed: the run that repeats it.
        places: of the files that are known; others come last.
        levels: their names, top first.
    """
    names = {
        run.name_of(path)
        for run in (release, recomputed)
        for path in run.public.rglob("*")
        if path.is_file() and path != run.signature  # which has no key to be made again with
    }
    differences, other = [], (len(places), 0)
    for name in sorted(names, key=lambda name: (places.get(name, other), name)):
        first, second = release.public / name, recomputed.public / name
        shown_path = f"public/{name}"
        if not first.is_file():
            differences.append(FileDifference(shown_path, "", "", "is recomputed and is not in the release"))
        elif not second.is_file():
            differences.append(FileDifference(shown_path, "", "", "is in the release and is not recomputed"))
        elif sha256_file(first) != sha256_file(second):
            if first == release.manifest:
                stated = (json.loads(path.read_bytes()) for path in (first, second))
                parts = [part for part in differing_keys(*stated) if part not in _APART]
                differences += [FileDifference(shown_path, "", "", f"differs in {', '.join(parts)}")] if parts else []
            else:
                level = ["", *levels][places.get(name, other)[1]]
                differences.append(_difference(shown_path, first, second, level))
    return differences


def _difference(file: str, first: Path, second: Path, level: str) -> FileDifference:
    """Where two files differ first; of those that are not Parquet, that they do."""
    if first.suffix != ".parquet":
        return FileDifference(file, level, "", "has other bytes")
    try:
        first_table, second_table = _both(first, second)
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(first)) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return FileDifference(file, level, "", "cannot be read")
    except ReleaseError as error:
        return FileDifference(file, level, "", str(error).removeprefix(str(first)).lstrip(": "))
    if first_table.column_names != second_table.column_names:
        return FileDifference(file, level, "", "has other columns")
    rows = [_first_row(a, b) for a, b in zip(first_table.columns, second_table.columns, strict=True)]
    differing = [row for row in rows if row is not None]
    if differing:
        row = min(differing)
        longer = first_table if row < first_table.num_rows else second_table
        names = [name for name, at in zip(first_table.column_names, rows, strict=True) if at == row]
        geounit = str(longer.column("geocode")[row].as_py()) if "geocode" in first_table.column_names else ""
        return FileDifference(file, level, geounit, f"row {row + 1} has another {names[0]}")
    return FileDifference(file, level, "", "has the same rows and other bytes")


def _both(first: Path, second: Path) -> tuple[pa.Table, pa.Table]:
    """Both files; ReleaseError where the published one, which may be anybody's, holds far more than the recomputed."""
    recomputed = pq.read_table(local_name(second))
    values = max((_most_values(group) for group in _groups(second)), default=1)
    with GuardedFile(first, recomputed.num_rows) as published:
        published.at_most(recomputed.num_rows, values)
        return published.read(), recomputed


def _most_values(group: pq.RowGroupMetaData) -> int:
    """Numbers for each row in the column that has most of them, rounded up."""
    return max(-(-group.column(index).num_values // max(group.num_rows, 1)) for index in range(group.num_columns))


def _groups(path: Path) -> list[pq.RowGroupMetaData]:
    metadata = pq.read_metadata(local_name(path))
    return [metadata.row_group(number) for number in range(metadata.num_row_groups)]


def _first_row(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """The first row in which two columns differ, by halving; None if they are equal."""
    if left.equals(right):
        return None
    low, high = 0, min(len(left), len(right))
    if left.slice(0, high).equals(right.slice(0, high)):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left.slice(low, middle - low).equals(right.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class Rerun:
    """What a rerun found.

    Attributes:
        files: how many public files were compared, the manifest among them.
        differences: in the order in which a run writes the files; empty if all are the same byte for byte.
        remarks: what a reader of the differences has to know, such as different versions of the software.
    """

    files: int
    differences: tuple[FileDifference, ...]
    remarks: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether all public files are the same."""
        return not self.differences


def key_of_run(run: RunDirectory, source: KeySource, settings: Settings) -> KeySource:
    """Where the key of a run is: as given, else in its own folder, else where the settings say."""
    return source if source != KeySource() or run.key.exists() else key_of_settings(settings)


def rerun_here(
    run: RunDirectory,
    universes: Sequence[Universe],
    source: KeySource,
    settings: Settings,
    progress: Progress,
    perform: Perform | None = None,
) -> Rerun:
    """Rerun a release as `rerun_release`, with records and key in a process of their own; no step is limited in time.

    Args:
        run: the release.
        universes: with their records; see `universes_to_rerun`.
        source: the key as it is given; see `key_of_run`.
        settings: the number of processes, and how often a step is tried again.
        progress: receives how far the rerun is, and is closed.
        perform: performs a step; by default this process does.
    """
    perform = perform or retrying(settings.model_copy(update={"timeout": None}))
    try:
        with rerun_process(run, key_of_run(run, source, settings)) as measured:
            return rerun_release(run, universes, measured, settings.processes, progress, perform)
    finally:
        progress.close()


def rerun_release(
    run: RunDirectory,
    universes: Sequence[Universe],
    measured: RecordHolder,
    workers: int,
    progress: Progress,
    perform: Perform = perform_here,
) -> Rerun:
    """Recompute all of public/ in a folder that only its owner can enter, and compare it with the release.

    This draws the noise that was drawn before, and costs no budget: records other than the release's are refused before
    anything is drawn. The folder holds true counts; it is in restricted/ if that can be written, and is removed at the
    end.

    Args:
        run: the release.
        universes: with their records; see `universes_to_rerun`.
        measured: where the records are seen; see `rerun_process`.
        workers: number of processes.
        progress: receives how far the rerun is.
        perform: performs one step.

    Raises:
        InputError: the release or the records are not those that were run here, the run was never charged, or a file
            of the release is of a feature that is not installed.
        RefusedError: the records cannot be read; the reason is in a file that only its owner can read.
        SpinewiseError: the release cannot be recomputed.
    """
    manifest = read_manifest(run.manifest)
    refuse_unwritten(run, manifest)
    with _closed_folder(run) as folder, Workers(workers, told=listener_of(progress)) as pool, threadpool_limits(1):
        again = RunDirectory(folder / "release")
        with _keeping_refusal(run):
            computed = _compute(run, again, manifest, universes, measured, pool, progress, perform)
        differences = compare_public(run, again, places_of(computed), computed.spine.level_names)
        files = len(read_manifest(again.manifest).files) + 1
    return Rerun(files, tuple(differences), tuple(version_differences(manifest)))


def _compute(
    run: RunDirectory,
    again: RunDirectory,
    manifest: Manifest,
    universes: Sequence[Universe],
    measured: RecordHolder,
    pool: Workers,
    progress: Progress,
    perform: Perform,
) -> Job:
    public = open_published(open_finished(run.root, check_hashes=False), universes)
    refuse_other_run(run, public)
    make_run_folders(again)
    job = replace(public.job(again, pool, progress), receipts=list(manifest.receipts))
    insecure = measured.begin(job, run)
    job = replace(job, status=status_of(public.spec, insecure_key=insecure, charged=bool(manifest.receipts)))
    going = ReleaseRun(job, _Again(job, measured, run, public, manifest), perform)
    going.perform()
    going.finish()
    return job


class _Again(Measuring):
    """Not charged: the noise that is drawn again is the noise that was charged for."""

    def __init__(
        self, job: Job, holder: RecordHolder, run: RunDirectory, public: PublicSide, manifest: Manifest
    ) -> None:
        super().__init__(job, holder)
        self._run, self._public, self._manifest = run, public, manifest

    def counted(self) -> None:
        """Let the drawing begin; InputError where records, key or what was decided by them are others than before."""
        try:
            super().counted()
        except InputError as error:
            raise InputError("; ".join([str(error), *version_differences(self._manifest)])) from None
        _refuse_decided_otherwise(self._run, self.job.run, self._public, self.holder)


def _refuse_decided_otherwise(
    run: RunDirectory, again: RunDirectory, public: PublicSide, measured: RecordHolder
) -> None:
    """Draw again what the spec was decided from; InputError where something else follows from records and key."""
    for part in public.spec.of_features:
        asked = part.redrawn(public.spec, public.universes, public.spine, again, run)
        if asked is None:
            continue
        found = measured.question(asked[0])
        if differing := sorted(key for key, stated in asked[1].items() if found.get(key) != stated):
            raise InputError(
                f"{run.root}: what its spec was decided from is drawn otherwise from these records and this key: "
                f"{', '.join(differing)} differ"
            )


@contextmanager
def rerun_process(run: RunDirectory, source: KeySource) -> Iterator[RecordHolder]:
    """A process of its own for the block, which has read the key of the release.

    Raises:
        InputError: there is none, or it is a different one.
    """
    with MeasuringProcess(source, None) as process:
        process.check_key(run)
        yield process


def _has_restricted(run: RunDirectory) -> bool:
    return run.restricted.is_dir() and os.access(run.restricted, os.R_OK | os.W_OK | os.X_OK)


@contextmanager
def _closed_folder(run: RunDirectory) -> Iterator[Path]:
    """A folder for true counts, removed at the end; in restricted/ if possible, so a kill leaves none elsewhere."""
    if _has_restricted(run):
        with held(run):
            empty_staging(run)
            with tempfile.TemporaryDirectory(prefix="rerun-", dir=run.staging) as folder:
                yield Path(folder)
    else:
        with temporary_folder("rerun") as folder:
            yield folder


@contextmanager
def _keeping_refusal(run: RunDirectory) -> Iterator[None]:
    """Keep the reason of a refusal beyond the folder, in restricted/ or in a folder that only its owner can enter."""
    try:
        yield
    except RefusedError as error:
        if _has_restricted(run):
            details = run.refusal
            write_bytes(details, error.details.read_bytes(), run.staging, private=True)
        else:
            details = Path(tempfile.mkdtemp(prefix="spinewise-refused-")) / error.details.name
            shutil.copy(error.details, details)
        stage = str(error).split(":")[0]
        raise RefusedError(stage, details, error.exit_status) from None
