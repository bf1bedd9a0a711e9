"""A respondent's device: it answers a question again and again, and shows no more than its permanent response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from features.local.collect.bits import KeyedBytes, RandomBytes, SystemBytes, uniform_below
from features.local.collect.mechanism import Mechanism
from features.local.collect.parameters import mechanism_of
from features.local.collect.rappor import Rappor
from pipeline.errors import InputError

#: Bytes of a secret.
SECRET_BYTES = 32


@dataclass(frozen=True)
class Sent:
    """What leaves the device.

    Attributes:
        report: text of fixed length.
        cohort: decimal; empty for a mechanism without cohorts.
    """

    report: str
    cohort: str = ""


@dataclass(frozen=True)
class Respondent:
    """One device, one question.

    The permanent response is not stored: it is drawn from a keyed stream of the secret, the question, the mechanism and
    the value, so it is the same each time. Whoever does not know the secret cannot tell it from a random draw
    (SHAKE-256). The secret is made once per device of 32 random bytes (`secrets.token_bytes(32)`), and stays there. A
    lost secret means a second permanent response: bounds for ever then hold for each secret.

    Attributes:
        mechanism: of the question.
        question: its name; two questions have responses that are independent.
        secret: 32 bytes, not shown.
        source: of random bytes for what is drawn for each report.
    """

    mechanism: Mechanism
    question: str
    secret: bytes = field(repr=False)
    source: RandomBytes = field(default_factory=SystemBytes, repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise InputError(f"secret: found {len(self.secret)} bytes; {SECRET_BYTES} random ones are needed")

    @classmethod
    def of(cls, mechanism: str, parameters: Mapping[str, str], question: str, secret: bytes) -> Respondent:
        """From the name and the parameters of the mechanism, as a spec has them."""
        return cls(mechanism_of(mechanism, parameters), question, secret)

    @property
    def cohort(self) -> int:
        """Of this device, for ever; 0 for a mechanism without cohorts."""
        return int(uniform_below(self.mechanism.n_cohorts, 1, self._keyed("cohort"))[0])

    def send(self, value: int | str) -> Sent:
        """A report of the value.

        Args:
            value: number of the value; a text for RAPPOR.

        Raises:
            InputError: it is no value of the mechanism.
        """
        mechanism = self.mechanism
        if isinstance(mechanism, Rappor):
            if not isinstance(value, str):
                raise InputError("value: rappor needs a text")
            permanent = mechanism.permanent([value], np.array([self.cohort]), self._keyed("permanent", value))
            return Sent(mechanism.encode(mechanism.report(permanent, self.source))[0], str(self.cohort))
        if isinstance(value, str):
            raise InputError(f"value: {mechanism.name} needs the number of a value")
        source = self._keyed("permanent", str(value)) if mechanism.repeated else self.source
        return Sent(mechanism.encode(mechanism.randomise(np.array([value]), source))[0])

    def _keyed(self, purpose: str, value: str = "") -> KeyedBytes:
        stated = [f"{key}={text}" for key, text in sorted(self.mechanism.parameters().items())]
        return KeyedBytes(self.secret, (purpose, self.question, self.mechanism.name, *stated, value))
