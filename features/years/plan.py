"""What there is of a series of releases, and what its designs would give."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from features.years.chain import section_of
from features.years.design import LONGEST, Design
from features.years.revision import MOST_NUMBERS, series_at
from features.years.section import SeriesSection
from features.years.series import SolvedTerms, independent_terms
from geography.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.model.exact import decimal_text
from pipeline.model.series import Loss, SeriesTerms
from pipeline.model.universe import Universe
from pipeline.privacy.budget import MOVED
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.spec.release_spec import load_spec


def series_report(folder: Path) -> dict[str, Any]:
    """What is known of a series from its releases' public files; errors as `series_at`."""
    releases = series_at(folder)
    last = releases[-1]
    universe, section = last.spec.universes()[0], last.section
    assert universe.series is not None, "a release of a series"
    terms = universe.series.terms
    return {
        "series": section.name,
        "step": section.step,
        "noise": section.noise,
        "rho": str(universe.budget),
        "delta": str(universe.delta),
        "epsilon": last.manifest.joint.epsilon if last.manifest.joint is not None else None,
        "losses": [
            {"spells": spells, "part": str(loss.part), "exact": loss.exact}
            for spells, loss in sorted(terms.losses.items())
        ],
        "periods": [
            {"period": period, "release": str(one.run.root), "hash": one.hash, "status": one.manifest.status}
            for period, one in zip(section.series.periods, releases, strict=False)
        ]
        + [{"period": period, "release": None} for period in section.series.periods[len(releases) :]],
    }


def series_lines(report: dict[str, Any]) -> list[str]:
    """The same for people."""
    done = [one for one in report["periods"] if one["release"] is not None]
    rest = [one["period"] for one in report["periods"][len(done) :]]
    lines = [
        f"series {report['series']}: {len(done)} of {len(report['periods'])} periods released",
        f"  budget   rho = {decimal_text(Fraction(report['rho']))} for all periods together, spent with the first; "
        f"epsilon = {report['epsilon']} at delta = {float(Fraction(report['delta'])):g}",
    ]
    if report["noise"] == "independent" and len(report["losses"]) == 1:
        lines.append("  noise    independent: everybody loses the budget, whatever their spells")
    else:
        lost = _lost((one["spells"], Fraction(one["part"]), one["exact"]) for one in report["losses"])
        counted = "spells" if report["noise"] == "spells" else "records"
        lines.append(f"  {counted:8} what people lose of it, by the number of their {counted}: {lost}")
    lines += [f"  {one['period']}  {one['hash'][:12]}  {one['release']}  ({one['status']})" for one in done]
    lines.append(f"  next     {rest[0]}; to come: {', '.join(rest)}" if rest else "  all periods are released")
    return lines


def _lost(losses: Iterable[tuple[int, Fraction, bool]]) -> str:
    """What people lose, by the number of their spells or records, in words; of each the part, and if it is exact."""
    return ", ".join(f"{k}: {'' if exact else 'at most '}{decimal_text(part, 3)}" for k, part, exact in losses)


#: Spells whose designs are shown where none are asked for, besides the spec's own.
_SHOWN: Final = (1, 2, 3)
#: Bytes of a number.
_FLOAT: Final = 8


@dataclass(frozen=True)
class DesignPlan:
    """One design.

    Attributes:
        name: as a spec states it.
        spells: for people with at most so many; None for independent noise.
        errors: level and query -> standard errors of an answer in persons, in a period and of a change from one to the
            next: roots of the mean variance over the periods.
        losses: spells -> the part of the budget that is lost.
        seconds: that it took to find it.
    """

    name: str
    spells: int | None
    errors: Mapping[tuple[str, str], tuple[float, float]]
    losses: Mapping[int, Loss]
    seconds: float


@dataclass(frozen=True, eq=False)
class SeriesPlan:
    """The designs of a spec's series.

    Attributes:
        section: of the spec; `universe`: with its budget and strategy.
        designs: independent noise first.
        covariances: numbers that a history of all periods keeps.
    """

    section: SeriesSection
    universe: Universe
    designs: tuple[DesignPlan, ...]
    covariances: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "series": self.section.name,
            "periods": list(self.section.series.periods),
            "rho": str(self.universe.budget),
            "designs": [
                {
                    "name": one.name,
                    "spells": one.spells,
                    "losses": [[k, str(loss.part), loss.exact] for k, loss in sorted(one.losses.items())],
                    "errors": [[*place, *errors] for place, errors in one.errors.items()],
                    "seconds": one.seconds,
                }
                for one in self.designs
            ],
            "history_covariances": self.covariances,
            "history_bytes": self.covariances * _FLOAT,
        }

    def lines(self) -> list[str]:
        """For people."""
        series = self.section.series
        own = _name(self.universe.series.terms) if self.universe.series is not None else ""
        names = [f"{one.name}{' (the spec)' if one.name == own else ''}" for one in self.designs]
        rows = [["level", "query", *names]]
        for place in self.designs[0].errors:
            cells = [f"{one.errors[place][0]:,.2f} / {one.errors[place][1]:,.2f}" for one in self.designs]
            rows.append([*place, *cells])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        lost = [
            f"  {name}: "
            + (
                "everybody loses the budget"
                if len(one.losses) == 1
                else _lost((k, loss.part, loss.exact) for k, loss in sorted(one.losses.items()))
            )
            for name, one in zip(names, self.designs, strict=True)
        ]
        found = ", ".join(f"{one.name} {one.seconds:.1f} s" for one in self.designs if one.spells is not None)
        memory = f"{self.covariances * _FLOAT / 1e6:,.1f} MB"
        beyond = (
            ""
            if self.covariances <= MOST_NUMBERS
            else f", more than the {MOST_NUMBERS:,} that `series revise` computes"
        )
        return [
            f"series {series.name}: {len(series.periods)} periods, {series.first} to {series.last}, "
            f"{self.universe.neighbours}, rho = {decimal_text(self.universe.budget)} for all of them; nothing is spent",
            "standard errors of an answer, in a period / of a change from one to the next:",
            *(text.rstrip() for text in table),
            "what people lose of the budget, by the number of their spells:",
            *lost,
            f"a history of all periods keeps {self.covariances:,} covariances, {memory}{beyond}",
            *([f"time to find a design, once for the series: {found}"] if found else []),
            *(
                [f"more than {LONGEST} periods cannot be mixed: their noise is independent"]
                if len(series.periods) > LONGEST
                else []
            ),
        ]


def series_plan(spec_file: Path, spells: Sequence[int] = ()) -> SeriesPlan:
    """The designs for so many spells, and the spec's own, beside independent noise; reads no records.

    Raises:
        InputError: the spec cannot be read or has no [series], or a number of spells is none of the series.
    """
    spec = load_spec(spec_file)
    if (section := section_of(spec)) is None:
        raise InputError(f"{spec_file}: has no [series], so that there are no designs to be compared")
    universe, periods = spec.universes()[0], len(section.series.periods)
    if wrong := [k for k in spells if not 1 <= k <= periods]:
        raise InputError(f"--spells: found {wrong[0]}; allowed are 1 to {periods}, the periods of the series")
    asked = {*(spells or _SHOWN), *([] if section.spells is None else [section.spells])}
    designs = [_planned(universe, independent_terms(periods))]
    if section.records is not None:
        designs.append(_planned(universe, independent_terms(periods, section.records)))
    for k in sorted(one for one in asked if one <= periods) if periods <= LONGEST else ():
        begun = time.perf_counter()
        terms = SolvedTerms(periods, k, universe.neighbours)
        assert terms.design, "found by the solver"
        designs.append(_planned(universe, terms, time.perf_counter() - begun))
    n_geounits = sum(len(level) for level in read_spine(spec.geography).levels)
    cells = int((~universe.structural_zeros).sum())
    return SeriesPlan(section, universe, tuple(designs), n_geounits * (periods * cells) ** 2)


def _name(terms: SeriesTerms) -> str:
    """Of the noise of a series, as a spec states it."""
    if not terms.design:
        return "independent" if terms.counted == "spell" else f"records = {terms.spells}"
    return f"spells = {terms.spells}"


def _planned(universe: Universe, terms: SeriesTerms, seconds: float = 0.0) -> DesignPlan:
    design = Design(terms.design, terms.spells, universe.neighbours) if terms.design else None
    errors = {}
    for draw in universe.draws():
        rho = universe.budget * draw.share
        if design is None:
            scale = terms.distance * MOVED[universe.neighbours] / (2 * rho)
            variance = DiscreteGaussian(scale).variance
            errors[draw.level, draw.query.name] = (math.sqrt(variance), math.sqrt(2 * variance))
        else:
            errors[draw.level, draw.query.name] = design.errors(rho)
    return DesignPlan(_name(terms), terms.spells if terms.design else None, errors, terms.losses, seconds)
