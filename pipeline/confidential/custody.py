"""The custody of keys: read from a file, a file descriptor or a command; the master key also destroyed on request.

The master key is read once, early, and passed on as an object whose text shows nothing. It is never an argument of a
process or of a Prefect flow. The key that an agency signs with comes from the same places, and never from the same one.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.keys import LONGEST_KEY_TEXT, MasterKey, read_private
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.run_directory import held
from pipeline.release.status import MADE_ELSEWHERE, RECEIVED
from pipeline.spec.release_spec import ReleaseSpec, as_spec
from pipeline.storage.files import write_json, write_problem

if TYPE_CHECKING:
    from pipeline.execution.settings import Settings
    from pipeline.questions.manifest import AnswerManifest
    from pipeline.release.manifest import Manifest
    from pipeline.signatures.signing_keys import SigningKey


#: Seconds that a vault is given to answer.
_PATIENCE = 300


@dataclass(frozen=True)
class SecretSource:
    """Where a secret is; at most one of the three.

    Attributes:
        file: a file with the secret.
        descriptor: an open file descriptor from which the file's content is read; it is closed afterwards.
        command: a command that writes the file's content to its standard output; it is split as a shell would split
            it and run without a shell.
        named: the option or setting that says so, for messages.
    """

    file: Path | None = None
    descriptor: int | None = None
    command: str | None = None
    named: str = field(default="--key", compare=False)

    @classmethod
    def parse(cls, text: str | None, named: str) -> Self:
        """What an option or setting says: `file:PATH`, `fd:NUMBER` or `command:WORDS`; no source where it says nothing.

        Raises:
            InputError: it says something else. The message does not show it: it may be the secret itself.
        """
        if text is None:
            return cls(named=named)
        kind, _, value = text.partition(":")
        if value and kind == "file":
            return cls(file=Path(value), named=named)
        if kind == "fd" and value.isdecimal() and int(value) < 2**31:
            return cls(descriptor=int(value), named=named)
        if kind == "command":
            return cls(command=value, named=named)
        raise InputError(
            f"{named}: found none of file:PATH, fd:NUMBER (an open file descriptor) and command:COMMAND (which prints "
            "the key), of which one is needed"
        )

    def content(self, what: str, longest: int) -> tuple[bytes, str] | None:
        """The content, and where it comes from for messages; None if no source is given.

        Args:
            what: what its file is called in messages, such as "key file".
            longest: bytes that are read at most.

        Raises:
            InputError: the source cannot be read. The message does not show its content.
        """
        if self.file is not None:
            return read_private(self.file, what, longest), f"{what} {self.file}"
        if self.descriptor is not None:
            where = f"{self.named} fd:{self.descriptor}"
            return _from_descriptor(self.descriptor, where, longest), where
        if self.command is not None:
            where = f"{self.named} command"
            return _output_of(self.command, where, longest), where
        return None


def _from_descriptor(descriptor: int, where: str, longest: int) -> bytes:
    try:
        with os.fdopen(descriptor, "rb") as file:
            return file.read(longest)
    except OSError as error:
        raise InputError(f"{where}: cannot be read ({error.strerror})") from None
    except OverflowError:
        raise InputError(f"{where}: no file descriptor has this number") from None


def _output_of(command: str, where: str, longest: int) -> bytes:
    """What a command prints; its standard error goes to the terminal, its standard output only here.

    Args:
        command: split as a shell would split it, and run without a shell.
        where: it comes from, for messages.
        longest: bytes that are kept at most.

    Raises:
        InputError: it cannot be run, or ends with an error. The message does not show what it has printed.
    """
    try:
        arguments = shlex.split(command)
        if not arguments:
            raise InputError(f"{where}: is empty; a command that prints the key is needed")
        process = subprocess.run(arguments, stdout=subprocess.PIPE, check=False, timeout=_PATIENCE)
    except ValueError as error:
        raise InputError(f"{where}: cannot be split into words ({error})") from None
    except OSError as error:
        raise InputError(f"{where}: {arguments[0]} cannot be run ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        # Not chained: the other error carries what the command wrote.
        raise InputError(f"{where}: {arguments[0]} gave no key within {_PATIENCE} seconds") from None
    if process.returncode:
        raise InputError(f"{where}: {arguments[0]} ended with status {process.returncode}")
    return process.stdout[:longest]


class KeySource(SecretSource):
    """Where the master key is."""

    def __str__(self) -> str:
        """As on the command line; a command is not shown, since it may hold a password."""
        return f"--key file:{self.file}" if self.file is not None else "a key on the command line"

    def read(self) -> MasterKey | None:
        """The key; None if no source is given.

        Raises:
            InputError: the source has no key. The message does not show what it has.
        """
        found = self.content("key file", LONGEST_KEY_TEXT)
        return None if found is None else MasterKey.from_content(*found)


def given_source(text: str | None) -> KeySource:
    """Where `--key` says that the key is; nowhere if it was not given."""
    return KeySource.parse(text, "--key")


def configured_source(spec: Path | ReleaseSpec, settings: Settings) -> KeySource:
    """Where the settings say that the key is; nowhere if they do not, or the spec has a test key of its own."""
    source = key_of_settings(settings)
    return source if source == KeySource() or as_spec(spec).privacy.key is None else KeySource()


def key_of_settings(settings: Settings) -> KeySource:
    """Where the settings say that the key is."""
    from pipeline.execution.settings import where_set  # which measuring does not need

    return KeySource.parse(settings.key, where_set("key"))


class Keyholder:
    """The master key of a run: the operator's, the spec's test key, or the run's own. It is read once, when needed.

    Args:
        source: what the operator says.
        test_key: of the spec, None if it has none.
    """

    def __init__(self, source: KeySource, test_key: str | None) -> None:
        self._source = source
        self._test_key = test_key
        self._released: MasterKey | None = None

    def identity(self) -> str:
        """What is public about the key's origin; a different key makes a different run.

        Raises:
            InputError: the source has no key.
        """
        given = self._handed_in
        return "the run's own" if given is None else given.commitment()

    def key(self, run: RunDirectory) -> MasterKey:
        """The key; the run's own is drawn if there is none yet.

        Raises:
            InputError: a key cannot be read or written, or the run's own was destroyed.
        """
        given = self._handed_in
        if given is not None and self._source != KeySource():
            return given
        if run.key.exists():
            return MasterKey.read(run.key)
        if run.key_destroyed.exists():
            raise InputError(
                f"{run.root}: the key of this run was destroyed; the run cannot be repeated, only verified"
            )
        key = MasterKey.generate() if given is None else given
        key.write(run.key)
        return key

    def present(self, run: RunDirectory) -> MasterKey | None:
        """The key if there is one; none is drawn.

        Raises:
            InputError: a key cannot be read.
        """
        given = self._handed_in
        return given if given is not None or not run.key.exists() else MasterKey.read(run.key)

    def of_release(self, run: RunDirectory) -> MasterKey:
        """See `key_of_release`; a descriptor can be read once."""
        if self._released is None:
            self._released = key_of_release(run, self._source)
        return self._released

    def of_answer(self, run: RunDirectory) -> MasterKey:
        """See `key_of_answer`."""
        return key_of_answer(run, self._source)

    @cached_property
    def _handed_in(self) -> MasterKey | None:
        return self._source.read() if self._test_key is None else MasterKey.from_text(self._test_key)


def check_made_here(run: RunDirectory) -> None:
    """InputError where nothing was drawn for the release: another program, or earlier runs, drew its measurements."""
    manifest = read_manifest(run.manifest)
    if "update" in manifest.spec:
        raise InputError(
            f"{run.root}: is a version of measurements that were drawn before: repeat the release that it replaces and "
            "each answer, where they were made, and verify this version, which has their measurements unchanged"
        )
    if manifest.status in (MADE_ELSEWHERE, RECEIVED):
        raise InputError(
            f"{run.root}: was estimated from measurements that were made elsewhere; there is no key and no record to "
            "repeat it from (spinewise verify recomputes it from its measurements)"
        )


def key_of_release(run: RunDirectory, source: KeySource) -> MasterKey:
    """The key that the release was made with: from `source`, or the one that the run kept.

    Raises:
        InputError: there is none, or it is a different one.
    """
    check_made_here(run)
    return _key_of(run, source, lambda: read_manifest(run.manifest))


def key_of_answer(run: RunDirectory, source: KeySource) -> MasterKey:
    """The key that an answer was made with; errors as `key_of_release`."""
    from pipeline.questions.manifest import read_answer  # which a run does not need

    return _key_of(run, source, lambda: read_answer(run))


def _key_of(run: RunDirectory, source: KeySource, manifest_of: Callable[[], Manifest | AnswerManifest]) -> MasterKey:
    key = source.read()
    if key is None:
        if run.key_destroyed.exists():
            raise InputError(
                f"{run.root}: the key was destroyed; without it the noise cannot be drawn again, so the release can be "
                "verified (spinewise verify) but no longer rerun"
            )
        if not run.key.exists():
            raise InputError(
                f"{run.root}: the key is not here; give it with --key (a release whose key is lost can still be "
                "verified)"
            )
        key = MasterKey.read(run.key)
    manifest = manifest_of()
    own, stated = key.commitment(manifest.key_salt), manifest.key_commitment
    if own != stated:
        raise InputError(
            f"the key is not the one that {run.root} was made with: its commitment begins with {own[:12]}, the "
            f"manifest's with {stated[:12]}; nothing was drawn"
        )
    return key


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


def signing_key(settings: Settings, given: str | None = None) -> SigningKey | None:
    """The signing key that the command line names, or else the settings; None if neither does.

    Raises:
        InputError: the source is no source, or has no key. The message does not show what it has.
    """
    from pipeline.execution.settings import where_set  # which measuring does not need
    from pipeline.signatures.signing_keys import LONGEST_SIGNING_KEY_TEXT, SigningKey

    source = SecretSource.parse(settings.sign_key, where_set("sign_key"))
    if given is not None:
        source = SecretSource.parse(given, "--sign-key")
    found = source.content("signing key file", LONGEST_SIGNING_KEY_TEXT)
    return None if found is None else SigningKey.from_content(*found)


def required_signing_key(settings: Settings, given: str | None) -> SigningKey:
    """The agency's signing key; InputError if neither names one."""
    key = signing_key(settings, given)
    if key is None:
        raise InputError(
            "no signing key: give --sign-key file:PATH, fd:NUMBER or command:COMMAND, or set sign_key; spinewise key "
            "sign-new makes one"
        )
    return key
