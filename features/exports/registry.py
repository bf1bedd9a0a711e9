"""An entry for the registry of differential privacy deployments (https://registry.opendp.org/), from the manifest.

The registry keeps a YAML file for each deployment (opendp/deployments-registry-data), in the form of its
`schemas/deployments-schema.yaml`. What the manifest knows is filled
in: the guarantee, its unit, what is exact, mechanisms and post-processing. What only the publisher knows is marked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from pipeline.errors import InputError
from pipeline.metadata.datapackage import slug
from pipeline.published import PublishedRelease

#: What the publisher fills in; a date that the registry's template has for the same.
TO_FILL_IN, NO_DATE = "TO BE FILLED IN", "1900-01-01"
_VARIANTS = {"zcdp": "Zero-concentrated DP", "pure": "Pure DP", "local": "Pure DP"}
_NEIGHBOURS = {
    "change-one": "two sets of records are neighbours if one record is another (bounded)",
    "add-remove": "two sets of records are neighbours if one has a record more (unbounded)",
}
_Value = str | int | float | Mapping[str, "_Value"] | Sequence["str | Mapping[str, str]"]


def write_registry_entry(release: PublishedRelease, folder: Path) -> None:
    """Write `NAME.yaml`, named as the registry wants it: small letters, digits and _.

    Raises:
        InputError: the manifest states no guarantee over all universes, or that there is none.
    """
    name = slug(release.spec.name).replace("-", "_").replace(".", "_")
    lines = [
        f"# Made from the manifest of release {release.spec.name}; status: {release.manifest.status}.",
        f"# Before it is proposed, fill in what says {TO_FILL_IN}, and the date of publication.",
        *_yaml(entry(release)),
    ]
    (folder / f"{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def entry(release: PublishedRelease) -> dict[str, _Value]:
    """The entry; errors as `write_registry_entry`."""
    about = release.spec.about
    title, publisher = about.title or release.spec.name, about.publisher or TO_FILL_IN
    return {
        "url_slug": slug(f"{title} {publisher}").replace(".", "-"),
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [{"data_curator_name": publisher, "data_curator_type": "Government"}],
                "description": _description(release),
                "intended_use": TO_FILL_IN,
                "data_product_type": "Summary statistics",
                "data_product_region": TO_FILL_IN,
                "data_product_sector": "Government",
                "publication_date": NO_DATE,
            },
            "dp_variant": {
                "variant_name": _VARIANTS[release.manifest.privacy[0].framework],
                "data_domain": TO_FILL_IN,
                "unprotected_quantities": _exact(release),
            },
            "privacy_loss": _loss(release),
            "deployment_model": {
                **_model(release),
                "trust_assumptions": TO_FILL_IN,
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": TO_FILL_IN,
                "mechanisms": _mechanisms(release),
                **_accounting(release),
                "justification": TO_FILL_IN,
            },
            "administrative": {"status": "Draft", "registry_authors": [publisher], "tier": 3},
        },
    }


def _model(release: PublishedRelease) -> dict[str, _Value]:
    """Where the noise is drawn."""
    name, details = release.universes[0].source.deployment
    return {"model_name": name, **({"model_name_details": details} if details else {})}


def _description(release: PublishedRelease) -> str:
    named = [release.spec.labels(one.name).records or one.name or "people" for one in release.universes]
    counted = [
        f"{'Counts' if one.measure.counts else 'Sums'} of {name}"
        for one, name in zip(release.universes, named, strict=True)
    ]
    levels = ", ".join(f"{level.name} ({len(level):,})" for level in release.spine.levels)
    return "\n\n".join([f"{' and '.join(counted)} by area: {levels}.", *release.spec.about.notes])


def _exact(release: PublishedRelease) -> str:
    """What is published without noise."""
    exact = [
        f"- {query.query} at level {query.level}{f' ({statement.universe})' if statement.universe else ''}"
        for statement in release.manifest.privacy
        for query in statement.invariants
    ]
    facilities = [f"- {bound.name}: number of facilities" for one in release.universes for bound in one.bounds]
    return "\n".join([*exact, *facilities]) or "None beyond the list of areas."


def _loss(release: PublishedRelease) -> dict[str, _Value]:
    joint, first = release.manifest.joint, release.manifest.privacy[0]
    if joint is None or Decimal(joint.epsilon).is_infinite():
        raise InputError(
            "--format dp-registry: the manifest promises nothing over all that the release publishes, so there is no "
            "loss to state"
        )
    parameters: dict[str, _Value] = {"epsilon": float(Decimal(joint.epsilon))}
    if first.framework == "zcdp":
        parameters |= {"rho": float(Fraction(joint.budget)), "delta": float(Decimal(first.delta))}
    return {
        "privacy_unit": "Person-level",
        "privacy_unit_details": f"{_NEIGHBOURS[first.neighbours]}. {joint.words}",
        "number_of_privacy_units": _published(release),
        "privacy_parameters": parameters,
        "privacy_parameters_details": "\n".join(
            f"- {one.universe or 'The main records'}: {one.words}" for one in release.manifest.privacy
        ),
    }


def _published(release: PublishedRelease) -> int:
    """Records of the release's own universe, as published."""
    return int(release.histogram(release.universes[0], release.spine.levels[0]).sum())


def _accounting(release: PublishedRelease) -> dict[str, _Value]:
    """How losses add up, and what is done after the noise."""
    zcdp = release.manifest.privacy[0].framework == "zcdp"
    shares = [
        f"- {one.universe or 'main'}, {noise.level}, {noise.query}: {noise.share} of the budget"
        for one in release.manifest.privacy
        for noise in one.noise
    ]
    added_up = "\n".join([f"{'rho' if zcdp else 'epsilon'} adds up over all measurements:", *shares])
    return {
        "post_processing": release.universes[0].source.post_processing,
        "composition": added_up if shares else release.manifest.privacy[0].words,
    }


def _mechanisms(release: PublishedRelease) -> str:
    used = dict.fromkeys(noise.mechanism for one in release.manifest.privacy for noise in one.noise)
    made = release.manifest.software
    drawn_here = (
        f"- {made.name} {made.version}: exact sampling in whole numbers, budgets as fractions, randomness from AES-256 "
        "in counter mode"
    )
    return "\n".join(
        [
            *release.universes[0].source.randomisers,
            *(f"- {name.replace('_', ' ')}" for name in used),
            *([drawn_here] if used else []),
        ]
    )


def _yaml(value: Mapping[str, _Value], indent: str = "") -> Iterator[str]:
    """YAML of nested keys; texts stand as JSON has them, which YAML reads."""
    for key, one in value.items():
        if isinstance(one, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(one, indent + "  ")
        else:
            text = json.dumps(one, ensure_ascii=False)
            # YAML 1.1 takes 1e-10 for a text, and 1.0e-10 for a number.
            yield f"{indent}{key}: {text.replace('e', '.0e') if isinstance(one, float) and '.' not in text else text}"
