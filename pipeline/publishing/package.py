"""What the columns of every published file are, as a Data Package: a function of the spec alone."""

from __future__ import annotations

from pipeline.execution.job import Job
from pipeline.metadata.contents import Contents
from pipeline.metadata.datapackage import data_package, measured, resource, selected
from pipeline.storage.files import write_json


def write_package(job: Job) -> None:
    """Write public/datapackage.json; sizes and hashes are in the manifest, which lists it, too."""
    spec, run = job.spec, job.run
    contents = Contents(spec, job.universes, run)
    plain = (
        *contents.tables(),
        *contents.household_sizes(),
        *contents.household_tables(),
        *contents.amounts(),
        *contents.microdata(),
    )
    resources = [resource(file, run.name_of(file.source)) for file in plain]
    resources += [measured(file, run.name_of(file.source)) for file in contents.measurements()]
    resources += [selected(file, run.name_of(file.source), answers) for file, answers in contents.selections()]
    package = data_package(spec.name, spec.about, spec.report.language or "", resources)
    write_json(run.package, package, run.staging)
