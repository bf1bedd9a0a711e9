"""What exports say of a release: whether it may be published, names of areas, and lists of what columns mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.metadata.contents import Column, DataFile
from pipeline.metadata.facts import release_facts
from pipeline.model.area_names import as_cell
from pipeline.model.texts.catalogue import texts_in
from pipeline.published import PublishedRelease
from pipeline.storage.plain_tables import write_csv


def facts(release: PublishedRelease) -> dict[str, str]:
    """See `release_facts`."""
    return release_facts(release.spec.name, release.spec.about, release.manifest.status, release.manifest.joint)


def about_rows(release: PublishedRelease) -> list[tuple[str, str]]:
    """The facts, then what the release says of itself, as key and text; the citation once."""
    found = facts(release)
    return [*found.items(), *(row for row in release.spec.about.rows() if row[0] not in found)]


#: Columns of the two lists.
LABEL_COLUMNS, ABOUT_COLUMNS = ("universe", "kind", "name", "label"), ("key", "text")


def area_names(release: PublishedRelease, level: str) -> list[str] | None:
    """The names of a level's areas in the report's language, in the spine's order; None where it has none."""
    names = release.names.get(level)
    return None if names is None else names.in_language(release.spec.report.language or "")


def name_column(taken: Collection[str]) -> str:
    """The column of names: "name", unless an answer is called so."""
    return "name" if "name" not in taken else "area name"


def label_rows(release: PublishedRelease) -> list[tuple[str, str, str, str]]:
    """Every label that the spec states, of each universe; levels stand with the release's own."""
    rows = []
    for universe in release.universes:
        labels = release.spec.labels(universe.name)
        stated = labels.rows(universe.schema, [table.name for table in universe.tables])
        rows += [(universe.name, *row) for row in stated if not universe.name or row[0] != "level"]
    return rows


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> pa.Table:
    """A table of texts, which may have no rows."""
    texts = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return pa.table({key: pa.array(own, pa.string()) for key, own in zip(columns, texts, strict=True)})


def write_words(release: PublishedRelease, folder: Path) -> list[DataFile]:
    """Write labels.csv and about.csv, where there is something to be written; returns what was."""
    texts, written = texts_in(release.spec.report.language), []
    for name, title, columns, rows in (
        ("labels", texts("What columns, values and tables are called"), LABEL_COLUMNS, label_rows(release)),
        ("about", texts("What the release says of itself"), ABOUT_COLUMNS, about_rows(release)),
    ):
        if rows:
            cells = text_table(columns, [[as_cell(text) for text in row] for row in rows])
            write_csv(folder / f"{name}.csv", iter([cells]))
            fields = tuple(Column(key, "string", key, filled=key != "universe" and key != "name") for key in columns)
            written.append(DataFile(name, "words", folder / f"{name}.csv", "", "", "", title, title, fields, keys=()))
    return written
