"""What a run's release may be called."""

from __future__ import annotations

from pipeline.privacy.keys import MasterKey
from pipeline.release.manifest import Status, status
from pipeline.spec.provenance import accepted_inputs
from pipeline.spec.release_spec import ReleaseSpec


def status_of(spec: ReleaseSpec, key: MasterKey) -> Status:
    """The status of a release of `spec` with this key."""
    return status(insecure_key=key.insecure, purpose=spec.purpose, from_records=bool(accepted_inputs(spec)))
