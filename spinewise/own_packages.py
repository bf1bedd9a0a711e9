"""Makes sure that the packages beside this one are those that Python finds by their names.

They are called geography, pipeline, postprocess and flows. A file of such a name in the user's folder, or beside the
user's script, would be imported in their place, and the errors would say nothing of it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OWN_PACKAGES = ("geography", "pipeline", "postprocess", "flows")


def check_own_packages() -> None:
    """Raises ImportError where something else than Spinewise's own package would be imported; it names the file."""
    home = Path(__file__).resolve().parent.parent
    for name in OWN_PACKAGES:
        other = _other_place(name, home)
        if other is not None:
            raise ImportError(
                f"spinewise needs its own package {name!r}, and Python finds {other} in its place; rename that file or "
                f"folder, or start Python elsewhere (the names {', '.join(OWN_PACKAGES)} are taken by spinewise)",
                name=name,
                path=str(other),
            )


def _other_place(name: str, home: Path) -> Path | None:
    """What Python finds under the name, where that is not the package in `home`; None if it is."""
    try:
        found = find_spec(name)
    except ValueError:  # a module that was made by hand, without a place
        return Path(f"<a module {name!r} without a file>")
    if found is None:
        return None  # the import that needs it says so
    place = found.origin or next(iter(found.submodule_search_locations or ()), None)
    if place is None:
        return None
    path = Path(place).resolve()
    folder = path.parent if path.name == "__init__.py" else path
    return None if folder == home / name else path
