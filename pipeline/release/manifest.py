"""The manifest of a release: what ran, what it guarantees, and the hash of every published file.

The same inputs and key give the same bytes: there are no times, durations or host names in it. It is canonical JSON
with a hash over all of the rest, so that any change shows, in the manifest or in a file. That guards against damage and
slips, not against someone who rewrites both.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from pipeline.errors import ReleaseError
from pipeline.model.selection import Selection
from pipeline.model.strategy import Strategy
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.mechanisms import MechanismName
from pipeline.privacy.accounting.statement_models import PrivacyAccount
from pipeline.privacy.budget import Framework, Neighbours, noise_for
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import canonical_json, sha256_file, write_bytes

FORMAT: Final = 1

#: Packages whose version can change a published number or the bytes that it is written in.
PACKAGES = (
    "clarabel",
    "cryptography",
    "cvxpy",
    "dp-accounting",
    "jinja2",
    "numpy",
    "ortools",
    "pandas",
    "prefect",
    "pyarrow",
    "pydantic",
    "scipy",
    "scs",
)

Status = Literal[
    "official",
    "NOT FOR RELEASE: insecure test key",
    "estimated from measurements that were made elsewhere",
    "EXAMPLE: made-up data, about nobody",
]
#: Of a release whose spec says that it is an example.
EXAMPLE: Final[Status] = "EXAMPLE: made-up data, about nobody"
#: Of a release whose measurements another program drew.
MADE_ELSEWHERE: Final[Status] = "estimated from measurements that were made elsewhere"

_HASH_FIELD = "manifest_sha256"
_CONVERSION = "Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), proposition 12 and corollary 13; rounded up"

_BYPASS = (
    " A geounit without siblings is not measured: the noise above it is less than stated here, as the budget of both "
    "levels gives, and on every path from the top to a leaf the budgets add up to the whole."
)
_SELECT = (
    " How detailed a table is in each area was chosen in some tables (select) by the exponential mechanism; these "
    "choices, and the noise on what was chosen, are part of the guarantee."
)
_MADE_ELSEWHERE = (
    " The noise was not drawn by this program: the measurements were made elsewhere. What is said here holds if they "
    "were made as the spec says; only their stated variances were compared with it, and nothing of it was tested."
)


class _Statement(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NoiseStatement(_Statement):
    """Noise on one query at one level; or one private choice, or the noise on what was chosen.

    Attributes:
        query: of a choice "select NAME", of what was chosen "selected NAME".
        scale: sigma^2 of the discrete Gaussian, b of the discrete Laplace, epsilon of the exponential mechanism by
            which choices are made, as an exact fraction.
        scale_decimal: the same as a decimal, rounded up where it does not end.
        share: of the universe's budget, as an exact fraction.
    """

    level: str
    query: str
    mechanism: MechanismName
    scale: str
    scale_decimal: str
    share: str


class InvariantStatement(_Statement):
    """A query that is published exactly at a level."""

    level: str
    query: str


class PrivacyStatement(_Statement):
    """What is guaranteed about one universe ("" is the release's own, others are its companions).

    Attributes:
        budget: rho (zcdp) or epsilon (pure), as an exact fraction; `budget_decimal` is rounded up if it does not end.
        delta: "0" in the pure framework.
        epsilon: that holds at `delta`, decimal, rounded up.
        conversion: how epsilon follows from the budget.
        words: the guarantee in words.
    """

    universe: str
    framework: Framework
    neighbours: Neighbours
    budget: str
    budget_decimal: str
    delta: str
    epsilon: str
    conversion: str
    words: str
    noise: tuple[NoiseStatement, ...]
    invariants: tuple[InvariantStatement, ...]


class Software(_Statement):
    name: str
    version: str
    python: str
    packages: dict[str, str]


class FileEntry(_Statement):
    sha256: str
    bytes: int


class Manifest(_Statement):
    """Everything that the manifest says beside its own hash.

    Attributes:
        release: its name.
        spec: as written, without what is not public.
        public_seed: of ties, simulations and samples.
        privacy: one statement for each universe.
        accounts: for each universe what its budget means in epsilon, as a whole, for each attribute and each level, by
            the distribution of privacy losses and by zCDP.
        key_commitment: of the master key, hexadecimal; "" where the measurements were made elsewhere.
        input_fingerprints: universe -> hash of its confidential histogram, keyed with the master key, hexadecimal;
            none where the measurements were made elsewhere.
        solver: what the solvers report, without durations.
        files: path under public/ with slashes -> hash and size; all of them but the manifest.
    """

    format: Literal[1] = FORMAT
    release: str
    software: Software
    status: Status
    spec: dict[str, JsonValue]
    public_seed: int
    privacy: tuple[PrivacyStatement, ...]
    accounts: tuple[PrivacyAccount, ...] = ()
    key_commitment: str
    input_fingerprints: dict[str, str]
    solver: dict[str, JsonValue]
    files: dict[str, FileEntry]


def software() -> Software:
    """This software and what it runs on; a package that is not installed is left out."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    try:
        version = metadata.version("spinewise")
    except metadata.PackageNotFoundError:
        version = "unknown (not installed)"
    return Software(name="spinewise", version=version, python=platform.python_version(), packages=versions)


def status(*, insecure_key: bool, purpose: str | None = None) -> Status:
    """Whether a release may be published; `purpose` as its spec has it."""
    if insecure_key:
        return "NOT FOR RELEASE: insecure test key"
    return EXAMPLE if purpose == "example" else "official"


def decimal_text(value: Fraction, digits: int = 12) -> str:
    """`value` (not negative) as a decimal; exact where that takes at most `digits` digits, else rounded up."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    return format(number, "f") if number >= Decimal("1e-6") or not number else str(number).lower()


def privacy_statement(
    *,
    universe: str,
    framework: Framework,
    budget: Fraction,
    delta: Fraction,
    neighbours: Neighbours,
    strategy: Strategy,
    invariants: Sequence[tuple[str, str]],
    bypass: bool = False,
    made_elsewhere: bool = False,
    selections: Sequence[Selection] = (),
) -> PrivacyStatement:
    """The guarantee of one universe; the noise is computed from the budget and the strategy, as measuring does.

    Args:
        universe: its name; "" for the release's own.
        budget: rho or epsilon.
        invariants: (level, query) of what is published exactly.
        bypass: geounits without siblings are bypassed; the noise stated is that of geounits that stand for one level.
        made_elsewhere: another program drew the noise; the statement says so.
        selections: private choices, with their shares of the budget; the strategy has the rest.

    Raises:
        InputError: there is no noise for this budget; see `budget.noise_for`.
    """
    noise = []
    rest = 1 - sum((one.share for one in selections), Fraction(0))
    for level in strategy.levels:
        for measured in level.queries:
            spec = noise_for(framework, budget * rest, level.share, measured.share, neighbours)
            share = rest * level.share * measured.share
            noise.append(_noise_statement(level.level, measured.query.name, spec.mechanism, spec.scale, share))
    for one in selections:
        select, part = one.select, one.choice_part(framework, budget, neighbours)
        noise += [
            _noise_statement(one.level, select.stream_name, select.mechanism.name, select.epsilon, part),
            _noise_statement(one.level, select.measured_name, one.noise.mechanism, one.noise.scale, one.share - part),
        ]
    zcdp = framework == "zcdp"
    delta = delta if zcdp else Fraction(0)
    epsilon = decimal_text(Fraction(zcdp_epsilon(budget, delta)) if zcdp else budget, digits=6 if zcdp else 12)
    return PrivacyStatement(
        universe=universe,
        framework=framework,
        neighbours=neighbours,
        budget=str(budget),
        budget_decimal=decimal_text(budget),
        delta=decimal_text(delta),
        epsilon=epsilon,
        conversion=_CONVERSION if zcdp else "none: the budget is epsilon",
        words=_in_words(framework, neighbours, budget, delta, epsilon, has_invariants=bool(invariants))
        + (_SELECT if selections else "")
        + (_BYPASS if bypass else "")
        + (_MADE_ELSEWHERE if made_elsewhere else ""),
        noise=tuple(noise),
        invariants=tuple(InvariantStatement(level=level, query=query) for level, query in invariants),
    )


def _noise_statement(
    level: str, query: str, mechanism: MechanismName, scale: Fraction, share: Fraction
) -> NoiseStatement:
    return NoiseStatement(
        level=level,
        query=query,
        mechanism=mechanism,
        scale=str(scale),
        scale_decimal=decimal_text(scale),
        share=str(share),
    )


def _in_words(
    framework: Framework,
    neighbours: Neighbours,
    budget: Fraction,
    delta: Fraction,
    epsilon: str,
    *,
    has_invariants: bool,
) -> str:
    change = {"change-one": "one record having other values", "add-remove": "one record being there or not"}[neighbours]
    if framework == "zcdp":
        guarantee = (
            f"zero-concentrated differential privacy with rho = {decimal_text(budget)}, and so (epsilon, "
            f"delta)-differential privacy with epsilon = {epsilon} at delta = {decimal_text(delta)} (the bound that "
            "follows from rho alone; the account may state a smaller one, which holds as well)"
        )
    else:
        guarantee = f"pure differential privacy with epsilon = {epsilon}"
    words = (
        f"All noisy measurements of this universe together satisfy {guarantee}, with respect to {change}. Everything "
        "else that is published of it is computed from these measurements and from public inputs, which costs nothing."
    )
    if has_invariants:
        words += (
            " The invariants are published exactly and are not protected: the guarantee compares only inputs that "
            "agree on them."
        )
    return words


def public_files(run: RunDirectory) -> dict[str, FileEntry]:
    """Hash and size of every file under public/ but the manifest, by path.

    Raises:
        ReleaseError: something there is not a regular file, or cannot be read.
    """
    entries = {}
    for name, path in _walk(run.public):
        if path == run.manifest:
            continue
        found = _entry(path)
        if isinstance(found, str):
            raise ReleaseError(f"public/{name} {found}")
        entries[name] = found
    return entries


def write_manifest(run: RunDirectory, manifest: Manifest) -> None:
    """Write the manifest with its own hash; ReleaseError where it cannot be written."""
    content = manifest.model_dump(mode="json")
    content[_HASH_FIELD] = hashlib.sha256(canonical_json(content)).hexdigest()
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
    stated = content.pop(_HASH_FIELD, None)
    rest = canonical_json(content)
    if stated != hashlib.sha256(rest).hexdigest():
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
    """What is not as the manifest says, one sentence each, in the order of paths; empty if all is.

    Files are looked for in the directory and compared with the manifest's list; no path that the manifest states is
    ever opened, so that a forged one cannot lead elsewhere.
    """
    try:
        listed = read_manifest(run.manifest).files
        found = {name: path for name, path in _walk(run.public) if path != run.manifest}
    except ReleaseError as error:
        return [str(error)]
    problems = {}
    for name in listed.keys() | found.keys():
        shown = ascii("public/" + name)
        if name not in found:
            problems[name] = f"{shown} is missing; the manifest lists it"
        elif name not in listed:
            problems[name] = f"{shown} is not in the manifest"
        else:
            problem = _difference(listed[name], found[name])
            if problem:
                problems[name] = f"{shown} {problem}"
    return [problems[name] for name in sorted(problems)]


def _difference(listed: FileEntry, path: Path) -> str:
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
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found
