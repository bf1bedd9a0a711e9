"""Randomisers for the local model: answers protected on the respondent's device. Needs numpy only.

from spinewise.collect import Respondent, mechanism_of

mechanism = mechanism_of("randomised_response", {"epsilon": "1", "memoised": "yes"})
device = Respondent(mechanism, "health", secret=stored_secret)
device.send(1)          # what leaves the device: Sent(report='0', cohort='')

This is of the feature `local`; without its folder, it cannot be imported.
"""

from __future__ import annotations

from features.local.device import (  # type: ignore[import-not-found, unused-ignore]
    FAULTS,
    PARAMETERS,
    AreaCounts,
    ArrivedReports,
    Bound,
    Decoded,
    DirectEncoding,
    KeyedBytes,
    LinearForm,
    ListedMechanism,
    Mechanism,
    OptimisedUnaryEncoding,
    RandomBytes,
    RandomisedResponse,
    Rappor,
    Respondent,
    Sent,
    SystemBytes,
    WordList,
    arrived,
    count_words,
    mechanism_of,
)

__all__ = [
    "FAULTS",
    "PARAMETERS",
    "AreaCounts",
    "ArrivedReports",
    "Bound",
    "Decoded",
    "DirectEncoding",
    "KeyedBytes",
    "LinearForm",
    "ListedMechanism",
    "Mechanism",
    "OptimisedUnaryEncoding",
    "RandomBytes",
    "RandomisedResponse",
    "Rappor",
    "Respondent",
    "Sent",
    "SystemBytes",
    "WordList",
    "arrived",
    "count_words",
    "mechanism_of",
]
