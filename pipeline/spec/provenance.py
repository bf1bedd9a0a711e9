"""Where the public inputs of a release come from: a public source, or the records that it is to protect.

A list of areas that was made from the records shows where somebody lives, and a list of values which answers there are;
no noise protects what is read from them. So an input that a spec declares to be of the records is refused until the
operator accepts it by name.
"""

from __future__ import annotations

from pipeline.errors import SpecError
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.release_spec import ReleaseSpec


def input_names(spec: ReleaseSpec) -> tuple[str, ...]:
    """The public inputs that a spec has, by the names that its provenance calls them."""
    names = ["geography", *(["regroup"] if spec.geography.regroup is not None else [])]
    names += ["names"] if spec.geography.names else []
    for prefix, sections in (("", spec), *((f"companions.{name}.", one) for name, one in spec.companions.items())):
        names += [f"{prefix}schema", *([f"{prefix}labels"] if sections.schema_section.labels is not None else [])]
        names += [f"{prefix}bounds"] if sections.bounds else []
    shares = any(one.use for one in (spec.postprocess.shares or {}).values())
    return (*names, *(["shares"] if shares else []), *(["polygons"] if spec.report.polygons else []))


def origin_of(spec: ReleaseSpec, name: str) -> OriginSection:
    """Where an input is from; public, by the word of whoever wrote the spec, where it does not say."""
    declared = {} if spec.provenance is None else spec.provenance.inputs
    if name == "names" and any(one.file is None for one in (spec.geography.names or {}).values()):
        name = name if name in declared else "geography"  # names beside the codes are from where the codes are from
    return declared.get(name) or OriginSection.model_validate({"source": "public"})


def accepted_inputs(spec: ReleaseSpec) -> tuple[str, ...]:
    """The inputs that were made from the records and that the operator accepted: each is an exact disclosure."""
    accepted = () if spec.provenance is None else spec.provenance.accept
    return tuple(name for name in from_records(spec) if name in accepted)


def from_records(spec: ReleaseSpec) -> tuple[str, ...]:
    """The inputs that were made from the records, whether accepted or not."""
    return tuple(name for name in input_names(spec) if origin_of(spec, name).source == "records")


def check_provenance(spec: ReleaseSpec) -> None:
    """Refuse inputs that were made from the records, unless the spec accepts each of them by name.

    Raises:
        SpecError: one was not accepted, or the section names what the spec does not have.
    """
    check_inputs(spec)
    if (told := unaccepted(spec)) is not None:
        raise SpecError(told)


def check_inputs(spec: ReleaseSpec) -> None:
    """Refuse a section that names what the spec does not have, or numbers of shares that were made from the records.

    Raises:
        SpecError: it does.
    """
    if spec.provenance is None:
        return
    known = input_names(spec)
    for place, names in (("inputs", spec.provenance.inputs), ("accept", spec.provenance.accept)):
        if unknown := [name for name in names if name not in known]:
            raise SpecError(
                f"{spec.source}: provenance.{place}: the spec has no public input {unknown[0]!r}; its public inputs "
                f"are {', '.join(known)}"
            )
    if "shares" in from_records(spec):
        raise SpecError(
            f"{spec.source}: provenance.inputs.shares: made from the records; the numbers of [postprocess.shares] are "
            "published as they are, without noise, so they must be public already"
        )


def unaccepted(spec: ReleaseSpec) -> str | None:
    """Why a run refuses the inputs that were made from the records and not accepted; None where there are none."""
    made = from_records(spec)
    if spec.provenance is None or not (refused := [name for name in made if name not in spec.provenance.accept]):
        return None
    named = ", ".join(f'"{name}"' for name in made)
    told = "; ".join(f"{name} ({origin_of(spec, name).origin or 'from the records'})" for name in refused)
    return (
        f"{spec.source}: provenance: made from the records, which they would give away: {told}. Put public lists in "
        'their place and write source = "public" there (spinewise import table --areas FILE --schema FILE does both); '
        f"or, to try it out or where that is acceptable, accept them by name: accept = [{named}] under [provenance]"
    )
