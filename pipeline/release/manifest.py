"""The manifest of a release: what ran, what it guarantees, and the hash of every published file.

The same inputs and key give the same bytes: there are no times, durations or host names in it. It is canonical JSON
with a hash over all of the rest, so that any change shows, in the manifest or in a file. That guards against damage and
slips, not against someone who rewrites both; a signature does, which is a file of its own beside it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import JsonValue, ValidationError

from pipeline.errors import ChangedFileError, ReleaseError
from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement, promise
from pipeline.privacy.noise.mechanisms import NoiseName
from pipeline.release.layout import RunDirectory
from pipeline.release.privacy_statement import PrivacyStatement
from pipeline.release.provenance import InputProvenance
from pipeline.release.receipts import Receipt
from pipeline.release.software import Software, software
from pipeline.release.stated import Digest, Positive, Stated
from pipeline.release.status import RECEIVED, Status
from pipeline.storage.files import canonical_json, differing_keys, json_sha256, sha256_file, write_bytes


@dataclass(frozen=True)
class KeyStatement:
    """What a manifest states of key and records; empty where another program drew the noise.

    Attributes:
        salt: of the release.
        commitment: to the key, with the salt.
        fingerprints: universe -> of its records, keyed, with the salt.
    """

    salt: str = ""
    commitment: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)


FORMAT: Final = 1

_HASH_FIELD = "manifest_sha256"


class FileEntry(Stated):
    """A public file as the manifest lists it: its hash in hexadecimal, and its size in bytes."""

    sha256: str
    bytes: int


class StatedDraw(Stated):
    """Noisy answers, or private choices, that follow from one stream of random numbers, and where they are published.

    Attributes:
        universe, level, query: these name the stream.
        file: path under public/ with slashes; "" where nothing of it is published by itself.
        mechanism: of what is drawn; "received" of what others drew and published.
        scales: sigma^2, b, epsilon of a choice, or the variance of what was received, exact, for each kind of area; the
            first is that of the level.
        kinds: SHA-256 in hexadecimal of the kind of each area in the order of the spine, as 64-bit whole numbers,
            little end first, -1 where nothing is drawn; "" where all are of the first.
        where_positive: only answers are drawn that are positive in the released area above.
        weights: by how much each period so far is multiplied in the numbers of a series; none where they are counts.
        versions: of a private choice, each query and the number of records from which on it is meant.
    """

    universe: str
    level: str
    query: str
    file: str
    mechanism: NoiseName | Literal["exponential", "received"]
    scales: tuple[Positive, ...]
    kinds: Digest | Literal[""] = ""
    where_positive: bool = False
    weights: tuple[int, ...] = ()
    versions: tuple[tuple[str, int], ...] = ()


class Manifest(Stated):
    """Everything that the manifest states, except its own hash.

    Attributes:
        release: its name.
        spec: as written, without what is not public.
        draws: all that is drawn of the records, universe by universe: what was chosen before, what is measured, and
            private choices of detail with the noise on what they chose; of what others drew only what was received.
        privacy: one statement for each universe whose people are promised something.
        accounts: for each universe what its budget means in epsilon, as a whole, for each attribute and each level, by
            the distribution of privacy losses and by zCDP.
        joint: what one person's change costs over all universes together: the epsilon that stands for the release.
        households: what a household costs over all universes together, for each companion of households that is joined.
        beyond_limits: what of the budget or the invariants is beyond what is usual and was accepted by the operator.
        provenance: where each public input comes from, and its hash.
        key_salt: of this release, hexadecimal, so that no other release with the same key or records has the same
            commitment and fingerprints; "" where the measurements were made elsewhere, or before there were salts.
        key_commitment: of the master key with the salt, hexadecimal; "" where the measurements were made elsewhere.
        input_fingerprints: universe -> hash of its confidential records and the salt, keyed with the master key,
            hexadecimal; none where the measurements were made elsewhere.
        charging: whether a ledger has counted the release.
        receipts: one for each dataset that was charged; none where nothing was.
        solver: what the solvers report, without durations.
        files: path under public/ with slashes -> hash and size; all of them but the manifest and its signature.
    """

    format: Literal[1] = FORMAT
    release: str
    software: Software
    status: Status
    spec: dict[str, JsonValue]
    draws: tuple[StatedDraw, ...]
    privacy: tuple[PrivacyStatement, ...]
    accounts: tuple[PrivacyAccount, ...] = ()
    joint: Statement | None = None
    households: tuple[Statement, ...] = ()
    beyond_limits: tuple[str, ...] = ()
    provenance: tuple[InputProvenance, ...] = ()
    key_salt: Digest | Literal[""] = ""
    key_commitment: Digest | Literal[""]
    input_fingerprints: dict[str, Digest]
    charging: str = ""
    receipts: tuple[Receipt, ...] = ()
    solver: dict[str, JsonValue]
    files: dict[str, FileEntry]

    @property
    def promise(self) -> str:
        """The release's one epsilon and what it is about, in a line; or that nothing is promised."""
        return next((promise(self.joint, one.delta) for one in self.privacy), RECEIVED)


def public_files(run: RunDirectory) -> dict[str, FileEntry]:
    """Hash and size of every file under public/ but the manifest and its signature, by path.

    Raises:
        ReleaseError: something there is not a regular file, or cannot be read.
    """
    entries = {}
    for name, path in _walk(run.public):
        if path in run.unlisted:
            continue
        entry = _entry(path)
        if isinstance(entry, str):
            raise ReleaseError(f"public/{name} {entry}")
        entries[name] = entry
    return entries


def write_manifest(run: RunDirectory, manifest: Manifest) -> None:
    """Write the manifest with its own hash; ReleaseError where it cannot be written."""
    content = manifest.model_dump(mode="json")
    content[_HASH_FIELD] = json_sha256(content)
    write_bytes(run.manifest, canonical_json(content), run.staging)


def read_manifest(path: Path) -> Manifest:
    """The manifest at `path`.

    Raises:
        ReleaseError: it is missing, any byte of it was changed, or it is of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}") from error
    try:
        content = json.loads(data.decode(), object_pairs_hook=_once)
        canonical = canonical_json(content)
    except (ValueError, RecursionError) as error:
        raise ReleaseError(f"{path} is damaged: it is not the JSON that was written ({error})") from error
    if not isinstance(content, dict) or canonical != data:
        raise ReleaseError(f"{path} is damaged: it is not laid out as it was written")
    recorded = content.pop(_HASH_FIELD, None)
    rest = canonical_json(content)
    if recorded != json_sha256(content):
        raise ReleaseError(f"{path} is damaged: its content does not have the hash that it states")
    if content.get("format") != FORMAT:
        raise ReleaseError(
            f"{path} has the format {content.get('format')!r}; this version of the software reads {FORMAT}"
        )
    try:
        return Manifest.model_validate_json(rest)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ReleaseError(f"{path} is not a manifest of this format: {place}: {first['msg']}") from error


def check_public_files(run: RunDirectory) -> list[str]:
    """Deviations from the manifest, one sentence each, in the order of paths; empty if there are none.

    Files are looked for in the directory and compared with the manifest's list; no path that the manifest states is
    ever opened, so that a forged one cannot lead elsewhere.
    """
    try:
        listed = read_manifest(run.manifest).files
        files = {name: path for name, path in _walk(run.public) if path not in run.unlisted}
    except ReleaseError as error:
        return [str(error)]
    problems = {}
    for name in listed.keys() | files.keys():
        if problem := _deviation(listed.get(name), files.get(name)):
            problems[name] = f"{'public/' + name!a} {problem}"
    return [problems[name] for name in sorted(problems)]


def check_public_file(run: RunDirectory, manifest: Manifest, path: Path) -> None:
    """Compare one public file with its hash in the manifest.

    Raises:
        ChangedFileError: it is missing, or not what the manifest says.
    """
    there = path.exists() or path.is_symlink()
    if problem := _deviation(manifest.files.get(run.name_of(path)), path if there else None):
        raise ChangedFileError.of(f"{path} {problem}", "release", run.root)


def _deviation(listed: FileEntry | None, path: Path | None) -> str:
    """How a file deviates from its entry; no entry where none is listed, and no path where there is no such file."""
    if listed is None:
        return "is not in the manifest"
    if path is None:
        return "is missing; the manifest lists it"
    entry = _entry(path, size=listed.bytes)
    if isinstance(entry, str):
        return entry
    return "" if entry.sha256 == listed.sha256 else "was changed: its hash is not the one in the manifest"


def _entry(path: Path, size: int | None = None) -> FileEntry | str:
    """Hash and size of a regular file, or what is wrong with it; not hashed where it does not have the `size` given."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "is a symbolic link; a release holds only files of its own"
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        if size is not None and status.st_size != size:
            return f"was changed: it has {status.st_size} bytes, {size} according to the manifest"
        return FileEntry(sha256=sha256_file(path), bytes=status.st_size)
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _walk(folder: Path, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """Everything under `folder` that is not a folder, with its path from there; links are not followed."""
    if folder.is_symlink():
        raise ReleaseError(f"{folder} is a symbolic link; a release holds only folders of its own")
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be listed: {error.strerror}") from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, Path(entry.path)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return content


def version_differences(manifest: Manifest) -> list[str]:
    """A sentence that lists the versions that differ from those that the release was made with, if any do."""
    installed, recorded = software(), manifest.software
    now = {"spinewise": installed.version, "python": installed.python, **installed.packages}
    then = {"spinewise": recorded.version, "python": recorded.python, **recorded.packages}
    differing = [
        f"{name} {now.get(name, 'missing')} (made with {then.get(name, 'none')})" for name in differing_keys(now, then)
    ]
    return [f"the installed versions are not those it was made with: {', '.join(differing)}"] if differing else []
