"""A finished run that is started again: whether what is there is what the same request would give.

It is recognised where all of the following are as they were when it was finished: the spec, every file that it reads,
how and where the records are read, the key, the program with all that decides on a published
number, and every public file. Otherwise the run goes its usual way, which does again whatever is not whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import pipeline
from geography.errors import SpinewiseError
from pipeline.confidential.sealed import Ingredients
from pipeline.confidential.steps import Measured
from pipeline.model.memory_table import MemoryTable
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files
from pipeline.release.run_directory import held
from pipeline.release.software import software
from pipeline.runs.kept_inputs import inputs_to_keep
from pipeline.runs.request import CheckedRequest
from pipeline.spec.slots import stated_in
from pipeline.storage.files import canonical_json, sha256_file, write_json
from pipeline.storage.paths import is_file

#: The packages whose code decides on a published number.
_DECIDE = ("geography", "postprocess", "pipeline", "features")
#: Of restricted/: what a run that begins makes, and what does not tell one release from another.
_PASSING = ("lock", "run.log", "staging", "checkpoints", "finished.json", "key")


class _NotFileError(Exception):
    pass


def ingredients_of(checked: CheckedRequest) -> Ingredients | None:
    """What the release follows from, beside its key; None where some of it is in memory, or a whole folder."""
    files: list[Path] = []
    try:
        stated = _stated(checked.spec, files)
        for universe in checked.universes:
            files += _files(universe.require_input().file)
    except _NotFileError:
        return None
    text = canonical_json([stated, inputs_to_keep(checked.universes), _program()])
    return Ingredients(text.decode(), tuple(files), any(universe.dataset for universe in checked.universes))


def note_finished(run: RunDirectory, seal: str) -> None:
    """Note, after the manifest, what the run was made from, so that it is recognised; nothing without a seal."""
    if not seal:
        return
    content = {"seal": seal, "manifest": sha256_file(run.manifest), "restricted": sorted(_kept(run))}
    write_json(run.finished, content, run.staging, private=True)


def is_finished(checked: CheckedRequest, measured: Measured) -> bool:
    """Whether the request would give, to the last byte, the release that is there; nothing is drawn or charged.

    Raises:
        InputError: the key cannot be read, or another process is running in the directory.
    """
    run = checked.run
    if not run.finished.is_file() or (ingredients := ingredients_of(checked)) is None:
        return False
    with held(run):
        return (
            _is_whole(run, noted := _noted(run))
            and noted["seal"] == measured.seal(run, ingredients)
            and (not ingredients.charged or measured.is_counted(run))
        )


def _noted(run: RunDirectory) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        content = json.loads(run.finished.read_bytes())
        if isinstance(content, dict) and content.keys() >= {"seal", "manifest", "restricted"} and content["seal"]:
            return content
    return {}


def _is_whole(run: RunDirectory, noted: Mapping[str, Any]) -> bool:
    """Whether every public file is as the noted manifest lists it, and what is for the agency alone is there."""
    with suppress(OSError, SpinewiseError):
        return (
            bool(noted)
            and run.manifest.is_file()
            and sha256_file(run.manifest) == noted["manifest"]
            and not check_public_files(run)
            and set(noted["restricted"]) <= set(_kept(run))
        )
    return False


def _kept(run: RunDirectory) -> Iterator[str]:
    """Names of the files in restricted/ that a run leaves; they are not read here, since they hold true counts."""
    for path in run.restricted.rglob("*"):
        name = path.relative_to(run.restricted)
        if name.parts[0] not in _PASSING and path.is_file():
            yield name.as_posix()


def _stated(value: object, files: list[Path]) -> Any:
    """A spec as JSON, in which every file is its place; these are collected. What reads records stands elsewhere.

    Keys of features are among it.
    """
    if isinstance(value, BaseModel):
        return {name: _stated(one, files) for name, one in stated_in(value, ("input",)).items()}
    if isinstance(value, Mapping):
        return [[str(key), _stated(item, files)] for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [_stated(item, files) for item in value]
    if isinstance(value, Path | MemoryTable):
        files += _files(value)
        return str(value)
    return str(value) if isinstance(value, Fraction) else value


def _files(place: Path | MemoryTable) -> list[Path]:
    if isinstance(place, MemoryTable) or not is_file(place):
        raise _NotFileError
    return [place]


def _program() -> Any:
    """The versions of all that decides on a published number, and a hash of our own code, which may be changed."""
    root, code = Path(pipeline.__file__).parents[1], hashlib.sha256()
    for package in _DECIDE:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                code.update(f"{path.relative_to(root).as_posix()}\n{sha256_file(path)}\n".encode())
    return [software().model_dump(mode="json"), code.hexdigest()]
