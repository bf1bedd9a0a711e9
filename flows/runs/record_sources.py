"""How the records of a run are read: kept in restricted/, and read back for a rerun."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from flows.confidential.custody import check_made_here
from flows.runs.given_records import require_given, with_given
from flows.runs.request import with_data
from pipeline.errors import InputError, ReleaseError
from pipeline.model.memory_table import Source, records_place
from pipeline.model.record_source import RecordSource
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.input_section import InputSpec
from pipeline.spec.release_spec import ReleaseSpec, as_spec


def universes_to_rerun(
    run: RunDirectory, data: Path | None, spec: Path | ReleaseSpec | None, records: Mapping[str, Source] | None = None
) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file if one is given, and otherwise from what
    the run kept in restricted/.

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
        sources = _kept_inputs(run)
        universes: tuple[Universe, ...] = tuple(
            replace(universe, input=sources.get(universe.name)) for universe in public.universes()
        )
    else:
        stated = as_spec(spec)
        stated_parts, released_parts = json.loads(json.dumps(stated.public_dict())), manifest.spec
        differing = sorted(
            part
            for part in stated_parts.keys() | released_parts.keys()
            if stated_parts.get(part) != released_parts.get(part)
        )
        if differing:
            raise InputError(
                f"--spec {stated.source}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the "
                "spec that the release was made with is needed"
            )
        universes = stated.universes()
    for universe in universes:
        universe.require_input()
    universes = with_given(with_data(universes, data), records or {})
    require_given(
        universes,
        f"were a table in memory when {run.root} was made, and it keeps no copy; give them again, with "
        "spinewise.rerun(..., records=...) or as a file with --data FILE",
    )
    return universes


def inputs_to_keep(universes: Sequence[Universe]) -> dict[str, object]:
    """How the records are read, as JSON for restricted/: universe -> its section [input]; no file where none was."""
    inputs: dict[str, object] = {}
    for universe in universes:
        source = universe.require_input()
        stated = {field.name: getattr(source, field.name) for field in fields(source) if field.name != "file"}
        inputs[universe.name] = stated | {"file": str(source.file.resolve()) if isinstance(source.file, Path) else None}
    return inputs


def _kept_inputs(run: RunDirectory) -> Mapping[str, RecordSource]:
    try:
        content = json.loads(run.input.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{run.root}: nothing here says how the records are read, since that is not public; give the spec that the "
            "release was made with: --spec SPEC"
        ) from None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{run.input} cannot be read: {error}") from None
    try:
        return {
            name: InputSpec.model_validate(_with_place(section, name)).source() for name, section in content.items()
        }
    except (ValueError, AttributeError):
        raise ReleaseError(f"{run.input} is damaged; give the spec with --spec SPEC") from None


def _with_place(section: dict[str, object], universe: str) -> dict[str, object]:
    """The section with a table's place in memory as its file, where the records were in memory."""
    return section if section["file"] is not None else {**section, "file": records_place(universe)}
