"""The registry's entry says what the manifest promises, in the form of the entries that the registry has."""

from __future__ import annotations

import dataclasses
import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.errors import InputError
from pipeline.export.registry import TO_FILL_IN, entry
from pipeline.export.release import export_release
from pipeline.published import PublishedRelease, open_finished

#: Sections and their keys, as entries of the registry have them.
SECTIONS = {
    "product": "name data_curators intended_use data_product_type data_product_region description publication_date "
    "data_product_sector",
    "dp_flavor": "name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_description privacy_parameters privacy_parameters_description",
    "model": "model_name release_type data_source_type access_type",
    "accounting": "post_processing composition",
    "implementation": "pre_processing_eda_hyperparameter_tuning mechanisms justification",
}


@pytest.fixture(scope="module")
def release(town: Path) -> PublishedRelease:
    return open_finished(town, check_hashes=True)


def test_the_entry_is_what_the_manifest_promises(release: PublishedRelease, tmp_path: Path) -> None:
    out = export_release(release, "dp-registry", tmp_path / "out")
    (path,) = out.iterdir()
    assert path.name == "town.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    deployment = found["deployment"]
    assert {name: " ".join(keys) for name, keys in deployment.items()} == SECTIONS
    datetime.date.fromisoformat(deployment["product"]["publication_date"])
    joint = release.manifest.joint
    assert joint is not None
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {
        "epsilon": float(joint.epsilon),
        "rho": float(Fraction(joint.budget)),
        "delta": float(release.manifest.privacy[0].delta),
    }
    assert deployment["dp_flavor"]["name"] == "Zero-concentrated DP"
    exact = deployment["dp_flavor"]["unprotected_quantities"].splitlines()
    assert exact == [
        "- total at level county",
        "- total at level block (units)",
        "- group quarters: number of facilities",
    ]
    assert "discrete gaussian" in deployment["implementation"]["mechanisms"]
    assert found["registry_authors"] == [TO_FILL_IN]
    assert "NOT FOR RELEASE" in path.read_text("utf-8").splitlines()[0]


def test_what_promises_nothing_has_no_entry(release: PublishedRelease) -> None:
    manifest = release.manifest.model_copy(update={"joint": None})
    with pytest.raises(InputError, match="promises nothing over all"):
        entry(dataclasses.replace(release, manifest=manifest))
