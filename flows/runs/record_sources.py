"""How the records of a run are read: kept in restricted/, and found again for a rerun."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from flows.confidential.custody import check_made_here
from flows.runs.request import with_data
from pipeline.errors import InputError, ReleaseError
from pipeline.model.record_source import RecordSource
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.input_section import InputSpec
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def universes_to_rerun(run: RunDirectory, data: Path | None, spec: Path | None) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file where one is given, and from what the run
    kept in restricted/ otherwise.

    Args:
        data: records instead of those that the spec or the run name: a file, or a folder with files of the same names.

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
        given = load_spec(spec)
        found, wanted = json.loads(json.dumps(given.public_dict())), manifest.spec
        differing = sorted(part for part in found.keys() | wanted.keys() if found.get(part) != wanted.get(part))
        if differing:
            raise InputError(
                f"--spec {spec}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the spec that "
                "the release was made with is needed"
            )
        universes = given.universes()
    for universe in universes:
        universe.require_input()
    return with_data(universes, data)


def inputs_to_keep(universes: Sequence[Universe]) -> dict[str, object]:
    """How the records are read, as JSON for restricted/: universe -> its section [input]."""
    kept: dict[str, object] = {}
    for universe in universes:
        source = universe.require_input()
        kept[universe.name] = {**asdict(source), "file": str(source.file.resolve())}
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
        return {name: InputSpec.model_validate(section).source() for name, section in content.items()}
    except (ValueError, AttributeError):
        raise ReleaseError(f"{run.input} is damaged; give the spec with --spec SPEC") from None
