"""The universes of a finished release with their records, for a rerun; refused if it would recompute something else.

This is the public side of it, see `pipeline.confidential.repeat`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.confidential.custody import check_made_here
from pipeline.errors import InputError
from pipeline.estimation.expectation import published_tables
from pipeline.model.memory_table import Source
from pipeline.model.universe import Universe
from pipeline.published import open_finished
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.run_directory import recorded_identity
from pipeline.runs.kept_inputs import kept_inputs
from pipeline.runs.open_public import PublicSide, open_listed, open_published
from pipeline.runs.request import require_given, with_data, with_given
from pipeline.spec.release_spec import ReleaseSpec, as_spec

_NOTHING = "nothing was drawn, since its noise was never charged"
_KEY = "the key"  # in the identity; it is compared with the manifest's commitment


def refuse_other_run(run: RunDirectory, public: PublicSide) -> None:
    """Compare what public/ states with what the run recorded when it began.

    Where restricted/ is gone, the operator's own spec was compared instead; see `refuse_other_inputs`.

    Raises:
        InputError: they are not the same.
    """
    if run.record.exists():
        recorded, stated = recorded_identity(run), public.identity()
        differing = sorted(
            name for name in (recorded.keys() | stated.keys()) - {_KEY} if recorded.get(name) != stated.get(name)
        )
        if differing:
            raise InputError(
                f"{run.root}: public/ is not what was run here: {', '.join(differing)} differ from what "
                f"{run.record} recorded; {_NOTHING}"
            )


def refuse_other_inputs(
    run: RunDirectory, public: PublicSide, spec: ReleaseSpec, universes: Sequence[Universe]
) -> None:
    """Compare public/ with the spec that the operator gives, and with the public inputs that it names.

    Raises:
        InputError: they are not the same, or an input cannot be read.
    """
    own, stated = open_listed(spec, universes).identity(), public.identity()
    differing = sorted(name for name in own.keys() | stated.keys() if own.get(name) != stated.get(name))
    if differing:
        raise InputError(
            f"{run.root}: public/ is not what {spec.source} gives: {', '.join(differing)} differ; {_NOTHING}"
        )


def universes_to_rerun(
    run: RunDirectory, data: Path | None, spec: Path | ReleaseSpec | None, records: Mapping[str, Source] | None = None
) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file if one is given, and otherwise from what
    the run kept in restricted/. Where that is gone, the public inputs are compared with those that the spec names.

    Args:
        run: the release.
        data: records instead of those that the spec or the run name: a file, or a folder with files of the same names.
        spec: the spec that the release was made with, or its file; None to use what the run kept.
        records: records of some universes, supplied by the caller; see `with_given`.

    Raises:
        InputError: the spec is that of another release, or nothing says how the records are read.
    """
    check_made_here(run)
    manifest = read_manifest(run.manifest)
    public = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    if spec is None:
        sources = kept_inputs(run, public.universes())
        universes: tuple[Universe, ...] = tuple(
            replace(universe, input=sources.get(universe.name)) for universe in public.universes()
        )
    else:
        stated, universes = _as_published(run, as_spec(spec), manifest.spec)
        own, released = json.loads(json.dumps(stated.public_dict())), manifest.spec
        differing = sorted(part for part in own.keys() | released.keys() if own.get(part) != released.get(part))
        if differing:
            raise InputError(
                f"--spec {stated.source}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the "
                "spec that the release was made with is needed"
            )
        if not run.record.exists():
            public_side = open_published(open_finished(run.root, check_hashes=False), universes)
            refuse_other_inputs(run, public_side, as_spec(spec), as_spec(spec).universes())
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
    run: RunDirectory, stated: ReleaseSpec, published: Mapping[str, object]
) -> tuple[ReleaseSpec, tuple[Universe, ...]]:
    """The spec as its release has it, and its universes: without the tables that the measurements do not determine.

    A spec of another release is left as it is.
    """
    universes = stated.universes()
    if _without_tables(json.loads(json.dumps(stated.public_dict()))) != _without_tables(published):
        return stated, universes
    side = open_published(open_finished(run.root, check_hashes=False), universes)
    spec, remaining, _ = published_tables(stated, universes, side.spine, side.inputs.of(BOUNDS))
    return spec, remaining


def _without_tables(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A public spec as JSON, or a companion in it."""
    parts = {name: part for name, part in spec.items() if name != "tables"}
    if companions := parts.get("companions"):
        parts["companions"] = [[name, _without_tables(companion)] for name, companion in companions]
    return parts
