"""An entry for the registry of differential privacy deployments (https://registry.opendp.org/), from the manifest.

The registry keeps a YAML file for each deployment (opendp/deployments-registry-data), in the form of its
`schemas/deployments-schema.yaml`; the tests have that of July 2026. Manifest and spec fill in the guarantee, its unit
and domain, what is exact, mechanisms, accounting, actors and inputs. What only the publisher knows is marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from features.exports.words import area_names
from pipeline.errors import InputError
from pipeline.metadata.datapackage import slug
from pipeline.model.exact import decimal_text
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import Statement
from pipeline.published import PublishedRelease
from pipeline.release.privacy_statement import drawn_of

#: What the publisher fills in; a date that the registry's template has for the same.
TO_FILL_IN, NO_DATE = "TO BE FILLED IN", "1900-01-01"
#: Areas at the top of a spine that are named as the region, at most.
_REGIONS = 10
_VARIANTS = {"zcdp": "Zero-concentrated DP", "pure": "Pure DP", "local": "Pure DP"}
_NEIGHBOURS = {
    "change-one": "Bounded: of two sets of records that are neighbours, one has as many records as the other",
    "add-remove": "Unbounded: of two sets of records that are neighbours, one has more records",
}
#: Deployment model -> who has what, and who is trusted with it.
_ACTORS = {
    "Central": "{curator} has the records and the key of the noise, and is trusted with both",
    "Local": "every respondent randomises the answer on a device of their own; {curator} sees the reports alone, and "
    "is not trusted with an answer",
    "Varies": "every respondent randomises the answer on a device of their own, and {curator} sees the reports alone; "
    "who made the central release has the true answers, and is trusted with them",
}
_Value = str | int | float | Decimal | Mapping[str, "_Value"] | Sequence[str]


def write_registry_entry(release: PublishedRelease, folder: Path) -> None:
    """Write `NAME.yaml`, named as the registry wants it: small letters, digits and _.

    Raises:
        InputError: the manifest states no guarantee over all universes, or that there is none.
    """
    name = slug(release.spec.name).replace("-", "_").replace(".", "_")
    lines = [
        f"# Made from the manifest of release {release.spec.name}; status: {release.manifest.status}.",
        f"# Before it is proposed, fill in what says {TO_FILL_IN}, and a date of publication that is {NO_DATE}.",
        *_yaml(entry(release)),
    ]
    (folder / f"{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def entry(release: PublishedRelease) -> dict[str, _Value]:
    """The entry; errors as `write_registry_entry`."""
    joint = release.manifest.joint
    if joint is None or Decimal(joint.epsilon).is_infinite():
        raise InputError(
            "--format dp-registry: the manifest promises nothing over all that the release publishes, so there is no "
            "loss to state"
        )
    about = release.spec.about
    title, publisher = about.title or release.spec.name, about.publisher or TO_FILL_IN
    date = about.publication_date or NO_DATE
    return {
        "url_slug": "_".join(map(_cleaned, (title, publisher, date[:4]))).replace("_", "-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [publisher],
                "intended_use": TO_FILL_IN,
                "data_product_type": "Summary statistics",
                "data_product_region": _region(release),
                "description": _description(release),
                "publication_date": date,
            },
            "dp_variant": {
                "variant_name": _VARIANTS[release.manifest.privacy[0].framework],
                "data_domain": "\n".join(_domain(release, one) for one in release.universes),
                "unprotected_quantities": _exact(release),
            },
            "privacy_loss": _loss(release, joint),
            "deployment_model": _model(release),
            "accounting": _accounting(release),
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _inputs(release),
                "mechanisms": _mechanisms(release),
                "justification": TO_FILL_IN,
            },
            "administrative": {
                **({"sources": about.citation} if about.citation else {}),
                "notes": f"Status of the release: {release.manifest.status}.",
                "registry_authors": [publisher],
            },
        },
    }


def _cleaned(text: str) -> str:
    """As the registry's own script makes addresses of texts."""
    return re.sub(r"\W+", "_", text.lower())


def _region(release: PublishedRelease) -> str:
    """The areas of the top level, where they are few and have names."""
    names = area_names(release, release.spine.level_names[0]) or []
    return ", ".join(names) if 0 < len(names) <= _REGIONS else TO_FILL_IN


def _model(release: PublishedRelease) -> dict[str, _Value]:
    """Where the noise is drawn, who is trusted, and how often data are released."""
    source, series = release.universes[0].source, release.universes[0].series
    name, details = source.deployment
    curator = release.spec.about.publisher or "the curator"
    following = release.spec.about.next_release
    several = ""
    if series is not None:
        several = (
            f"The release of {series.period} in a series of {len(series.periods)}, {series.horizon}. The budget is "
            "that of all of them together, and is spent when the series is opened; nothing is reset."
        )
    plans = " ".join(one for one in (several, f"Next release: {following}." if following else "") if one)
    return {
        "model_name": name,
        **({"model_name_details": details} if details else {}),
        "actors": f"- Curator: {_ACTORS[name].format(curator=curator)}.\n- Readers: everybody; they see the published "
        "files alone. Nothing is assumed of what they know besides, all other records among it, or of what they do.",
        "release_type": "One release" if series is None else "Many releases",
        **({"release_type_details": plans} if plans else {}),
        "data_source_type": "Static" if series is None else "Dynamic",
        "access_type": "Non-interactive",
    }


def _called(release: PublishedRelease, universe: Universe) -> str:
    """What the records of a universe are called."""
    return release.spec.labels(universe.name).records or universe.name or "records"


def _domain(release: PublishedRelease, universe: Universe) -> str:
    """All sets of records that could have been counted: where each is, and what it has."""
    labels, schema = release.spec.labels(universe.name), universe.schema
    sizes = {name: len(schema.attribute(name).values) for name in schema.names}
    values = ", ".join(f"{labels.attribute(name)} ({size} values)" for name, size in sizes.items())
    zeros = int(universe.structural_zeros.sum())
    without = f", without {zeros:,} impossible combinations" if zeros else ""
    lowest = release.spine.levels[-1]
    return (
        f"- {_called(release, universe)}: every set of records that each have one of {len(lowest):,} areas of level "
        f"{lowest.name} and a value of {values}{without}."
    )


def _inputs(release: PublishedRelease) -> str:
    """What is public or was paid for before anything was measured."""
    lines = [
        f"- Public input {one.name}: {'made from the records' if one.source == 'records' else 'public'}"
        f"{f', {one.origin}' if one.origin else ''}."
        for one in release.manifest.provenance
    ]
    for one in release.universes:
        if (end := one.measure.chosen) is not None:
            lines.append(
                f'- The upper end {end.high} of {_called(release, one)} was chosen by the question "{end.question}", '
                "whose cost is in the ledger and not in the loss stated here."
            )
        lines += [] if one.earlier is None else [f"- {one.earlier.words}"]
        lines += [f"- The answer {added.query.name}, asked before, is in the loss stated here." for added in one.added]
    return "\n".join([*lines, f"- How the budget and its division were chosen: {TO_FILL_IN}."])


def _description(release: PublishedRelease) -> str:
    counted = [f"{'counts' if one.measure.counts else 'sums'} of {_called(release, one)}" for one in release.universes]
    levels = ", ".join(f"{level.name} ({len(level):,})" for level in release.spine.levels)
    said = f"{' and '.join(counted)} by area: {levels}."
    return "\n\n".join([said[0].upper() + said[1:], *release.spec.about.notes])


def _exact(release: PublishedRelease) -> str:
    """What is published without noise."""
    exact = [
        f"- {query.name} at level {level}{f' ({one.name})' if one.name else ''}"
        for one in release.universes
        for level, query in one.invariants
    ]
    facilities = [f"- {bound.name}: number of facilities" for one in release.universes for bound in one.bounds]
    return "\n".join([*exact, *facilities]) or "None beyond the list of areas."


def _loss(release: PublishedRelease, joint: Statement) -> dict[str, _Value]:
    first = release.manifest.privacy[0]
    parameters: dict[str, _Value] = {"epsilon": Decimal(joint.epsilon)}
    if first.framework == "zcdp":
        parameters |= {"rho": Decimal(decimal_text(Fraction(joint.budget))), "delta": Decimal(first.delta)}
    return {
        "privacy_unit": _unit(release),
        "privacy_unit_details": f"{_NEIGHBOURS[first.neighbours]}. What the loss bounds: {joint.words}.",
        "privacy_parameters": parameters,
        "privacy_parameters_details": "\n".join(
            f"- {one.universe or 'The main records'}: {one.words}" for one in release.manifest.privacy
        ),
    }


def _unit(release: PublishedRelease) -> str:
    """What the joint statement is about: a respondent, a person with records in several places, or one record."""
    main, *others = release.universes
    if main.framework == "local":
        return "Respondent-level"
    if others or main.unit.records > 1 or main.series is not None:
        return "Person-level"
    return f"Record-level ({_called(release, main)})"


def _accounting(release: PublishedRelease) -> dict[str, _Value]:
    """How losses add up, and what is done after the noise."""
    zcdp = release.manifest.privacy[0].framework == "zcdp"
    shares = [
        f"- {one.name or 'main'}, {drawn.level}, {drawn.query}: {drawn.cost / one.budget} of the budget"
        for one in release.universes
        for drawn in drawn_of(one)
    ]
    added_up = "\n".join([f"{'rho' if zcdp else 'epsilon'} adds up over all measurements:", *shares])
    return {
        "post_processing": release.universes[0].source.post_processing,
        "composition": added_up if shares else release.manifest.privacy[0].words,
    }


def _mechanisms(release: PublishedRelease) -> str:
    used = dict.fromkeys(drawn.mechanism.mechanism for one in release.universes for drawn in drawn_of(one))
    made, address = release.manifest.software, release.spec.about.software_url
    drawn_here = (
        f"- {made.name} {made.version}: exact sampling in whole numbers, budgets as fractions, randomness from AES-256 "
        "in counter mode"
    )
    return "\n".join(
        [
            *release.universes[0].source.randomisers,
            *(f"- {name.replace('_', ' ')}" for name in used),
            *([drawn_here] if used else []),
            *([f"- Source code: {address}"] if address else []),
        ]
    )


def _yaml(value: Mapping[str, _Value], indent: str = "") -> Iterator[str]:
    """YAML of nested keys; texts stand as JSON has them, which YAML reads."""
    for key, one in value.items():
        if isinstance(one, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(one, indent + "  ")
        elif isinstance(one, Decimal):
            # YAML 1.1 takes 1e-10 for a text, and 1.0e-10 for a number.
            text = str(one).lower()
            yield f"{indent}{key}: {text if '.' in text else text.replace('e', '.0e')}"
        else:
            yield f"{indent}{key}: {json.dumps(one, ensure_ascii=False)}"
