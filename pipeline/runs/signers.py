"""Whether what is used together is signed by one key: a signed release is used with answers of the same signer only."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory
from pipeline.signatures.signing_keys import PublicKey
from pipeline.signatures.statement import is_signed, signature_problems

__all__ = ["require_signer"]


def require_signer(release: RunDirectory, answers: Sequence[RunDirectory], key: PublicKey | None) -> None:
    """Refuse a signed release whose signature does not hold, and answers that are not of its signer.

    Args:
        release: finished; where it is not signed and no key is named, nothing is asked of anybody.
        answers: that are used with it.
        key: of the signer, from somewhere that is trusted; a signature alone does not say whose it is.

    Raises:
        InputError: the release is signed and no key is named; or with one, a signature is missing or does not hold.
    """
    if key is None:
        if is_signed(release):
            raise InputError(
                f"{release.root}: is signed, so that it and the answers used with it need a valid signature of one "
                "key: name its public key with --signed-by"
            )
        return
    for run in (release, *answers):
        if problems := signature_problems(run, key):
            raise InputError(f"{run.root}: {problems[0]}")
