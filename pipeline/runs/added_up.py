"""What is said after a run of records that were released before: the losses of two releases add up.

What is known comes from the ledger, where the release was charged, and otherwise from the releases beside it in its
folder: those that counted the same file. Releases of one series have one budget. It is for the operator alone, and is
written nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from geography.errors import SpinewiseError
from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, read_manifest
from pipeline.release.status import MADE_ELSEWHERE, status
from pipeline.spec.release_spec import ReleaseSpec

_TEST = status(insecure_key=True, charged=False)
#: Releases that are named of those that were found.
_NAMED = 3


def added_up(run: RunDirectory) -> str:
    """One line, where the records were released before as far as is known; else ""."""
    with suppress(SpinewiseError, OSError, ValueError):
        manifest = read_manifest(run.manifest)
        if manifest.status == _TEST:
            return ""  # nobody is to publish it
        if manifest.receipts:
            return _by_ledger(manifest)
        own = _budget_of(manifest)
        others = [other for other in _of_the_same_file(run) if _budget_of(other) != own]
        return _by_folder(manifest, others) if others else ""
    return ""


def _by_ledger(manifest: Manifest) -> str:
    from pipeline.confidential.charge import own_ledger

    receipt = manifest.receipts[0]
    with own_ledger() as ledger:
        state = ledger.dataset(receipt.dataset)
    others = sorted(state.releases - {manifest.release})
    again = _budget_of(manifest).startswith("release ") and state.spent > Fraction(receipt.cost)
    if not others and not again:
        return ""
    unit, names = receipt.unit, _names(others) if others else f"an earlier run of {manifest.release}"
    return (
        f"Releases of the same records add up: with {names} the ledger has charged {unit} = "
        f"{decimal_text(state.spent)} of {decimal_text(state.budget)} to the dataset {state.name}; "
        f"{decimal_text(state.left)} is left."
    )


def _by_folder(manifest: Manifest, others: Sequence[Manifest]) -> str:
    names = _names(sorted(other.release for other in others))
    return (
        f"Releases of the same records add up: {names} in this folder counted the same file{_total(manifest, others)}. "
        "No ledger counts them."
    )


def _total(manifest: Manifest, others: Sequence[Manifest]) -> str:
    """What all of them cost together; "" where they promise different things."""
    every = tuple({_budget_of(one): one for one in (manifest, *others)}.values())
    kinds = {(one.framework, one.neighbours) for each in every for one in each.privacy}
    if len(kinds) != 1 or any(each.joint is None for each in every):
        return ""
    ((framework, _),) = kinds
    spent = sum((Fraction(each.joint.budget) for each in every if each.joint is not None), Fraction(0))
    if framework == "pure":
        return f", together epsilon = {epsilon_text(spent)}"
    if framework != "zcdp":
        return ""
    delta = manifest.privacy[0].delta
    epsilon = epsilon_text(zcdp_epsilon(spent, Fraction(delta)))
    return f", together rho = {decimal_text(spent)}, at most epsilon = {epsilon} at delta = {delta}"


def _budget_of(manifest: Manifest) -> str:
    """What has a budget of its own: the release, or the whole series that it is of."""
    universe = ReleaseSpec.from_public_dict(manifest.spec, "").universes()[0]
    return f"release {manifest.release}" if universe.series is None else f"series {universe.series_fingerprint}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _of_the_same_file(run: RunDirectory) -> Iterator[Manifest]:
    """The manifests of finished releases beside this one that counted its file of records."""
    own = _file(run)
    if own is None:
        return
    for folder in sorted(run.root.parent.iterdir()):
        other = RunDirectory(folder)
        if folder.name == run.root.name or not other.manifest.is_file() or _file(other) != own:
            continue
        with suppress(SpinewiseError, OSError):
            manifest = read_manifest(other.manifest)
            if manifest.status not in (_TEST, MADE_ELSEWHERE) and "update" not in manifest.spec:
                yield manifest


def _file(run: RunDirectory) -> Path | None:
    """The file of records that a run has counted, as it keeps it; None where none is known."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        content: dict[str, Any] = json.loads(run.input.read_bytes())
        return None if content[""]["file"] is None else Path(content[""]["file"])
    return None
