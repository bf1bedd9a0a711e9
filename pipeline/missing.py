"""What to install where a library is missing that only some commands need."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires

from packaging.requirements import Requirement


def missing_packages(error: BaseException) -> str | None:
    """What to install where an import failed as packages are missing that Spinewise is made of; None for other errors.

    So it is where only releases of others are read: `make reader` leaves most of them out.
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    missing = [one.name for one in map(Requirement, _stated()) if one.marker is None and not _is_there(one.name)]
    if not missing or (error.name or "").partition(".")[0] in packages_distributions():
        return None
    return f"this needs packages that are not installed: {install_command(*missing)}"


def _is_there(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _stated() -> list[str]:
    """What Spinewise says that it needs."""
    try:
        return requires("spinewise") or []
    except PackageNotFoundError:
        return []


def install_command(*packages: str) -> str:
    """The command that installs packages in the versions that Spinewise allows, by their own names.

    Never an extra of Spinewise: its name is on no registry, and whoever registered it would run code of theirs here.
    """
    stated = [Requirement(line) for line in _stated()]
    # "test" is what developers install, in narrower versions.
    allowed = {
        one.name: f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in stated
        if "test" not in str(one.marker)
    }
    return "pip install " + " ".join(f'"{allowed.get(package, package)}"' for package in packages)
