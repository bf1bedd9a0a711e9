"""What public files hold beside what they are for: every byte of a Parquet file, every key of a header, every hash.

What a manifest states that nothing here implies is of such a form that hardly a confidential number fits in. Versions
of software nobody can compute again; what is bound to the key or the ledger, only who has these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from auditor.draws import draw_problems, listed
from auditor.files import header_of_answers, header_problems, hidden_bytes, read_whole
from auditor.mechanisms import law_of
from auditor.products import changed_files, strange_files
from auditor.reading.findings import FormError, Found, holds
from auditor.reading.values import IntArray, Stated
from auditor.release import Release

_PACKAGES: Final = {
    "babel", "clarabel", "cryptography", "cvxpy", "dp-accounting", "jinja2", "numpy", "ortools", "pandas", "prefect",
    "pyarrow", "pydantic", "scipy", "scs",
}  # fmt: skip
_PART: Final = "(0|[1-9][0-9]{0,4})"
#: No local part, which could be words.
_VERSION: Final = re.compile(
    rf"{_PART}(\.{_PART}){{0,3}}((a|b|rc){_PART})?(\.post{_PART})?(\.dev[0-9]{{1,8}})?", re.ASCII
)
_NOT_INSTALLED: Final = "unknown (not installed)"
_HASH: Final = re.compile("[0-9a-f]{64}", re.ASCII)
#: Different digits that each hash has, but for one in 10^15.
_LEAST_DISTINCT: Final = 9


def software_problems(software: Stated) -> list[str]:
    """What of the versions stated is none, or of a package that changes no number."""
    if set(software) != {"name", "version", "python", "packages"} or software["name"] != "spinewise":
        return ["states more than names and versions"]
    problems = [f"{name!r:.60} is no package that is used" for name in sorted(set(software["packages"]) - _PACKAGES)]
    versions = {**software["packages"], "Python": software["python"], "spinewise": software["version"]}
    return problems + [
        f"{name} {version!r:.60} is no version"
        for name, version in versions.items()
        if not _VERSION.fullmatch(str(version)) and (name, version) != ("spinewise", _NOT_INSTALLED)
    ]


def hash_problems(fields: Mapping[str, object]) -> list[str]:
    """Which fields are no hash."""
    return [
        f"{name}: {text!r:.80} is no hash"
        for name, text in fields.items()
        if not _HASH.fullmatch(str(text)) or len(set(str(text))) < _LEAST_DISTINCT
    ]


def receipt_problems(receipts: Iterable[Stated]) -> list[str]:
    """Which receipts name no event of a ledger."""
    problems = []
    for number, one in enumerate(receipts):
        problems += hash_problems({f"receipts.{number}.{name}": one.get(name) for name in ("ledger", "hash")})
        if not isinstance(one.get("number"), int) or one["number"] < 1:
            problems.append(f"receipts.{number}.number: {one.get('number')!r:.60} is no event")
    return problems


#: Fields of a manifest that are computed again here.
KNOWN: Final = {
    "accounts", "draws", "files", "format", "households", "input_fingerprints", "joint", "key_commitment", "key_salt",
    "manifest_sha256", "privacy", "release", "software", "solver", "spec", "status",
}  # fmt: skip
#: Of which only who has the key can compare more than the form.
BOUND_TO_KEY: Final = ("key_salt", "key_commitment", "input_fingerprints")


def content_findings(release: Release) -> Iterator[Found]:
    """All checks of the files' contents; none needs a secret."""
    yield holds("manifest", "manifest.json", _manifest_problems(release))
    yield holds("draws", "manifest.json", draw_problems(release.manifest, release.spine, release.places))
    yield holds("files", "public/", _listing_problems(release))
    paths = sorted(release.public.rglob("*.parquet"))
    hidden = (f"{path.relative_to(release.public)} {why}" for path in paths if (why := hidden_bytes(path)))
    yield holds("metadata", "Parquet files", hidden, well="nothing but rows and headers")
    yield holds("headers", "measurements, invariants, spine", _header_problems(release))
    yield holds("solver notes", "manifest.json", _note_problems(release))
    yield holds("software", "manifest.json", software_problems(release.manifest["software"]))


def canonical(content: object) -> bytes:
    """The one way in which a manifest is written."""
    return json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"


def _manifest_problems(release: Release) -> list[str]:
    content = dict(release.manifest)
    problems = []
    if canonical(content) != (release.public / "manifest.json").read_bytes():
        problems.append("is not laid out as manifests are")
    if content.pop("manifest_sha256", None) != hashlib.sha256(canonical(content)).hexdigest():
        problems.append("does not have the hash that it states")
    if content["release"] != content["spec"]["name"] or content["release"] != release.root.name:
        problems.append(f"is of {content['release']!r}, the folder and the spec say otherwise")
    problems += receipt_problems(content.get("receipts", ()))
    bound = {name: content.get(name) for name in BOUND_TO_KEY[:2]}
    return problems + hash_problems(bound | {f"input_fingerprints.{k}": v for k, v in content[BOUND_TO_KEY[2]].items()})


def _listing_problems(release: Release) -> list[str]:
    """Whether each file is listed with its hash and size; the manifest and its signature are not."""
    stated = release.manifest["files"]
    problems = [*changed_files(release.public, stated)]
    problems += [f"{name} is missing" for name in sorted(stated) if not (release.public / name).is_file()]
    due = {path for *_, path in release.invariants} | {
        release.public / draw["file"] for draw in listed(release.manifest["spec"], release.spine)
    } - {release.public}
    strange = strange_files(release.root, release.manifest, release.form.public)
    problems += [f"{path.relative_to(release.public)} is not of the spec" for path in strange]
    return problems + [f"{path.relative_to(release.public)} is missing" for path in sorted(due) if not path.is_file()]


def _header_problems(release: Release) -> list[str]:
    """Each header has the keys and values that follow from the spec, and no others."""
    problems = []
    if read_whole(release.places.spine)[1] != {"kind": "spine"}:
        problems.append("the spine's header holds more than its kind")
    for what, path, required, exact, kinds in _numbered(release):
        try:
            problems += [f"{what}: {problem}" for problem in header_problems(path, required, exact, kinds)]
        except FormError as error:
            problems.append(str(error))
    return problems


def _numbered(release: Release) -> Iterator[tuple[str, Path, Stated, Mapping[str, float], IntArray | None]]:
    """Each file that states its noise, with what `header_problems` compares it with."""
    required: dict[str, Any]
    for due in release.due:
        row, part = due.of.series.row, float(due.of.series.counts)
        required = header_of_answers(due.level, due.query, due.answers.size, "mixed" if row else due.mechanism)
        required |= {"kind": "positive"} if due.where_positive else {}
        required |= {"row": [*row]} if row else {}
        exact = {str(scale): part * law_of(due.mechanism).variance(float(scale)) for scale in due.scales}
        yield due.name, due.path, required, exact, None if due.where_positive else due.kind[due.kind >= 0]
    for universe, choice in ((one, choice) for one in release.form.universes for choice in one.choices):
        name, size = f"selected {choice.name}", choice.versions[-1].size
        required = header_of_answers(choice.level, name, size, universe.mechanism) | {"kind": "selected"}
        path = release.places.of(universe.name, "selected", choice.name, choice.level)
        exact = {str(choice.scale): law_of(universe.mechanism).variance(float(choice.scale))}
        yield name, path, required, exact, None
    for _, level, query, path in release.invariants:
        if path.is_file():
            required = header_of_answers(level.name, query.name, query.size, "exact")
            yield f"invariant {query.name} at {level.name}", path, required, {"0": 0.0}, None


def _note_problems(release: Release) -> Iterator[str]:
    """Notes of solvers are sums of themselves, powers of ten, and no more families than geounits and replicates.

    Of public shares they have how far areas are from them, numbers that `verify` computes again.
    """
    for step, notes in release.manifest["solver"].items():
        try:
            wrong = _wrong_notes(release, step, notes)
        except (TypeError, ValueError, AttributeError, OverflowError):  # something else than numbers
            wrong = "reports what no solver does"
        if wrong:
            yield f"{step!r:.80} {wrong}"


def _wrong_notes(release: Release, step: str, notes: dict[str, Any]) -> str:
    """What a step notes that no solver does; "" where there is nothing."""
    level = next((level for level in release.spine if level.name == step.split(" ")[-1]), None)
    if not step.startswith("estimate ") or level is None:
        return "is not a step that reports"
    replicates = 1 + int(release.manifest["spec"].get("publish", {}).get("replicates") or 0)
    number = release.form.levels.index(level.name)
    most = replicates * (len(release.spine[number - 1].codes) if number else 1) * 2
    for key, value in notes.items():
        if key == "by_solver":
            wrong = sum(value.values()) != notes.get("families")
        elif key.endswith("_at_most"):
            wrong = not (value == 0 or f"{value:e}".startswith("1.000000e-"))
        elif key == "shares":
            wrong = not _are_spreads(value, release, len(level.codes))
        else:
            wrong = key not in ("families", "solved_again_by_cvxpy") or not 0 <= value <= most
        if wrong:
            return f"reports {key} = {value}, which no solver does"[:200]
    return ""


_SPREAD: Final = {"tau2", "a", "without_number", "noise", "standard_error", "geounits", "factors"}


def _are_spreads(value: Any, release: Release, n_geounits: int) -> bool:
    """Whether a note is how far areas are from shares of the spec: by share and answer, in numbers alone."""
    stated = {name for name, _ in release.manifest["spec"].get("postprocess", {}).get("shares") or ()}
    if not isinstance(value, dict) or not value.keys() <= stated:
        return False
    for spread in (one for answers in value.values() for one in answers.values()):
        if spread.keys() != _SPREAD or not 0 <= spread["geounits"] <= n_geounits:
            return False
        numbers = [spread[name] for name in _SPREAD - {"factors", "geounits"}]
        for octave, factor in spread["factors"]:
            numbers += [factor if np.log2(float(octave)) % 1 == 0 else -1.0]
        if not all(number is None or (np.isfinite(number) and number >= 0) for number in numbers):
            return False
    return True
