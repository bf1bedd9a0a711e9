"""What the columns of every published file are, as a Data Package: a function of the spec alone."""

from __future__ import annotations

from pipeline.execution.job import Job
from pipeline.metadata.datapackage import data_package
from pipeline.metadata.products import ReleaseScope, resources
from pipeline.storage.files import write_json


def write_package(job: Job) -> None:
    """Write public/datapackage.json; sizes and hashes are in the manifest, which lists it, too."""
    spec, run = job.spec, job.run
    described = resources(ReleaseScope(spec, job.universes, run))
    write_json(run.package, data_package(spec.name, spec.about, spec.report.language or "", described), run.staging)
