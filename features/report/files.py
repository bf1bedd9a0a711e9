"""The files of the report in the catalogue of a release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.metadata.contents import ProductFile
from pipeline.metadata.products import CHANGES, Product, ReleaseScope, one_file


def _further(of: ReleaseScope) -> Iterator[ProductFile]:
    return (ProductFile(path) for path in of.run.report_files())


PAGE: Final = Product(
    "report.html", "the report for readers: one page", "computed", one_file(lambda run: run.report), after=CHANGES.path
)
FURTHER: Final = Product(
    "report/NUMBER.js",
    "what is too large for that page, which reads it when asked; large releases only",
    "computed",
    _further,
    after=PAGE.path,
)
