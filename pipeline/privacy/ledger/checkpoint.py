"""A ledger's checkpoint: what its events up to one add up to, so that a charge verifies only those that came since.

It is kept beside the high-water mark, outside of what a writer of the ledger can change, in one file for each ledger.
It holds sums alone; what else a charge asks of the events before (its own run, its key, its series) is read from the
ledger, by an index (`Writing.resume`). Both are believed only while these events are untouched since they were
verified (`witness`); otherwise, and where the checkpoint is missing, of another version or damaged, all events are
verified again and it is written anew. `ledger verify` reads all events, and compares the checkpoint with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from pipeline.privacy.ledger.dataset import DatasetState
from pipeline.privacy.ledger.notes import Head, write_json

_FORMAT: Final = 1


@dataclass(frozen=True)
class Checkpoint:
    """The sums of a ledger's events.

    Attributes:
        head: the last event of them.
        witness: of the ledger's database, as it was then.
        datasets: for each dataset by name `spent`, by purpose in hexadecimal; `drawn`, the periods of each series; and
            `standing`, the numbers of the events that always count, such as its opening.
    """

    head: Head
    witness: str
    datasets: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, datasets: Mapping[str, DatasetState], head: Head, witness: str) -> Self:
        """What the events up to `head` add up to."""
        sums = {
            name: {
                "spent": {purpose: _text(amount) for purpose, amount in state.spent_for.items()},
                "drawn": dict(state.drawn),
                "standing": list(state.standing),
            }
            for name, state in datasets.items()
        }
        return cls(head, witness, sums)

    @classmethod
    def read(cls, path: Path, ledger: str) -> Self | None:
        """The checkpoint kept at `path`; None where there is none that counts."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            seal = content.pop("seal")
            if content["made_by"] != _made_by() or seal != _seal(ledger, content):
                return None
            return cls(Head(ledger, content["number"], content["hash"]), content["witness"], content["datasets"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Keep it at `path`; OSError if that cannot be."""
        number, last = self.head.number, self.head.hash
        content = {"made_by": _made_by(), "number": number, "hash": last, "witness": self.witness}
        content |= {"datasets": self.datasets}
        write_json(path, content | {"seal": _seal(self.head.ledger, content)})

    def standing(self) -> set[int]:
        """The numbers of the events that always count."""
        return {number for sums in self.datasets.values() for number in sums["standing"]}

    def restore(self, datasets: Mapping[str, DatasetState]) -> None:
        """Give the datasets, whose standing events were noted, their sums."""
        for name, sums in self.datasets.items():
            state = datasets[name]
            state.spent_for = {purpose: _amount(text) for purpose, text in sums["spent"].items()}
            state.drawn, state.standing = dict(sums["drawn"]), list(sums["standing"])


def _text(value: Fraction) -> str:
    """In hexadecimal, which has no limit of digits: many different scales make long denominators."""
    return f"{value.numerator:x}/{value.denominator:x}"


def _amount(text: str) -> Fraction:
    above, below = text.split("/")
    return Fraction(int(above, 16), int(below, 16))


def _seal(ledger: str, content: Mapping[str, Any]) -> str:
    """Shows damage, and the checkpoint of another ledger; whoever may write here can write a seal too."""
    text = json.dumps([ledger, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _made_by() -> str:
    return f"{_FORMAT} {version('spinewise')}"
