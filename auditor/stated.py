"""What a manifest states that nothing here implies: of such a form that hardly a confidential number fits in.

Versions of software nobody can compute again; what is bound to the key or the ledger, only who has these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

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
_NAME: Final = re.compile(r"\w[\w.+-]{0,254}")


def software_problems(software: Mapping[str, Any]) -> list[str]:
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


def other_versions(software: Mapping[str, Any]) -> str:
    """Which versions differ from those installed here: these could not be compared."""
    differing = []
    for name, version in software["packages"].items():
        try:
            here = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            here = "none"
        if here != version:
            differing.append(f"{name} {version} (here {here})")
    return "those installed here" if not differing else f"cannot be compared: {', '.join(differing)}"


def hash_problems(fields: Mapping[str, object]) -> list[str]:
    """Which fields are no hash."""
    return [
        f"{name}: {text!r:.80} is no hash"
        for name, text in fields.items()
        if not _HASH.fullmatch(str(text)) or len(set(str(text))) < _LEAST_DISTINCT
    ]


def receipt_problems(receipts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which receipts name no event of a ledger."""
    problems = []
    for number, one in enumerate(receipts):
        problems += hash_problems({f"receipts.{number}.{name}": one.get(name) for name in ("ledger", "hash")})
        if not isinstance(one.get("number"), int) or one["number"] < 1:
            problems.append(f"receipts.{number}.number: {one.get('number')!r:.60} is no event")
    return problems


def name_problems(fields: Mapping[str, object]) -> list[str]:
    """Which fields are no name."""
    return [f"{name}: {text!r:.60} is no name" for name, text in fields.items() if not _NAME.fullmatch(str(text))]
