"""The report of a release as one HTML page that needs nothing else, and that may not fetch anything."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import PrivacyAccount
from pipeline.release.manifest import EXAMPLE, MADE_ELSEWHERE, UNCHARGED, Status
from pipeline.release.privacy_statement import PrivacyStatement
from pipeline.release.receipts import NOT_CHARGED
from pipeline.report.explorer import Explorer, explorer_of
from pipeline.report.reliability import CLASSES
from pipeline.report.sources import ReportSources
from pipeline.report.summaries import SIZE_LABELS, SizeSummary

#: Scripts of the page in their order; `vega.js` is made by `make report-js`, see docs/decisions/report_script.md.
SCRIPTS = ("vega.js", "decode.js", "charts.js", "figures.js", "explorer.js")


def report_page(sources: ReportSources) -> str:
    """The page; all text is escaped. A function of the sources alone."""
    explorer = explorer_of(sources)
    universes = [
        _universe(explorer, universe, statement, account)
        for universe, statement, account in zip(sources.universes, sources.statements, sources.accounts, strict=True)
    ]
    levels = [{"name": level.name, "n": len(level)} for level in sources.spine.levels]
    margins = [row for one in universes for row in one.margins]
    content = {
        **explorer.content,
        "release": sources.spec.name,
        "notForRelease": sources.status != "official",
        "classes": [{"key": one.key, "label": one.label, "advice": one.advice} for one in CLASSES],
        "sizes": SIZE_LABELS,
        "margins": [_margins_json(row) for row in margins],
        "budget": [part for one in universes for part in one.budget],
    }
    return render(
        "report.html.j2",
        SCRIPTS,
        spec=sources.spec,
        title=sources.spec.report.title or sources.spec.name,
        status=sources.status,
        official=sources.status == "official",
        example=sources.spec.purpose == "example",
        receipts=sources.receipts,
        not_charged=NOT_CHARGED,
        banner=_banner(sources.status),
        undetermined=_undetermined(explorer, universes),
        levels=levels,
        n_areas=sum(len(level) for level in sources.spine.levels),
        universes=universes,
        main=universes[0],
        companions=universes[1:],
        classes=CLASSES,
        size_labels=SIZE_LABELS,
        solver=_solver(sources),
        left_out=explorer.left_out,
        content=script_json(content),
        chunks=explorer.chunks,
        maps=bool(sources.spec.report.polygons),
    )


def render(template: str, scripts: Sequence[str], **context: object) -> str:
    """A page of this folder's templates, with its scripts and the policy that allows these scripts and nothing else."""
    texts = [asset(name) for name in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)
    allowed = hashes or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        _environment().get_template(template).render(policy=policy, style=asset("style.css"), scripts=texts, **context)
    )


@cache
def asset(name: str) -> str:
    """The text of a file of the page."""
    return resources.files("pipeline.report").joinpath("assets", name).read_text(encoding="utf-8")


def script_json(content: object) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipeline.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number_text, "persons": persons_text, "percent": percent_text}
    environment.filters["rounded_up"] = rounded_up
    return environment


def number_text(value: int) -> str:
    """ "1,234"."""
    return f"{value:,}"


def rounded_up(value: str) -> str:
    """An epsilon for people: four digits, rounded up."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return format(context.create_decimal(value), "f")


def _banner(status: Status) -> str:
    """What a status other than official means for readers."""
    if status == EXAMPLE:
        return "The records were invented to show the program; no number here says anything about anybody."
    if status == UNCHARGED:
        return "What is promised below holds for this run alone, as if nothing else were published from its records."
    if status == MADE_ELSEWHERE:
        return "Another program drew the noise; what is promised below holds if it did so as is said here."
    return "The noise of this release can be redone by anyone: it protects nobody. Its numbers are for tests."


def _undetermined(explorer: Explorer, universes: Sequence[UniverseView]) -> list[str]:
    """A sentence for each table and level with numbers that have no margin, and why."""
    what = {one.name: f" of {one.what}" if one.name else "" for one in universes}
    return [
        f"Table “{table.replace('_', ' ')}”{what[universe]} at level {level.replace('_', ' ')}: nothing that was "
        f"measured determines {found.unknown:,} of its numbers. They have no margin; do not use them."
        for (universe, table, level), found in explorer.summaries.items()
        if found.unknown
    ]


def persons_text(value: float | None) -> str:
    """A margin for people: whole from 10 on, with one decimal below, "?" where it is not known."""
    if value is None:
        return "?"
    if value >= 10 or value == int(value):
        return f"{-int(-value // 1):,}"
    return f"{value:.1f}"


def percent_text(value: float) -> str:
    """ "12 %"; never 0 % or 100 % of what is neither."""
    if 0 < value < 0.01:
        return "< 1 %"
    if 0.99 < value < 1:
        return "> 99 %"
    return f"{100 * value:.0f} %"


@dataclass(frozen=True)
class MarginRow:
    """Margins of one table at one level."""

    universe: str
    table: str
    level: str
    whole: SizeSummary
    sizes: tuple[SizeSummary, ...]

    def share(self, number: int) -> float:
        """The share of the numbers above zero that are of a class."""
        return self.whole.shares[number] / max(1, sum(self.whole.shares))


@dataclass(frozen=True)
class UniverseView:
    """One universe as the page tells it.

    Attributes:
        what: what is counted, for sentences.
        total: how many there are in the whole release.
        budget: level, query and share of the budget, for the picture.
        heat: level -> query -> (share as text, weight from 0 to 1, standard deviation as text).
    """

    name: str
    what: str
    total: int | None
    universe: Universe
    statement: PrivacyStatement
    account: PrivacyAccount
    attributes: tuple[tuple[str, int], ...]
    n_zeros: int
    queries: tuple[str, ...]
    budget: tuple[dict[str, object], ...]
    heat: Mapping[str, Mapping[str, tuple[str, float, str]]]
    margins: tuple[MarginRow, ...]

    @property
    def typical(self) -> tuple[MarginRow, ...]:
        """Of the first table, by level."""
        return tuple(row for row in self.margins if self.margins and row.table == self.margins[0].table)


def _universe(
    explorer: Explorer,
    universe: Universe,
    statement: PrivacyStatement,
    account: PrivacyAccount,
) -> UniverseView:
    shares = {(noise.level, noise.query): Fraction(noise.share) for noise in statement.noise}
    scales = {(noise.level, noise.query): noise for noise in statement.noise}
    largest = max(shares.values(), default=Fraction(1))
    heat: dict[str, dict[str, tuple[str, float, str]]] = {}
    for (level, query), share in shares.items():
        noise = scales[level, query]
        scale = Decimal(noise.scale_decimal)
        deviation = scale.sqrt() if noise.mechanism == "discrete_gaussian" else scale * Decimal(2).sqrt()
        text = f"{deviation:,.1f}" if deviation < 100 else f"{deviation:,.0f}"
        text = "a choice" if noise.mechanism == "exponential" else text
        heat.setdefault(level, {})[query] = (f"{float(100 * share):.3g} %", round(float(share / largest), 3), text)
    rows = tuple(
        MarginRow(universe.name, table.name, level, summary.all(), tuple(summary.by_size()))
        for table in universe.tables
        for level in table.levels
        if (summary := explorer.summaries[universe.name, table.name, level]).all().numbers
    )
    return UniverseView(
        name=universe.name,
        what=universe.name or "people",
        total=explorer.totals.get(universe.name),
        universe=universe,
        statement=statement,
        account=account,
        attributes=tuple((one.name, len(one.values)) for one in universe.schema.attributes),
        n_zeros=int(universe.structural_zeros.sum()),
        queries=tuple(dict.fromkeys(noise.query for noise in statement.noise)),
        budget=tuple(
            {"universe": universe.name, "level": level, "query": query, "share": round(float(share), 6)}
            for (level, query), share in shares.items()
        ),
        heat=heat,
        margins=rows,
    )


def _margins_json(row: MarginRow) -> dict[str, object]:
    return {
        "universe": row.universe,
        "table": row.table,
        "level": row.level,
        "sizes": [[one.size, one.areas, one.low, one.median, one.high] for one in row.sizes],
    }


def _solver(sources: ReportSources) -> list[dict[str, object]]:
    """What the solvers report, one row for each universe and level."""
    rows = []
    for universe in sources.universes:
        for level in sources.spine.level_names:
            name = f"{universe.name} {level}".strip()
            if told := sources.notes.get(f"estimate {name}"):
                rows.append(
                    {
                        "step": name,
                        "families": told["families"],
                        "primal": f"{told['primal_residual_at_most']:.0e}",
                        "dual": f"{told['dual_residual_at_most']:.0e}",
                        "again": told["solved_again_by_cvxpy"],
                        "difference": f"{told['largest_difference_at_most']:.0e}",
                    }
                )
    return rows
