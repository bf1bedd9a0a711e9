"""What there is of a series: its periods and releases, its budget, and what people lose by their spells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from features.years.revised import series_at
from pipeline.release.privacy_statement import decimal_text

__all__ = ["series_lines", "series_report"]


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
    from fractions import Fraction

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
        lost = ", ".join(
            f"{one['spells']}: {'' if one['exact'] else 'at most '}{decimal_text(Fraction(one['part']), 3)}"
            for one in report["losses"]
        )
        counted = "spells" if report["noise"] == "spells" else "records"
        lines.append(f"  {counted:8} what people lose of it, by the number of their {counted}: {lost}")
    lines += [f"  {one['period']}  {one['hash'][:12]}  {one['release']}  ({one['status']})" for one in done]
    lines.append(f"  next     {rest[0]}; to come: {', '.join(rest)}" if rest else "  all periods are released")
    return lines
