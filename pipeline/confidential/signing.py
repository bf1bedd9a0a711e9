"""The custody of the key that an agency signs with: from a file, a file descriptor or a command, as the master key."""

from __future__ import annotations

from pathlib import Path

from pipeline.confidential.secret_source import SecretSource
from pipeline.errors import InputError
from pipeline.execution.settings import Settings
from pipeline.signatures.signing_keys import LONGEST_SIGNING_KEY_TEXT, SigningKey

_OPTION = "--sign-key"


def given_signing_key(file: Path | None, descriptor: int | None, command: str | None) -> SigningKey | None:
    """The signing key that the command line names; None if it names none.

    Raises:
        InputError: it names several, or the source has no key. The message does not show what it has.
    """
    source = SecretSource(_OPTION, file, descriptor, command)
    found = source.content("signing key file", LONGEST_SIGNING_KEY_TEXT)
    return None if found is None else SigningKey.from_content(*found)


def signing_key(
    settings: Settings, file: Path | None, descriptor: int | None, command: str | None
) -> SigningKey | None:
    """The signing key that the command line names, or else the settings; None if neither does."""
    given = given_signing_key(file, descriptor, command)
    return given or given_signing_key(settings.sign_key_file, None, settings.sign_key_command)


def required_signing_key(
    settings: Settings, file: Path | None, descriptor: int | None, command: str | None
) -> SigningKey:
    """The agency's signing key; InputError if neither names one."""
    key = signing_key(settings, file, descriptor, command)
    if key is None:
        raise InputError(
            "no signing key: give --sign-key-file, --sign-key-fd or --sign-key-command, or set sign_key_file; "
            "spinewise key sign-new makes one"
        )
    return key
