"""What a run leaves for the next one: how records are read, whether all is done already, and losses that add up.

How the records of a run are read, as the run keeps it in restricted/.

It is recognised where all of the following are as they were when it was finished: the spec, every file that it reads,
how and where the records are read, the key, the program with all that decides on a published
number, and every public file. Otherwise the run goes its usual way, which does again whatever is not whole.

What is said after a run of records that were released before: the losses of two releases add up.

What is known comes from the ledger, where the release was charged, and otherwise from the releases beside it in its
folder: those that counted the same file. Releases of one series have one budget. It is for the operator alone, and is
written nowhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import pipeline
from geography.errors import InputError, SpinewiseError
from pipeline.confidential.fingerprints import Ingredients
from pipeline.confidential.process import RecordHolder
from pipeline.errors import ReleaseError
from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.model.measure import COUNTS
from pipeline.model.memory_table import MemoryTable, records_place
from pipeline.model.record_source import KnownContent, RecordSource
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, check_public_files, read_manifest
from pipeline.release.run_directory import held
from pipeline.release.software import software
from pipeline.release.status import MADE_ELSEWHERE, status
from pipeline.runs.request import CheckedRequest
from pipeline.spec.input_section import InputSpec
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.slots import stated_in
from pipeline.storage.files import canonical_json, sha256_file, write_json
from pipeline.storage.paths import is_file

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
    if section["file"] is None:  # the records were in memory
        section["file"] = records_place(universe)
    return replace(InputSpec.model_validate(section).source(), unit=unit, at_most=at_most)


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


def is_finished(checked: CheckedRequest, measured: RecordHolder) -> bool:
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


_TEST = status(insecure_key=True, charged=False)
#: Releases that are named of those that were found.
_NAMED = 3


def added_up(run: RunDirectory) -> str:
    """One line, where the records were released before as far as is known; else ""."""
    with suppress(SpinewiseError, OSError, ValueError):
        manifest = read_manifest(run.manifest)
        if manifest.status == _TEST:
            return ""  # nobody is to publish it
        if manifest.receipts:
            return _by_ledger(manifest)
        own = _budget_of(manifest)
        others = [other for other in _of_the_same_file(run) if _budget_of(other) != own]
        return _by_folder(manifest, others) if others else ""
    return ""


def _by_ledger(manifest: Manifest) -> str:
    from pipeline.confidential.charge import own_ledger

    receipt = manifest.receipts[0]
    with own_ledger() as ledger:
        state = ledger.dataset(receipt.dataset)
    others = sorted(state.releases - {manifest.release})
    again = _budget_of(manifest).startswith("release ") and state.spent > Fraction(receipt.cost)
    if not others and not again:
        return ""
    unit, names = receipt.unit, _names(others) if others else f"an earlier run of {manifest.release}"
    return (
        f"Releases of the same records add up: with {names} the ledger has charged {unit} = "
        f"{decimal_text(state.spent)} of {decimal_text(state.budget)} to the dataset {state.name}; "
        f"{decimal_text(state.left)} is left."
    )


def _by_folder(manifest: Manifest, others: Sequence[Manifest]) -> str:
    names = _names(sorted(other.release for other in others))
    return (
        f"Releases of the same records add up: {names} in this folder counted the same file{_total(manifest, others)}. "
        "No ledger counts them."
    )


def _total(manifest: Manifest, others: Sequence[Manifest]) -> str:
    """What all of them cost together; "" where they promise different things."""
    every = tuple({_budget_of(one): one for one in (manifest, *others)}.values())
    kinds = {(one.framework, one.neighbours) for each in every for one in each.privacy}
    if len(kinds) != 1 or any(each.joint is None for each in every):
        return ""
    ((framework, _),) = kinds
    spent = sum((Fraction(each.joint.budget) for each in every if each.joint is not None), Fraction(0))
    if framework == "pure":
        return f", together epsilon = {epsilon_text(spent)}"
    if framework != "zcdp":
        return ""
    delta = manifest.privacy[0].delta
    epsilon = epsilon_text(zcdp_epsilon(spent, Fraction(delta)))
    return f", together rho = {decimal_text(spent)}, at most epsilon = {epsilon} at delta = {delta}"


def _budget_of(manifest: Manifest) -> str:
    """What has a budget of its own: the release, or the whole series that it is of."""
    universe = ReleaseSpec.from_public_dict(manifest.spec, "").universes()[0]
    return f"release {manifest.release}" if universe.series is None else f"series {universe.series_fingerprint}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _of_the_same_file(run: RunDirectory) -> Iterator[Manifest]:
    """The manifests of finished releases beside this one that counted its file of records."""
    own = _file(run)
    if own is None:
        return
    for folder in sorted(run.root.parent.iterdir()):
        other = RunDirectory(folder)
        if folder.name == run.root.name or not other.manifest.is_file() or _file(other) != own:
            continue
        with suppress(SpinewiseError, OSError):
            manifest = read_manifest(other.manifest)
            if manifest.status not in (_TEST, MADE_ELSEWHERE) and "update" not in manifest.spec:
                yield manifest


def _file(run: RunDirectory) -> Path | None:
    """The file of records that a run has counted, as it keeps it; None where none is known."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        content: dict[str, Any] = json.loads(run.input.read_bytes())
        return None if content[""]["file"] is None else Path(content[""]["file"])
    return None
