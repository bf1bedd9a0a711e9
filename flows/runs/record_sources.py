"""How the records of a run are read: kept in restricted/, and found again for a rerun."""

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
        sources = _kept_inputs(run)
        universes: tuple[Universe, ...] = tuple(replace(one, input=sources.get(one.name)) for one in public.universes())
    else:
        given = as_spec(spec)
        found, wanted = json.loads(json.dumps(given.public_dict())), manifest.spec
        differing = sorted(part for part in found.keys() | wanted.keys() if found.get(part) != wanted.get(part))
        if differing:
            raise InputError(
                f"--spec {given.source}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the spec "
                "that the release was made with is needed"
            )
        universes = given.universes()
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
    kept: dict[str, object] = {}
    for universe in universes:
        source = universe.require_input()
        stated = {one.name: getattr(source, one.name) for one in fields(source) if one.name != "file"}
        kept[universe.name] = stated | {"file": str(source.file.resolve()) if isinstance(source.file, Path) else None}
    return kept


def _kept_inputs(run: RunDirectory) -> Mapping[str, RecordSource]:
    try:
        content = json.loads(run.input.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{run.root}: nothing here says how the records are read, since that is not public; give the spec that the "
            "release was made with, --spec SPEC"
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
    """The section with the place of a table, where the records were in memory and no file names them."""
    return section if section["file"] is not None else {**section, "file": records_place(universe)}
