"""The report of a release as one HTML page that needs nothing else, and that may not fetch anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from features.report.explorer import Explorer, explorer_of
from features.report.sources import ReportSources, source_lines
from features.report.table_numbers import SizeSummary
from pipeline.metadata.json_ld import dataset
from pipeline.metadata.products import area_products, described, products_of
from pipeline.model.exact import decimal_text
from pipeline.model.mixed import MixedNoise
from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import marked
from pipeline.model.universe import Universe
from pipeline.model.universe import promised as of_promises
from pipeline.pages.data import Write, nowhere
from pipeline.pages.templates import page_template, render, script_json
from pipeline.privacy.accounting.statement_models import PrivacyAccount, odds, promise
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.publishing.promises import Promises
from pipeline.release.area_sizes import size_labels
from pipeline.release.changes import Changes, Move, TableChanges, read_changes
from pipeline.release.privacy_statement import PrivacyStatement, drawn_of
from pipeline.release.reliability import CLASSES
from pipeline.release.status import EXAMPLE, FROM_RECORDS, MADE_ELSEWHERE, RECEIVED, UNCHARGED, Status
from pipeline.spec.release_spec import ReleaseSpec

# -- of a version that replaces another: which one it is, and what changed ---------------------------------------


#: Moves that are listed, those of all tables together.
_LISTED = 10


@dataclass(frozen=True)
class AnswerView:
    """An answer that was added: its cost as the page shows it."""

    name: str
    question: str
    cost: str


@dataclass(frozen=True, eq=False)
class VersionView:
    """A version of a release.

    Attributes:
        answers: all that it was made with.
        moves: the numbers that changed most by their margin, each with its table.
    """

    number: int
    replaces: str
    answers: tuple[AnswerView, ...]
    changes: Changes
    moves: tuple[tuple[TableChanges, Move], ...]


def version_view(sources: ReportSources) -> VersionView | None:
    """The version that a page is about; None of a first release. ReleaseError where its changes cannot be read."""
    if (update := sources.spec.update) is None:
        return None
    changes, main = read_changes(sources.readable(sources.run.changes)), sources.universes[0]
    unit = "ρ" if main.framework == "zcdp" else "ε"
    answers = tuple(
        AnswerView(one.query.name, one.question, f"{unit} = {decimal_text(one.cost)}") for one in main.added
    )
    moves = [(table, move) for table in changes.tables for move in table.moves]
    moves.sort(key=lambda pair: -(pair[1].margins or 0.0))
    return VersionView(update.version, update.replaces, answers, changes, tuple(moves[:_LISTED]))


# -- for search engines and data portals ------------------------------------------------------------------------------


def dataset_block(sources: ReportSources, promise: str) -> str:
    """JSON-LD that can stand in a script element; addresses are those of the files from the page.

    Args:
        sources: of the page.
        promise: the release's, in a line; "" where nothing is promised.
    """
    spec, run = sources.spec, sources.run
    labels = spec.labels()
    files = list(described(sources, *area_products(spec.of_features, "tables", "averages")))
    counted = [spec.labels(one.name).records or one.name or "people" for one in sources.universes]
    areas = ", ".join(f"{labels.level(level.name)} ({len(level):,})" for level in sources.spine.levels)
    said = f"Differential privacy: {promise}. " if promise else ""
    words = f"Counts of {' and of '.join(counted)} in every area of the levels {areas}. {said}Status: {sources.status}."
    return script_json(dataset(spec.name, spec.about, words, [(file, run.name_of(file.source)) for file in files]))


# -- the page ---------------------------------------------------------------------------------------------------------


#: Scripts of the page in their order; `vega.js` is made by `make report-js`, see docs/decisions/report.md.
SCRIPTS = (
    "vega.js", "texts.js", "decode.js", "charts.js", "figures.js", "shown.js", "moments.js", "compare.js", "view.js",
    "takeaway.js", "spreadsheet.js", "zoom.js", "search.js", "explorer.js",
)  # fmt: skip

#: An epsilon from which on the page says that the limit excludes little: odds of a guess may improve a thousandfold.
_WEAK = Decimal("6.9")


def promised(
    spec: ReleaseSpec,
    universes: Sequence[Universe],
    promises: Promises,
    texts: Texts,
) -> dict[str, Any]:
    """What the page says of the budget and of its promises, by the names that its template has.

    It follows from the spec alone, so that a run works it out before it charges anything.
    """
    joint, statements = promises.joint, promises.statements
    figures: dict[str, Any] = {"promise": "", "weak": False, "odds": "", "joint_budget": ""}
    if joint is not None:
        figures = {
            "promise": promise(joint, statements[0].delta),
            "weak": Decimal(joint.epsilon) > _WEAK,
            "odds": texts.numerals.digits(odds(joint.epsilon).replace(",", "")),
            "joint_budget": decimal_text(Fraction(joint.budget)),
        }
    return {
        **figures,
        "spec": spec,
        "title": spec.report.title or spec.name,
        "example": spec.purpose == "example",
        "about": spec.about,
        "stated": len(spec.about.rows()) > bool(spec.about.title) + bool(spec.about.publisher),
        "joint": joint,
        "households": promises.households,
        "beyond": promises.beyond_limits,
        "source": page_template(*universes[0].source.template, texts).module,
        "budgets": {one.name: _division(one, texts) for one in of_promises(universes)},
        "citation": spec.about.cited(spec.name, texts),
    }


@dataclass(frozen=True)
class DivisionView:
    """How a universe's budget is divided.

    Attributes:
        budget: level, query and share of the budget, for the picture.
        heat: level -> query -> (share as text, weight from 0 to 1, standard deviation as text).
    """

    budget: tuple[dict[str, object], ...]
    heat: Mapping[str, Mapping[str, tuple[str, float, str]]]


def _division(universe: Universe, texts: Texts) -> DivisionView:
    drawn_here = {(one.level, one.query): one for one in drawn_of(universe)}
    shares = {at: one.cost / universe.budget for at, one in drawn_here.items()}
    largest = max(shares.values(), default=Fraction(1))
    heat: dict[str, dict[str, tuple[str, float, str]]] = {}
    for (level, query), share in shares.items():
        drawn, text = drawn_here[level, query].mechanism, texts("a choice")
        if isinstance(drawn, NoiseSpec):
            counted = universe.source.on_counts(drawn)
            variance = drawn.continuous_variance * (counted.counts if isinstance(counted, MixedNoise) else 1)
            deviation = (Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()
            text = texts.numerals.decimal(deviation, 1 if deviation < 100 else 0)
        heat.setdefault(level, {})[query] = (
            f"{texts.numerals.digits(f'{float(100 * share):.3g}')} %",
            round(float(share / largest), 3),
            text,
        )
    return DivisionView(
        tuple(
            {"universe": universe.name, "level": level, "query": query, "share": round(float(share), 6)}
            for (level, query), share in shares.items()
        ),
        heat,
    )


def report_page(sources: ReportSources, write: Write = nowhere) -> str:
    """The page; all text is escaped. A function of the sources alone.

    Args:
        write: writes a file of the data that are too large for the page, see `chunks`.
    """
    texts, promises = sources.texts, sources.promises
    said = promised(sources.spec, sources.universes, promises, texts)
    explorer = explorer_of(sources, write)
    of_each = zip(promises.statements, promises.accounts, strict=True)
    said_of = {statement.universe: (statement, account) for statement, account in of_each}
    universes = [
        _universe(
            explorer,
            sources,
            said["budgets"].get(one.name, DivisionView((), {})),
            one,
            *said_of.get(one.name, (None, None)),
        )
        for one in sources.universes
    ]
    levels = [{"name": level.name, "n": len(level)} for level in sources.spine.levels]
    margins = [row for view in universes for row in view.margins]
    content = {
        **explorer.content,
        "release": sources.spec.name,
        "notForRelease": sources.status != "official",
        "universes": {view.name: view.what for view in universes},
        "year": sources.spec.about.time[:4],
        "source": source_lines(sources),
        "citation": said["citation"],
        "classes": [
            {"key": grade.key, "label": texts(grade.label), "advice": texts(grade.advice)} for grade in CLASSES
        ],
        "sizes": size_labels(texts),
        "margins": [
            {
                "universe": row.universe,
                "table": row.table,
                "level": row.level,
                "sizes": [[margin.size, margin.areas, margin.low, margin.median, margin.high] for margin in row.sizes],
            }
            for row in margins
        ],
        "budget": [part for view in universes for part in view.division.budget],
    }
    return render(
        "features.report",
        "report.html.j2",
        SCRIPTS,
        texts,
        **said,
        status=sources.status,
        official=sources.status == "official",
        keyed=sources.status != MADE_ELSEWHERE and any(draw.drawn for one in sources.universes for draw in one.draws()),
        receipts=sources.receipts,
        banner=texts(_banner(sources.status)),
        origins=_origins(sources),
        undetermined=_undetermined(sources, explorer, universes),
        noisy=_noisy(sources, explorer, universes),
        levels=levels,
        n_areas=sum(len(level) for level in sources.spine.levels),
        universes=universes,
        main=universes[0],
        whom=_whom(sources, universes[0]),
        view=sources.universes[0].source.view(sources.run.reports),
        companions=universes[1:],
        classes=CLASSES,
        size_labels=size_labels(texts),
        level_titles=lambda levels: ", ".join(sources.words("").level(level) for level in levels),
        solver=_solver(sources),
        facts=[
            (page_template(*one.template, texts).module, view)
            for one in sources.universes[0].facts
            if (view := one.view(sources)) is not None
        ],
        left_out=explorer.left_out,
        beside=explorer.beside,
        version=version_view(sources),
        sections=[
            (page_template(*part.section, texts).module, view)
            for part in sources.spec.of_features
            if (view := part.shown(sources)) is not None
        ],
        # What the page does not have itself: path, and what is in it.
        files=[
            one.in_report
            for one in products_of(sources.spec.of_features)
            if one.in_report is not None and any(True for _ in one.files(sources))
        ],
        content=script_json(content),
        dataset=dataset_block(sources, said["promise"]),
        chunks=explorer.chunks.in_page,
        loads=explorer.chunks.beside > 0,
        maps=bool(sources.spec.report.polygons),
        named=bool(sources.names),
        level_title=sources.words("").level,
        table_title=lambda row: sources.words(row.universe).table(row.table),
    )


def _whom(sources: ReportSources, main: UniverseView) -> str:
    """Of whom the page says that little can be learnt: a person, unless the spec says what a record, or a unit, is."""
    texts = sources.texts
    if (column := sources.spec.privacy.unit) is not None:
        return texts("any one unit (“{column}”)", column=column)
    if main.universe.series is not None or not sources.words("").labels.records:
        return texts("any one person")
    return texts("any one of the {what}", what=main.what)


def _banner(status: Status) -> str:
    """What a status other than official means for readers."""
    if status == EXAMPLE:
        return marked(
            "The records were made up to demonstrate the program; no number here says anything about real people."
        )
    if status == UNCHARGED:
        return marked("The guarantee below is for this run alone, as if nothing else were published from its records.")
    if status == MADE_ELSEWHERE:
        return marked("Another program drew the noise; the guarantee below holds if it did so as stated here.")
    if status == RECEIVED:
        return marked("What their publishers promise, and how they protected them, is theirs to say.")
    if status == FROM_RECORDS:
        return marked(
            "The noise protects the counts, but not what these inputs reveal: which areas or values occur in the "
            "records. They are listed below, under “Where the public inputs come from”."
        )
    return marked("Anyone can reproduce the noise of this release: it protects nobody. Its numbers are for tests.")


def _origins(sources: ReportSources) -> list[dict[str, str]]:
    """Where each public input is from; nothing where the spec does not say."""
    if sources.spec.provenance is None:
        return []
    texts = sources.texts
    words = {"public": texts("public"), "records": texts("made from the records, and reveals something about them")}
    return [
        {"name": name, "words": words[one.source], "origin": one.origin or ""} for name, one in sources.origins.items()
    ]


def _undetermined(sources: ReportSources, explorer: Explorer, universes: Sequence[UniverseView]) -> list[str]:
    """A sentence for each table and level with numbers that have no margin, and why."""
    here = marked(
        "Table “{table}” at level {level}: nothing that was measured determines {n} of its numbers. They have no "
        "margin; do not use them."
    )
    there = marked(
        "Table “{table}” of {what} at level {level}: nothing that was measured determines {n} of its numbers. They "
        "have no margin; do not use them."
    )
    found = {place: {"n": summary.unknown} for place, summary in explorer.summaries.items() if summary.unknown}
    return _sentences(sources, universes, here, there, found)


def _noisy(sources: ReportSources, explorer: Explorer, universes: Sequence[UniverseView]) -> list[str]:
    """A sentence for each table and level whose noise is so large that intervals of some numbers hold too little."""
    here = marked(
        "Table “{table}” at level {level}: noise is large beside the numbers, typically ± {half} where the average "
        "number is {mean}. Of those published as 0, or as several times the average, up to three in ten are outside "
        "their intervals. Use a coarser table, or the area above."
    )
    there = marked(
        "Table “{table}” of {what} at level {level}: noise is large beside the numbers, typically ± {half} where the "
        "average number is {mean}. Of those published as 0, or as several times the average, up to three in ten are "
        "outside their intervals. Use a coarser table, or the area above."
    )
    found = {
        place: {"half": round(summary.all().median or 0), "mean": round(summary.mean)}
        for place, summary in explorer.summaries.items()
        if summary.is_noisy
    }
    return _sentences(sources, universes, here, there, found)


def _sentences(
    sources: ReportSources,
    universes: Sequence[UniverseView],
    here: str,
    there: str,
    found: Mapping[tuple[str, str, str], Mapping[str, int]],
) -> list[str]:
    """Sentences on tables at levels, by universe, table and level: `there` on those of a companion."""
    what = {view.name: view.what for view in universes}
    return [
        sources.texts(
            there if universe else here,
            table=sources.words(universe).table(table),
            what=what[universe],
            level=sources.words("").level(level),
            **numbers,
        )
        for (universe, table, level), numbers in found.items()
    ]


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
    """One universe as the page presents it.

    Attributes:
        what: what is counted, for sentences.
        total: how many there are in the whole release.
        low, high: the ends of its 90 % interval; None where it is exact, or has none.
        statement, account: what is promised; None where nothing is.
    """

    name: str
    what: str
    total: int | None
    low: int | None
    high: int | None
    universe: Universe
    statement: PrivacyStatement | None
    account: PrivacyAccount | None
    attributes: tuple[tuple[str, int], ...]
    n_zeros: int
    queries: tuple[str, ...]
    division: DivisionView
    margins: tuple[MarginRow, ...]

    @property
    def typical(self) -> tuple[MarginRow, ...]:
        """Of the first table, by level."""
        return tuple(row for row in self.margins if self.margins and row.table == self.margins[0].table)


def _universe(
    explorer: Explorer,
    sources: ReportSources,
    division: DivisionView,
    universe: Universe,
    statement: PrivacyStatement | None,
    account: PrivacyAccount | None,
) -> UniverseView:
    words, texts = sources.words(universe.name), sources.texts
    rows = tuple(
        MarginRow(universe.name, table.name, level, summary.all(), tuple(summary.by_size()))
        for table in universe.tables
        for level in table.levels
        if (summary := explorer.summaries[universe.name, table.name, level]).all().numbers
    )
    low, high = _whole(explorer, sources, universe)
    return UniverseView(
        name=universe.name,
        what=universe.measure.heading(
            texts, words.labels.records or universe.name.replace("_", " ") or texts("people")
        ),
        total=explorer.totals.get(universe.name),
        low=low,
        high=high,
        universe=universe,
        statement=statement,
        account=account,
        attributes=tuple(
            (words.labels.attribute(attribute.name), len(attribute.values)) for attribute in universe.schema.attributes
        ),
        n_zeros=int(universe.structural_zeros.sum()),
        queries=tuple(dict.fromkeys(str(one["query"]) for one in division.budget)),
        division=division,
        margins=rows,
    )


def _whole(explorer: Explorer, sources: ReportSources, universe: Universe) -> tuple[int | None, int | None]:
    """The interval of the whole: the published one of the only area at the top, else that of the linear estimate."""
    total = explorer.totals.get(universe.name)
    if total is None or not sources.spec.publish.margins:
        return None, None
    published = explorer.wholes.get(universe.name)
    if published is None and universe.source.sums_without_bias:
        half = sources.numbers.whole(universe.name)
        if half is not None and not math.isnan(half):
            low = total - round(half)
            published = (low if universe.measure.signed else max(0, low), total + round(half))
    return (None, None) if published is None or published[0] == published[1] else published


def _solver(sources: ReportSources) -> list[dict[str, object]]:
    """What the solvers report, one row for each universe and level."""
    rows = []
    for universe in sources.universes:
        for level in sources.spine.level_names:
            name = f"{universe.name} {level}".strip()
            if notes := sources.notes.get(f"estimate {name}"):
                rows.append(
                    {
                        "step": name,
                        "families": notes["families"],
                        "primal": f"{notes['primal_residual_at_most']:.0e}",
                        "dual": f"{notes['dual_residual_at_most']:.0e}",
                        "again": notes["solved_again_by_cvxpy"],
                        "difference": f"{notes['largest_difference_at_most']:.0e}",
                    }
                )
    return rows
