"""What is published of an amount beside its tables: the files of sums and means, and the step that writes them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from features.amounts.link import SumsOfCounts
from features.amounts.means import COUNT, MEAN, SUM, means_of, path_of, read_means, write_means
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope
from pipeline.model.links.link import links_of_kind
from pipeline.model.texts.message import marked
from pipeline.model.universe import Table
from pipeline.publishing.files import product_files
from pipeline.release.tables import read_table


def _files(of: ReleaseScope) -> Iterator[ProductFile]:
    for link in links_of_kind(of.spec.links(of.universes), SumsOfCounts):
        for table in link.sums.tables:
            for level in table.levels:
                yield ProductFile(path_of(of.run, link.of, table.name, level), link.of, level, table)


def _described(contents: Contents, file: ProductFile) -> DataFile:
    """Sums and means of the companion of an amount, for one of its tables at a level."""
    universe, table, level, texts = contents.universe(file), file.subject, file.level, contents.texts
    labels = contents.spec.labels(universe.name)
    links = [link for link in links_of_kind(contents.links, SumsOfCounts) if link.of == universe.name]
    counted = any(link.records(table, level) is not None for link in links)
    columns: list[Column] = []
    for name, title in zip(table.query.answer_labels(), labels.answers(table.query), strict=True):
        columns += contents.with_interval(name + SUM, "number", texts("{title}: sum", title=title))
        if counted:
            columns.append(Column(name + COUNT, "integer", texts("{title}: records", title=title)))
            mean = texts("{title}: mean", title=title)
            columns += contents.with_interval(name + MEAN, "number", mean, filled=False)
    return DataFile(
        f"amounts/{universe.name}/{table.name}/{level}",
        "numbers",
        file.path,
        *(universe.name, table.name, level),
        *contents.titles(texts("{what}: sums and means", what=contents.counted(universe, table)), level),
        (contents.geocode(level), *columns),
        axes=axes_of(table.query, labels, universe.name),
        read=read_means,
    )


AMOUNTS: Final = Product(
    "amounts/NAME/TABLE/LEVEL.parquet",
    "geocode, of each answer sum, records and mean with intervals (companions of an amount)",
    "computed",
    _files,
    Description((4, 0), _described, of_areas="tables"),
    after="tables/TABLE/LEVEL.parquet",
    in_report=("amounts/COMPANION/TABLE/LEVEL.parquet", marked("sums and means of amounts with their intervals")),
)


def mean_steps(job: Job, link: SumsOfCounts, number: int) -> list[Step]:
    """Sums and means of a level."""
    level = job.spine.levels[number]
    if not (files := product_files(job, AMOUNTS, universe=link.of, level=level.name)):
        return []
    return [Step("means", partial(publish_means, job, link, number), link.of, level.name, len(level), 0.2, files=files)]


def publish_means(job: Job, link: SumsOfCounts, level: int) -> None:
    """Write sums and means of a level; the tables of the companion and of the release itself are written.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits = job.spine.levels[level]
    for table in link.sums.tables:
        if geounits.name in table.levels:
            _publish_means(job, link, table, geounits.name, len(geounits))
    job.progress.advance(len(geounits))


def _publish_means(job: Job, link: SumsOfCounts, table: Table, level: str, rows: int) -> None:
    counted = link.records(table, level)
    sums = read_table(job.readable(job.folder(link.sums).table(table.name, level)), rows)
    counts = None
    if counted is not None:
        counts = read_table(job.readable(job.folder(link.counts).table(counted.name, level)), rows)
    means = means_of(link.of, link.amount, sums, counts)
    write_means(path_of(job.run, link.of, table.name, level), job.run.staging, means)
