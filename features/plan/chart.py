"""The picture of a plan: errors by level and query, and what a larger or smaller budget would buy."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from markupsafe import Markup

from features.plan.best import Best
from features.plan.release_plan import Plan, UniversePlan
from features.plan.show import Called
from features.plan.sizes import UNKNOWN
from pipeline.errors import InputError
from pipeline.missing import install_command
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import Texts
from pipeline.model.universe import Universe
from pipeline.pages.templates import content_policy, page_template
from pipeline.release.area_sizes import SIZES, size_labels
from pipeline.storage.page_files import write_page_file

#: The text of each script in a piece of a page.
_SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL)
SUFFIXES = (".html", ".svg", ".png")
#: Budgets of the trade-off, as multiples of the planned one.
_MULTIPLES = tuple(Fraction(2) ** power for power in range(-4, 5))
#: Queries shown in the trade-off.
_MOST_QUERIES = 6
#: Ratio of the largest to the smallest error from which on their axis is logarithmic.
_WIDE = 20
_PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]


def check_chart(path: Path) -> None:
    """Raises InputError, before anything is computed, if no chart can be written to the path."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"--chart {path}: found the ending {path.suffix!r}; allowed are {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"--chart {path}: there is no folder {path.parent}")
    _altair()


def write_chart(path: Path, plan: Plan, best: Best | None) -> None:
    """Write the picture of the release's own universe (or of the one that was divided) as HTML, SVG or PNG."""
    alt = _altair()
    name = best.universe.name if best is not None else ""
    universe_plan = next(candidate for candidate in plan.universes if candidate.universe.name == name)
    called = Called.of(plan.spec, universe_plan.universe)
    parts = [
        _errors(alt, plan, universe_plan if best is None else best.planned, called),
        _tradeoff(alt, plan, universe_plan, best, called),
    ]
    texts = called.texts
    title = texts("Plan of {name}", name=", ".join(one for one in (plan.spec.name, name) if one))
    chart = alt.vconcat(*parts).resolve_scale(color="independent", shape="independent", x="independent")
    chart = chart.properties(title=alt.TitleParams(title, fontSize=16, anchor="start"))
    chart = chart.configure_view(stroke=None).configure_axis(labelFontSize=11, titleFontSize=11)
    embedded = {"formatLocale": _numbers(texts)}
    try:
        if path.suffix == ".html":
            write_page_file("--chart", path, _page(title, chart, plan, texts, embedded))
        else:
            chart.save(str(path), scale_factor=2, embed_options=embedded)
    except OSError as error:
        raise InputError(f"--chart {path}: cannot be written ({error.strerror or error})") from error


def _numbers(texts: Texts) -> dict[str, Any]:
    """How the picture writes numbers."""
    symbols = texts.numerals.locale.number_symbols["latn"]
    return {"decimal": symbols["decimal"], "thousands": symbols["group"], "grouping": [3], "currency": ["", ""]}


def _page(title: str, chart: Any, plan: Plan, texts: Texts, embedded: dict[str, Any]) -> str:
    """The chart in a page with the style of all pages, in light and dark; and the errors by size of area."""
    # As trees, expressions are interpreted; otherwise scripts would be made of them, which the page's policy forbids.
    drawn = chart.configure(background="transparent").to_html(
        inline=True, fullhtml=False, embed_options={**embedded, "actions": False, "renderer": "svg", "ast": True}
    )
    called = {one.universe.name: Called.of(plan.spec, one.universe).labels for one in plan.universes}
    return page_template("features.plan", "plan.html.j2", texts).render(
        policy=content_policy(_SCRIPT.findall(drawn)),
        title=title,
        drawn=Markup(drawn),
        rows=plan.sizes,
        labels=called,
        sizes=size_labels(texts, SIZES),
        unknown=texts(UNKNOWN),
    )


def _errors(alt: Any, plan: Plan, universe_plan: UniversePlan, called: Called) -> Any:
    """Expected absolute error of a number, by level and query."""
    texts = called.texts
    rows = [
        {
            "level": called.level(row.level),
            "query": called.query(row.query),
            "error": row.per_number,
            "margin90": row.margin90,
            "measured": texts("measured here") if row.sigma is not None else texts("from other levels"),
        }
        for row in universe_plan.rows
        if row.per_number
    ]
    errors = [row.per_number for row in universe_plan.rows if row.per_number]
    wide = max(errors) > _WIDE * min(errors) if errors else False
    queries = list(dict.fromkeys(called.query(row.query) for row in universe_plan.rows))
    levels = [called.level(level.name) for level in plan.spine.levels]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "error:Q",
            scale=alt.Scale(type="log" if wide else "linear"),
            title=texts("expected error ({unit})", unit=universe_plan.universe.measure.counted(texts)),
        ),
        y=alt.Y("level:N", sort=levels, title=None),
        color=alt.Color("level:N", sort=levels, scale=alt.Scale(range=_PALETTE), legend=None),
        shape=alt.Shape("measured:N", title=None),
        tooltip=[
            alt.Tooltip("level:N", title=texts("level")),
            alt.Tooltip("query:N", title=texts("query")),
            alt.Tooltip("error:Q", title=texts("error"), format=".2f"),
            alt.Tooltip("margin90:Q", title=texts("margin"), format=".2f"),
        ],
    )
    points = base.mark_point(size=70, filled=True).properties(width=190, height=18 * len(levels))
    return points.facet(
        facet=alt.Facet("query:N", sort=queries, title=None, header=alt.Header(labelFontWeight="bold")),
        columns=3,
        title=texts("Errors to expect, by query and level (margins of 90 % are about twice as wide)"),
    )


def _tradeoff(alt: Any, plan: Plan, universe_plan: UniversePlan, best: Best | None, called: Called) -> Any:
    """Error against the whole budget, by level; the found division beside the spec's own."""
    texts = called.texts
    divisions: list[tuple[str, Universe]] = [(texts("the spec's own division"), universe_plan.universe)]
    if best is not None:
        divisions.append((texts("the found division"), best.universe))
    queries = _chosen(universe_plan, best)
    centre = divisions[-1][1].budget
    rows = []
    for name, universe in divisions:
        for multiple in _MULTIPLES:
            moved = replace(universe, budget=centre * multiple)
            covariances = universe_plan.expectation.planned(moved)
            for level in universe_plan.universe.level_names:
                for query in queries:
                    error = universe_plan.expectation.errors(covariances, level, query).per_number
                    if error > 0 and not math.isnan(error):
                        rows.append(
                            {
                                "budget": float(moved.budget),
                                "level": called.level(level),
                                "query": called.query(query.name),
                                "error": error,
                                "division": name,
                            }
                        )
    unit = "rho" if universe_plan.universe.framework == "zcdp" else "epsilon"
    counted = universe_plan.universe.measure.counted(texts)
    levels = [called.level(level.name) for level in plan.spine.levels]
    budget = texts.numerals.digits(f"{float(centre):.4g}")
    order = [called.query(query.name) for query in queries]
    log = alt.Scale(type="log", nice=False)
    lines = (
        alt.Chart()
        .mark_line()
        .encode(
            x=alt.X("budget:Q", scale=log, title=texts("whole budget ({unit})", unit=unit)),
            y=alt.Y("error:Q", scale=alt.Scale(type="log"), title=texts("error of a number ({unit})", unit=counted)),
            color=alt.Color("level:N", sort=levels, scale=alt.Scale(range=_PALETTE), title=texts("level")),
            strokeDash=alt.StrokeDash("division:N", sort=[name for name, _ in divisions[::-1]], title=None),
            tooltip=[
                alt.Tooltip("level:N", title=texts("level")),
                alt.Tooltip("query:N", title=texts("query")),
                alt.Tooltip("division:N", title=texts("division")),
                alt.Tooltip("budget:Q", title=texts("budget")),
                alt.Tooltip("error:Q", title=texts("error"), format=".2f"),
            ],
        )
    )
    planned = alt.Chart().mark_rule(color="#777777", strokeDash=[2, 3]).encode(x=alt.datum(float(centre)))
    layers = alt.layer(lines, planned, data=alt.Data(values=rows)).properties(width=190, height=170)
    return layers.facet(
        facet=alt.Facet("query:N", sort=order, title=None, header=alt.Header(labelFontWeight="bold")),
        columns=3,
        title=texts("What a budget buys (dotted: {unit} = {budget})", unit=unit, budget=budget),
    ).resolve_scale(y="independent")


def _chosen(universe_plan: UniversePlan, best: Best | None) -> list[Query]:
    """The queries of the aims, else those measured, as many as can be looked at."""
    measured = list(universe_plan.universe.strategy.distinct_queries())
    aimed = [aim.query for aim in best.objective.aims] if best is not None else []
    chosen = {query.terms: query for query in (*aimed, *(() if aimed else measured))}
    return list(chosen.values())[:_MOST_QUERIES]


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise InputError(
            f"--chart needs Vega-Altair and vl-convert-python: {install_command('altair', 'vl-convert-python')}"
        ) from None
    return altair
