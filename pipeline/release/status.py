"""What a release may be called: whether it may be published."""

from __future__ import annotations

from typing import Final, Literal

Status = Literal[
    "official",
    "not charged: budgets of repeated runs add up and nobody counts them",
    "NOT FOR RELEASE: insecure test key",
    "estimated from measurements that were made elsewhere",
    "estimated from numbers that others published; no promise of privacy is made here",
    "EXAMPLE: made-up data, about nobody",
    "official, but public inputs were made from the records",
]
#: Of a release whose noise anyone can redo.
TEST_KEY: Final[Status] = "NOT FOR RELEASE: insecure test key"
#: Of a release whose noise is real, and which no ledger has counted.
UNCHARGED: Final[Status] = "not charged: budgets of repeated runs add up and nobody counts them"
#: Of a release whose operator accepted public inputs that were made from the records.
FROM_RECORDS: Final[Status] = "official, but public inputs were made from the records"
#: Of a release whose spec says that it is an example.
EXAMPLE: Final[Status] = "EXAMPLE: made-up data, about nobody"
#: Of a release whose measurements another program drew.
MADE_ELSEWHERE: Final[Status] = "estimated from measurements that were made elsewhere"
#: Of a release from numbers that others published, which has no records and no budget.
RECEIVED: Final[Status] = "estimated from numbers that others published; no promise of privacy is made here"


def status(*, insecure_key: bool, charged: bool, purpose: str | None = None, from_records: bool = False) -> Status:
    """Whether a release may be published.

    Args:
        insecure_key: anyone can redo the noise.
        charged: to a ledger.
        purpose: as its spec states it.
        from_records: public inputs were made from the records, and the operator accepted that.
    """
    if insecure_key:
        return TEST_KEY
    if purpose == "example":
        return EXAMPLE
    if not charged:
        return UNCHARGED
    return FROM_RECORDS if from_records else "official"
