"""The manifest of a run: all that it says follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from flows.job import Job
from flows.steps import Notes
from pipeline.manifest import (
    Manifest,
    PrivacyStatement,
    privacy_statement,
    public_files,
    software,
    status,
)
from pipeline.privacy.keys import MasterKey
from pipeline.universe import Universe


def statement_of(universe: Universe) -> PrivacyStatement:
    """The guarantee of a universe; InputError where there is no noise for its budget."""
    return privacy_statement(
        universe=universe.name,
        framework=universe.framework,
        budget=universe.budget,
        delta=universe.delta,
        neighbours=universe.neighbours,
        strategy=universe.strategy,
        invariants=[(level, query.name) for level, query in universe.invariants],
    )


def manifest_of(
    job: Job,
    told: Mapping[str, Notes],
    key: MasterKey,
    input_fingerprints: Mapping[str, str],
) -> Manifest:
    """The manifest of the files that are under public/.

    Args:
        told: by the steps, name -> what the solvers report.
        key: the run's; the manifest holds its commitment.
        input_fingerprints: of each universe's records, keyed.
    """
    from pipeline.privacy.statements import privacy_statements  # brings a large library, which reading does not need

    return Manifest(
        release=job.spec.name,
        software=software(),
        status=status(insecure_key=key.insecure),
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        public_seed=job.spec.postprocess.seed,
        privacy=tuple(statement_of(universe) for universe in job.universes),
        accounts=tuple(privacy_statements(universe) for universe in job.universes),
        key_commitment=key.commitment(),
        input_fingerprints=dict(input_fingerprints),
        solver=cast("dict[str, JsonValue]", dict(told)),
        files=public_files(job.run),
    )
