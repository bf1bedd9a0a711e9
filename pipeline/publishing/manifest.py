"""The manifest of a run; its whole content follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

from typing import cast

from pydantic import JsonValue

from pipeline.execution.job import Job
from pipeline.plan import plan_of
from pipeline.publishing.promises import charging_of, promises_of
from pipeline.publishing.provenance import provenance_of
from pipeline.release.manifest import FileEntry, KeyStatement, Manifest, public_files
from pipeline.release.software import software
from pipeline.release.status import MADE_ELSEWHERE


def manifest_of(job: Job, key: KeyStatement, files: dict[str, FileEntry] | None = None) -> Manifest:
    """The manifest of a run.

    Args:
        job: the run, with what its steps have noted.
        key: what is said of the run's key and records.
        files: that it lists; by default those that are under public/.
    """
    receipts, promises = tuple(job.receipts), promises_of(job)
    return Manifest(
        release=job.spec.name,
        software=software(),
        status=job.status,
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        draws=plan_of(job).draws,
        privacy=promises.made_elsewhere if job.status == MADE_ELSEWHERE else promises.statements,
        accounts=promises.accounts,
        joint=promises.joint,
        households=promises.households,
        beyond_limits=promises.beyond_limits,
        provenance=provenance_of(job),
        key_salt=key.salt,
        key_commitment=key.commitment,
        input_fingerprints=dict(key.fingerprints),
        charging=charging_of(job, receipts),
        receipts=receipts,
        solver=cast("dict[str, JsonValue]", dict(job.notes)),
        files=public_files(job.run) if files is None else files,
    )
