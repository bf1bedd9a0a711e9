"""The independent program's audit of a release, as part of `spinewise audit RELEASE_DIR`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from auditor.findings import Found
from auditor.keys import NoKeyError
from auditor.ledger import Read, read_ledger
from auditor.program import attacks, audit_with, secret_of, write_private
from auditor.reading.errors import FormError
from features.audit.findings import Finding
from pipeline.errors import InputError
from pipeline.privacy.ledger.ledger import Ledger

#: The heading of its findings.
GROUP = "independent"
#: Of guesses of which too few rest on noise of their own.
NOT_TESTED = "Whether it exceeds the promise is not tested: only {n} of the guesses are independent of each other."
#: Of the report on the attacks, below restricted/audit.
RECONSTRUCTION = "reconstruction.json"


def independent_findings(root: Path, key: Path | None, ledger: str | None) -> Iterator[Finding]:
    """What the second program finds, which shares no code with the first.

    Args:
        root: the release directory, with restricted/.
        key: file with the master key; default: the one that the run kept.
        ledger: the ledger that was charged; None to compare with none.

    Raises:
        InputError: the key or the ledger cannot be read.
    """
    try:
        secret, insecure = secret_of(root, key)
        read = None if ledger is None else _read(ledger)
    except (FormError, NoKeyError) as error:
        raise InputError(str(error)) from None
    try:
        for found in audit_with(root, secret, insecure, read):
            yield finding_of(found)
    except FormError as error:
        yield Finding(GROUP, "form", "release", passed=False, detail=str(error))


def attack_findings(root: Path, folder: Path) -> Iterator[Finding]:
    """Attack the release as an outsider would; writes what was achieved to `folder`, closed to others.

    Raises:
        InputError: true counts or measurements cannot be read.
    """
    try:
        attacked = attacks(root)
    except FormError as error:
        raise InputError(str(error)) from None
    write_private(folder / RECONSTRUCTION, [one.as_dict() for one in attacked])
    for one in attacked:
        name = one.universe or "the release"
        made, guessed = one.reconstruction, one.membership
        shares = {"best linear estimate": made.linear, "published counts": made.published}
        said = ", ".join(f"{share:.0%} from the {by}" for by, share in shares.items() if share is not None)
        without = "" if made.without_noise is None else f", {made.without_noise:.0%} if there were no noise"
        yield Finding(
            "attack", "records reconstructed", name, passed=True, value=made.published, limit=1.0,
            detail=f"{said}{without}; {made.blind:.0%} by who knows only sizes and shares; {made.records:,} records",
        )  # fmt: skip
        yield Finding(
            "attack", "a person guessed", name, passed=guessed.passed, value=guessed.right, limit=guessed.bound,
            detail=f"{guessed.words} No attack on the stated noise exceeds {guessed.best:.0%}."
            + ("" if guessed.tested else f" {NOT_TESTED.format(n=guessed.apart)}"),
        )  # fmt: skip
        yield finding_of(one.trials, "attack", name)


def finding_of(found: Found, group: str = GROUP, about: str = "") -> Finding:
    """A finding of the second program as the first reports it."""
    subject = f"{about}: {found.subject}" if about else found.subject
    return Finding(group, found.check, subject, found.passed, found.value, found.limit, found.detail)


def _read(ledger: str) -> Read:
    """The ledger; the second program judges it, and reads it where it is on SQLite."""
    if "://" not in ledger or ledger.startswith("sqlite:///"):
        return read_ledger(ledger)
    with Ledger.open(ledger) as opened:
        return opened.id, [event.as_dict() for event in opened.events()]
