"""Receipts: where the ledger has the charge of a release, as its manifest and its report state it.

A receipt is of the run's own events, so that the same run charged again has the same one. Nothing in it is secret: it
lets anybody who sees several releases add up what was spent, and the owner of the ledger find one that was put back.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from pipeline.release.stated import Digest, Stated

#: Of a release that no ledger has counted.
NOT_CHARGED: Final = "not charged: budgets of repeated runs add up and nobody counts them"
#: Of a release that a ledger has counted, see its receipts.
CHARGED: Final = "charged, see receipts"

#: Of a release from reports that were randomised by their senders.
NOTHING_TO_CHARGE: Final = "nothing to charge: every report was protected before it was collected"
#: Of such a release which uses counts of a central release too.
CHARGED_ELSEWHERE: Final = (
    "nothing to charge here: every report was protected before it was collected, and what the central release cost is "
    "in its own manifest"
)


class ExactReceipt(Stated):
    """Exact numbers that the ledger has recorded.

    Attributes:
        universe: "" is the release's own.
        what: "LEVEL:QUERY" of an invariant, "zeros", or "bounds:NAME".
    """

    universe: str
    what: str


class Receipt(Stated):
    """The charge of a release to one dataset.

    Attributes:
        dataset: its name in the ledger.
        ledger: the ledger's id.
        number, hash: of the last of the release's own charges and exact disclosures.
        unit: rho or epsilon; `cost`: of the whole release to the dataset, an exact fraction.
        exact: everything of the dataset that the release publishes exactly.
    """

    dataset: str
    ledger: Digest
    number: int = Field(ge=1)
    hash: Digest
    unit: str
    cost: str
    exact: tuple[ExactReceipt, ...]


def charging(receipts: tuple[Receipt, ...], *, local: bool, central: bool = False) -> str:
    """What manifest and report say of the charge.

    Args:
        receipts: of the release.
        local: whether it is from randomised reports.
        central: whether it uses counts of a central release too.
    """
    if local:
        return CHARGED_ELSEWHERE if central else NOTHING_TO_CHARGE
    return CHARGED if receipts else NOT_CHARGED
