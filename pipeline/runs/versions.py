"""The versions of the software that a release was made with, compared with the installed ones."""

from __future__ import annotations

from pipeline.release.manifest import Manifest
from pipeline.release.software import software


def version_differences(manifest: Manifest) -> list[str]:
    """A sentence that lists the versions that differ from those that the release was made with, if any do."""
    installed, recorded = software(), manifest.software
    now = {"spinewise": installed.version, "python": installed.python, **installed.packages}
    then = {"spinewise": recorded.version, "python": recorded.python, **recorded.packages}
    differing = [
        f"{name} {now.get(name, 'missing')} (made with {then.get(name, 'none')})"
        for name in sorted(now.keys() | then.keys())
        if now.get(name) != then.get(name)
    ]
    return [f"the installed versions are not those it was made with: {', '.join(differing)}"] if differing else []
