"""The files that a release publishes: a catalogue of facts, one entry for each kind of file.

The run, the measuring process, `verify`, the Data Package, exports and docs/release_directory.md go through it. How a
file is written is said where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pipeline.metadata.contents import Contents, DataFile, ProductFile
from pipeline.metadata.datapackage import drawn_where_positive, measured, resource, selected
from pipeline.model.draw import Draw
from pipeline.model.texts.message import marked
from pipeline.model.universe import Universe
from pipeline.release.layout import ANSWER_FILES, RunDirectory, UniverseDirectory
from pipeline.spec.kind import Kind
from pipeline.spec.release_spec import ReleaseSpec

#: input: from public files elsewhere, or from a release before; measured: drawn or counted; computed: from the two;
#: statement: what says of all others what they are.
Role = Literal["input", "measured", "computed", "statement"]


class ReleaseScope(Protocol):
    """A release whose files are listed, such as a job or a finished one; nothing is read."""

    @property
    def spec(self) -> ReleaseSpec:
        """Of the release."""

    @property
    def universes(self) -> Sequence[Universe]:
        """As the spec resolves to, the release's own first."""

    @property
    def run(self) -> RunDirectory:
        """Whose files they are."""


@dataclass(frozen=True)
class Description:
    """How the columns of a kind of file are described.

    Attributes:
        place: among the resources of a Data Package; files of products with the same first number stand together, by
            universe and level.
        data_file: the columns and titles of one file.
        entry: the resource for it, at a path.
        of_areas: whether they are numbers of areas for people: by the answers of a table, or averages of whole areas.
    """

    place: tuple[int, int]
    data_file: Callable[[Contents, ProductFile], DataFile]
    entry: Callable[[DataFile, str], dict[str, Any]] = resource
    of_areas: Literal["tables", "averages"] | None = None


@dataclass(frozen=True, eq=False)
class Product:
    """A kind of published file.

    Attributes:
        path: below public/, or below the folder of a companion there; words in capitals stand for names.
        about: what it is, for docs/release_directory.md; "" where another entry with the same path says it.
        role: what it follows from.
        files: those that a release has.
        description: of its columns; None for what no Data Package describes.
        after: of a feature's, the path of the one of the core that it is written after; of several they stand by their
            place in a Data Package, whichever feature is listed first.
        in_report: its row in the report's list of files: the path, and what is in it as a marked text; None for those
            that the page itself lists.
    """

    path: str
    about: str
    role: Role
    files: Callable[[ReleaseScope], Iterator[ProductFile]]
    description: Description | None = None
    after: str = ""
    in_report: tuple[str, str] | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Where a Data Package has it; before all others what none describes."""
        return (0, 0) if self.description is None else self.description.place


def one_file(place: Callable[[RunDirectory], Path]) -> Callable[[ReleaseScope], Iterator[ProductFile]]:
    """A file that every release has."""
    return lambda of: iter((ProductFile(place(of.run)),))


def _names(of: ReleaseScope) -> Iterator[ProductFile]:
    for level in of.spec.geography.names or {}:
        yield ProductFile(of.run.names(level), level=level)


def _polygons(of: ReleaseScope) -> Iterator[ProductFile]:
    for level in of.spec.report.polygons:
        yield ProductFile(of.run.polygons(level), level=level)


def _constraints(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for number, bound in enumerate(universe.bounds):
            yield ProductFile(of.run.universe(universe.name).constraint(number), universe.name, bound.level, bound)


def _reports(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for level in dict.fromkeys(draw.level for draw in universe.draws() if draw.own):
            for path in universe.source.files(of.run.reports):
                yield ProductFile(path, universe.name, level)


def _replaced(of: ReleaseScope) -> Iterator[ProductFile]:
    if of.spec.update is not None:
        yield ProductFile(of.run.before(of.run.manifest))
        for table in TABLES.files(of):
            yield ProductFile(of.run.before(table.path), table.universe, table.level, table.subject)


def _answers(of: ReleaseScope) -> Iterator[ProductFile]:
    for one in () if of.spec.update is None else of.spec.update.answers:
        for file in ANSWER_FILES:
            yield ProductFile(of.run.answer(one.name) / file)


def _invariants(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for level, query in universe.invariants:
            path = of.run.universe(universe.name).invariant(level, query.name)
            yield ProductFile(path, universe.name, level, query)


def drawn_file(folder: UniverseDirectory, draw: Draw) -> Path:
    """Where a universe has the answers of a draw."""
    return (folder.positive if draw.where_positive else folder.measurement)(draw.level, draw.query.name)


def drawn_files(of: ReleaseScope, which: Callable[[Draw], bool]) -> Iterator[ProductFile]:
    """The files of some draws."""
    for universe in of.universes:
        for draw in universe.draws():
            if which(draw):
                folder = of.run.universe(universe.name)
                yield ProductFile(drawn_file(folder, draw), universe.name, draw.level, draw.query)


def _measurements(of: ReleaseScope) -> Iterator[ProductFile]:
    return drawn_files(of, lambda draw: draw.own and not draw.where_positive)


def _positive(of: ReleaseScope) -> Iterator[ProductFile]:
    return drawn_files(of, lambda draw: draw.where_positive)


def _added(of: ReleaseScope) -> Iterator[ProductFile]:
    return drawn_files(of, lambda draw: draw.asked is not None)


def _selected(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for one in universe.selections:
            path = of.run.universe(universe.name).selected(one.name, one.level)
            yield ProductFile(path, universe.name, one.level, one)


def _histograms(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for level in of.spec.geography.level_names:
            yield ProductFile(of.run.universe(universe.name).histogram(level), universe.name, level)


def _tables(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for table in universe.tables:
            for level in table.levels:
                path = of.run.universe(universe.name).table(table.name, level)
                yield ProductFile(path, universe.name, level, table)


def _estimates(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes if of.spec.publish.unbiased else ():
        for level in of.spec.geography.level_names:
            if any(level in table.levels for table in universe.tables):
                yield ProductFile(of.run.universe(universe.name).estimates(level), universe.name, level)


def _draws(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes if of.spec.publish.draws else ():
        for table in universe.tables:
            for level in table.levels:
                path = of.run.universe(universe.name).draws(table.name, level)
                yield ProductFile(path, universe.name, level, table)


def _microdata(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes if of.spec.publish.microdata else ():
        if universe.record_attributes:
            path = of.run.universe(universe.name).microdata
            yield ProductFile(path, universe.name, of.spec.geography.level_names[-1])


def _changes(of: ReleaseScope) -> Iterator[ProductFile]:
    if of.spec.update is not None:
        yield ProductFile(of.run.changes)


SPINE: Final = Product(
    "spine.parquet", "the geography: one row per leaf, one column per level", "input", one_file(lambda run: run.spine)
)
NAMES: Final = Product(
    "names/LEVEL.parquet",
    "geocode, the areas' names in each language, if the spec names them",
    "input",
    _names,
)
POLYGONS: Final = Product(
    "polygons/LEVEL.geojson", "the outlines on the report's maps, if the spec names polygons", "input", _polygons
)
CONSTRAINTS: Final = Product(
    "constraints/bound-N.parquet",
    "geocode, number of facilities per answer, for the N-th bound of the spec",
    "input",
    _constraints,
)
REPORTS: Final = Product(
    "reports.json",
    "of a release from randomised reports: how many were used, and not, and why",
    "measured",
    _reports,
)
REPLACED: Final = Product(
    "replaced/manifest.json, tables/...",
    "of a version that replaces another: the manifest and the tables of that one",
    "input",
    _replaced,
)
ANSWERS: Final = Product(
    "answers/NAME/", "of a version made with answers: their public files, as they were published", "input", _answers
)
INVARIANTS: Final = Product(
    "invariants/LEVEL/QUERY.parquet",
    "the same for what is published exactly; variance 0",
    "measured",
    _invariants,
    Description((6, 3), Contents.invariant, measured),
)
MEASUREMENTS: Final = Product(
    "measurements/LEVEL/QUERY.parquet",
    "geocode, value (list of int), variance",
    "measured",
    _measurements,
    Description((6, 0), Contents.measurement, measured),
)
ADDED: Final = Product(
    "measurements/LEVEL/QUERY.parquet", "", "computed", _added, Description((6, 2), Contents.added, measured)
)
POSITIVE: Final = Product(
    "positive/LEVEL/QUERY.parquet",
    'geocode, answer (list of int), value (list of int), variance: of a query with `where = "parent positive"`',
    "measured",
    _positive,
    Description((6, 4), Contents.positive, drawn_where_positive),
    in_report=(
        "positive/LEVEL/QUERY.parquet",
        marked("further ones, drawn only where the number of the area above is more than 0 in the release"),
    ),
)
SELECTED: Final = Product(
    "selected/NAME/LEVEL.parquet",
    "geocode, version, value, variance: the detail chosen for each area (select)",
    "measured",
    _selected,
    Description((7, 0), Contents.selection, selected),
)
HISTOGRAMS: Final = Product(
    "histograms/LEVEL.parquet",
    "geocode, one column per attribute, count (only nonzero cells)",
    "computed",
    _histograms,
)
TABLES: Final = Product(
    "tables/TABLE/LEVEL.parquet",
    "geocode, one column per cell, and its margin of error",
    "computed",
    _tables,
    Description((1, 0), Contents.table, of_areas="tables"),
)
ESTIMATES: Final = Product(
    "estimates/LEVEL.parquet",
    "unbiased real-valued estimates and their variances (publish.unbiased)",
    "computed",
    _estimates,
)
DRAWS: Final = Product(
    "draws/TABLE/LEVEL.parquet",
    "joint draws of what the truth may be, for analysts (publish.draws)",
    "computed",
    _draws,
)
MICRODATA: Final = Product(
    "microdata.parquet",
    "leaf geocode and attributes, one row per person",
    "computed",
    _microdata,
    Description((5, 0), Contents.microdata),
)
CHANGES: Final = Product(
    "changes.json",
    "of such a version: which numbers are others than before, by table and level; which texts",
    "computed",
    _changes,
)
PACKAGE: Final = Product(
    "datapackage.json",
    "what every column of these files is: a Data Package (Frictionless)",
    "computed",
    one_file(lambda run: run.package),
)
MANIFEST: Final = Product(
    "manifest.json",
    "what ran: spec, versions, hashes of every file, privacy statement, key commitment",
    "statement",
    one_file(lambda run: run.manifest),
)
SIGNATURE: Final = Product(
    "manifest.sig",
    "the agency's signature of the manifest, if the release is signed",
    "statement",
    one_file(lambda run: run.signature),
)
#: Those of the core, in the order in which a run writes them; see `products_of`.
PRODUCTS: tuple[Product, ...] = (
    SPINE,
    NAMES,
    POLYGONS,
    CONSTRAINTS,
    REPORTS,
    REPLACED,
    ANSWERS,
    INVARIANTS,
    MEASUREMENTS,
    ADDED,
    POSITIVE,
    SELECTED,
    HISTOGRAMS,
    TABLES,
    ESTIMATES,
    DRAWS,
    MICRODATA,
    CHANGES,
    PACKAGE,
    MANIFEST,
    SIGNATURE,
)


def products_of(features: Iterable[Kind | type[Kind]]) -> tuple[Product, ...]:
    """All kinds of files: the core's, and those of features.

    Args:
        features: those of a release (`ReleaseSpec.of_features`), or all that are installed (`Slots.features`).
    """
    found = list(PRODUCTS)
    for feature in features:
        for one in feature.products():
            at = 1 + [other.path for other in found].index(one.after)
            while at < len(found) and found[at].after == one.after and found[at].place < one.place:
                at += 1
            found.insert(at, one)
    return tuple(found)


def files_of(of: ReleaseScope, *products: Product, universe: str | None = None, level: str = "") -> tuple[Path, ...]:
    """The files of some products, of all universes and levels or of one."""
    return tuple(
        file.path
        for product in products
        for file in product.files(of)
        if universe in (None, file.universe) and level in ("", file.level)
    )


def files_with_role(of: ReleaseScope, *roles: Role) -> tuple[Path, ...]:
    """The files of a release that follow from what the roles say."""
    return files_of(of, *(product for product in products_of(of.spec.of_features) if product.role in roles))


def area_products(features: Iterable[Kind | type[Kind]], *kinds: str) -> tuple[Product, ...]:
    """Those with numbers of areas for people, as a Data Package has them in order.

    Args:
        features: as for `products_of`.
        kinds: values of `Description.of_areas`.
    """
    found = (one for one in products_of(features) if one.description and one.description.of_areas in kinds)
    return tuple(sorted(found, key=lambda one: one.place))


def described(of: ReleaseScope, *products: Product) -> Iterator[DataFile]:
    """The files of some products, each with what its columns are."""
    for _, description, file in _in_order(of, products):
        yield description.data_file(Contents(of.spec, of.universes, of.run), file)


def resources(of: ReleaseScope) -> list[dict[str, Any]]:
    """What a Data Package says of every file that it describes, in its order."""
    contents = Contents(of.spec, of.universes, of.run)
    placed = sorted(
        (product for product in products_of(of.spec.of_features) if product.description is not None),
        key=lambda one: one.place,
    )
    return [
        description.entry(description.data_file(contents, file), of.run.name_of(file.path))
        for _, description, file in _in_order(of, placed)
    ]


def _in_order(of: ReleaseScope, products: Sequence[Product]) -> list[tuple[int, Description, ProductFile]]:
    """The described files of products: one product after the other, but by universe and level where some share a place.

    Returns:
        Place, description and file.
    """
    found = [
        (product.description.place[0], product.description, file)
        for product in products
        if product.description is not None
        for file in product.files(of)
    ]
    shared = {place for place, _, _ in found if len({one.place for at, one, _ in found if at == place}) > 1}
    universes = [universe.name for universe in of.universes]
    levels = of.spec.geography.level_names
    ordered = []
    for place, together in groupby(found, key=lambda one: one[0]):
        files = list(together)
        if place in shared:
            files.sort(key=lambda one: (universes.index(one[2].universe), levels.index(one[2].level)))
        ordered += files
    return ordered
