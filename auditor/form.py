"""The public spec of a manifest, read anew: universes, queries, shares, and the noise that follows from them.

Everything is exact; the formulas are those of docs/privacy.md, written down a second time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.members import most_members
from auditor.reading.errors import FormError


@dataclass(frozen=True, eq=False)
class Query:
    """A query: for each attribute which group each of its values is in.

    Attributes:
        groups: one list an attribute; all 0 where the attribute is summed out.
        answer: `(n_cells,)` the answer that each cell is in.
        size: number of answers.
    """

    name: str
    groups: tuple[tuple[int, ...], ...]
    answer: NDArray[np.int64]
    size: int

    @property
    def kept(self) -> tuple[bool, ...]:
        """Whether each attribute is not summed out."""
        return tuple(len(set(groups)) > 1 for groups in self.groups)


@dataclass(frozen=True, eq=False)
class Choice:
    """A table whose detail is chosen privately, with the parameters that its share of the budget buys."""

    name: str
    level: str
    versions: tuple[Query, ...]
    thresholds: tuple[int, ...]
    share: Fraction
    epsilon: Fraction
    scale: Fraction
    cost: Fraction


@dataclass(frozen=True)
class Amount:
    """What the records of a universe count, each at most one number of a query; exact, in the amount's currency.

    Attributes:
        column: of the records.
        missing: the amount of those without one.
        reach: units that as many numbers as a change of a record moves would move by, each.
        total: whether that is a change of all records of a unit, whose amounts are within the ends together.
    """

    column: str
    low: Fraction
    high: Fraction
    unit: Fraction
    missing: Fraction | None
    reach: int
    total: bool = False


@dataclass(frozen=True, eq=False)
class Universe:
    """What is counted, measured and kept exact of one kind of records; the name "" is the release's own.

    Attributes:
        budget: rho or epsilon; `rest` is what private choices leave of it.
        moved: how many answers of a query one record changes, by one each.
        together: how many of the records one person's change alters; the budget is for all of them.
        amount: the ends and the unit of what a record counts, and how far one moves a number, in units; None for one.
        clipped: column of an amount, the ends beyond which records are counted, and the amount of those without one.
        levels: level, share, and each query with its share.
        chosen: how the words of its statement name a question that chose its upper end; "" where none did.
    """

    name: str
    attributes: tuple[tuple[str, tuple[str, ...]], ...]
    zcdp: bool
    budget: Fraction
    delta: Fraction
    neighbours: str
    moved: int
    bypass: bool
    levels: tuple[tuple[str, Fraction, tuple[tuple[Query, Fraction], ...]], ...]
    invariants: tuple[tuple[str, Query], ...]
    choices: tuple[Choice, ...]
    together: int = 1
    amount: Amount | None = None
    clipped: tuple[str, Fraction, Fraction, Fraction | None] | None = None
    chosen: str = ""

    @property
    def reach(self) -> int:
        """How far one record moves a number."""
        return 1 if self.amount is None else self.amount.reach

    @property
    def record_budget(self) -> Fraction:
        """What the change of one record costs: rho grows with the square of the number of records, epsilon with it."""
        return _of_one(self.budget, self.together, zcdp=self.zcdp)

    @property
    def n_cells(self) -> int:
        """Number of cells of the histogram."""
        return math.prod(len(values) for _, values in self.attributes)

    @property
    def rest(self) -> Fraction:
        """The budget of the queries."""
        budget = _of_one(self.record_budget, self.reach, zcdp=self.zcdp)
        return budget * (1 - sum((choice.share for choice in self.choices), Fraction(0)))

    @property
    def mechanism(self) -> str:
        """Of the noise."""
        return "discrete_gaussian" if self.zcdp else "discrete_laplace"

    def scale(self, cost: Fraction) -> Fraction:
        """sigma^2 = D / (2 rho) or b = s / epsilon for a query that gets `cost` of the budget."""
        return self.moved / (2 * cost) if self.zcdp else self.moved / cost

    def fingerprint(self) -> str:
        """SHA-256 over all that the noise's distribution depends on, as docs/mathematics.md states it."""
        levels = [
            [level, str(share), sorted([q.name, str(part), [list(g) for g in q.groups]] for q, part in queries)]
            for level, share, queries in self.levels
        ]
        framework = "zcdp" if self.zcdp else "pure"
        attributes = [[name, *values] for name, values in self.attributes]
        content: list[Any] = [
            "universe", 1, self.name, framework, str(self.budget), self.neighbours, attributes, levels,
        ]  # fmt: skip
        if self.bypass:
            content.append("bypass")
        if self.choices:
            content.append(["select", *(_choice_content(choice) for choice in self.choices)])
        if self.together > 1:
            content.append(["records per person", self.together])
        if self.amount is not None:
            one, total = self.amount, ["total"] if self.amount.total else []
            content.append(["amount", *map(str, (one.column, one.low, one.high, one.unit, one.missing)), *total])
        if self.clipped is not None:
            content.append(["clipped", *map(str, self.clipped)])
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _of_one(budget: Fraction, together: int, *, zcdp: bool) -> Fraction:
    return budget / together ** (2 if zcdp else 1)


def _choice_content(choice: Choice) -> list[Any]:
    versions = [
        [query.name, least, [list(groups) for groups in query.groups]]
        for query, least in zip(choice.versions, choice.thresholds, strict=True)
    ]
    return [choice.name, choice.level, versions, str(choice.share), str(choice.epsilon), str(choice.scale)]


@dataclass(frozen=True, eq=False)
class Form:
    """The spec: names of the levels, top first, and the universes.

    Attributes:
        households: companion that persons are joined with -> members of its largest household.
    """

    levels: tuple[str, ...]
    universes: tuple[Universe, ...]
    households: Mapping[str, int]


def read_form(spec: Mapping[str, Any]) -> Form:
    """The spec as a manifest has it; FormError where it cannot be understood."""
    if spec.get("privacy", {}).get("framework") == "local":
        raise FormError(
            "public/manifest.json: made from reports that their senders randomised; no noise was added here"
        )
    try:
        stated = spec["geography"]["levels"]
        levels = tuple(level if isinstance(level, str) else level[0] for level in stated)
        bypass = bool(spec["geography"].get("bypass"))
        universes = [_universe("", spec, spec["privacy"], bypass=bypass)]
        for name, sections in spec["companions"]:
            privacy = {**spec["privacy"], **sections["privacy"]}
            if sections["privacy"].keys() & {"rho", "epsilon"}:
                privacy = {k: v for k, v in privacy.items() if k not in ("rho", "epsilon") or k in sections["privacy"]}
            # The records of both, and so their units, are the release's own.
            of_release = any(sections.get(key) is not None for key in ("amount", "count_clipped"))
            units = (spec if of_release else sections)["privacy"].get("at_most")
            universes.append(_universe(name, sections, {**privacy, "at_most": units}, bypass=bypass))
        households = most_members(spec)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError, AttributeError) as error:
        raise FormError(f"public/manifest.json: its spec cannot be understood ({error!r})") from None
    return Form(levels, tuple(universes), households)


def _amount(sections: Mapping[str, Any], moved: int) -> Amount | None:
    """Of a companion that counts units of an amount; FormError where its ends are no whole numbers of units."""
    if sections.get("amount") is None:
        return None
    (low, high), unit = (Fraction(end) for end in sections["between"]), Fraction(sections["unit"])
    ends, column, missing = (low / unit, high / unit), sections["amount"], _missing(sections)
    if unit <= 0 or low >= high or any(end.denominator != 1 for end in ends):
        raise ValueError(f"an amount between {low} and {high} in units of {unit}")
    if sections.get("ends") == "total":
        # Gains and losses are each bounded: between two units they differ by at most both ends, in every direction.
        if ends[0] > 0 or ends[1] < 0:
            raise ValueError(f"a total between {low} and {high}")
        return Amount(column, low, high, unit, missing, int(ends[1] - ends[0]), total=True)
    # moved numbers by up to `furthest` each, or one number from one end to the other.
    furthest = max(abs(end) for end in ends)
    reach = int(furthest)
    while moved == 2 and 2 * reach**2 < (ends[1] - ends[0]) ** 2:
        reach += 1
    return Amount(column, low, high, unit, missing, reach)


def _clipped(sections: Mapping[str, Any]) -> tuple[str, Fraction, Fraction, Fraction | None] | None:
    """Of a companion that counts what a clip cuts off."""
    if sections.get("count_clipped") is None:
        return None
    low, high = (Fraction(end) for end in sections["between"])
    return sections["count_clipped"], low, high, _missing(sections)


def _chosen(sections: Mapping[str, Any]) -> str:
    """What was paid for apart: the end that a question chose."""
    if (stated := sections.get("chosen")) is None:
        return ""
    return (
        f'but for the upper end {sections["between"][1]}, chosen by the question "{stated["question"]}" '
        f"(answer {stated['answer']}), whose cost is in the ledger and not in this promise"
    )


def _missing(sections: Mapping[str, Any]) -> Fraction | None:
    """The amount of a record without one; None where each must have one."""
    return None if sections.get("missing") is None else Fraction(sections["missing"])


def _universe(name: str, sections: Mapping[str, Any], privacy: Mapping[str, Any], *, bypass: bool) -> Universe:
    attributes = tuple((attribute, tuple(values)) for attribute, values in sections["schema"]["attributes"])
    terms = _Terms(attributes, sections["schema"]["recodes"])
    zcdp = privacy["framework"] == "zcdp"
    budget = Fraction(privacy["rho" if zcdp else "epsilon"])
    moved = {"change-one": 2, "add-remove": 1}[privacy["neighbours"]]
    # One unit is "one person" where records have units, and alters all of its records that are counted.
    together = int(privacy.get("at_most") or sections.get("records_per_person") or 1)
    amount = _amount(sections, moved)
    if amount is not None and amount.total:
        together = 1
    of_one = _of_one(budget, together, zcdp=zcdp)
    return Universe(
        name=name,
        amount=amount,
        clipped=_clipped(sections),
        chosen=_chosen(sections),
        together=together,
        attributes=attributes,
        zcdp=zcdp,
        budget=budget,
        delta=Fraction(privacy["delta"]) if zcdp else Fraction(0),
        neighbours=privacy["neighbours"],
        moved=moved,
        bypass=bypass,
        levels=tuple(
            (
                level,
                Fraction(content["share"]),
                tuple((terms.query(query), Fraction(share)) for query, share in content.get("queries", ())),
            )
            for level, content in sections["strategy"]["levels"]
        ),
        invariants=tuple((level, terms.query(q)) for level, queries in sections["invariants"] for q in queries),
        choices=tuple(
            _choice(one, content, terms, of_one, moved, zcdp=zcdp) for one, content in sections.get("select", ())
        ),
    )


def _choice(
    name: str, content: Mapping[str, Any], terms: _Terms, budget: Fraction, moved: int, *, zcdp: bool
) -> Choice:
    """The choice costs m e^2 / 8 in rho, or m e in epsilon, with e rounded down to millionths under rho."""
    share = Fraction(content["share"])
    amount, part = budget * share, Fraction(content["choice_share"])
    epsilon = (
        Fraction(math.isqrt(math.floor(8 * amount * part / moved * 10**12)), 10**6) if zcdp else amount * part / moved
    )
    cost = moved * epsilon**2 / 8 if zcdp else moved * epsilon
    left = amount - cost
    return Choice(
        name=name,
        level=content["level"],
        versions=tuple(terms.query(query) for query in content["versions"]),
        thresholds=tuple(content["thresholds"]),
        share=share,
        epsilon=epsilon,
        scale=moved / (2 * left) if zcdp else moved / left,
        cost=cost,
    )


class _Terms:
    """What the words of a query mean: an attribute, or a recode of one."""

    def __init__(self, attributes: Sequence[tuple[str, tuple[str, ...]]], recodes: Sequence[Any]) -> None:
        self._attributes = attributes
        self._terms = {name: (number, tuple(range(len(values)))) for number, (name, values) in enumerate(attributes)}
        for name, content in recodes:
            number = [attribute for attribute, _ in attributes].index(content["attribute"])
            group = {value: i for i, (_, values) in enumerate(content["groups"]) for value in values}
            self._terms[name] = (number, tuple(group[value] for value in attributes[number][1]))

    def query(self, name: str) -> Query:
        """The query of this name."""
        if name == "detailed":
            words = [attribute for attribute, _ in self._attributes]
        else:
            words = [] if name == "total" else [word.strip() for word in name.split("*")]
        groups = [(0,) * len(values) for _, values in self._attributes]
        for word in words:
            number, of_value = self._terms[word]
            groups[number] = of_value
        answer = np.zeros(1, dtype=np.int64)
        size = 1
        for of_value in groups:
            number_of_groups = max(of_value) + 1
            answer = (answer[:, None] * number_of_groups + np.array(of_value)[None, :]).ravel()
            size *= number_of_groups
        return Query(name, tuple(groups), answer, size)
