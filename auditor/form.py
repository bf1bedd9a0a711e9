"""What the public spec draws, and what that costs: budgets, shares, and the noise that follows from them.

Everything is exact; the formulas are those of docs/privacy.md, written down a second time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from auditor.accounting import cost_of
from auditor.cliques import CliqueChoice, read_choice
from auditor.mechanisms import NOISE
from auditor.reading.cells import Cells, Query, largest_household
from auditor.reading.findings import FormError, exact, understood
from auditor.reading.spec import MOVED, PublicSpec, PublicUniverse, public_spec
from auditor.reading.values import Stated, digest, exact_sum
from auditor.series import ALONE, Series, read_series


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Universe(PublicUniverse):
    """What is measured of one kind of records.

    Attributes:
        dataset: in a ledger, "" where none is charged.
        budget: rho or epsilon; `rest` is what private choices leave of it.
        moved: how many answers of a query one record changes, by one each.
        together: how many of the records one person's change alters; the budget is for all of them.
        clipped: column of an amount, the ends beyond which records are counted, and the amount of those without one.
        chosen: how the words of its statement name a question that chose its upper end; "" where none did.
        series: the place in a series, whose whole budget it has.
        cliques: the private choice of what is measured, which the budget has the cost of, too.
    """

    dataset: str
    zcdp: bool
    budget: Fraction
    delta: Fraction
    neighbours: str
    moved: int
    bypass: bool
    choices: tuple[Choice, ...]
    together: int = 1
    clipped: tuple[str, Fraction, Fraction, Fraction | None] | None = None
    chosen: str = ""
    series: Series = ALONE
    cliques: CliqueChoice | None = None

    def kept(self, query: Query) -> frozenset[str]:
        """The attributes that a query does not sum out."""
        return frozenset(
            name for name, groups in zip(self.cells.names, query.groups, strict=True) if len(set(groups)) > 1
        )

    @cached_property
    def reach(self) -> int:
        """How far one record moves a number, in units."""
        if self.amount is None:
            return 1
        first, last = self.amount.first, self.amount.last
        if self.amount.total:
            # Gains and losses are each bounded: between two units they differ by at most both ends, in every direction.
            return last - first
        # As many numbers as a change moves, by up to the larger end each; or one from one end to the other, which is
        # as far as two that move by r each, with 2 r^2 >= (last - first)^2.
        across = math.isqrt(-(-((last - first) ** 2) // 2) - 1) + 1 if self.moved == 2 else 0
        return max(abs(first), abs(last), across)

    @property
    def measured(self) -> Iterator[tuple[str, Query, Fraction]]:
        """Level, query and part of the budget of all that is measured."""
        for level, share, queries in self.levels:
            for query, part, _ in queries:
                yield level, query, share * part

    def times(self, n: int) -> int:
        """How many times as much n records cost, or one that moves numbers by n: rho grows with n^2, epsilon with n."""
        return n**2 if self.zcdp else n

    @property
    def record_budget(self) -> Fraction:
        """What the change of one record costs."""
        return self.budget / self.times(self.together)

    @property
    def own_budget(self) -> Fraction:
        """What is left of the budget when cliques have been chosen."""
        return self.budget if self.cliques is None else self.budget - self.cliques.cost

    @property
    def rest(self) -> Fraction:
        """The budget of the queries."""
        budget = self.own_budget / self.times(self.together) / self.times(self.reach) / self.series.distance
        return budget * (1 - exact_sum(choice.share for choice in self.choices))

    @property
    def framework(self) -> str:
        """As it is stated."""
        return "zcdp" if self.zcdp else "pure"

    @property
    def mechanism(self) -> str:
        """The mechanism of the noise."""
        return NOISE[self.zcdp]

    def scale(self, cost: Fraction) -> Fraction:
        """sigma^2 = D / (2 rho) or b = s / epsilon for a query that gets `cost` of the budget."""
        return self.moved / (2 * cost) if self.zcdp else self.moved / cost

    def fingerprint(self) -> str:
        """SHA-256 over all that the noise's distribution depends on, as docs/mathematics.md states it."""
        levels = [
            [level, str(share), sorted([q.name, str(part), [list(g) for g in q.groups]] for q, part, _ in queries)]
            for level, share, queries in self.levels
        ]
        attributes = [[name, *values] for name, values in self.cells.attributes]
        content: list[Any] = [
            "universe", 1, self.name, self.framework, str(self.budget), self.neighbours, attributes, levels,
        ]  # fmt: skip
        if self.bypass:
            content.append("bypass")
        if self.choices:
            content.append(["select"])
            for choice in self.choices:
                versions = [
                    [query.name, least, [list(groups) for groups in query.groups]]
                    for query, least in zip(choice.versions, choice.thresholds, strict=True)
                ]
                parts = map(str, (choice.share, choice.epsilon, choice.scale))
                content[-1].append([choice.name, choice.level, versions, *parts])
        if self.together > 1:
            content.append(["records per person", self.together])
        if self.amount is not None:
            one, total = self.amount, ["total"] if self.amount.total else []
            low, high = one.first * one.unit, one.last * one.unit
            content.append(["amount", *map(str, (one.column, low, high, one.unit, one.missing)), *total])
        if self.clipped is not None:
            content.append(["clipped", *map(str, self.clipped)])
        return digest(content + self.series.content)


@dataclass(frozen=True, eq=False)
class Form:
    """The spec: names of the levels, top first, and the universes.

    Attributes:
        public: what is demanded of the release.
        households: companion that persons are joined with -> members of its largest household.
    """

    public: PublicSpec
    universes: tuple[Universe, ...]
    households: Mapping[str, int]

    @property
    def levels(self) -> tuple[str, ...]:
        """Their names, top first."""
        return self.public.levels


def read_form(spec: Stated) -> Form:
    """The spec as a manifest has it; FormError where it cannot be understood."""
    if spec.get("privacy") == {}:
        raise FormError("public/manifest.json: others published its numbers; nothing is promised, no budget to judge")
    if spec.get("privacy", {}).get("framework") == "local":
        raise FormError(
            "public/manifest.json: made from reports that their senders randomised; no noise was added here"
        )
    with understood("public/manifest.json: its spec"):
        public = public_spec(spec)
        bypass = bool(spec["geography"].get("bypass"))
        own, *companions = public.universes
        universes = [_universe(own, spec, spec["privacy"], bypass=bypass)]
        for counted, (_, sections) in zip(companions, spec["companions"], strict=True):
            privacy = {**spec["privacy"], **sections["privacy"]}
            if sections["privacy"].keys() & {"rho", "epsilon"}:
                privacy = {k: v for k, v in privacy.items() if k not in ("rho", "epsilon") or k in sections["privacy"]}
            # The records of both, and so their units, are the release's own.
            of_release = any(sections.get(key) is not None for key in ("amount", "count_clipped"))
            units = (spec if of_release else sections)["privacy"].get("at_most")
            universes.append(_universe(counted, sections, {**privacy, "at_most": units}, bypass=bypass))
        series = read_series(spec)
        universes = [replace(one, series=series) for one in universes]
        if (chosen := read_choice(spec, [one.cells for one in public.universes])) is not None:
            universes[0] = replace(universes[0], cliques=chosen, budget=universes[0].budget + chosen.cost)
        households = {one: largest_household(public.joins_with(one)) for one in public.joined}
    return Form(public, tuple(universes), households)


def _clipped(sections: Stated) -> tuple[str, Fraction, Fraction, Fraction | None] | None:
    """Of a companion that counts what a clip cuts off."""
    if sections.get("count_clipped") is None:
        return None
    low, high = (exact(end) for end in sections["between"])
    missing = sections.get("missing")
    return sections["count_clipped"], low, high, None if missing is None else exact(missing)


def _chosen(sections: Stated) -> str:
    """What was paid for apart: the end that a question chose."""
    if (stated := sections.get("chosen")) is None:
        return ""
    return (
        f'except for the upper end {sections["between"][1]}: it was chosen by the question "{stated["question"]}" '
        f"(answer {stated['answer']}), whose cost is in the ledger and not in this promise"
    )


def _universe(counted: PublicUniverse, sections: Stated, privacy: Stated, *, bypass: bool) -> Universe:
    cells = counted.cells
    zcdp = privacy["framework"] == "zcdp"
    budget = exact(privacy["rho" if zcdp else "epsilon"])
    moved = MOVED[privacy["neighbours"]]
    # One unit is "one person" where records have units, and alters all of its records that are counted.
    together = int(privacy.get("at_most") or sections.get("records_per_person") or 1)
    if counted.amount is not None and counted.amount.total:
        together = 1
    of_one = budget / together ** (2 if zcdp else 1)
    return Universe(
        **vars(counted),
        clipped=_clipped(sections),
        chosen=_chosen(sections),
        together=together,
        dataset=privacy.get("dataset") or "",
        zcdp=zcdp,
        budget=budget,
        delta=exact(privacy["delta"]) if zcdp else Fraction(0),
        neighbours=privacy["neighbours"],
        moved=moved,
        bypass=bypass,
        choices=tuple(
            _choice(one, content, cells, of_one, moved, zcdp=zcdp) for one, content in sections.get("select", ())
        ),
    )


def _choice(name: str, content: Stated, cells: Cells, budget: Fraction, moved: int, *, zcdp: bool) -> Choice:
    """The choice costs m e^2 / 8 in rho, or m e in epsilon, with e rounded down to millionths under rho."""
    share = exact(content["share"])
    amount, part = budget * share, exact(content["choice_share"])
    epsilon = (
        Fraction(math.isqrt(math.floor(8 * amount * part / moved * 10**12)), 10**6) if zcdp else amount * part / moved
    )
    left = amount - cost_of(("exponential", epsilon, moved), zcdp=zcdp)
    return Choice(
        name=name,
        level=content["level"],
        versions=tuple(cells.query(query) for query in content["versions"]),
        thresholds=tuple(content["thresholds"]),
        share=share,
        epsilon=epsilon,
        scale=moved / (2 * left) if zcdp else moved / left,
    )
