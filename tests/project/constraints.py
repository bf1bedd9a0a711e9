"""Writes constraints.txt, the version of each package that `make setup` installs: `make constraints`.

They are those of the environment in which this runs, and of all in it only what `pyproject.toml` asks for, directly or
through another package; something that somebody installed beside it is left out.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "constraints.txt"
#: The extras that `make setup` installs.
EXTRAS = ("test", "lint", "docs")
HEADER = """\
# The versions that all tests passed with, and that `make setup` installs: written by `make constraints`.
# Which versions are allowed is in pyproject.toml; `make setup NEWEST=1` installs the newest of them.
"""


def declared() -> Iterator[Requirement]:
    """What pyproject.toml asks for, with the extras of `make setup` and what builds the package."""
    content = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    further = (content["project"]["optional-dependencies"][extra] for extra in EXTRAS)
    for listed in (content["build-system"]["requires"], content["project"]["dependencies"], *further):
        yield from map(Requirement, listed)


def installed() -> dict[str, str]:
    """Name -> version of what is asked for here, and of all that it asks for."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(one, "") for one in declared()]
    while waiting:
        one, of_extra = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": of_extra}):
            continue
        name = canonicalize_name(one.name)
        found[name] = metadata.version(name)
        for extra in {"", *one.extras} - {extra for other, extra in seen if other == name}:
            seen.add((name, extra))
            waiting += [(Requirement(text), extra) for text in metadata.requires(name) or ()]
    return found


def pinned(text: str) -> dict[str, str]:
    """Name -> version of a file of constraints; a line that is not `name==version` is an error."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            found[name] = version
    return found


def main() -> None:
    """Write the file."""
    lines = [f"{name}=={version}\n" for name, version in sorted(installed().items())]
    PAGE.write_text(HEADER + "".join(lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} packages\n")


if __name__ == "__main__":
    main()
