"""Versions of the software that a release was made with, compared with those that are installed."""

from __future__ import annotations

from pipeline.release.manifest import Manifest
from pipeline.release.software import software


def version_differences(manifest: Manifest) -> list[str]:
    """A sentence that says which versions differ from those that the release was made with, if any do."""
    here, there = software(), manifest.software
    now = {"spinewise": here.version, "python": here.python, **here.packages}
    then = {"spinewise": there.version, "python": there.python, **there.packages}
    differing = [
        f"{name} {now.get(name, 'missing')} (made with {then.get(name, 'none')})"
        for name in sorted(now.keys() | then.keys())
        if now.get(name) != then.get(name)
    ]
    return [f"other versions are installed than it was made with: {', '.join(differing)}"] if differing else []
