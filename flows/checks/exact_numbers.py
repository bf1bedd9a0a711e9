"""Exact numbers that a spec publishes and its datasets do not allow, found before a run is refused for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.publishing.provenance import accepted_inputs
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec

if TYPE_CHECKING:
    from pipeline.privacy.ledger.dataset import DatasetState
    from pipeline.privacy.ledger.events import Exact


def undeclared_numbers(spec: Path, datasets: Mapping[str, DatasetState]) -> dict[str, list[Exact]]:
    """Dataset -> what a run of the spec would publish of it exactly, though the ledger does not allow it.

    Args:
        spec: names its datasets; its public inputs are read, its records are not.
        datasets: of the ledger.

    Raises:
        InputError: a public input cannot be read, or does not fit.
    """
    from pipeline.confidential.disclosures import exact_disclosures, inputs_from_records
    from pipeline.privacy.ledger.events import undeclared

    stated = load_spec(spec)
    public = open_listed(stated, stated.universes())
    asked: dict[str, list[Exact]] = {}
    for universe in public.universes:
        exact = exact_disclosures(universe, public.spine, public.inputs.of(BOUNDS)[universe.name])
        exact += inputs_from_records(universe, public.spine, accepted_inputs(public.spec))
        asked.setdefault(universe.dataset, []).extend(exact)
    found: dict[str, list[Exact]] = {}
    for name, exacts in asked.items():
        if name not in datasets:
            continue
        state = datasets[name]
        new = [exact for exact in sorted(exacts) if exact not in state.disclosed]
        refused = new if state.closed else undeclared(state.allowed, state.disclosed, new)
        if refused:
            found[name] = refused
    return found
