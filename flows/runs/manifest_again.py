"""The manifest made anew from public files, and compared: what else would it hold a number in, that nobody computes?"""

from __future__ import annotations

import re
from typing import Final

from pipeline.execution.job import Job
from pipeline.release.manifest import Manifest
from pipeline.release.software import PACKAGES

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d+(\.\d+){0,3}((a|b|rc|\.post|\.dev)\d+)?")


def manifest_problems(job: Job, manifest: Manifest) -> list[str]:
    """What the manifest states beside what follows from the public files.

    Args:
        job: a run whose public steps were performed again, with their notes.
        manifest: of the release.
    """
    recomputed = {
        "spec": job.spec.public_dict() == manifest.spec,
        "solver": dict(job.notes) == manifest.solver,
    }
    problems = [
        f"public/manifest.json: {field} is not what the public files give"
        for field, same in recomputed.items()
        if not same
    ]
    hashes = [manifest.key_commitment, *manifest.input_fingerprints.values()]
    if any(text and not _HEX.fullmatch(text) for text in hashes):
        problems.append("public/manifest.json: a commitment or fingerprint is not a hash")
    stated = manifest.software
    versions = [stated.version, stated.python, *stated.packages.values()]
    if set(stated.packages) - set(PACKAGES):
        problems.append("public/manifest.json: software names a package that no release uses")
    problems += [
        f"public/manifest.json: {version!r:.60} is not a version" for version in versions if not _is_version(version)
    ]
    return problems


def _is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None or text == "unknown (not installed)"
