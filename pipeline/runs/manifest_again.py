"""Checks the manifest's fields: recomputed from the public files, or, where nothing gives them, by their form.

A field that nobody checks could carry a confidential number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from pipeline.release.manifest import Manifest
from pipeline.release.software import PACKAGES

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d+(\.\d+){0,3}((a|b|rc|\.post|\.dev)\d+)?")


def manifest_problems(job: Job, manifest: Manifest) -> list[str]:
    """What is wrong with spec, solver, receipts, hashes and versions in the manifest, one sentence each.

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
    problems += receipt_problems(job.universes, manifest)
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


def receipt_problems(universes: Sequence[Universe], manifest: Manifest) -> list[str]:
    """Whether the receipts of a release state the cost of what it has measured, without the ledger that has them."""
    spent: dict[str, Fraction] = {}
    for universe in universes:
        if universe.dataset:
            spent[universe.dataset] = spent.get(universe.dataset, Fraction(0)) + universe.own_budget
    unit = "rho" if universes[0].framework == "zcdp" else "epsilon"
    wanted = {dataset: (unit, str(cost)) for dataset, cost in spent.items()}
    return [
        f"public/manifest.json: receipts: {one.dataset!r} was charged {one.unit} = {one.cost}, and what is measured "
        f"costs {' = '.join(wanted.get(one.dataset, ('nothing', '0')))}"
        for one in manifest.receipts
        if wanted.get(one.dataset) != (one.unit, one.cost)
    ]


def _is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None or text == "unknown (not installed)"
