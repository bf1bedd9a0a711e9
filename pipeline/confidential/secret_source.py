"""Where a secret comes from: a file, a file descriptor or a command; read once, never shown, never an argument."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InputError
from pipeline.privacy.keys import read_private

#: Seconds that a vault is given to answer.
_PATIENCE = 300


@dataclass(frozen=True)
class SecretSource:
    """What the command line says about a secret; at most one of the three.

    Attributes:
        option: what its options begin with, such as "--key" for --key-file, --key-fd and --key-command.
        file: a file with the secret.
        descriptor: an open file descriptor from which the file's content is read; it is closed afterwards.
        command: a command that writes the file's content to its standard output; it is split as a shell would split
            it and run without a shell.
    """

    option: str
    file: Path | None = None
    descriptor: int | None = None
    command: str | None = None

    def content(self, what: str, longest: int) -> tuple[bytes, str] | None:
        """The content, and where it comes from for messages; None if no source is given.

        Args:
            what: what its file is called in messages, such as "key file".
            longest: bytes that are read at most.

        Raises:
            InputError: several sources are given, or the source cannot be read. The message does not show its content.
        """
        sources = {"file": self.file, "fd": self.descriptor, "command": self.command}
        named = [f"{self.option}-{name}" for name, value in sources.items() if value is not None]
        if not named:
            return None
        if len(named) > 1:
            raise InputError(f"found {' and '.join(named)}; one source of the key is allowed")
        if self.file is not None:
            return read_private(self.file, what, longest), f"{what} {self.file}"
        if self.descriptor is not None:
            where = f"{named[0]} {self.descriptor}"
            return _from_descriptor(self.descriptor, where, longest), where
        return _output_of(self.command or "", named[0], longest), named[0]


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
