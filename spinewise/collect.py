"""Randomisers for the local model: answers protected on the respondent's device. Needs numpy only.

from spinewise.collect import Respondent, mechanism_of

mechanism = mechanism_of("randomised_response", {"epsilon": "1", "memoised": "yes"})
device = Respondent(mechanism, "health", secret=stored_secret)
device.send(1)          # what leaves the device: Sent(report='0', cohort='')
"""

from __future__ import annotations

from pipeline.collect.bits import KeyedBytes, RandomBytes, SystemBytes
from pipeline.collect.choices import DirectEncoding, RandomisedResponse
from pipeline.collect.finding import FoundWords, find_words
from pipeline.collect.mechanism import FAULTS, Bound, Decoded, LinearForm, ListedMechanism, Mechanism
from pipeline.collect.parameters import PARAMETERS, mechanism_of
from pipeline.collect.rappor import Rappor
from pipeline.collect.respondent import Respondent, Sent
from pipeline.collect.unary import OptimisedUnaryEncoding
from pipeline.collect.words import WordList

__all__ = [
    "FAULTS",
    "PARAMETERS",
    "Bound",
    "Decoded",
    "DirectEncoding",
    "FoundWords",
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
    "find_words",
    "mechanism_of",
]
