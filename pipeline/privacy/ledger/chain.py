"""One event of the ledger: what it states, and the hash by which it is sealed to the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from pipeline.errors import SpinewiseError
from pipeline.privacy.accounting.mechanisms import MechanismName, mechanism
from pipeline.privacy.ledger.disclosures import Exact, Subject, way_of


def details_text(content: Mapping[str, Any]) -> str:
    """The one text of an object: names in order, no blanks, ASCII."""
    return json.dumps(dict(content), sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def read_details(text: str, *names: str) -> dict[str, Any]:
    """The object of a text as `details_text` writes it, with just these names. ValueError for any other."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or details_text(content) != text or content.keys() != set(names):
        raise ValueError(f"has the details {text[:200]!r}, which do not state {', '.join(sorted(names))}")
    return content


EventKind = Literal[
    "open", "allow", "charge", "exact", "key", "commit", "close", "purpose", "series", "period"
]  # fmt: skip

#: Ends the query of a charge whose scale is not that of every geounit, though every path costs the same.
BYPASSED: Final = " (bypass)"

_SEAL: Final = "spinewise ledger event 1"
_EXACT: Final = re.compile(r"-?[0-9]+(/[0-9]+)?", re.ASCII)
#: Of events with details; those without keep the hash that they had before there were any.
_SEAL_WITH_DETAILS: Final = "spinewise ledger event 2"


class LedgerError(SpinewiseError):
    """The ledger cannot be used, or is damaged."""


@dataclass(frozen=True, order=True)
class Group:
    """One mechanism on all geounits of a level: what is charged.

    Attributes:
        level, query: what is measured; for a choice the query is `Select.stream_name`. A query ends with `BYPASSED`
            where geounits without siblings are bypassed: their share is spent above, with more budget at once.
        mechanism, scale: `discrete_gaussian` with sigma^2, `discrete_laplace` with b, `exponential` and
            `permute_and_flip` with epsilon.
        count: how many numbers are drawn, geounits times answers; for the record, the cost does not depend on it.
    """

    level: str
    query: str
    mechanism: MechanismName
    scale: Fraction
    count: int


@dataclass(frozen=True)
class Event:
    """One line of the ledger. What does not apply to its kind is empty.

    Attributes:
        number: 1, 2, 3 ...
        kind: `open` or `close` a dataset; `allow` it an exact disclosure; before anything is drawn, `charge` it for one
            mechanism group of a run, record what the run discloses exactly (`exact`), and the `key` that it uses;
            `commit`: the run has drawn all that it was charged for. A `purpose` sets a part of a dataset's budget
            aside, by the name in `query`. A `series` of releases is opened by the run of its first period, which is
            charged for all of them, and each `period` is drawn once.
        time: of the event, UTC, ISO 8601.
        population: a description of the people in the dataset.
        framework: the budget is rho ("zcdp") or epsilon ("pure").
        budget: of an `open`, or a `purpose`; `cost`: of a `charge`; `scale`: see `Group`. Exact fractions as text.
        run: fingerprint of what determines the noise; see `charges.run_fingerprint`.
        release: the name of the release charged for.
        previous: hash of the event before; the ledger's own id for the first.
        hash: SHA-256 over all of the other fields.
        details: what else the kind states, as `details_text` writes it: the way of an `allow`; way, universe and
            content of an `exact`; of a `key`, see `KeyUse`; the share of a `purpose`, and the purpose of a `charge`
            that is for one; of a `series` and a `period`, see `SeriesUse`.
    """

    number: int
    kind: EventKind
    time: str
    dataset: str
    population: str = ""
    framework: str = ""
    neighbours: str = ""
    budget: str = ""
    run: str = ""
    release: str = ""
    level: str = ""
    query: str = ""
    mechanism: str = ""
    scale: str = ""
    count: int = 0
    cost: str = ""
    previous: str = ""
    hash: str = ""
    details: str = ""

    def computed_hash(self) -> str:
        """The SHA-256 in hexadecimal that the event should have, over all its other fields."""
        content = [_SEAL, *(getattr(self, name) for name in _SEALED)]
        if self.details:
            content = [_SEAL_WITH_DETAILS, *content[1:], self.details]
        return hashlib.sha256(_TO_JSON(content).encode()).hexdigest()

    def group(self) -> Group:
        """What a `charge` is for; LedgerError if its fields do not state that properly."""
        drawn = mechanism(self.mechanism, exact_of_text(self.scale, "scale"))
        return Group(self.level, self.query, drawn.mechanism, drawn.scale, self.count)

    def subject(self) -> Subject:
        """What an `allow` declares; ValueError if its fields do not state that properly."""
        return Subject(way_of(read_details(self.details, "way")["way"]), self.level, self.query)

    def exact(self) -> Exact:
        """What an `exact` discloses; ValueError if its fields do not state that properly."""
        stated = read_details(self.details, "way", "universe", "content")
        subject = Subject(way_of(stated["way"]), self.level, self.query)
        return Exact(subject, stated["universe"], stated["content"], self.count)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return asdict(self)


_TO_JSON: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_SEALED: Final = tuple(f.name for f in fields(Event) if f.name not in ("hash", "details"))


def is_typed(values: Mapping[str, object]) -> bool:
    """Whether the fields of an event that was read are texts, and whole numbers where the event has numbers."""
    return all(type(value) is (int if name in ("number", "count") else str) for name, value in values.items())


def sealed(event: Event, number: int, previous: str) -> Event:
    """The event as the next of a chain."""
    placed = replace(event, number=number, previous=previous)
    return replace(placed, hash=placed.computed_hash())


def exact_of_text(text: str, label: str) -> Fraction:
    """The fraction of its one text, in lowest terms, "3/2" or "2"; LedgerError for any other."""
    value = _exact_value(text)
    if value is None:
        raise LedgerError(f"has the {label} {text!r}, which is not an exact fraction in lowest terms")
    return value


@lru_cache(maxsize=4096)  # a ledger has few different scales and costs
def _exact_value(text: str) -> Fraction | None:
    try:
        # Only its one text: Fraction would take an exponent of any size, for hours.
        value = Fraction(text) if _EXACT.fullmatch(text) else None
    except (ValueError, ZeroDivisionError):
        return None
    return value if value is not None and str(value) == text else None
