"""The manifest of a run: all that it says follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from pydantic import JsonValue

from flows.job import Job
from flows.steps import Notes
from pipeline.manifest import (
    Manifest,
    PrivacyStatement,
    Status,
    privacy_statement,
    public_files,
    software,
)
from pipeline.privacy.accounts import PrivacyAccount
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


@lru_cache(maxsize=16)
def account_of(universe: Universe) -> PrivacyAccount:
    """What the universe's budget means in epsilon; worked out once for the report and the manifest."""
    from pipeline.privacy.statements import privacy_statements  # brings a large library, which reading does not need

    return privacy_statements(universe)


def manifest_of(
    job: Job,
    told: Mapping[str, Notes],
    *,
    status: Status,
    key_commitment: str,
    input_fingerprints: Mapping[str, str],
) -> Manifest:
    """The manifest of the files that are under public/.

    Args:
        told: by the steps, name -> what the solvers report.
        input_fingerprints: of each universe's records, keyed.
    """
    return Manifest(
        release=job.spec.name,
        software=software(),
        status=status,
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        public_seed=job.spec.postprocess.seed,
        privacy=tuple(statement_of(universe) for universe in job.universes),
        accounts=tuple(account_of(universe) for universe in job.universes),
        key_commitment=key_commitment,
        input_fingerprints=dict(input_fingerprints),
        solver=cast("dict[str, JsonValue]", dict(told)),
        files=public_files(job.run),
    )
