"""The birth certificate of a release's public inputs, as its manifest states it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.stated import Stated
from pipeline.spec.provenance import Source, accepted_inputs, input_names, origin_of
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, sha256_file


class InputProvenance(Stated):
    """Where a public input is from.

    Attributes:
        name: as the spec's [provenance] calls it.
        source: "public", or "records" if it was made from the records.
        origin: where from, in the operator's words.
        accepted: the operator accepted an input made from the records.
        sha256: of the input as it is published, hexadecimal: of its file, or of the hashes of its files.
    """

    name: str
    source: Source
    origin: str
    accepted: bool
    sha256: str


def provenance_of(spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> tuple[InputProvenance, ...]:
    """The provenance of every public input, from the spec and the published files alone."""
    accepted = accepted_inputs(spec)
    found = []
    for name in input_names(spec):
        origin = origin_of(spec, name)
        found.append(
            InputProvenance(
                name=name,
                source=origin.source,
                origin=origin.origin,
                accepted=name in accepted,
                sha256=_hash(name, spec, universes, run),
            )
        )
    return tuple(found)


def _hash(name: str, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> str:
    kind = name.rsplit(".", 1)[-1]
    if kind in ("geography", "regroup"):  # the spine as it is published, regrouped
        return sha256_file(run.spine)
    if kind == "polygons":
        return _of_files([run.polygons(level) for level in spec.report.polygons])
    of = name.removeprefix("companions.").removesuffix(kind).removesuffix(".")
    universe = next(one for one in universes if one.name == of)
    if kind == "schema":
        return json_sha256([[attribute.name, list(attribute.values)] for attribute in universe.schema.attributes])
    return _of_files([run.universe(of).constraint(number) for number in range(len(universe.bounds))])


def _of_files(paths: Sequence[Path]) -> str:
    return json_sha256([sha256_file(path) for path in paths])
