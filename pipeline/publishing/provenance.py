"""Where the public inputs of a release come from: a public source, or the records that it is to protect.

A list of areas that was made from the records shows where somebody lives, and a list of values which answers there are;
no noise protects what is read from them. So an input that a spec declares to be of the records is refused until the
operator accepts it by name.
"""

from __future__ import annotations

from pipeline.errors import SpecError
from pipeline.execution.job import Job
from pipeline.metadata.products import files_of
from pipeline.publishing.public_inputs import NamedInput, named_inputs
from pipeline.release.provenance import InputProvenance
from pipeline.release.status import Status, status
from pipeline.spec.release_spec import ReleaseSpec


def provenance_of(job: Job) -> tuple[InputProvenance, ...]:
    """The provenance of every public input, from the spec and the published files alone."""
    accepted = accepted_inputs(job.spec)
    universes = {universe.name: universe for universe in job.universes}
    found = []
    for one in named_inputs(job.spec):
        origin, universe = one.origin(job.spec), universes[one.universe]
        files = files_of(job, *one.kind.products, universe=one.universe)
        found.append(
            InputProvenance(
                name=one.name,
                source=origin.source,
                origin=origin.origin,
                accepted=one.name in accepted,
                sha256=one.kind.sha256(job.spec, universe, files),
            )
        )
    return tuple(found)


def accepted_inputs(spec: ReleaseSpec) -> tuple[str, ...]:
    """The inputs that were made from the records and that the operator accepted: each is an exact disclosure."""
    accepted = () if spec.provenance is None else spec.provenance.accept
    return tuple(name for name in from_records(spec) if name in accepted)


def from_records(spec: ReleaseSpec) -> tuple[str, ...]:
    """The inputs that were made from the records, whether accepted or not."""
    return tuple(one.name for one in _from_records(spec))


def _from_records(spec: ReleaseSpec) -> tuple[NamedInput, ...]:
    return tuple(one for one in named_inputs(spec) if one.origin(spec).source == "records")


def check_provenance(spec: ReleaseSpec) -> None:
    """Refuse inputs that were made from the records, unless the spec accepts each of them by name.

    Raises:
        SpecError: one was not accepted, or the section names what the spec does not have.
    """
    check_inputs(spec)
    check_accepted(spec)


def check_inputs(spec: ReleaseSpec) -> None:
    """Refuse a section that names what the spec does not have, or numbers that must be public already.

    Raises:
        SpecError: it does.
    """
    if spec.provenance is None:
        return
    known = [one.name for one in named_inputs(spec)]
    for place, names in (("inputs", spec.provenance.inputs), ("accept", spec.provenance.accept)):
        if unknown := [name for name in names if name not in known]:
            raise SpecError(
                f"{spec.source}: provenance.{place}: the spec has no public input {unknown[0]!r}; its public inputs "
                f"are {', '.join(known)}"
            )
    for one in _from_records(spec):
        if one.kind.public_only:
            raise SpecError(
                f"{spec.source}: provenance.inputs.{one.name}: made from the records; {one.kind.public_only}"
            )


def check_accepted(spec: ReleaseSpec) -> None:
    """Refuse inputs that were made from the records and that the spec does not accept by name; SpecError says which."""
    made = _from_records(spec)
    accept = () if spec.provenance is None else spec.provenance.accept
    if not (refused := [one for one in made if one.name not in accept]):
        return
    named = ", ".join(f'"{one.name}"' for one in made)
    listed = "; ".join(f"{one.name} ({one.origin(spec).origin or 'from the records'})" for one in refused)
    raise SpecError(
        f"{spec.source}: provenance: made from the records, which they would give away: {listed}. Put public lists in "
        'their place and write source = "public" there (spinewise import table --areas FILE --schema FILE does both); '
        f"or, to try it out or where that is acceptable, accept them by name: accept = [{named}] under [provenance]"
    )


def status_of(spec: ReleaseSpec, *, insecure_key: bool, charged: bool) -> Status:
    """The status of a release of `spec`, with a test key or not, charged to a ledger or not."""
    from_records = bool(accepted_inputs(spec))
    # Reports have spent their epsilon before they arrived: there is nothing that a ledger could count.
    counted = charged or spec.privacy.framework == "local"
    return status(insecure_key=insecure_key, charged=counted, purpose=spec.purpose, from_records=from_records)
