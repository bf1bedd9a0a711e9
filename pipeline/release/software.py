"""The software that a release is made with, as its manifest states it."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from pipeline.release.stated import Stated

#: Packages whose version can change a published number or the bytes that it is written in.
PACKAGES = (
    "babel",
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

#: Of this program, and its version where it is not installed as a package.
NAME: Final = "spinewise"
NOT_INSTALLED: Final = "unknown (not installed)"

_NUMBER = "(0|[1-9][0-9]{0,4})"
#: A version without its local part: which one was installed nobody can compute again, so it holds no words.
Version = Annotated[
    str, Field(pattern=rf"^{_NUMBER}(\.{_NUMBER}){{0,3}}((a|b|rc){_NUMBER})?(\.post{_NUMBER})?(\.dev[0-9]{{1,8}})?$")
]


class Software(Stated):
    """The versions that a release was made with: of this program, of Python and of the packages it uses."""

    name: Literal["spinewise"]
    version: Version | Literal["unknown (not installed)"]
    python: Version
    packages: dict[str, Version]

    @field_validator("packages")
    @classmethod
    def _are_used(cls, packages: dict[str, str]) -> dict[str, str]:
        if others := packages.keys() - set(PACKAGES):
            raise ValueError(
                f"found {min(others)[:40]!r}, whose version changes nothing; allowed: {', '.join(PACKAGES)}"
            )
        return packages


def software() -> Software:
    """This software and what it runs on; a package that is not installed is left out."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = _public(metadata.version(package))
        except metadata.PackageNotFoundError:
            continue
    try:
        version = _public(metadata.version(NAME))
    except metadata.PackageNotFoundError:
        version = NOT_INSTALLED
    return Software(name=NAME, version=version, python=_public(platform.python_version()), packages=versions)


def _public(version: str) -> str:
    """The version without its local part, such as that of a build of Python of one's own, "3.14.0+"."""
    return version.partition("+")[0]
