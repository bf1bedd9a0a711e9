"""The universes of a finished release with their records, for a rerun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.confidential.custody import check_made_here
from flows.plan.determined import published_tables
from flows.runs.given_records import require_given, with_given
from flows.runs.kept_inputs import kept_inputs
from flows.runs.open_public import open_published
from flows.runs.request import with_data
from pipeline.errors import InputError
from pipeline.model.memory_table import Source
from pipeline.model.universe import Universe
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import ReleaseSpec, as_spec


def universes_to_rerun(
    run: RunDirectory, data: Path | None, spec: Path | ReleaseSpec | None, records: Mapping[str, Source] | None = None
) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file where one is given, and from what the run
    kept in restricted/ otherwise.

    Args:
        data: records instead of those that the spec or the run name: a file, or a folder with files of the same names.
        records: records of some universes, handed over; see `with_given`.

    Raises:
        InputError: the spec is of another release, or there is nothing that says how the records are read.
    """
    check_made_here(run)
    manifest = read_manifest(run.manifest)
    public = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    if spec is None:
        sources = kept_inputs(run)
        universes: tuple[Universe, ...] = tuple(replace(one, input=sources.get(one.name)) for one in public.universes())
    else:
        given, universes = _as_published(run, as_spec(spec), manifest.spec)
        found, wanted = json.loads(json.dumps(given.public_dict())), manifest.spec
        differing = sorted(part for part in found.keys() | wanted.keys() if found.get(part) != wanted.get(part))
        if differing:
            raise InputError(
                f"--spec {given.source}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the spec "
                "that the release was made with is needed"
            )
    for universe in universes:
        universe.require_input()
    universes = with_given(with_data(universes, data), records or {})
    require_given(
        universes,
        f"were a table in memory when {run.root} was made, and it keeps no copy; give them again, with "
        "spinewise.rerun(..., records=...) or as a file with --data FILE",
    )
    return universes


def _as_published(
    run: RunDirectory, given: ReleaseSpec, published: Mapping[str, object]
) -> tuple[ReleaseSpec, tuple[Universe, ...]]:
    """The spec as its release has it, and its universes: without the tables that nothing determines.

    A spec of another release is left as it is.
    """
    universes = given.universes()
    if _without_tables(json.loads(json.dumps(given.public_dict()))) != _without_tables(published):
        return given, universes
    side = open_published(open_finished(run.root, check_hashes=False), universes)
    spec, kept, _ = published_tables(given, universes, side.spine, side.facilities)
    return spec, kept


def _without_tables(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A public spec as JSON, or a companion in it."""
    parts = {name: part for name, part in spec.items() if name != "tables"}
    if companions := parts.get("companions"):
        parts["companions"] = [[name, _without_tables(companion)] for name, companion in companions]
    return parts
