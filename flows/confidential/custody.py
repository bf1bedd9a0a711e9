"""The custody of the master key: read from a file, a file descriptor or a command; destroyed on request.

It is read once, early, and passed on as an object whose text shows nothing. It is never an argument of a process or of
a Prefect flow.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from flows.confidential.secret_source import SecretSource
from flows.settings import Settings
from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.keys import LONGEST_KEY_TEXT, MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import MADE_ELSEWHERE, read_manifest
from pipeline.release.run_directory import held
from pipeline.spec.release_spec import ReleaseSpec, as_spec
from pipeline.storage.files import write_json, write_problem
from pipeline.witness.stated_beacon import stated_beacon


@dataclass(frozen=True)
class KeySource:
    """What the command line says about the key; at most one of the three.

    Attributes:
        file: a key file.
        descriptor: an open file descriptor from which a key file's content is read; it is closed afterwards.
        command: a command that writes a key file's content to its standard output; it is split as a shell would split
            it and run without a shell.
    """

    file: Path | None = None
    descriptor: int | None = None
    command: str | None = None

    def read(self) -> MasterKey | None:
        """The key; None if no source is given.

        Raises:
            InputError: several sources are given, or the source has no key. The message does not show what it has.
        """
        found = SecretSource("--key", self.file, self.descriptor, self.command).content("key file", LONGEST_KEY_TEXT)
        return None if found is None else MasterKey.from_content(*found)


def configured_key(spec: Path | ReleaseSpec, settings: Settings) -> MasterKey | None:
    """The key that the settings name; None where they name none, or the spec has a test key of its own.

    Raises:
        InputError: both settings are given, or the source has no key.
    """
    source = KeySource(file=settings.key_file, command=settings.key_command)
    if source == KeySource() or as_spec(spec).privacy.key is not None:
        return None
    return source.read()


def check_made_here(run: RunDirectory) -> None:
    """InputError where the release was computed from measurements that another program drew."""
    if read_manifest(run.manifest).status == MADE_ELSEWHERE:
        raise InputError(
            f"{run.root}: was estimated from measurements that were made elsewhere; there is no key and no record to "
            "repeat it from (spinewise verify recomputes it from its measurements)"
        )


def key_of_release(run: RunDirectory, source: KeySource) -> MasterKey:
    """The key that the release was made with: from `source`, or the one that the run kept; at the release's beacon.

    Raises:
        InputError: there is none, or it is a different one.
    """
    check_made_here(run)
    key = source.read()
    if key is None:
        if run.key_destroyed.exists():
            raise InputError(
                f"{run.root}: the key was destroyed; without it the noise cannot be drawn again, so the release can be "
                "verified (spinewise verify) but no longer rerun"
            )
        if not run.key.exists():
            raise InputError(
                f"{run.root}: the key is not here; give it with --key-file, --key-fd or --key-command (a release whose "
                "key is lost can still be verified)"
            )
        key = MasterKey.read(run.key)
    manifest = read_manifest(run.manifest)
    own, stated = key.commitment(manifest.key_salt), manifest.key_commitment
    if own != stated:
        raise InputError(
            f"the key is not the one that {run.root} was made with: its commitment begins with {own[:12]}, the "
            f"manifest's with {stated[:12]}"
        )
    beacon = stated_beacon(read_manifest(run.manifest))
    return key if beacon is None else key.at_beacon(beacon.randomness)


def destroy_key(run: RunDirectory) -> str:
    """Overwrite and remove the key that a run kept; returns its commitment.

    A file system that keeps old blocks (copy-on-write, journals, flash memory) may keep the key's too, and backups do.

    Raises:
        InputError: there is no key, or a process is running in the directory; ReleaseError: it cannot be removed.
    """
    if not run.restricted.is_dir():
        raise InputError(f"{run.root}: has no restricted/ folder, and so no key")
    with held(run):
        if not run.key.exists():
            if run.key_destroyed.exists():
                raise InputError(f"{run.root}: the key was destroyed before")
            raise InputError(
                f"{run.root}: holds no key; one that was handed in with the run is destroyed where it is kept"
            )
        salt = read_manifest(run.manifest).key_salt if run.manifest.is_file() else ""
        commitment = MasterKey.read(run.key).commitment(salt)
        try:
            run.staging.mkdir(mode=0o700, exist_ok=True)
            # First, so that a run after a crash at this point does not draw another key.
            write_json(run.key_destroyed, {"key_commitment": commitment}, run.staging, private=True)
            _overwrite(run.key)
            run.key.unlink()
        except OSError as error:
            raise ReleaseError(write_problem(error, run.key)) from error
    return commitment


def _overwrite(path: Path) -> None:
    path.chmod(0o600)
    with path.open("rb+", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for content in (secrets.token_bytes(size), bytes(size)):
            file.seek(0)
            file.write(content)
            os.fsync(file.fileno())
