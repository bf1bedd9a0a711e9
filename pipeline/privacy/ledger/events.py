"""The events of a ledger: what each states, and the hash by which it is sealed to the one before.

Exact disclosures are numbers that a release publishes without noise, which no budget covers. A dataset declares what
may be exact (`Subject`); a run that discloses it (`Exact`) is recorded, and anything else is refused. A name alone does
not say what is disclosed: "total at county" is another set of numbers over other counties. So each declaration stands
for one meaning (`Exact.content`), which the first run that uses it fixes.

One key is for one set of records (`KeyUse`). Equal records, spine and spec give equal noise under equal keys, so two
releases with one key would show whether any record changed between them. The ledger therefore refuses a key that was
used over other records. So it does where the same records are read otherwise, whether that changes a count or not: else
the refusal, or that there is none, would say which. The commitments here are not the published ones, which differ from
release to release.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, get_args

from pipeline.errors import InputError, SpinewiseError
from pipeline.model.content import content_sha256
from pipeline.privacy.noise.mechanisms import MechanismName, mechanism


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
class Moved:
    """How far a change of one person moves what is drawn, where that is not one record's numbers by one each.

    Attributes:
        records: of the person that the change alters.
        reach: a record moves each number by up to so much.
        losses: the change moves each loss of a choice by up to so much, whatever the neighbours.
        numbers: a unit is in up to so many numbers, by one each.
        series: the squared distance of two histories over a whole series, in that of two records of one release.
    """

    records: Fraction = Fraction(1)
    reach: Fraction = Fraction(1)
    losses: Fraction = Fraction(1)
    numbers: Fraction = Fraction(1)
    series: Fraction = Fraction(1)

    @classmethod
    def by(cls, **moved: int | Fraction) -> Moved:
        """With these numbers."""
        return cls(**{name: Fraction(number) for name, number in moved.items()})

    def stated(self) -> dict[str, str]:
        """The numbers that are not 1, as text."""
        return {name: str(number) for name, number in vars(self).items() if number != 1}


@dataclass(frozen=True, order=True)
class Group:
    """One mechanism on all geounits of a level: what is charged.

    Attributes:
        level, query: what is measured; for a choice the query is `Select.stream_name`. A query ends with `BYPASSED`
            where geounits without siblings are bypassed: their share is spent above, with more budget at once.
        mechanism, scale: `discrete_gaussian` with sigma^2, `discrete_laplace` with b, `exponential` and
            `permute_and_flip` with epsilon.
        count: how many numbers are drawn, geounits times answers; for the record, the cost does not depend on it.
        moved: how far one person's change moves them.
    """

    level: str
    query: str
    mechanism: MechanismName
    scale: Fraction
    count: int
    moved: Moved = Moved()

    def details(self, purpose: str) -> str:
        """What a charge for it states beside its fields: what is `moved`, and the purpose, if it is for one."""
        stated = {"moved": self.moved.stated(), "purpose": purpose}
        content = {name: one for name, one in stated.items() if one}
        return details_text(content) if content else ""


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
            content of an `exact`; of a `key`, see `KeyUse`; the share of a `purpose`; of a `charge` see
            `Group.details`; of a `series` and a `period`, see `SeriesUse`.
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
        return Group(self.level, self.query, drawn.mechanism, drawn.scale, self.count, self._moved())

    def _moved(self) -> Moved:
        """What the details of a `charge` state of it; LedgerError where these are none, or a number is below 1."""
        try:
            stated = json.loads(self.details).get("moved", {}) if self.details else {}
            found = Moved.by(**{name: exact_of_text(text, name) for name, text in stated.items()})
        except (ValueError, AttributeError, TypeError):
            raise LedgerError(f"has the details {self.details[:200]!r}, which do not state what is charged") from None
        if min(vars(found).values()) < 1 or found.stated() != stated:
            raise LedgerError(f"has the details {self.details[:200]!r}: what is moved is above 1, or not stated")
        return found

    def subject(self) -> Subject:
        """What an `allow` declares; ValueError if its fields do not state that properly."""
        return Subject(read_details(self.details, "way")["way"], self.level, self.query)

    def exact(self) -> Exact:
        """What an `exact` discloses; ValueError if its fields do not state that properly."""
        stated = read_details(self.details, "way", "universe", "content")
        subject = Subject(stated["way"], self.level, self.query)
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


#: Answers published as they are; cells, or groups of cells for which there are facilities, that are stated as public;
#: public inputs that were made from the records.
Way = Literal["invariant", "zeros", "bounds", "inputs"]

#: A SHA-256 as text.
HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def inputs_of(universe: str, accepted: Iterable[str]) -> list[str]:
    """The public inputs of a universe among those of a release, which are called "companions.NAME.INPUT" there."""
    own = f"companions.{universe}." if universe else ""
    return [name for one in accepted if one.startswith(own) and "." not in (name := one.removeprefix(own))]


@dataclass(frozen=True, order=True)
class Subject:
    """What may be exact, as an operator declares it.

    Attributes:
        way: `invariant`; `zeros`, the structural zeros of a spec; `bounds`, the groups of cells that it bounds;
            `inputs`, a public input that was made from the records.
        level: of an invariant; "" otherwise.
        query: of an invariant; the bounds' name, or the input's; "" for zeros.
    """

    way: Way
    level: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        named = {"invariant": (True, True), "zeros": (False, False)}.get(self.way, (False, True))
        if self.way not in get_args(Way) or named != (bool(self.level), bool(self.query)):
            raise ValueError(f"nothing exact is called {self.way!r}, {self.level!r}, {self.query!r}")

    @classmethod
    def parse(cls, text: str) -> Subject:
        """The subject of "LEVEL:QUERY", "bounds:NAME", "inputs:NAME" or "zeros".

        >>> Subject.parse("county: votingage*race")
        Subject(way='invariant', level='county', query='votingage * race')

        Raises:
            InputError: it is none of these.
        """
        level, colon, query = (part.strip() for part in text.partition(":"))
        if not colon and level == "zeros":
            return cls("zeros")
        if not level or not query:
            raise InputError(
                f"--exact: found {text!r}; allowed are LEVEL:QUERY for an invariant, zeros for structural zeros, "
                "bounds:NAME for the bounds of that name, and inputs:NAME for a public input made from the records"
            )
        if level == "bounds" or level == "inputs":
            return cls("bounds" if level == "bounds" else "inputs", "", query)
        return cls("invariant", level, " * ".join(term.strip() for term in query.split("*")))

    def __str__(self) -> str:
        """As `parse` reads it."""
        if self.way == "zeros":
            return "zeros"
        return f"{self.level or self.way}:{self.query}"


@dataclass(frozen=True, order=True)
class Exact:
    """An exact disclosure of a run.

    Attributes:
        subject: what it is called.
        universe: whose; "" is the release's own.
        content: SHA-256 in hexadecimal over all that says which numbers these are; nothing confidential.
        count: how many numbers, for the record.
    """

    subject: Subject
    universe: str
    content: str
    count: int

    def __post_init__(self) -> None:
        if not HEX.fullmatch(self.content):
            raise ValueError("the content of an exact disclosure is 64 hex digits")

    def __str__(self) -> str:
        return f"{self.subject}{' of ' + self.universe if self.universe else ''}"


def undeclared(declared: Sequence[Subject], before: Iterable[Exact], asked: Iterable[Exact]) -> list[Exact]:
    """Which of the disclosures asked for no declaration covers.

    Args:
        declared: each stands for one meaning; the same may be declared several times.
        before: what was disclosed of the dataset so far, which has used declarations up.
        asked: what a run is going to disclose.
    """
    used: dict[Subject, set[tuple[str, str]]] = {}
    for exact in before:
        used.setdefault(exact.subject, set()).add((exact.universe, exact.content))
    refused = []
    for exact in asked:
        meanings = used.setdefault(exact.subject, set())
        meaning = (exact.universe, exact.content)
        if meaning in meanings:
            continue
        if len(meanings) >= declared.count(exact.subject):
            refused.append(exact)
            continue
        meanings.add(meaning)
    return refused


#: So many characters at the start of a use's details state the commitment: uses of one key begin alike.
COMMITTED: Final = len('{"commitment":""') + 64


@dataclass(frozen=True)
class KeyUse:
    """A key over the records of one universe.

    Attributes:
        commitment: of the key, the same in every run.
        universe: its name; another universe's streams are others.
        layout: hash of the attributes and the spine, by which the records are counted.
        records: keyed fingerprint of the counts, and how they are read; two can only be compared where layouts are the
            same.
    """

    commitment: str
    universe: str
    layout: str
    records: str

    def __post_init__(self) -> None:
        if not all(HEX.fullmatch(text) for text in (self.commitment, self.layout, self.records)):
            raise ValueError("a key's use is stated by three hashes of 64 hex digits")

    @classmethod
    def parse(cls, text: str) -> KeyUse:
        """The use that an event's details state; ValueError where they do not."""
        return cls(**read_details(text, *(field.name for field in fields(cls))))

    @property
    def stream(self) -> str:
        """Key and universe: uses can only conflict where these are the same."""
        return f"{self.commitment} {self.universe}"

    def details(self) -> str:
        """The use as an event's details."""
        return details_text(vars(self))

    @classmethod
    def read_so(cls, commitment: str, universe: str, layout: str, counts: str, reading: Sequence[object]) -> KeyUse:
        """The use over counts of records that are read so, as JSON."""
        return cls(commitment, universe, layout, content_sha256([counts, list(reading)]))


def conflicting(dataset: str, use: KeyUse, before: Iterable[tuple[str, KeyUse]]) -> str:
    """The dataset over whose other records the key was used before; "" where it was not.

    Args:
        dataset: that the use is charged to.
        use: what a run is going to do.
        before: dataset and use, of all runs so far.
    """
    for name, other in before:
        if (other.commitment, other.universe) != (use.commitment, use.universe):
            continue
        if name != dataset or (other.layout == use.layout and other.records != use.records):
            return name
    return ""
