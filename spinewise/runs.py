"""Releases from records, or from noisy measurements: in this process, without a Prefect server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pipeline.confidential.custody import KeySource, configured_source, signing_key
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Progress
from pipeline.model.universe import promised
from pipeline.published import release_at
from pipeline.reading.release import Release, open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.from_measurements import estimate_release, received_release
from pipeline.runs.request import Request, check_ledger_is_used, check_stated
from pipeline.runs.rerun import rerun_here, universes_to_rerun
from pipeline.runs.run_here import run_here
from pipeline.signatures.statement import sign_release
from spinewise.frames import folder_of, records_of
from spinewise.progress import progress_for
from spinewise.specs import Spec, as_spec, with_areas
from spinewise.verification import RerunResult


def run(  # noqa: PLR0913 - options, by keyword
    spec: Spec | Path | str,
    records: object = None,
    areas: object = None,
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    key_file: Path | str | None = None,
    ledger: str | None = None,
    i_know: bool = False,
    progress: bool = True,
    period: str | None = None,
) -> Release:
    """Make a release, and open it; the same call again resumes a run that was interrupted, or opens the finished one.

    Records in memory are sent to the process that counts them, which alone has the key: they are never written to a
    file. What a run keeps in restricted/ is the same as with files.

    Args:
        spec: the spec, or the path of its file.
        records: the confidential records: a pandas or polars DataFrame, an Arrow table, a file's or folder's path, or a
            dict of these, "" for the release's own and the names of companions for theirs; by default the files that
            the spec names. The spec's `input` defines how they are read.
        areas: the public list of areas, in memory or as a path; by default the file that the spec names.
        out: the folder in which the release's directory is made; by default that of the settings, `releases`.
        workers: number of processes; by default that of the settings, or all cores.
        key_file: file with the master key; by default that of the settings, or the run draws and keeps its own.
        ledger: where the budget is charged, if the spec names a dataset; by default that of the settings.
        i_know: run although delta, the budget or the invariants are beyond the usual limits; the release says so.
        progress: show a bar in a terminal or a notebook.
        period: which release of the spec's series; those before it are in the same folder.

    Returns:
        The release, opened.

    Raises:
        RefusedError: the records cannot be counted, or no release could keep the constraints on them. Its `reason()`
            names column and rows and shows what was found there; it is as confidential as the records.
        SpecError: the spec is wrong.
        InputError: another argument is wrong.
        BudgetRefusedError: the budget does not allow it; nothing was drawn.
        SpinewiseError: the run failed; the same call resumes it.
    """
    stated = as_spec(spec)
    settings = load_settings(out=_path(out), workers=workers)
    resolved = with_areas(stated, areas)
    if not promised(resolved.universes()):
        return _made(partial(received_release, resolved, settings.out, settings.processes), shown=progress)
    key = configured_source(resolved, settings) if key_file is None else KeySource(_path(key_file))
    folder, tables = folder_of(records), records_of(records)
    request = Request(
        Path(resolved.source), settings.out, folder, settings.processes, key, i_know=i_know, period=period
    )
    checked = check_stated(request, resolved, tables)
    signer = signing_key(settings)
    if ledger is not None:
        check_ledger_is_used(checked.universes, asked_for=True)
    with named_ledger(ledger):
        run_here(checked, progress_for(shown=progress), settings)
    if signer is not None:
        sign_release(checked.run, signer)
    if checked.run.warnings.exists():
        warnings.warn(
            f"there are remarks on the records and the spec's constraints, see {checked.run.warnings}", stacklevel=2
        )
    return _opened(checked.run.root)


def rerun(
    release: Release | Path | str,
    records: object = None,
    *,
    spec: Spec | Path | str | None = None,
    workers: int | None = None,
    key_file: Path | str | None = None,
    progress: bool = True,
) -> RerunResult:
    """Recompute a release from its records and its key, and compare every public file.

    The noise is drawn as before, so it costs no budget; other records are refused before any is drawn.

    Args:
        release: the release, or its directory.
        records: as in `run`; they must be given again where they were in memory.
        spec: needed only where the release's restricted/ folder is not there; its path if it was read from a file.
        workers: number of processes.
        key_file: the release's key, where the run did not keep it.
        progress: show a bar in a terminal or a notebook.

    Raises:
        InputError: the records or the key are not those of the release, or are not there.
        RefusedError: the records cannot be counted; see `run`.
    """
    directory = release.directory if isinstance(release, Release) else Path(release)
    run_directory = release_at(directory)
    folder, tables = folder_of(records), records_of(records)
    settings = load_settings(workers=workers)
    stated = None if spec is None else as_spec(spec).resolved
    universes = universes_to_rerun(run_directory, folder, stated, tables)
    found = rerun_here(run_directory, universes, KeySource(_path(key_file)), settings, progress_for(shown=progress))
    return RerunResult(directory, found.files, tuple(map(str, found.differences)), found.remarks)


def estimate(
    measurements: Path | str,
    spec: Spec | Path | str,
    areas: object = None,
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Release:
    """Compute a release from noisy measurements that were made elsewhere, and open it; no records and no key.

    Args:
        measurements: folder of noisy measurement files ([the layout](../formats.md)).
        spec: states what was measured, and with which budget.
        areas: as in `run`.
        out: the folder in which the release's directory is made; by default that of the settings, `releases`.
        workers: number of processes.
        progress: show a bar in a terminal or a notebook.

    Raises:
        InputError: the measurements are not those that the spec calls for.
    """
    settings = load_settings(out=_path(out), workers=workers)
    folder, resolved = Path(measurements).expanduser(), with_areas(as_spec(spec), areas)
    return _made(partial(estimate_release, folder, resolved, settings.out, settings.processes), shown=progress)


def _made(release: Callable[[Progress], Path], *, shown: bool) -> Release:
    """A release without records, opened."""
    bar = progress_for(shown=shown)
    try:
        root = release(bar)
    finally:
        bar.close()
    return _opened(root)


def _opened(root: Path) -> Release:
    """The release of a run that has ended well, with a warning for each of its remarks; for the caller's caller."""
    remarks = RunDirectory(root).remarks
    if remarks.exists():
        for remark in remarks.read_text(encoding="utf-8").splitlines():
            warnings.warn(remark, stacklevel=3)
    return open_release(root)


def _path(value: object) -> Path | None:
    return None if value is None else Path(str(value)).expanduser()


@contextmanager
def named_ledger(url: str | None) -> Iterator[None]:
    """The ledger as a setting of this process: it may hold a password, so it is not an argument of any step."""
    before = os.environ.get("SPINEWISE_LEDGER")
    if url is not None:
        os.environ["SPINEWISE_LEDGER"] = url
    try:
        yield
    finally:
        if url is not None and before is None:
            del os.environ["SPINEWISE_LEDGER"]
        elif before is not None:
            os.environ["SPINEWISE_LEDGER"] = before
