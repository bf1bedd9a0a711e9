"""What of a release is exported: tables, levels, and what is written only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.metadata.contents import DataFile
from pipeline.metadata.products import (
    INVARIANTS,
    MEASUREMENTS,
    MICRODATA,
    area_products,
    described,
    products_of,
)
from pipeline.model.link import tables_of
from pipeline.published import PublishedRelease


@dataclass(frozen=True)
class ExportChoice:
    """What is wanted.

    Attributes:
        tables, levels: only these; all where there are none.
        microdata: the records, too.
        measurements: the noisy answers, too.
    """

    tables: Sequence[str]
    levels: Sequence[str]
    microdata: bool
    measurements: bool

    def __bool__(self) -> bool:
        return bool(self.tables or self.levels or self.microdata or self.measurements)

    def check(self, release: PublishedRelease) -> None:
        """InputError where the release has no such table or level, or no microdata; the message names it."""
        if unknown := [level for level in self.levels if level not in release.spine.level_names]:
            raise InputError(
                f"--level {unknown[0]}: no such level; the levels are {', '.join(release.spine.level_names)}"
            )
        names = [table.name for universe in release.universes for table in universe.tables]
        names = list(dict.fromkeys([*names, *(table.name for table in tables_of(release.links))]))
        if unknown := [table for table in self.tables if table not in names]:
            raise InputError(f"--table {unknown[0]}: no such table; the tables are {', '.join(names) or 'none'}")
        if self.microdata and not release.spec.publish.microdata:
            raise InputError("--microdata: the release has none; its spec says publish.microdata = false")


def chosen_files(release: PublishedRelease, choice: ExportChoice) -> list[DataFile]:
    """The files that are wanted: tables, averages of areas, and what was asked for."""
    return [file for file in _all_files(release, choice) if not choice.levels or file.level in choice.levels]


def by_table(files: Sequence[DataFile]) -> dict[str, list[DataFile]]:
    """The files of each table, one a level; the key is their path without the level."""
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.path.rpartition("/")[0], []).append(file)
    return found


def _all_files(scope: PublishedRelease, choice: ExportChoice) -> Iterator[DataFile]:
    tables = described(scope, *area_products(scope.spec.of_features, "tables"))
    yield from (file for file in tables if not choice.tables or file.table in choice.tables)
    if not choice.tables:
        yield from described(scope, *area_products(scope.spec.of_features, "averages"))
    if choice.measurements:
        # Of the core and of features, all whose files stand with the measurements.
        measured = (one for one in products_of(scope.spec.of_features) if one.path == MEASUREMENTS.path)
        for file in described(scope, *measured, INVARIANTS):
            yield file if file.wide is None else file.wide()
    if choice.microdata:
        yield from described(scope, MICRODATA)
