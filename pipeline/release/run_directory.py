"""Opening a directory for a run: one run to a directory, one process at a time, and nothing else in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pipeline.errors import InputError, ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.storage.durable import make_folder
from pipeline.storage.files import canonical_json, differing_keys, make_restricted, write_json, write_problem

_IGNORED = ".gitignore"  # holds *, so that nothing confidential is committed by mistake
_TEMPORARY_KEY = ".key-"  # a key file being written by pipeline.privacy.keys
#: Parts of an identity with texts for readers, and how those of a finished release are corrected.
WITH_TEXTS = frozenset(f"the spec's {part}" for part in ("report", "geography", "schema", "companions"))
CORRECT = "are corrected without another run or charge by spinewise update --texts"


@contextmanager
def open_run(root: Path, identity: Mapping[str, object]) -> Iterator[RunDirectory]:
    """The directory `root`, held for this run until the block ends.

    It is created if it does not exist, with public/ and restricted/ (mode 0700). A run that was begun in it is
    resumed, after any files left in restricted/staging/ are removed. One whose run ended before anything was
    measured (no fingerprint of the input was recorded, nothing is published) is taken over: what that run left in
    restricted/, its key included, is removed, but for the log.

    Args:
        root: the run's directory.
        identity: what makes it the same run, JSON: names and fingerprints of what is public. Nothing confidential.

    Raises:
        InputError: the directory holds something else, cannot be used, or another process is running there.
        ReleaseError: writing in it fails.
    """
    run = RunDirectory(root)
    try:
        _check_entries(run)
        _check_owner(root)
        make_folder(root)
    except OSError as error:
        raise InputError(write_problem(error, root)) from error
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {root}: it is read-only or belongs to another user; name another directory")
    make_restricted(run.restricted)
    keep_from_git(run.restricted)
    with held(run):
        # Again, now that no other process can change it.
        _check_entries(run)
        _begin(run, identity)
        yield run


def record_input(run: RunDirectory, fingerprints: Mapping[str, str]) -> None:
    """Record, before anything is measured, on which input this run is; from then on it cannot be on another.

    Args:
        run: the directory, held by `open_run`.
        fingerprints: universe -> hash of its confidential histogram, keyed with the master key.

    Raises:
        InputError: the run was begun on another input.
    """
    _bind(run, "input_fingerprints", dict(fingerprints))


def record_decided(run: RunDirectory, identity: Mapping[str, object]) -> None:
    """Record what the run is once all that its spec left open is decided; from then on that cannot be otherwise.

    Args:
        run: the directory, held by `open_run` with an identity in which it is open.
        identity: the names and fingerprints that differ from it.

    Raises:
        InputError: it was decided otherwise before.
    """
    _bind(run, "decided", {**_read_record(run)["identity"], **identity})


def _bind(run: RunDirectory, key: str, value: dict[str, object]) -> None:
    record = _read_record(run)
    if record.get(key) not in (None, value):
        raise InputError(
            f"{run.root} holds this release as begun on other records, or with another key; name another directory, or "
            "give the same records and key"
        )
    write_json(run.record, {**record, key: value}, run.staging, private=True)


def is_of_others(run: RunDirectory, universe: str, fingerprint: str) -> bool:
    """Whether the directory is bound to other records of a universe; nothing that is counted is then kept in it."""
    recorded = recorded_input(run) if run.record.exists() else None  # a trial is bound to nothing
    return recorded is not None and recorded.get(universe) != fingerprint


def recorded_input(run: RunDirectory) -> dict[str, str] | None:
    """The fingerprints given to `record_input`; None where nothing can have been measured yet."""
    fingerprints: dict[str, str] | None = _read_record(run)["input_fingerprints"]
    return fingerprints


def recorded_identity(run: RunDirectory) -> dict[str, Any]:
    """The identity that the directory was opened with; once what it left open is decided, with that."""
    record = _read_record(run)
    identity: dict[str, Any] = record.get("decided", record["identity"])
    return identity


def make_run_folders(run: RunDirectory) -> None:
    """The empty folders of a run that is computed for comparison or trial, and that is never resumed."""
    make_restricted(run.root)
    make_folder(run.public)
    make_restricted(run.restricted)
    keep_from_git(run.restricted)
    make_restricted(run.staging)


def keep_from_git(folder: Path) -> None:
    """See to it that `git add` takes nothing of a folder with what is confidential; ReleaseError where it cannot."""
    path = folder / _IGNORED
    try:
        if path.is_symlink() or not path.is_file() or path.read_bytes() != b"*\n":
            path.unlink(missing_ok=True)
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(b"*\n")
    except OSError as error:
        raise ReleaseError(write_problem(error, path)) from error


def empty_staging(run: RunDirectory) -> None:
    """Remove the files that an earlier process left in restricted/staging/; the directory is `held`."""
    _remove(run.staging)
    make_restricted(run.staging)


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """No other process of ours is at work in the directory, and none begins, until the block ends.

    Raises:
        InputError: one is; ReleaseError: the lock cannot be made.
    """
    lock = FileLock(run.lock, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"another process is running in {run.root}; wait until it has ended, or name another directory"
        ) from None
    except OSError as error:
        raise ReleaseError(write_problem(error, run.lock)) from error
    try:
        yield
    finally:
        with suppress(OSError):
            lock.release()


def _check_owner(root: Path) -> None:
    """Refuse a directory of another user, who could put links and files into it while the run writes."""
    if root.exists() and (owner := root.stat().st_uid) != os.geteuid():
        raise InputError(
            f"{root} belongs to user {owner} and not to user {os.geteuid()}, who runs this; name one of your own"
        )


def _check_entries(run: RunDirectory) -> None:
    """Refuse a directory with files that no run of ours would leave; writes nothing."""
    if run.root.exists() and not run.root.is_dir():
        raise InputError(f"{run.root} is a file; a run needs a directory")
    entries = _names(run.root)
    ours = {run.public.name, run.restricted.name}
    if strange := [name for name in entries if name not in ours]:
        raise InputError(_holds(run, strange))
    for folder in (run.public, run.restricted):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InputError(f"{folder} is not a folder of its own; a run needs a directory of its own")
    if not run.record.exists():
        early = {run.lock.name, run.staging.name, run.log.name, _IGNORED}
        strange = [f"restricted/{name}" for name in _names(run.restricted) if name not in early]
        if strange := strange + _published(run):
            raise InputError(_holds(run, strange))


def _begin(run: RunDirectory, identity: Mapping[str, object]) -> None:
    """Make the directory, which is locked, this run's own."""
    if run.record.exists():
        begun = _read_record(run)
        if canonical_json(begun["identity"]) != canonical_json(dict(identity)):
            _refuse_if_used(run, begun, identity)
            for name in _names(run.restricted):
                if name not in (run.lock.name, run.log.name, _IGNORED):
                    _remove(run.restricted / name)
    for name in _names(run.restricted):
        if name.startswith(_TEMPORARY_KEY):
            _remove(run.restricted / name)
    empty_staging(run)
    if not run.record.exists():
        record = {"identity": dict(identity), "input_fingerprints": None}
        write_json(run.record, record, run.staging, private=True)
    try:
        make_folder(run.public)
    except OSError as error:
        raise ReleaseError(write_problem(error, run.public)) from error


def _refuse_if_used(run: RunDirectory, record: dict[str, Any], identity: Mapping[str, object]) -> None:
    expected = {
        path.name
        for path in (
            run.record,
            run.input,
            run.lock,
            run.staging,
            run.key,
            run.log,
            run.refusal,
            run.warnings,
            run.accuracy,
            run.accuracy_page,
        )
    }
    expected |= {run.main.checkpoints.name, "histograms", "companions", _IGNORED}
    strange = [n for n in _names(run.restricted) if n not in expected and not n.startswith(_TEMPORARY_KEY)]
    if record["input_fingerprints"] is None and not _published(run) and not strange:
        return
    theirs = record["identity"]
    differing = differing_keys(theirs, identity)
    correct = run.manifest.is_file() and set(differing) <= WITH_TEXTS
    raise InputError(
        f"{run.root} holds another run: it differs in {', '.join(differing)}; "
        + (f"texts for readers alone, such as a title, {CORRECT}; for other changes " if correct else "")
        + "name another directory, or remove it"
    )


def _read_record(run: RunDirectory) -> dict[str, Any]:
    try:
        record = json.loads(run.record.read_bytes())
        if isinstance(record["identity"], dict) and isinstance(record["input_fingerprints"], dict | None):
            return dict(record)
    except OSError as error:
        raise ReleaseError(f"{run.record} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError):
        pass
    raise ReleaseError(f"{run.record} is damaged: it does not identify the run of this directory")


def _published(run: RunDirectory) -> list[str]:
    """Files under public/, as paths from the root."""
    return sorted(
        str(Path(folder, name).relative_to(run.root)) for folder, _, names in os.walk(run.public) for name in names
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}") from error


def _holds(run: RunDirectory, strange: list[str]) -> str:
    listing = ", ".join(ascii(name) for name in strange[:5]) + (f" and {len(strange) - 5} more" if strange[5:] else "")
    return f"{run.root} is not empty and holds no run that could be resumed: found {listing}; name another directory"


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ReleaseError(f"cannot remove {path}, left by an earlier run: {error.strerror}") from error
