"""What to install where a library is missing that only some commands need."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement


def install_command(*packages: str) -> str:
    """The command that installs packages in the versions that Spinewise allows, by their own names.

    Never an extra of Spinewise: its name is on no registry, and whoever registered it would run code of theirs here.
    """
    try:
        stated = [Requirement(line) for line in requires("spinewise") or ()]
    except PackageNotFoundError:
        stated = []
    # "test" is what developers install, in narrower versions.
    allowed = {
        one.name: f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in stated
        if "test" not in str(one.marker)
    }
    return "pip install " + " ".join(f'"{allowed.get(package, package)}"' for package in packages)
