"""How the records of a run are read, as the run keeps it in restricted/."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from pipeline.errors import InputError, ReleaseError
from pipeline.model.measure import COUNTS
from pipeline.model.memory_table import records_place
from pipeline.model.record_source import KnownContent, RecordSource
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.spec.input_section import InputSpec

#: What the public spec says of how records are read, and the columns of questions, which no release has.
_ELSEWHERE = ("amount", "beside", "further")


def inputs_to_keep(universes: Sequence[Universe]) -> dict[str, object]:
    """How the records are read, as JSON for restricted/: universe -> its section [input]; no file where none was.

    The grid of an amount is public, and left out.
    """
    inputs: dict[str, object] = {}
    for universe in universes:
        source = universe.require_input()
        stated = {
            field.name: getattr(source, field.name)
            for field in fields(source)
            if field.name not in ("file", *_ELSEWHERE)
        }
        if isinstance(source.expect, KnownContent):
            stated["expect"] = asdict(source.expect)
        inputs[universe.name] = stated | {"file": str(source.file.resolve()) if isinstance(source.file, Path) else None}
    return inputs


def kept_inputs(run: RunDirectory, universes: Sequence[Universe] = ()) -> Mapping[str, RecordSource]:
    """What `inputs_to_keep` made and the run kept, by universe.

    Args:
        run: the release.
        universes: of its public spec, which has the amounts; none of them where there are no amounts.

    Raises:
        InputError: nothing was kept.
        ReleaseError: it is damaged.
    """
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
        measures = {universe.name: universe.measure for universe in universes}
        return {name: measures.get(name, COUNTS).reading(_source(section, name)) for name, section in content.items()}
    except (ValueError, AttributeError):
        raise ReleaseError(f"{run.input} is damaged; give the spec with --spec SPEC") from None


def _source(section: dict[str, object], universe: str) -> RecordSource:
    """How the records are read; their units stand in another section of the spec. Errors as pydantic's."""
    unit, at_most = section.pop("unit", None), section.pop("at_most", None)
    if not (unit is at_most is None or (isinstance(unit, str) and isinstance(at_most, int) and at_most > 0)):
        raise ValueError("units")
    source = InputSpec.model_validate(_with_place(section, universe)).source()
    return replace(source, unit=unit, at_most=at_most)


def _with_place(section: dict[str, object], universe: str) -> dict[str, object]:
    """The section with a table's place in memory as its file, where the records were in memory."""
    return section if section["file"] is not None else {**section, "file": records_place(universe)}
