"""Randomisers for the local model: answers protected on the respondent's device. Needs numpy only.

from spinewise.collect import Respondent, mechanism_of

mechanism = mechanism_of("randomised_response", {"epsilon": "1", "memoised": "yes"})
device = Respondent(mechanism, "health", secret=stored_secret)
device.send(1)          # what leaves the device: Sent(report='0', cohort='')

This is of the feature `local`; without its folder, it cannot be imported.
"""

from __future__ import annotations

from features.local.collect.bits import (  # type: ignore[import-not-found, unused-ignore]
    KeyedBytes,
    RandomBytes,
    SystemBytes,
)
from features.local.collect.listed import (  # type: ignore[import-not-found, unused-ignore]
    DirectEncoding,
    ListedMechanism,
    OptimisedUnaryEncoding,
    RandomisedResponse,
)
from features.local.collect.mechanism import LocalMechanism, RatioBound  # type: ignore[import-not-found, unused-ignore]
from features.local.collect.rappor import Rappor  # type: ignore[import-not-found, unused-ignore]
from features.local.collect.reports import FAULTS, Decoded  # type: ignore[import-not-found, unused-ignore]
from features.local.collect.respondent import (  # type: ignore[import-not-found, unused-ignore]
    PARAMETERS,
    Respondent,
    Sent,
    mechanism_of,
)

__all__ = [
    "FAULTS",
    "PARAMETERS",
    "Decoded",
    "DirectEncoding",
    "KeyedBytes",
    "ListedMechanism",
    "LocalMechanism",
    "OptimisedUnaryEncoding",
    "RandomBytes",
    "RandomisedResponse",
    "Rappor",
    "RatioBound",
    "Respondent",
    "Sent",
    "SystemBytes",
    "mechanism_of",
]
