"""What `spinewise.collect` names: all that a device needs, and an office that counts what devices sent."""

from __future__ import annotations

from features.local.collect.bits import KeyedBytes, RandomBytes, SystemBytes
from features.local.collect.choices import DirectEncoding, RandomisedResponse
from features.local.collect.mechanism import FAULTS, Bound, Decoded, LinearForm, ListedMechanism, Mechanism
from features.local.collect.parameters import PARAMETERS, mechanism_of
from features.local.collect.rappor import Rappor
from features.local.collect.respondent import Respondent, Sent
from features.local.collect.unary import OptimisedUnaryEncoding
from features.local.collect.words import AreaCounts, ArrivedReports, WordList, arrived, count_words

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
