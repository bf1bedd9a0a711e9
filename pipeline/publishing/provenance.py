"""Where each public input of a release is from, worked out from its spec and its published files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.provenance import InputProvenance
from pipeline.spec.provenance import accepted_inputs, input_names, origin_of
from pipeline.spec.public import encode
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, sha256_file


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
    if kind == "names":
        return _of_files([run.names(level) for level in spec.geography.names or {}])
    if kind == "polygons":
        return _of_files([run.polygons(level) for level in spec.report.polygons])
    if kind == "shares":
        return _of_files([run.main.shares(share.name) for share in universes[0].shares])
    of = name.removeprefix("companions.").removesuffix(kind).removesuffix(".")
    universe = next(one for one in universes if one.name == of)
    if kind == "labels":
        sections = spec.companions[of] if of else spec
        return json_sha256(encode(sections.schema_section.labels))
    if kind == "schema":
        return json_sha256([[attribute.name, list(attribute.values)] for attribute in universe.schema.attributes])
    return _of_files([run.universe(of).constraint(number) for number in range(len(universe.bounds))])


def _of_files(paths: Sequence[Path]) -> str:
    return json_sha256([sha256_file(path) for path in paths])
