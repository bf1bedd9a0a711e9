"""The registry's entry says what the manifest promises, in the form of the entries that the registry has."""

from __future__ import annotations

import copy
import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from features.exports.registry import TO_FILL_IN, entry
from features.exports.release import export_release
from pipeline.errors import InputError
from pipeline.published import PublishedRelease, open_finished

#: The registry's own, see its first lines.
SCHEMA = Path(__file__).parent / "registry_schema_2026_07.yaml"


def problems(found: object) -> list[str]:
    """What the registry's own check of an entry would print."""
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    validator = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{'.'.join(map(str, one.path))}: {one.message}" for one in validator.iter_errors(found)]


def texts_in(found: object, path: str = "") -> dict[str, str]:
    """Every text of an entry, by its place."""
    if isinstance(found, dict):
        return {at: text for key, one in found.items() for at, text in texts_in(one, f"{path}.{key}").items()}
    if isinstance(found, list):
        return {at: text for one in found for at, text in texts_in(one, path).items()}
    return {path.removeprefix("."): str(found)}


@pytest.fixture(scope="module")
def release(town: Path) -> PublishedRelease:
    return open_finished(town, check_hashes=True)


def test_the_entry_is_what_the_manifest_promises(release: PublishedRelease, tmp_path: Path) -> None:
    out = export_release(release, "dp-registry", tmp_path / "out")
    (path,) = (one for one in out.iterdir() if one.name != "STATUS.txt")
    assert path.name == "town.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    deployment = found["deployment"]
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
    assert "NOT FOR RELEASE" in path.read_text("utf-8").splitlines()[0]
    # Every section that the registry's schema has, and no key or value that the registry's own tests would refuse.
    assert problems(found) == []
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    assert list(found["deployment"]) == list(schema["properties"]["deployment"]["properties"])
    for section, key, value in (
        ("basic", "data_curators", [{"data_curator_name": "x"}]),
        ("basic", "publication_date", "soon"),
        ("deployment_model", "trust_assumptions", "x"),
        ("privacy_loss", "number_of_privacy_units", 5),
        ("implementation", "composition", "x"),
    ):
        wrong = copy.deepcopy(found)
        wrong["deployment"][section][key] = value
        assert problems(wrong) != [], (section, key)
    assert len(problems({key: one for key, one in found.items() if key not in ("status", "tier")})) == 2


def test_nothing_is_left_blank_that_the_spec_states(surveyed: Path) -> None:
    """What remains is the publisher's to say; a date of publication and an address follow from the spec."""
    release = open_finished(surveyed, check_hashes=True)
    found = texts_in(entry(release))
    assert [at for at, text in found.items() if TO_FILL_IN in text] == [
        "deployment.basic.intended_use",
        "deployment.basic.data_product_region",
        "deployment.implementation.preprocessing_and_hyperparameter_tuning",
        "deployment.implementation.justification",
    ]
    assert found["url_slug"] == "people-homes-office-of-towns-1900"
    assert found["deployment.basic.data_curators"] == found["deployment.administrative.registry_authors"]
    assert found["deployment.dp_variant.data_domain"].splitlines()[0] == (
        "- residents: every set of records that each have one of 24 areas of level block and a value of Age group "
        "(3 values), residence (2 values)."
    )
    assert found["deployment.privacy_loss.privacy_unit"] == "Person-level"
    assert "Office of Towns has the records and the key" in found["deployment.deployment_model.actors"]
    said = {"publication_date": "2031-02-03", "next_release": "2041", "software_url": "https://town.example/code"}
    spec = release.spec.model_copy(update={"report": release.spec.report.model_copy(update=said)})
    later = texts_in(entry(dataclasses.replace(release, spec=spec)))
    assert later["deployment.basic.publication_date"] == "2031-02-03"
    assert later["deployment.deployment_model.release_type_details"] == "Next release: 2041."
    assert "https://town.example/code" in later["deployment.implementation.mechanisms"]


def test_what_promises_nothing_has_no_entry(release: PublishedRelease) -> None:
    manifest = release.manifest.model_copy(update={"joint": None})
    with pytest.raises(InputError, match="promises nothing over all"):
        entry(dataclasses.replace(release, manifest=manifest))
