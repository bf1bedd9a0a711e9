"""The custody of the key that an agency signs with: from a file, a file descriptor or a command, as the master key."""

from __future__ import annotations

from pipeline.confidential.custody import SecretSource
from pipeline.errors import InputError
from pipeline.execution.settings import Settings, where_set
from pipeline.signatures.signing_keys import LONGEST_SIGNING_KEY_TEXT, SigningKey


def signing_key(settings: Settings, given: str | None = None) -> SigningKey | None:
    """The signing key that the command line names, or else the settings; None if neither does.

    Raises:
        InputError: the source is no source, or has no key. The message does not show what it has.
    """
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
