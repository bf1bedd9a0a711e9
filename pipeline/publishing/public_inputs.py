"""The public inputs of a release: one object each, in one list.

A run opens and publishes them, its identity tells them apart, a rerun reads them again, `verify` takes them over, and
the manifest says where each is from: all of these go through `inputs_of`, the core's `PUBLIC_INPUTS` with those of the
features that a spec states. Only what uses the numbers of one names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from geography.spine import Spine
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.names import read_names
from pipeline.inputs.polygons import Area, PolygonSource, fingerprint, read_areas, read_public_areas, write_areas
from pipeline.inputs.public_input import (
    InputScope,
    OpenedInputs,
    PublicInput,
    StatedInput,
    sha256_of_numbers,
)
from pipeline.metadata.products import (
    CONSTRAINTS,
    MEASUREMENTS,
    NAMES,
    POLYGONS,
    SPINE,
    drawn_file,
    files_of,
)
from pipeline.model.area_names import AreaNames, LevelNames
from pipeline.model.draw import Draw
from pipeline.model.universe import Universe
from pipeline.published import published_names
from pipeline.release.facilities import (
    read_public_facilities,
    write_facilities,
)
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementWriter, header_of, read_measurement
from pipeline.release.published_files import PublishedFiles
from pipeline.release.spine import names_fingerprint, write_names, write_spine
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.public import encode
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, sha256_file
from postprocess.arrays import IntArray

if TYPE_CHECKING:
    from pipeline.execution.job import Job

#: Of each universe, of each of its bounds: the number of facilities of each answer, `(n_geounits, n_columns)`.
FacilityCounts = Mapping[str, Sequence[IntArray]]
#: Of each level that has some: the outlines of its geounits.
LevelAreas = Mapping[str, Sequence[Area]]


class GeographyInput(PublicInput[Spine]):
    """The list of areas, as the spine that it gives; it is read before the others, which are about its areas."""

    key = "geography"
    part = "geography"
    products = (SPINE,)

    def read(self, scope: InputScope) -> Spine:
        """See `pipeline.inputs.geography.read_spine`, which has read it."""
        return scope.spine

    def again(self, scope: InputScope, files: PublishedFiles) -> Spine:
        """See `pipeline.published.open_finished`, which has read it."""
        return scope.spine

    def write(self, scope: InputScope, run: RunDirectory, found: Spine) -> None:
        """See `PublicInput.write`."""
        write_spine(run.spine, run.staging, found)

    def identity(self, found: Spine) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        return {"the geography": found.fingerprint()}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """Every release has one."""
        return True

    def sha256(self, spec: ReleaseSpec, universe: Universe, files: Sequence[Path]) -> str:
        """Of the spine, regrouped."""
        return sha256_file(files[0])


class RegroupInput(StatedInput):
    """The areas off the spine by which it is regrouped; what is published of them is the regrouped spine."""

    key = "regroup"
    products = (SPINE,)

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return spec.geography.regroup is not None

    def sha256(self, spec: ReleaseSpec, universe: Universe, files: Sequence[Path]) -> str:
        """Of the spine, regrouped."""
        return sha256_file(files[0])


class NamesInput(PublicInput[AreaNames]):
    """Names of areas."""

    key = "names"
    part = "geography"
    products = (NAMES,)

    def read(self, scope: InputScope) -> AreaNames:
        """See `pipeline.inputs.names.read_names`."""
        found: dict[str, LevelNames] = {}
        with scope.noted():
            found |= read_names(scope.spec.geography, scope.spine)
        return found

    def again(self, scope: InputScope, files: PublishedFiles) -> AreaNames:
        """See `PublicInput.again`."""
        return published_names(files.run, files.unchanged, scope.spec, scope.spine)

    def write(self, scope: InputScope, run: RunDirectory, found: AreaNames) -> None:
        """See `PublicInput.write`."""
        for level, names in found.items():
            write_names(run.names(level), run.staging, level, scope.spine.level(level).geocodes, names)

    def identity(self, found: AreaNames) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        hashes = {level: names_fingerprint(names) for level, names in found.items()}
        return {"the names": json_sha256(hashes)} if hashes else {}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return bool(spec.geography.names)

    def origin(self, spec: ReleaseSpec, name: str) -> OriginSection:
        """Names beside the codes are from where the codes are from, if the spec does not say."""
        declared = {} if spec.provenance is None else spec.provenance.inputs
        if name not in declared and any(one.file is None for one in (spec.geography.names or {}).values()):
            return GEOGRAPHY.origin(spec, GEOGRAPHY.key)
        return super().origin(spec, name)


class SchemaInput(StatedInput):
    """The values of the attributes."""

    key = "schema"
    of_universe = True

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """Every universe has some."""
        return True

    def sha256(self, spec: ReleaseSpec, universe: Universe, files: Sequence[Path]) -> str:
        """Of attributes and values."""
        return json_sha256([[attribute.name, list(attribute.values)] for attribute in universe.schema.attributes])


class LabelsInput(StatedInput):
    """What values, levels and tables are called for people."""

    key = "labels"
    of_universe = True

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        sections = spec.companions[universe] if universe else spec
        return sections.schema_section.labels is not None

    def sha256(self, spec: ReleaseSpec, universe: Universe, files: Sequence[Path]) -> str:
        """Of the labels, as the manifest's spec states them."""
        sections = spec.companions[universe.name] if universe.name else spec
        return json_sha256(encode(sections.schema_section.labels))


class BoundsInput(PublicInput[FacilityCounts]):
    """Counts of facilities, which bound the persons in them."""

    key = "bounds"
    part = "bounds"
    products = (CONSTRAINTS,)
    of_universe = True
    for_measuring = True

    def read(self, scope: InputScope) -> FacilityCounts:
        """See `pipeline.inputs.area_numbers.read_facilities`."""
        found: dict[str, list[IntArray]] = {universe.name: [] for universe in scope.universes}
        for universe in scope.universes:
            for bound in universe.bounds:
                with scope.noted():
                    found[universe.name].append(read_facilities(bound, scope.spine))
        return found

    def again(self, scope: InputScope, files: PublishedFiles) -> FacilityCounts:
        """See `PublicInput.again`."""
        return {
            universe.name: [
                read_public_facilities(
                    files.unchanged(files.run.universe(universe.name).constraint(number)),
                    bound,
                    scope.spine.level(bound.level).geocodes,
                )
                for number, bound in enumerate(universe.bounds)
            ]
            for universe in scope.universes
        }

    def write(self, scope: InputScope, run: RunDirectory, found: FacilityCounts) -> None:
        """See `PublicInput.write`."""
        for universe in scope.universes:
            for number, bound in enumerate(universe.bounds):
                target = run.universe(universe.name).constraint(number)
                geocodes = scope.spine.level(bound.level).geocodes
                write_facilities(target, run.staging, bound, geocodes, found[universe.name][number])

    def identity(self, found: FacilityCounts) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        hashes = [[name, [sha256_of_numbers(bound) for bound in counts]] for name, counts in sorted(found.items())]
        return {"the facilities of the bounds": json_sha256(hashes)}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return bool((spec.companions[universe] if universe else spec).bounds)


class PolygonsInput(PublicInput[LevelAreas]):
    """Outlines of areas for the maps of the report."""

    key = "polygons"
    part = "polygons"
    products = (POLYGONS,)

    def read(self, scope: InputScope) -> LevelAreas:
        """See `pipeline.inputs.polygons.read_areas`."""
        found: dict[str, list[Area]] = {}
        for level, section in scope.spec.report.polygons.items():
            source = PolygonSource(f"report.polygons.{level}", section.file, section.code, section.name)
            with scope.noted():
                found[level] = read_areas(source, scope.spine.level(level).geocodes)
        return found

    def again(self, scope: InputScope, files: PublishedFiles) -> LevelAreas:
        """See `PublicInput.again`."""
        return {
            level: read_public_areas(files.unchanged(files.run.polygons(level))) for level in scope.spec.report.polygons
        }

    def write(self, scope: InputScope, run: RunDirectory, found: LevelAreas) -> None:
        """See `PublicInput.write`."""
        for level, areas in found.items():
            write_areas(run.polygons(level), run.staging, areas)

    def identity(self, found: LevelAreas) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        return {"the polygons": json_sha256({level: fingerprint(areas) for level, areas in found.items()})}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return bool(spec.report.polygons)


def write_counts(scope: InputScope, run: RunDirectory, counted: Iterable[tuple[Draw, IntArray]]) -> None:
    """Publish counts of the release's own universe, `(n_geounits, size)`, that others drew, as measurements."""
    folder = run.universe(scope.universes[0].name)
    for draw, values in counted:
        with MeasurementWriter.open(drawn_file(folder, draw), run.staging, header_of(draw)) as writer:
            writer.write(scope.spine.level(draw.level).geocodes, values)


class ReceivedInput(PublicInput[Sequence[IntArray]]):
    """Numbers that others published (`pipeline.model.source.Received`), of each draw of the release's own universe.

    They are published as measurements, which they are, `(n_geounits, size)`; a kind says how its files are read.
    """

    products: ClassVar[Sequence[Any]] = (MEASUREMENTS,)
    public_only = "others published these numbers"

    def again(self, scope: InputScope, files: PublishedFiles) -> Sequence[IntArray]:
        """See `PublicInput.again`."""
        universe = scope.universes[0]
        folder, draws = files.run.universe(universe.name), universe.draws(scope.spine)
        return [read_measurement(files.unchanged(drawn_file(folder, draw))).values for draw in draws]

    def write(self, scope: InputScope, run: RunDirectory, found: Sequence[IntArray]) -> None:
        """See `PublicInput.write`."""
        write_counts(scope, run, zip(scope.universes[0].draws(scope.spine), found, strict=True))

    def identity(self, found: Sequence[IntArray]) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        return {"the numbers of others": json_sha256([sha256_of_numbers(values) for values in found])}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return True


GEOGRAPHY: Final = GeographyInput()
BOUNDS: Final = BoundsInput()
#: Those of the core, in the order in which they are read and in which the manifest has their provenance.
PUBLIC_INPUTS: tuple[PublicInput[Any], ...] = (
    GEOGRAPHY,
    RegroupInput(),
    NamesInput(),
    SchemaInput(),
    LabelsInput(),
    BOUNDS,
    PolygonsInput(),
)


def inputs_of(spec: ReleaseSpec) -> tuple[PublicInput[Any], ...]:
    """All public inputs that a spec can have: the core's, and those of the features that it states."""
    found = list(PUBLIC_INPUTS)
    for part in spec.of_features:
        for one in part.public_inputs():
            found.insert(1 + [other.key for other in found].index(one.after), one)
    return tuple(found)


def read_inputs(scope: InputScope, noted: Callable[[str], AbstractContextManager[None]] | None = None) -> OpenedInputs:
    """All public inputs, from the files that the spec names.

    Args:
        scope: what they are read for.
        noted: of a validation, which keeps what is wrong with one and goes on; None to stop there.

    Raises:
        InputError: a file cannot be read, or does not fit.
    """
    kinds = inputs_of(scope.spec)
    scopes = {one: scope if noted is None else replace(scope, noted=partial(noted, one.part)) for one in kinds}
    return OpenedInputs({one.key: one.read(scopes[one]) for one in kinds})


def reread_inputs(scope: InputScope, files: PublishedFiles) -> OpenedInputs:
    """All public inputs, from what a release has published; ReleaseError where a file is missing or damaged."""
    return OpenedInputs({one.key: one.again(scope, files) for one in inputs_of(scope.spec)})


def inputs_to_measure(spec: ReleaseSpec, found: OpenedInputs) -> OpenedInputs:
    """Those that the process needs which sees the records."""
    needed = {one.key for one in inputs_of(spec) if one.for_measuring}
    return OpenedInputs({key: value for key, value in found.values.items() if key in needed})


def write_public_inputs(job: Job) -> None:
    """Publish all public inputs of a run."""
    scope = InputScope(job.spec, job.universes, job.spine)
    for one in inputs_of(job.spec):
        one.write(scope, job.run, job.inputs.of(one))


def public_input_files(job: Job) -> tuple[Path, ...]:
    """The files that `write_public_inputs` writes."""
    products = dict.fromkeys(product for one in inputs_of(job.spec) for product in one.products)
    return files_of(job, *products)


def input_identity(spec: ReleaseSpec, found: OpenedInputs) -> dict[str, str]:
    """What the public inputs make of a run's identity: hashes by the names that a refusal shows."""
    return {name: digest for one in inputs_of(spec) for name, digest in one.identity(found.of(one)).items()}


@dataclass(frozen=True, eq=False)
class NamedInput:
    """A public input that a spec has.

    Attributes:
        name: as the spec's [provenance] calls it.
        universe: whose it is; "" for the release's own, and for what all universes share.
    """

    name: str
    kind: PublicInput[Any]
    universe: str

    def origin(self, spec: ReleaseSpec) -> OriginSection:
        """Where it is from."""
        return self.kind.origin(spec, self.name)


def named_inputs(spec: ReleaseSpec) -> tuple[NamedInput, ...]:
    """The public inputs that a spec has, in the order of the manifest's provenance."""
    return tuple(_named(spec))


def _named(spec: ReleaseSpec) -> Iterator[NamedInput]:
    for of_universe, kinds in groupby(inputs_of(spec), key=lambda one: one.of_universe):
        together = tuple(kinds)
        for universe in ("", *spec.companions) if of_universe else ("",):
            prefix = f"companions.{universe}." if universe else ""
            for kind in together:
                if kind.is_named(spec, universe):
                    yield NamedInput(f"{prefix}{kind.key}", kind, universe)
