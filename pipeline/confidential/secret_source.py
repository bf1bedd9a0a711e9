"""Where a secret comes from: a file, a file descriptor or a command; read once, never shown, never an argument."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pipeline.errors import InputError
from pipeline.privacy.keys import read_private

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
