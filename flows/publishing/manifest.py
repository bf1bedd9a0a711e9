"""The manifest of a run; its whole content follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from pydantic import JsonValue

from flows.execution.job import Job
from flows.execution.steps import Notes
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import PrivacyAccount
from pipeline.release.manifest import Manifest, public_files
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.provenance import provenance_of
from pipeline.release.software import software


@lru_cache(maxsize=16)
def account_of(universe: Universe) -> PrivacyAccount:
    """What the universe's budget means in epsilon; computed once for the report and the manifest."""
    from pipeline.privacy.accounting.statements import (
        privacy_statements,  # brings a large library, which reading does not need
    )

    return privacy_statements(universe)


def manifest_of(
    job: Job,
    notes: Mapping[str, Notes],
    key_commitment: str,
    input_fingerprints: Mapping[str, str],
) -> Manifest:
    """The manifest of the files that are under public/.

    Args:
        job: the run.
        notes: of the steps, by name: what the solvers report.
        key_commitment: of the run's key; "" where another program drew the noise.
        input_fingerprints: of each universe's records, keyed.
    """
    return Manifest(
        release=job.spec.name,
        software=software(),
        status=job.status,
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        public_seed=job.spec.postprocess.seed,
        privacy=tuple(privacy_statement(universe, made_elsewhere=not key_commitment) for universe in job.universes),
        accounts=tuple(account_of(universe) for universe in job.universes),
        provenance=provenance_of(job.spec, job.universes, job.run),
        key_commitment=key_commitment,
        input_fingerprints=dict(input_fingerprints),
        solver=cast("dict[str, JsonValue]", dict(notes)),
        files=public_files(job.run),
    )
