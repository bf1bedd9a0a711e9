"""Verifies that Python finds Spinewise's own packages by their names.

They are called geography, pipeline, postprocess, features, flows and auditor. A file of such a name in the user's
folder, or beside the user's script, would be imported in their place, and the resulting errors would not mention it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OWN_PACKAGES = ("geography", "pipeline", "postprocess", "features", "flows", "auditor")


def check_own_packages() -> None:
    """Raises ImportError, naming the file, if anything but Spinewise's own package would be imported."""
    home = Path(__file__).resolve().parent.parent
    for name in OWN_PACKAGES:
        foreign = _other_place(name, home)
        if foreign is not None:
            raise ImportError(
                f"spinewise needs its own package {name!r}, and Python finds {foreign} in its place; rename that file "
                f"or folder, or start Python elsewhere (the names {', '.join(OWN_PACKAGES)} are taken by spinewise)",
                name=name,
                path=str(foreign),
            )


def _other_place(name: str, home: Path) -> Path | None:
    """What Python finds under the name, where that is not the package in `home`; None if it is."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that was created by hand, without a file
        return Path(f"<a module {name!r} without a file>")
    if spec is None:
        return None  # the import that needs it will fail with a clear message
    place = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    if place is None:
        return None
    path = Path(place).resolve()
    folder = path.parent if path.name == "__init__.py" else path
    return None if folder == home / name else path
