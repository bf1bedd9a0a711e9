"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from pipeline.model.pages.templates import page_template
from pipeline.model.texts.catalogue import texts_in
from pipeline.reading.compare import Comparison, TableComparison
from pipeline.reading.release import Release


def comparison_html(comparison: Comparison) -> str:
    """The page, in the language of the first release's report; all text is escaped."""
    largest = max((row.mean_absolute for row in comparison.tables), default=0.0) or 1.0
    spec = comparison.first.spec
    template = page_template("pipeline.reading", "compare.html.j2", texts_in(spec.report.language), folder="")
    return template.render(
        comparison=comparison,
        largest=largest,
        level_title=spec.labels().level,
        table_title=lambda row: f"{row.universe} {spec.labels(row.universe).table(row.table)}".strip(),
        number_title=lambda row, column: _columns(comparison.first, row).get(column, column),
    )


def _columns(release: Release, row: TableComparison) -> dict[str, str]:
    """The labels of a table's columns that have another one."""
    of = release.companion(row.universe) if row.universe else release
    table = next(one for one in of.universe.tables if one.name == row.table)
    return release.spec.labels(row.universe).columns(table.query)
