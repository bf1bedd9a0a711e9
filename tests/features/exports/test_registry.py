"""The registry's entry says what the manifest promises, in the form of the entries that the registry has."""

from __future__ import annotations

import copy
import dataclasses
import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from features.exports.registry import TO_FILL_IN, entry
from features.exports.release import export_release
from pipeline.errors import InputError
from pipeline.published import PublishedRelease, open_finished

#: What the registry's schema (schemas/deployments-schema.yaml, commit 057e5d8) allows, in short: of each section its
#: keys, "!" those that must be there, and the values of those that are lists of them.
ALLOWED = {
    "basic": "name! data_curators! description! intended_use! data_product_type! data_product_region! "
    "data_product_sector publication_date!",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification "
    "utility additional_information",
    "administrative": "evidence_sources status! registry_authors! tier!",
}
VALUES = {
    "data_product_type": "Summary statistics, Machine learning model, Dataset, Synthetic data, Interactive API, "
    "SQL queries",
    "data_product_sector": "Technology, Healthcare, Education, Government, Energy, Finance",
    "variant_name": "Pure DP, Approximate DP, Zero-concentrated DP, Renyi DP, Custom",
    "model_name": "Local, Central, Shuffle, Federated, Varies",
    "release_type": "One release, Many releases",
    "data_source_type": "Static, Dynamic",
    "access_type": "Interactive, Non-interactive",
    "status": "Converted, Draft, Pending, Changes Required, Approved, Approved (Update Requested), Approved (Pending)",
}
TYPES: dict[str, dict[str, Any]] = {
    "number_of_privacy_units": {"type": "integer"},
    "tier": {"enum": [1, 2, 3]},
    "registry_authors": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "publication_date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
    "privacy_parameters": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "epsilon": {"type": "number"},
            "delta": {"type": ["number", "string"]},
            "rho": {"type": "number"},
        },
    },
    "data_curators": {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["data_curator_name", "data_curator_type"],
            "properties": {
                "data_curator_name": {"type": "string"},
                "data_curator_type": {"enum": ["Government", "Industry", "Nonprofit"]},
            },
        },
    },
}


def schema() -> dict[str, Any]:
    """The registry's schema as a JSON Schema."""

    def closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}

    sections = {}
    for section, keys in ALLOWED.items():
        names = [key.removesuffix("!") for key in keys.split()]
        listed = {name: {"enum": VALUES[name].split(", ")} for name in names if name in VALUES}
        known = {name: {"type": "string"} for name in names} | listed | {k: v for k, v in TYPES.items() if k in names}
        sections[section] = closed(known, [key.removesuffix("!") for key in keys.split() if key.endswith("!")])
    deployment = closed(sections, ["basic", "administrative"])
    return closed({"url_slug": {"type": "string"}, "deployment": deployment}, ["url_slug", "deployment"])


@pytest.fixture(scope="module")
def release(town: Path) -> PublishedRelease:
    return open_finished(town, check_hashes=True)


def test_the_entry_is_what_the_manifest_promises(release: PublishedRelease, tmp_path: Path) -> None:
    out = export_release(release, "dp-registry", tmp_path / "out")
    (path,) = (one for one in out.iterdir() if one.name != "STATUS.txt")
    assert path.name == "town.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    deployment = found["deployment"]
    datetime.date.fromisoformat(deployment["basic"]["publication_date"])
    joint = release.manifest.joint
    assert joint is not None
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {
        "epsilon": float(joint.epsilon),
        "rho": float(Fraction(joint.budget)),
        "delta": float(release.manifest.privacy[0].delta),
    }
    assert deployment["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    exact = deployment["dp_variant"]["unprotected_quantities"].splitlines()
    assert exact == [
        "- total at level county",
        "- total at level block (units)",
        "- group quarters: number of facilities",
    ]
    assert "discrete gaussian" in deployment["implementation"]["mechanisms"]
    assert deployment["administrative"]["registry_authors"] == [TO_FILL_IN]
    assert "NOT FOR RELEASE" in path.read_text("utf-8").splitlines()[0]


def test_the_entry_fits_the_schema_of_the_registry(release: PublishedRelease, tmp_path: Path) -> None:
    """Every section that it has, and no key or value that the registry's own tests would refuse."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema())
    out = export_release(release, "dp-registry", tmp_path / "out")
    (path,) = (one for one in out.iterdir() if one.name != "STATUS.txt")
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    assert list(validator.iter_errors(found)) == []
    assert list(found["deployment"]) == list(ALLOWED)
    for section, key, value in (
        ("basic", "product", "x"),
        ("deployment_model", "model_name", "central"),
        ("administrative", "tier", 4),
        ("privacy_loss", "number_of_privacy_units", "many"),
    ):
        wrong = copy.deepcopy(found)
        wrong["deployment"][section][key] = value
        assert list(validator.iter_errors(wrong)) != [], (section, key)
    people = pd.read_parquet(release.run.main.table("total", "county"))["total"].sum()
    assert found["deployment"]["privacy_loss"]["number_of_privacy_units"] == people


def test_what_promises_nothing_has_no_entry(release: PublishedRelease) -> None:
    manifest = release.manifest.model_copy(update={"joint": None})
    with pytest.raises(InputError, match="promises nothing over all"):
        entry(dataclasses.replace(release, manifest=manifest))
