"""The software that a release is made with, as its manifest states it."""

from __future__ import annotations

import platform
from importlib import metadata

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
NAME = "spinewise"
NOT_INSTALLED = "unknown (not installed)"


class Software(Stated):
    """The versions that a release was made with: of this program, of Python and of the packages it uses."""

    name: str
    version: str
    python: str
    packages: dict[str, str]


def software() -> Software:
    """This software and what it runs on; a package that is not installed is left out."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    try:
        version = metadata.version(NAME)
    except metadata.PackageNotFoundError:
        version = NOT_INSTALLED
    return Software(name=NAME, version=version, python=platform.python_version(), packages=versions)
