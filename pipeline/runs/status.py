"""What a run's release may be called."""

from __future__ import annotations

from pipeline.publishing.provenance import accepted_inputs
from pipeline.release.status import Status, status
from pipeline.spec.release_spec import ReleaseSpec


def status_of(spec: ReleaseSpec, *, insecure_key: bool, charged: bool) -> Status:
    """The status of a release of `spec`, with a test key or not, charged to a ledger or not."""
    from_records = bool(accepted_inputs(spec))
    # Reports have spent their epsilon before they arrived: there is nothing that a ledger could count.
    counted = charged or spec.privacy.framework == "local"
    return status(insecure_key=insecure_key, charged=counted, purpose=spec.purpose, from_records=from_records)
