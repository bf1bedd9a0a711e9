"""The files of counts that a central release has measured, as a release from reports publishes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.metadata.contents import Contents, ProductFile
from pipeline.metadata.datapackage import measured
from pipeline.metadata.products import Description, Product, ReleaseScope


def _central_counts(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for level, query in universe.source.given(universe.strategy):
            yield ProductFile(
                of.run.universe(universe.name).measurement(level, query.name), universe.name, level, query
            )


def _central(of: ReleaseScope) -> Iterator[ProductFile]:
    if any(_central_counts(of)):
        yield ProductFile(of.run.central)


CENTRAL_RELEASE: Final = Product(
    "central.json",
    "in a mixed design: name, status and manifest's SHA-256 of the central release",
    "input",
    _central,
    after="constraints/bound-N.parquet",
)
CENTRAL_COUNTS: Final = Product(
    "measurements/LEVEL/QUERY.parquet",
    "",
    "input",
    _central_counts,
    Description((6, 1), Contents.measurement, measured),
    after="measurements/LEVEL/QUERY.parquet",
)
